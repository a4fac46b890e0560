"""docs/how-to.md, "Add an operation": its list is complete, and an operation added to a copy of the tree by it works.

The operation is FI_BANDN, which clears in the target the bits that are set in the operand.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("model", "hw", "sim", "driver", "tools", "tests", "bench", "docs", "examples", "scripts")
SUFFIXES = {".py", ".md", ".toml", ".json", ".c", ".h", ".cpp", ".lua"}
OPERATIONS = "model/amoeba_model/opcodes.py"

ADDED = {
    OPERATIONS: ("    FI_DIFF = 19\n", "    FI_DIFF = 19\n    FI_BANDN = 20\n"),
    "model/amoeba_model/wire/uet.py": ("    INVAL = 0x14\n", "    INVAL = 0x14\n    BANDN = 0x80\n"),
    "model/amoeba_model/atomic/matrix.py": (
        "_BITWISE_OPS = frozenset({",
        "_BITWISE_OPS = frozenset({Op.FI_BANDN, ",
    ),
    "model/amoeba_model/atomic/execute.py": (
        "        case Op.FI_BXOR:\n",
        "        case Op.FI_BANDN:\n            return target & ~operand\n        case Op.FI_BXOR:\n",
    ),
    "model/amoeba_model/atomic/element.py": (
        "    Op.FI_BXOR: operator.xor,\n",
        "    Op.FI_BXOR: operator.xor,\n    Op.FI_BANDN: lambda target, operand: target & ~operand,\n",
    ),
    "hw/amoeba_hw/atomic/control.py": (
        '    Op.FI_BAND: ("masked",),\n',
        '    Op.FI_BAND: ("masked",),\n    Op.FI_BANDN: ("masked", "keep"),\n',
    ),
}
"""Per file of model and hardware: a place in its text, and the same with the operation."""

PROGRAM = """
import random
import numpy as np
from amaranth.sim import Simulator
from amoeba_hw.atomic.decoded_lanes import DecodedLanes
from amoeba_model.atomic import cells, execute, execute_element
from amoeba_model.atomic.elements import execute_elements
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.wire.uet import ATOMIC_OPCODES

datatypes = {cell.datatype for cell in cells(extensions=True) if cell.op is Op.FI_BANDN}
assert len(datatypes) == 10, datatypes
assert {cell.form for cell in cells(extensions=True) if cell.op is Op.FI_BANDN} == {Form.BASE, Form.FETCH}
assert ATOMIC_OPCODES[Op.FI_BANDN] == 0x80
lanes = DecodedLanes(128, [Datatype.FI_UINT8, Datatype.FI_UINT64])

async def bench(simulation):
    for datatype in sorted(datatypes):
        target, operand = random.randbytes(16), random.randbytes(16)
        expected = bytes(old & ~new & 0xFF for old, new in zip(target, operand))
        rows = [np.frombuffer(data, np.uint8).reshape(-1, datatype.size) for data in (target, operand)]
        assert execute(Op.FI_BANDN, datatype, *rows).tobytes() == expected
        assert execute_elements(Op.FI_BANDN, datatype, target, operand) == expected
        size = datatype.size
        assert execute_element(Op.FI_BANDN, datatype, target[:size], operand[:size]) == expected[:size]
        if datatype not in (Datatype.FI_UINT8, Datatype.FI_UINT64):
            continue
        simulation.set(lanes.op, Op.FI_BANDN)
        simulation.set(lanes.datatype, datatype)
        simulation.set(lanes.target, int.from_bytes(target, "little"))
        simulation.set(lanes.operand, int.from_bytes(operand, "little"))
        await simulation.delay(1e-9)
        assert simulation.get(lanes.supported)
        assert simulation.get(lanes.result) == int.from_bytes(expected, "little")

simulator = Simulator(lanes)
simulator.add_testbench(bench)
simulator.run()
"""


def rows():
    """(path, change) of each path in the section's tables, in their order."""
    section = (ROOT / "docs" / "how-to.md").read_text().partition("## Add an operation")[2].partition("\n## ")[0]
    for files, change in re.findall(r"^\| (`.*`) \| (.*) \|$", section, re.M):
        for path in re.findall(r"`([^`]+)`", files):
            yield path, change


def listed():
    return {path for path, _ in rows()}


def names(text):
    """The operations that a text of the declarations has, by number."""
    members = text.partition("class Op(")[2].partition("\nclass ")[0]
    return re.findall(r"^    (FI_\w+) = \d+$", members, re.M)


def mentions(text, name):
    return re.search(rf"\b(?:FI_)?(?:ATOMIC_)?{name.removeprefix('FI_').removeprefix('ATOMIC_')}\b", text) is not None


MANUAL = names((ROOT / OPERATIONS).read_text())[:19]
"""The operations of fi_atomic(3) of libfabric 1.14."""


def lists_operations(text):
    return all(mentions(text, name) for name in MANUAL)


def lacking(tree):
    """Per file of the list, of those that list operations and must have each: the operations of ``Op`` not there."""
    operations = names((tree / OPERATIONS).read_text())
    found = {}
    for path, change in rows():
        if change.startswith(("optional", "if ", "only if", "`make generated`")) or path.endswith("/"):
            continue
        text = (tree / path).read_text()
        missing = [name for name in operations if not mentions(text, name)]
        if missing and lists_operations(text):
            found[path] = missing
    return found


def add(tree, path):
    text = (tree / path).read_text()
    before, after = ADDED[path]
    assert text.count(before) == 1, path
    (tree / path).write_text(text.replace(before, after))


@pytest.fixture
def tree(tmp_path):
    """A copy of model and hardware, and of the files in the list."""
    for package in ("model", "hw"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.v"))
    for path in listed():
        if (ROOT / path).is_file():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def test_each_file_of_the_list_exists():
    assert [path for path in listed() if not (ROOT / path).exists()] == []
    assert set(ADDED) <= listed()


def test_each_file_that_lists_the_operations_is_in_the_list():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    paths.extend(ROOT.glob("*.md"))
    listing = {str(path.relative_to(ROOT)) for path in paths if lists_operations(path.read_text())}
    assert {OPERATIONS, "hw/amoeba_hw/atomic/control.py", "tests/formal/lanes.py"} < listing
    folders = tuple(path for path in listed() if path.endswith("/"))
    unlisted = {path for path in listing - listed() if not path.startswith(folders)}
    assert unlisted == set(), "these files list the operations; docs/how-to.md does not name them"


def test_no_file_lacks_an_operation():
    assert lacking(ROOT) == {}


@pytest.mark.parametrize("forgotten", [path for path in ADDED if not path.endswith("matrix.py")])
def test_a_file_that_lacks_a_new_operation_is_named(tree, forgotten):
    others = set(lacking(tree))
    assert others == set()
    for path in ADDED:
        if path != forgotten:
            add(tree, path)
    code = {path for path in lacking(tree) if path in ADDED}
    assert code == (set() if forgotten == OPERATIONS else {forgotten})


def test_an_operation_added_by_the_list_is_executed_by_model_and_hardware(tree):
    for path in ADDED:
        add(tree, path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "model"), str(tree / "hw")])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path: missing for path, missing in lacking(tree).items() if path in ADDED} == {}
    assert lacking(tree)["tests/formal/lanes.py"] == ["FI_BANDN"]
    assert lacking(tree)["tests/system/test_requests.py"] == ["FI_BANDN"]
