"""libfabric's own tests, release 1.17.0: built from their sources, which are no part of the project.

``Makefile.am`` says which program is made of which files; what ``configure`` would find out is known of Linux.
"""

import contextlib
import hashlib
import os
import re
import subprocess
import tarfile
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs.missing import BUILT, ROOT, MissingError, compiler

__all__ = ["LISTED", "Fabtest", "built", "read_list"]

_ARCHIVE = Path("shared", "thirdparty", "fabtests-1.17.0.tar.gz")
"""Beside the project, or further up."""
LISTED = ROOT / "tests" / "data" / "fabtests-1.17.toml"
_FOLDERS = ("functional", "benchmarks", "unit")
_CONFIG = "#define HAVE_EPOLL 1\n#define HAVE___INT128 1\n#define HAVE_CLOCK_GETTIME 1\n"
_FLAGS = ("-O2", "-w", "-D_GNU_SOURCE", "-DHAVE_CONFIG_H", '-DCONFIG_PATH=""', "-Iinclude", "-I.")


@dataclass(frozen=True)
class Fabtest:
    """A test of libfabric's quick list."""

    command: str
    """The program and its options, SERVER_ADDR and GOOD_ADDR standing for addresses."""
    sockets: str
    rxm: str
    """The results of two providers of libfabric 1.17: Pass, Notrun or Timeout."""
    left_out: str = ""
    """Why it is none for Amoeba, if it is none."""

    @property
    def alone(self) -> bool:
        """Whether it is one process, and not a server and a client."""
        return self.command.split()[0].endswith("_test")


def read_list(path: Path = LISTED) -> list[Fabtest]:
    """The quick list, with what is known of it."""
    return [Fabtest(**each) for each in tomllib.loads(path.read_text())["test"]]


def built() -> Path:
    """The folder of the programs, built unless this was done before. Raises MissingError."""
    source = next((above / _ARCHIVE for above in ROOT.parents if (above / _ARCHIVE).is_file()), None)
    if source is None:
        raise MissingError(f"no {_ARCHIVE} beside the project: libfabric's tests, release 1.17.0")
    key = hashlib.sha256(source.read_bytes() + _CONFIG.encode() + " ".join(_FLAGS).encode()).hexdigest()[:16]
    folder = BUILT / f"fabtests-{key}"
    if not folder.is_dir():
        cc = compiler("rdma/fabric.h", "libfabric-dev")
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as work, tarfile.open(source) as archive:
            archive.extractall(work, filter="data")
            (sources,) = (path.parent for path in Path(work).glob("*/Makefile.am"))
            (sources / "config.h").write_text(_CONFIG)
            (sources / "bin").mkdir()
            _compile(cc, sources, sources / "bin")
            with contextlib.suppress(FileExistsError):  # another process has built the same
                (sources / "bin").rename(folder)
    return folder


def _compile(cc: str, sources: Path, target: Path) -> None:
    """All programs, as many at a time as there are processors."""
    rules = (sources / "Makefile.am").read_text().replace("\\\n", " ")
    lists = {name: files.split() for name, files in re.findall(r"^(\w+)\s*=(.*)$", rules, re.MULTILINE)}
    programs = [one for one in lists["bin_PROGRAMS"] if one.split("/")[0] in _FOLDERS]

    def files_of(name: str) -> list[str]:
        found: list[str] = []
        for word in lists[f"{name}_SOURCES"]:
            group = re.fullmatch(r"\$\((\w+)\)", word)
            found += lists[group[1]] if group else [word]
        return [one for one in found if one.endswith(".c")]

    shared = files_of("libfabtests_la")
    units = {one for name in programs for one in files_of(re.sub(r"\W", "_", name))} | set(shared)

    def make_object(unit: str) -> None:
        _run(cc, *_FLAGS, "-c", unit, "-o", _object(unit), folder=sources)

    def link(name: str) -> None:
        objects = [_object(unit) for unit in files_of(re.sub(r"\W", "_", name)) + shared]
        out = str(target / Path(name).name)
        _run(cc, *objects, "-o", out, "-lfabric", "-lpthread", "-ldl", "-lm", "-lrt", folder=sources)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for work, names in ((make_object, sorted(units)), (link, programs)):
            for _ in pool.map(work, names):
                pass


def _object(unit: str) -> str:
    return unit.replace("/", "-").removesuffix(".c") + ".o"


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
