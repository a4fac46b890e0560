"""The tiny library, built once, and a program in C that calls it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba import Errno, FabricError
from amoeba.embed import CFunction, CLibrary, build

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def can_build(tmp_path_factory):
    """Skips where no library can be built, with what is missing."""
    try:
        build(CLibrary("libnone.so", "nowhere", (CFunction("none", "void"),)), tmp_path_factory.mktemp("none"))
    except FabricError as error:
        if error.fi_errno != Errno.FI_ENOSYS:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def c_environment(can_build, tmp_path_factory):
    """Of a program in C: Python finds the tiny library's module, and an empty folder of built libraries."""
    paths = [str(HERE), *(path for path in sys.path if path)]
    cache = tmp_path_factory.mktemp("cache")
    removed = ("AMOEBA_DEVICE", "AMOEBA_HOST", "AMOEBA_PORT", "AMOEBA_DEBUG", "AMOEBA_CONTEXTS")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return kept | {"PYTHONPATH": os.pathsep.join(paths), "AMOEBA_CACHE": str(cache)}


@pytest.fixture(scope="session")
def tiny_library(c_environment):
    code = "import tiny\nfrom amoeba.embed import build\nprint(build(tiny.LIBRARY))"
    built = subprocess.run(
        [sys.executable, "-c", code], env=c_environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert built.returncode == 0, built.stderr
    return Path(built.stdout.strip())


@pytest.fixture(scope="session")
def tiny_program(tiny_library, tmp_path_factory):
    program = tmp_path_factory.mktemp("program") / "tiny"
    rpath = f"-Wl,-rpath,{tiny_library.parent}"
    source = str(HERE / "tiny.c")
    command = ["cc", "-O1", "-Wall", "-Wno-unused-parameter", source, "-o", str(program)]
    subprocess.run([*command, str(tiny_library), rpath, "-lpthread"], check=True, timeout=100)
    return program


@pytest.fixture
def run_tiny(tiny_program, c_environment):
    """Run a test of ``tiny.c``; what it says on standard output and error."""

    def run(test, *, code=0, wrapper=(), **environment):
        done = subprocess.run(
            [*wrapper, tiny_program, test],
            env=c_environment | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == code, f"{test}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout, done.stderr

    return run
