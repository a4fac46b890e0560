"""The provider, built once, and programs in C that libfabric loads it into."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba import Errno, FabricError
from support.programs.missing import MissingError, compiler

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def headers():
    """Skips where libfabric's headers are not; the C compiler."""
    try:
        return compiler("rdma/fabric.h", "libfabric-dev")
    except MissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def provider_environment(tmp_path_factory):
    """With which libfabric's programs find the provider, and nothing else. Skips where it cannot be built."""
    from amoeba.embed import build
    from amoeba.provider.library import LIBRARY

    cache = tmp_path_factory.mktemp("cache")
    try:
        path = build(LIBRARY, cache)
    except FabricError as error:
        if error.fi_errno != Errno.FI_ENOSYS:
            raise
        pytest.skip(str(error))
    removed = ("AMOEBA_DEVICE", "AMOEBA_HOST", "AMOEBA_PORT", "AMOEBA_DEBUG", "AMOEBA_LOG")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    paths = os.pathsep.join(path for path in sys.path if path)
    return kept | {"FI_PROVIDER_PATH": str(path.parent), "FI_PROVIDER": "amoeba", "PYTHONPATH": paths}


@pytest.fixture(scope="session")
def compiled(headers, tmp_path_factory):
    """A function that compiles one of the programs beside this file, and says where it lies."""

    def compile_it(name):
        program = tmp_path_factory.mktemp("program") / name
        source = str(HERE / f"{name}.c")
        command = [headers, "-O1", "-g", "-Wall", "-Wno-unused-parameter", source, "-o", str(program), "-lfabric"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr
        return program

    return compile_it


@pytest.fixture(scope="session")
def calls(compiled):
    return compiled("calls")


@pytest.fixture
def run_calls(calls, provider_environment):
    """Run a test of ``calls.c``: it must end well. What it prints."""

    def run(test, timeout=60, **environment):
        done = subprocess.run(
            [str(calls), test], env=provider_environment | environment, capture_output=True, text=True, check=False,
            timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    return run
