"""``amoeba fi-run``, ``ucx-run``, ``provider build`` and ``libucp build``, as a shell calls them.

Covers ``program_settings.py`` and ``cli/programs.py``.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from amoeba import Errno, FabricError

pytest.importorskip("cffi", reason="libraries for C programs need the extra amoeba-nic[c]")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    from amoeba.embed import build
    from amoeba.libfabric.provider.library import LIBRARY

    folder = tmp_path_factory.mktemp("cache")
    try:
        build(LIBRARY, folder)
    except FabricError as error:
        if error.fi_errno != Errno.FI_ENOSYS:
            raise
        pytest.skip(str(error))
    return folder


def amoeba(cache, *arguments, **environment):
    own = {"AMOEBA_CACHE": str(cache), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-m", "amoeba_tools", *arguments], env=os.environ | own | environment, capture_output=True,
        text=True, check=False, timeout=100,
    )  # fmt: skip


def test_build_says_how_programs_find_the_provider(cache):
    done = amoeba(cache, "provider", "build")
    assert done.returncode == 0, done.stderr
    told = dict(re.findall(r"^export (\w+)=(.*)$", done.stdout, re.M))
    assert told["FI_PROVIDER"] == "amoeba"
    assert (Path(told["FI_PROVIDER_PATH"]) / "libamoeba-fi.so").is_file()


def test_a_library_that_is_not_there_yet_is_announced(tmp_path):
    done = amoeba(tmp_path, "provider", "build")
    assert done.returncode == 0, done.stderr
    assert "building libamoeba-fi.so" in done.stderr
    assert "building" not in amoeba(tmp_path, "provider", "build").stderr


def test_a_program_runs_with_the_provider_and_ends_as_it_does(cache):
    code = "import os, sys; print(os.environ['FI_PROVIDER'], os.environ['AMOEBA_DEVICE'], sys.argv[1:]); sys.exit(3)"
    done = amoeba(cache, "fi-run", "--device", "rtl", sys.executable, "-c", code, "-n", "--device", "x")
    assert done.returncode == 3
    assert done.stdout == "amoeba rtl ['-n', '--device', 'x']\n"


def test_several_processes_are_started(cache):
    code = "import os; os.write(1, (os.environ['AMOEBA_RANK'] + '\\n').encode())"  # at once: they share the pipe
    done = amoeba(cache, "fi-run", "-n", "3", sys.executable, "-c", code)
    assert sorted(done.stdout.split()) == ["0", "1", "2"]


def test_a_program_finds_ucx_s_library_before_the_system_s(tmp_path):
    done = amoeba(tmp_path, "libucp", "build", LD_LIBRARY_PATH="/elsewhere")
    assert done.returncode == 0, done.stderr
    (told,) = re.findall(r"^export LD_LIBRARY_PATH=(.*)$", done.stdout, re.M)
    ours, others = told.split(":")
    assert (Path(ours) / "libucp.so.0").is_file()
    assert (Path(ours) / "libucp.so").resolve() == (Path(ours) / "libucp.so.0").resolve()
    assert others == "/elsewhere"
    code = (
        "import ctypes, os; library = ctypes.CDLL('libucp.so.0');"
        "library.ucp_get_version_string.restype = ctypes.c_char_p;"
        "print(library.ucp_get_version_string().decode(), os.environ['AMOEBA_DEVICE'], os.environ['AMOEBA_HOST'])"
    )
    done = amoeba(tmp_path, "ucx-run", "--host", "127.0.0.2", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "1.19.0 model 127.0.0.2\n"), done.stderr


@pytest.mark.parametrize("command", ["fi-run", "ucx-run"])
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["there-is-no-such-program"], 127, "program there-is-no-such-program was not found"),
        (["--device", "abacus", "true"], 2, "unknown device 'abacus'; expected model, rtl"),
        ([], 2, "Missing argument"),
    ],
)
def test_mistakes_are_told(cache, command, arguments, status, said):
    done = amoeba(cache, command, *arguments)
    assert done.returncode == status
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_without_a_compiler_it_says_what_is_missing(tmp_path):
    done = amoeba(tmp_path, "fi-run", "true", PATH=str(tmp_path), CC="")
    assert done.returncode == 1
    assert "compiler" in done.stderr
    assert "Traceback" not in done.stderr
