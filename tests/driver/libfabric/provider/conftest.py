"""Programs in C that libfabric loads the provider into."""

import subprocess
from pathlib import Path

import pytest

from tests.support.programs.fixtures import headers, provider_environment, watched

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")

__all__ = ["headers", "provider_environment"]

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def compiled(headers, tmp_path_factory):
    """A function that compiles one of the programs beside this file, and says where it lies."""

    def compile_it(name, *options):
        program = tmp_path_factory.mktemp("program") / name
        source = str(HERE / f"{name}.c")
        flags = ["-O1", "-g", "-Wall", "-Wno-unused-parameter", *options]
        command = [headers, *flags, source, "-o", str(program), "-lfabric", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr
        return program

    return compile_it


@pytest.fixture(scope="session")
def calls(compiled):
    return compiled("calls")


@pytest.fixture
def run_calls(calls, provider_environment):
    """Run a test of ``calls.c``: it must end well. Return its output."""

    def run(test, timeout=60, **environment):
        done = subprocess.run(
            [str(calls), test], env=watched(provider_environment) | environment, capture_output=True, text=True,
            check=False, timeout=timeout,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "slept under the lock" not in done.stderr, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    return run
