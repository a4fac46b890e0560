"""The driver's constants and structures are what `scripts/api_tables` writes from the TOML file of each API."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WINGS = "driver/amoeba/libfabric", "driver/amoeba/openucx"
LIBFABRIC, UCP = f"{WINGS[0]}/libfabric-1.17.toml", f"{WINGS[1]}/ucp-1.12.toml"
GENERATED = {
    f"{WINGS[0]}/objects/constants.py": LIBFABRIC,
    f"{WINGS[0]}/objects/structures.py": LIBFABRIC,
    f"{WINGS[0]}/calls/attributes.py": LIBFABRIC,
    f"{WINGS[1]}/ucp/constants.py": UCP,
    f"{WINGS[1]}/ucp/structures.py": UCP,
}
READ = (
    LIBFABRIC,
    UCP,
    "pyproject.toml",
    *(f"{WINGS[1]}/ucp/{name}.py" for name in ("field_masks", "handles", "kinds")),
)


def run(root, *arguments):
    command = [sys.executable, root / "scripts" / "api_tables", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def copied(tmp_path):
    """A tree with what the script reads and writes."""
    for name in (*GENERATED, *READ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "scripts" / "api_tables", tmp_path / "scripts" / "api_tables")
    return tmp_path


def edit(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_the_files_are_fresh():
    done = run(ROOT, "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_generated_file_names_its_source():
    for name, source in GENERATED.items():
        assert source in (ROOT / name).read_text().splitlines()[0]


def test_a_number_and_a_field_that_the_table_gains_are_in_the_driver(copied):
    table = copied / UCP
    edit(table, "UCP_FEATURE_AM = 6", 'UCP_FEATURE_AM = 6\nUCP_FEATURE_NEW = { bit = 7, doc = "New." }')
    edit(table, "UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL = 0", "UCP_LIB_ATTR_FIELD_NEW = 5")
    edit(table, '"int", holds = "ucs_thread_mode_t", bit = "UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL"',
         '"unsigned", holds = "ucp_feature", bit = "UCP_LIB_ATTR_FIELD_NEW"')  # fmt: skip
    stale = run(copied, "--check")
    assert stale.returncode == 1
    ours = [name for name, source in GENERATED.items() if source == UCP]
    assert [line.split()[0] for line in stale.stderr.splitlines()] == ours
    assert run(copied).returncode == 0
    constants, structures = ((copied / name).read_text() for name in ours)
    assert '    UCP_FEATURE_NEW = 1 << 7\n    """New."""\n' in constants
    assert '    "UCP_FEATURE_NEW",\n' in constants
    assert "\nUCP_FEATURE_NEW = ucp_feature.UCP_FEATURE_NEW\n" in constants
    counted = "Counted(ucp_lib_attr_field.UCP_LIB_ATTR_FIELD_NEW, bits_of(ucp_feature, 32))"
    assert f"max_thread_level: Annotated[ ucp_feature | None, {counted} ] = None" in " ".join(structures.split())
    assert run(copied, "--check").returncode == 0


def test_fields_of_libfabric_s_structures_follow_the_table(copied):
    table = copied / LIBFABRIC
    edits = {
        'prov_name = { c = "char *", holds = "str | None"': 'prov_name = { c = "char *", holds = "bytes", doc = "N."',
        'prov_version = { c = "uint32_t", holds = "int"': 'prov_version = { c = "uint32_t", holds = "Caps"',
        'events = { c = "int", holds = "CntrEvents"': 'events = { c = "int", holds = "EpType", default = "FI_EP_RDM"',
        'order = ["wait_obj", "wait_set", "events", "flags"]': 'order = ["events", "wait_obj"]',
    }
    for old, new in edits.items():
        edit(table, old, new)
    ours = [f"{WINGS[0]}/{name}.py" for name in ("objects/structures", "calls/attributes")]
    assert [line.split()[0] for line in run(copied, "--check").stderr.splitlines()] == ours
    assert run(copied).returncode == 0
    structures, attributes = ((copied / name).read_text() for name in ours)
    changed = '    prov_name: bytes = b""\n    """N."""\n    prov_version: Caps = Caps(0)  # noqa'
    assert f"    name: str | None = None\n{changed}" in structures
    fields = "    events: EpType = EpType.FI_EP_RDM\n    wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC\n\n"
    assert f'"""``struct fi_cntr_attr``, fi_cntr(3)."""\n\n{fields}' in attributes
