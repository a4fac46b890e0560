"""The tests of a module are found by its path, or by a docstring that names it."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.support.packages import PACKAGES, ROOT

TESTS = Path(__file__).parent
MAX_LINES = 600
LONG_FILES = {
    PurePosixPath("driver/amoeba/openucx/ucp/constants.py"),  # generated, a name per line
    PurePosixPath("hw/amoeba_hw/target/pdc_table.py"),
}
"""Files with more lines. This list only shrinks."""


def modules(package: Path) -> Iterator[PurePosixPath]:
    """Yield the modules of a package, relative to its folder."""
    for path in sorted(package.rglob("*.py")):
        if path.name != "__init__.py":
            yield PurePosixPath(path.relative_to(package))


def is_mirrored(module: PurePosixPath, tests: Path) -> bool:
    """Return whether a test or a bench at the module's path has its name."""
    return any((tests / module.parent / f"{kind}_{module.name}").is_file() for kind in ("test", "bench"))


def names_in(text: str, package: str) -> set[PurePosixPath]:
    """Return the paths that a docstring of a test of ``package`` names, each with its package as its first part.

    A name is a path in that package, a path that begins with a package's name, or dotted:
    ``target/pdc_table.py``, ``amoeba_hw/target/pdc_table.py`` or ``amoeba_hw.target.pdc_table``.
    The last part of a path may be ``*.py``.
    """
    every = {folder.name for folder in PACKAGES.values()}
    paths = {PurePosixPath(name) for name in re.findall(r"``([\w/]+(?:/\*)?\.py)``", text)}
    dotted = {PurePosixPath(name.replace(".", "/") + ".py") for name in re.findall(r"``(\w+(?:\.\w+)+)``", text)}
    beside = {PurePosixPath(package) / path for path in paths if path.parts[0] not in every}
    return beside | {path for path in paths | dotted if path.parts[0] in every}


def covers(name: PurePosixPath, module: PurePosixPath) -> bool:
    """Return whether a docstring's name is that of a module, or of all in its folder."""
    return name.parent == module.parent and name.name in (module.name, "*.py")


def docstring_names(tests: Path) -> set[PurePosixPath]:
    """Return what the docstrings of all tests and benches name."""
    found = set()
    for path in tests.rglob("*.py"):
        if path.name.startswith(("test_", "bench_")):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            found |= names_in(text, PACKAGES.get(path.relative_to(tests).parts[0], Path()).name)
    return found


def test_every_module_has_a_test_at_its_path_or_one_whose_docstring_names_it() -> None:
    names = docstring_names(TESTS)
    unfound = [
        f"{folder.relative_to(ROOT)}/{module}"
        for mirror, folder in PACKAGES.items()
        for module in modules(folder)
        if not is_mirrored(module, TESTS / mirror)
        and not any(covers(name, folder.name / module) for name in names)
    ]
    assert not unfound, "name these modules in the docstring of a test that covers them:\n" + "\n".join(unfound)


def test_every_file_that_a_docstring_names_exists() -> None:
    folders = {folder.name: folder for folder in PACKAGES.values()}
    missing = []
    for name in docstring_names(TESTS):
        path = "/".join(name.parts[1:])
        if name.parts[0] in folders and not (
            any(folders[name.parts[0]].glob(path)) or any((base / path).is_file() for base in (ROOT, TESTS))
        ):
            missing.append(str(name))
    assert missing == []


def test_files_have_at_most_six_hundred_lines() -> None:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [PurePosixPath(name) for name in listed.splitlines() if (ROOT / name).is_file()]
    assert {name for name in files if len((ROOT / name).read_bytes().splitlines()) > MAX_LINES} == LONG_FILES


def test_names_are_read_in_back_quotes_as_paths_or_dotted() -> None:
    text = "Covers ``target/a.py``, ``amoeba.nic.b``, ``amoeba_tools/perf/*.py`` and (not) target/c.py."
    assert names_in(text, "amoeba_hw") == {
        PurePosixPath("amoeba_hw/target/a.py"),
        PurePosixPath("amoeba/nic/b.py"),
        PurePosixPath("amoeba_tools/perf/*.py"),
    }
    assert covers(PurePosixPath("amoeba_tools/perf/*.py"), PurePosixPath("amoeba_tools/perf/run.py"))
    assert not covers(PurePosixPath("amoeba_tools/perf/*.py"), PurePosixPath("amoeba_tools/perf/more/run.py"))


def test_a_module_is_mirrored_by_a_test_or_a_bench_at_its_path(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "test_a.py").write_text("")
    (tmp_path / "target" / "bench_b.py").write_text("")
    for name, mirrored in {"target/a.py": True, "target/b.py": True, "target/c.py": False, "a.py": False}.items():
        assert is_mirrored(PurePosixPath(name), tmp_path) is mirrored
