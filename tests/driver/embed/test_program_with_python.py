"""Programs that can run Python themselves: they may begin and end it before, behind and beside a library's calls."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("host.c")
TESTS = re.findall(r"^static void test_(\w+)\(void\)", SOURCE.read_text(), re.M)
PRINTED = {"begins_with_python_first": "mine", "begins_and_ends_afterwards": "mine" * 3}


@pytest.fixture(scope="session", params=["lazy", "now"])
def host_program(request, tiny_library, tmp_path_factory):
    """Linked with Python. "now": its references are read-only once it runs, as distributions link."""
    program = tmp_path_factory.mktemp("program") / "host"
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    link = [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l:{name}", f"-Wl,-z,{request.param},-z,relro"]
    command = ["cc", "-O1", "-Wall", f"-I{sysconfig.get_path('include')}", str(SOURCE), "-o", str(program)]
    subprocess.run([*command, *link, "-ldl", "-lpthread"], check=True, timeout=100)
    return program


@pytest.mark.parametrize("test", TESTS)
def test_d3_python_begins_and_ends_as_the_program_says(host_program, tiny_library, c_environment, test):
    command = [host_program, test, tiny_library]
    done = subprocess.run(command, env=c_environment, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED.get(test, ""), "")
