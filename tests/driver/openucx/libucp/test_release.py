"""Under which names programs find the library, what it brings, and which release of UCX it says it is."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs.missing import MissingError, program

RELEASE = (
    "import ctypes; library = ctypes.CDLL('libucp.so', ctypes.RTLD_GLOBAL);"
    "numbers = [ctypes.c_uint() for _ in range(3)];"
    "library.ucp_get_version(*map(ctypes.byref, numbers));"
    "library.ucp_get_version_string.restype = ctypes.c_char_p;"
    "print(*[each.value for each in numbers], library.ucp_get_version_string().decode());"
)


def run(code, environment):
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr.strip()


def test_d6_a_program_finds_the_library_by_its_link_name(libucp_environment):
    code = "import os; print(os.path.realpath([l.split()[-1] for l in open('/proc/self/maps') if 'libucp' in l][0]))"
    library = (Path(libucp_environment["LD_LIBRARY_PATH"]) / "libucp.so.0").resolve()
    assert run(RELEASE + code, libucp_environment)[0].splitlines()[-1] == str(library)


def test_d6_a_program_is_linked_by_its_link_name(libucp_environment, tmp_path):
    source = "const char *ucp_get_version_string(void);\nint main(void) { return !*ucp_get_version_string(); }\n"
    (tmp_path / "program.c").write_text(source)
    folder, built = libucp_environment["LD_LIBRARY_PATH"], str(tmp_path / "program")
    link = [f"-L{folder}", "-lucp", "-Wl,--allow-shlib-undefined"]
    subprocess.run(["cc", str(tmp_path / "program.c"), "-o", built, *link], check=True)
    assert subprocess.run([built], env=libucp_environment, check=False).returncode == 0


def test_d6_ucx_s_other_libraries_come_with_it_where_they_are(libucp_environment):
    try:
        readelf = program("readelf", "binutils")
        ctypes.CDLL("libuct.so.0")
    except (MissingError, OSError) as missing:
        pytest.skip(str(missing))
    path = os.path.join(libucp_environment["LD_LIBRARY_PATH"], "libucp.so.0")
    told = subprocess.run([readelf, "-d", path], capture_output=True, text=True, check=True).stdout
    for name in ("libucs.so.0", "libuct.so.0"):
        assert f"Shared library: [{name}]" in told
    assert run(RELEASE + "library.ucs_status_string.restype = ctypes.c_char_p;"
               "print(library.ucs_status_string(0).decode())", libucp_environment)[0].endswith("Success")  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "numbers", "said"),
    [
        (None, (1, 19, 0), ""),
        ("1.22.0", (1, 22, 0), ""),
        ("1.12.1", (1, 12, 1), ""),
        ("", (1, 19, 0), ""),
        ("1.22", (1, 19, 0), "AMOEBA_UCX_VERSION: expected MAJOR.MINOR.RELEASE, got '1.22'"),
        ("the newest", (1, 19, 0), "AMOEBA_UCX_VERSION: expected MAJOR.MINOR.RELEASE, got 'the newest'"),
    ],
)
def test_d6_the_release_is_that_of_which_all_functions_are_there_or_what_the_user_says(
    libucp_environment, wanted, numbers, said
):
    environment = libucp_environment | ({} if wanted is None else {"AMOEBA_UCX_VERSION": wanted})
    printed, told = run(RELEASE, environment)
    assert printed == " ".join(map(str, numbers)) + " " + ".".join(map(str, numbers))
    assert (said in told) if said else not told
