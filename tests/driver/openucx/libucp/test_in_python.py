"""Programs in Python with extensions that use UCX, whose threads know nothing of Python's lock."""

import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE = 90
"""Seconds: who waits for Python's lock in vain does so for ever."""
BEGIN = """
import ctypes, sys, time
holding, free = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])  # with Python's lock, and without
"""
DELETED = """
for _ in range(3):
    assert holding.agent_new({mode}) == 0
    assert free.agent_exchange() == 0
    assert holding.agent_delete() == 0
"""
LOCKED = """
assert holding.agent_new({mode}) == 0
assert free.agent_exchange() == 0
before = holding.agent_turns()
while holding.agent_turns() < before + 3:
    holding.usleep(1000)
assert holding.agent_delete() == 0
"""
CONNECTED = """
assert holding.agent_new({mode}) == 0
assert free.agent_connect() == 0
assert holding.agent_delete() == 0
"""
LINGERING = """
assert holding.agent_new({mode}) == 0
assert free.agent_linger() == 0
assert holding.agent_delete() == 0
assert holding.agent_lingered() == 1
"""
RELEASED = """
for _ in range(3):
    assert holding.agent_new({mode}) == 0
    assert free.agent_exchange() == 0
    assert free.agent_delete() == 0
"""
LEFT = """
assert holding.agent_new({mode}) == 0
assert free.agent_exchange() == 0
"""
CALLED_LATE = """
import atexit
atexit.register(lambda: time.sleep(0.3))  # before anything of ours: called when all of ours has ended
assert holding.agent_new({mode}) == 0
"""


@pytest.fixture(scope="module")
def agent(ucx_compiler, tmp_path_factory):
    library = tmp_path_factory.mktemp("agent") / "libagent.so"
    source = str(Path(__file__).with_name("agent.c"))
    flags = ("-O1", "-g", "-Wall", "-Wno-unused-function", "-fPIC", "-shared")
    subprocess.run([ucx_compiler, *flags, source, "-o", str(library), "-lucp", "-lucs", "-lpthread"], check=True)
    return library


@pytest.fixture
def run_python(agent, libucp_environment):
    """Run a program in Python: it ends well, and says nothing."""

    def run(code, *, mode):
        command = [sys.executable, "-c", BEGIN + code.format(mode=mode), str(agent)]
        done = subprocess.run(
            command, env=libucp_environment, capture_output=True, text=True, check=False, timeout=DEADLINE
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    return run


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["polling", "waking", "until it may sleep"])
@pytest.mark.parametrize("code", [DELETED, LOCKED], ids=["joined", "beside a thread that keeps the lock"])
def test_d5_a_progress_thread_ends_whoever_has_pythons_lock(run_python, code, mode):
    run_python(code, mode=mode)


def test_d5_a_thread_inside_another_call_ends_when_its_joiner_has_released_pythons_lock(run_python):
    run_python(RELEASED, mode=3)


@pytest.mark.parametrize("code", [LEFT, CALLED_LATE], ids=["at once", "later"])
def test_d5_calls_of_threads_that_outlive_the_nic_are_silent(run_python, code):
    run_python(code, mode=0)


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["polling", "waking", "until it may sleep"])
def test_callbacks_may_wait_for_what_the_progress_thread_does(run_python, mode):
    """Callbacks of listeners, errors and requests, as in ucxx: its progress thread makes all calls of its worker."""
    run_python(CONNECTED, mode=mode)


def test_a_worker_outlives_the_callbacks_of_its_progress(run_python):
    run_python(LINGERING, mode=0)
