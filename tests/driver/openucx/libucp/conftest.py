"""Programs in C that are linked against UCX, and find our library before the system's."""

import subprocess
from pathlib import Path

import pytest

from tests.support.programs.fixtures import libucp_environment, watched
from tests.support.programs.missing import MissingError, compiler

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

__all__ = ["libucp_environment"]

HERE = Path(__file__).parent
QUIET = {"AMOEBA_LOG": "calls=error"}
"""Refusals are not said: of most calls here they are what is expected."""


@pytest.fixture(scope="session")
def ucx_compiler():
    """The C compiler. Skips where UCX's headers are not."""
    try:
        return compiler("ucp/api/ucp.h", "libucx-dev")
    except MissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def compiled(ucx_compiler, libucp_environment, tmp_path_factory):
    """A function that compiles one of the programs beside this file, and says where it lies."""
    known = {}

    def compile_it(name):
        if name not in known:
            program = known[name] = tmp_path_factory.mktemp("program") / name
            flags = (
                "-O1",
                "-g",
                "-Wall",
                "-Wno-unused-parameter",
                "-Wno-unused-function",
                "-Wno-deprecated-declarations",
            )
            command = [
                ucx_compiler,
                *flags,
                str(HERE / f"{name}.c"),
                "-o",
                str(program),
                f"-L{libucp_environment['LD_LIBRARY_PATH']}",  # the system's has not all functions
                "-lucp",
                "-lucs",
                "-lpthread",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
            assert done.returncode == 0, done.stderr
        return str(known[name])

    return compile_it


@pytest.fixture
def run_test_of(compiled, libucp_environment):
    """Run a test of one of the programs: it must end well."""

    def run(program, test, timeout=60, **environment):
        done = subprocess.run(
            [compiled(program), test], env=watched(libucp_environment) | QUIET | environment, capture_output=True,
            text=True, check=False, timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{program} {test}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert not done.stderr, done.stderr  # what nobody expected is told there

    return run
