"""Programs that bring a UCX of their own: ``amoeba ucx-run`` warns, and says how they come to NICs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("own_ucx.c")


@pytest.fixture(scope="module")
def program(libucp_environment, tmp_path_factory):
    """Linked with a renamed library beside it, which is found whatever LD_LIBRARY_PATH says."""
    folder = tmp_path_factory.mktemp("own")
    library, made = folder / "libucp-1234abcd.so.0", folder / "program"
    for command in (
        ["-DLIBRARY", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library)],
        ["-o", str(made), str(library), f"-Wl,-rpath,{folder}"],
    ):
        subprocess.run(["cc", "-Wall", str(SOURCE), *command], check=True, timeout=100)
    return str(made)


@pytest.fixture
def ucx_run(libucp_environment):
    cache = Path(libucp_environment["LD_LIBRARY_PATH"]).parents[1]
    kept = {name: value for name, value in libucp_environment.items() if name != "LD_LIBRARY_PATH"}

    def start(*command):
        done = subprocess.run(
            [sys.executable, "-m", "amoeba_tools", "ucx-run", *command], env=kept | {"AMOEBA_CACHE": str(cache)},
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.rstrip("\n").split("\n")[-1]

    return start


def test_d4_the_remedy_in_the_warning_brings_a_program_to_our_library(program, ucx_run):
    said, told = ucx_run(program)
    assert said == "own\n"
    assert told.startswith("amoeba: warning: no NIC was opened: no process called libucp.so.0; ")
    preload = re.search(r"LD_PRELOAD=(\S+)$", told)[1]
    assert os.path.isfile(preload)
    said, told = ucx_run("env", f"LD_PRELOAD={preload}", program)
    assert said == "amoeba\n"
    assert told == "amoeba: warning: no NIC was opened, though 1 process called libucp.so.0"


def test_the_remedy_brings_no_other_library_of_ucx(program, ucx_run):
    """Functions of the system's libucs would take the places of those that the program brings."""
    preload = re.search(r"LD_PRELOAD=(\S+)$", ucx_run(program)[1])[1]
    loaded, _ = ucx_run("env", f"LD_PRELOAD={preload}", "cat", "/proc/self/maps")
    assert preload in loaded
    assert not re.search("libuc[st]", loaded)
