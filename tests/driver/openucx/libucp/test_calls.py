"""UCX's calls from C, right and wrong: what they do, statuses, no crashes, nothing written beyond the arguments.

Covers ``openucx/libucp/atomics.py``, ``openucx/libucp/buffers.py``, ``openucx/libucp/callbacks.py``,
``openucx/libucp/completions.py``,
``openucx/libucp/contexts.py``, ``openucx/libucp/endpoints.py``, ``openucx/libucp/fields.py``,
``openucx/libucp/library.py``, ``openucx/libucp/mapped.py``, ``openucx/libucp/messages.py``,
``openucx/libucp/process.py``, ``openucx/libucp/sockaddr.py``, ``openucx/libucp/transfers.py``,
``openucx/libucp/workers.py``, ``openucx/libucp/start.py`` and ``openucx/libucp/later.py``.
"""

import re
import subprocess
from pathlib import Path

import pytest
from amoeba.openucx.libucp.library import IN_C, LIBRARY

HERE = Path(__file__).parent
PROGRAMS = ("works", "waits", "calls")
SOURCES = {name: (HERE / f"{name}.c").read_text() for name in PROGRAMS}
LONG = {"many_operations", "opened_and_closed_often"}
ON_RTL = [("works", each) for each in ("tagged_messages", "put_and_get", "atomics", "active_messages", "streams")]
ON_RTL += [("waits", "descriptors_tell"), ("waits", "listeners"), ("calls", "absurd_numbers")]


def names_in(name):
    return re.findall(r"^static void test_(\w+)\(void\)", SOURCES[name], re.M)


@pytest.mark.parametrize(
    ("program", "test"),
    [
        pytest.param(program, test, marks=[pytest.mark.long, pytest.mark.timeout(500)] if test in LONG else ())
        for program in PROGRAMS
        for test in names_in(program)
    ],
)
def test_calls(run_test_of, program, test):
    run_test_of(program, test, timeout=450)


@pytest.mark.long
@pytest.mark.timeout(500)
def test_calls_on_rtl(run_test_of):
    """The calls that work on the model, and those that it refuses, on the hardware."""
    for program, test in ON_RTL:
        run_test_of(program, test, timeout=200, AMOEBA_DEVICE="rtl")


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_test_of_a_program_is_run(compiled, libucp_environment, program):
    listed = subprocess.run(
        [compiled(program)], env=libucp_environment, capture_output=True, text=True, check=True
    ).stdout
    assert listed.split() == names_in(program)


def test_every_function_works_and_is_refused_in_c():
    """Each is called with something that is no object, and also as it should be. ucp_init() is ucp_init_version()."""
    names = {each.name for each in LIBRARY.functions} - {"ucp_init_version"}
    wrong, _, right = SOURCES["calls"].partition("static void still_works")
    shared = (HERE / "program.h").read_text()
    assert names - {"ucp_get_version_string"} <= called_in(wrong, SOURCES["calls"])
    assert names | set(IN_C) <= called_in(shared, right, SOURCES["works"], SOURCES["waits"])


def called_in(*sources):
    return {name for source in sources for name in re.findall(r"\b(ucp_\w+)\(", source)}


def test_d7_a_refusal_is_said_once_with_the_drivers_sentence(compiled, libucp_environment):
    command = [compiled("calls"), "absurd_numbers"]
    done = subprocess.run(command, env=libucp_environment, capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert 0 < len(lines) == len(set(lines)) <= 10
    for line in lines:
        assert re.match(r"libucp\.so\.0: ucp_\w+: refused: UCS_ERR_\w+: .+ \(said once", line)
