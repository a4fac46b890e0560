"""A program in C that calls a library with Amoeba inside: what it gets, whatever it does.

Covers ``embed/ending.py``, ``embed/fair_lock.py`` and ``embed/telling.py``.
"""

import os
import signal
import socket
import subprocess
import sys

import pytest
from amoeba.devices.linked import open_linked
from amoeba_model.device import DeviceError


def test_numbers_pointers_structures_and_callbacks_cross_the_border(run_tiny):
    assert run_tiny("calls") == ("", "")


def test_null_garbage_and_freed_handles_give_a_status(run_tiny):
    assert run_tiny("garbage") == ("", "")


def test_no_exception_crosses_the_border_and_unexpected_ones_are_told(run_tiny):
    _, told = run_tiny("raises")
    assert [line.split(": ")[2] for line in told.splitlines()] == [
        "ValueError",
        "KeyboardInterrupt",
        "SystemExit",
        "MemoryError",
        "KeyError",
    ]
    _, told = run_tiny("raises", AMOEBA_DEBUG="1")
    assert told.count("Traceback") == 6
    assert "FI_EAGAIN: again" in told


def test_d5_an_error_that_repeats_is_told_once(c_environment, tiny_library):
    code = (
        "import ctypes, sys\n"
        "tiny = ctypes.CDLL(sys.argv[1])\n"
        "for _ in range(1000):\n"
        "    assert [tiny.tiny_raise(what) for what in (1, 4, 5)] == [-256] * 3\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tiny_library], env=c_environment, capture_output=True, text=True, check=True
    )
    assert [line.split(": ")[2] for line in done.stderr.splitlines()] == ["ValueError", "MemoryError", "KeyError"]


def test_what_c_cannot_have_is_an_error_as_well(c_environment, tiny_library):
    code = (
        "import ctypes, sys\n"
        "tiny = ctypes.CDLL(sys.argv[1])\n"
        "tiny.tiny_pointer.restype = ctypes.c_void_p\n"
        "print(tiny.tiny_pointer(1), tiny.tiny_nop(5))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tiny_library], env=c_environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None 5\n"


def test_children_have_nothing_of_their_parent_and_nics_of_their_own(run_tiny):
    run_tiny("fork")


def test_threads_call_at_once_also_while_one_waits(run_tiny):
    run_tiny("threads")


def test_a_hundred_thousand_calls_leave_no_memory_and_no_descriptor_behind(run_tiny):
    run_tiny("memory")


def test_a_program_may_end_with_everything_open_and_calls_after_that_get_a_status(run_tiny):
    _, told = run_tiny("late", TINY_AT_END="1")
    assert told == "the end\n"


def test_a_callback_may_end_the_program(run_tiny):
    run_tiny("leave", code=5)


def test_a_python_side_that_cannot_start_says_so_once(run_tiny):
    _, told = run_tiny("failing", PYTHONPATH="")
    assert told.count("\n") == 1
    assert told.startswith("libtiny.so.1: cannot start: ")
    assert "tiny" in told


def test_another_python_first_in_the_path_does_not_matter(run_tiny, tmp_path):
    false = tmp_path / "python3"
    false.write_text("#!/bin/sh\nexit 1\n")
    false.chmod(0o755)
    run_tiny("calls", PATH=f"{tmp_path}:{os.environ['PATH']}", PYTHONHOME=str(tmp_path))


def test_a_program_without_standard_files_is_called_as_well(tiny_program, c_environment):
    for test, wrapped in (("raises", "2>/dev/full"), ("raises", "2>&- >&- <&-"), ("calls", "2>&- >&- <&-")):
        command = f"exec {tiny_program} {test} {wrapped}"
        assert subprocess.run(["sh", "-c", command], env=c_environment, timeout=100, check=False).returncode == 0


@pytest.mark.parametrize("test", ["late", "leave", "fork"])
@pytest.mark.parametrize("device", ["rtl"])
def test_the_end_is_the_same_with_hardware(run_tiny, device, test):
    run_tiny(test, code=5 if test == "leave" else 0, AMOEBA_DEVICE=device)


def test_an_environment_that_makes_no_sense_is_a_status(run_tiny):
    for name, value in (("AMOEBA_DEVICE", "none"), ("AMOEBA_PORT", "seven"), ("AMOEBA_PORT", "65536")):
        _, told = run_tiny("late", code=1, **{name: value, "AMOEBA_DEBUG": "1"})
        assert value in told
        assert "expected 0, got -22" in told


@pytest.mark.parametrize("how", ["Python's end", "C's, at Python's end"])
def test_a_program_in_python_ends_as_well(c_environment, tiny_library, how):
    """mpi4py calls MPI_Finalize when there is no Python any more."""
    late = "ctypes.pythonapi.Py_AtExit(ctypes.cast(tiny.tiny_outer, ctypes.c_void_p))\n" if "C's" in how else ""
    code = (
        "import ctypes, sys\n"
        "tiny = ctypes.CDLL(sys.argv[1])\n"
        "handle = ctypes.c_uint64()\n"
        "assert tiny.tiny_open(ctypes.byref(handle)) == 0\n"
        f"{late}"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tiny_library], env=c_environment, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_mpi_of_a_program_in_python_finishes_while_python_still_can_be_called(c_environment, tiny_library):
    code = (
        "import ctypes, sys, types\n"
        "tiny = ctypes.CDLL(sys.argv[1])\n"
        "mpi = types.ModuleType('mpi4py.MPI')\n"
        "mpi.Is_initialized = lambda: True\n"
        "mpi.Is_finalized = lambda: False\n"
        "mpi.Finalize = lambda: print('finalized', tiny.tiny_nop(3))\n"
        "sys.modules['mpi4py.MPI'] = mpi\n"
        "assert tiny.tiny_nop(1) == 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tiny_library], env=c_environment, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "finalized 3\n", "")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("test", ["sleep", "signal"])
def test_a_signal_ends_a_program_as_it_would_without_python(tiny_program, c_environment, how, test):
    program = subprocess.Popen(
        [tiny_program, test], env=c_environment, stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(2, 0)
    )
    with program:
        assert program.stdout.readline() == b"here\n"
        program.send_signal(how)
        assert program.wait(timeout=20) == -how


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.bind(("127.0.0.1", 0))
        return plain.getsockname()[1]


@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_socket_of_a_process_that_is_gone_refuses_at_once(tiny_program, c_environment, how):
    port = free_port()
    program = subprocess.Popen(
        [tiny_program, "sleep"], env=c_environment | {"AMOEBA_PORT": str(port)}, stdout=subprocess.PIPE
    )
    with program:
        assert program.stdout.readline() == b"here\n"
        with pytest.raises(DeviceError, match="cannot listen"):
            open_linked(port=port)
        program.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
        program.wait(timeout=20)
    linked = open_linked(port=port)
    assert linked.network.address == ("127.0.0.1", port)
    linked.close()
