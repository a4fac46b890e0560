"""Programs that the command line starts: their environment, their ends, signals, and what is told of failures."""

import os
import signal
import subprocess
import sys
import time

import pytest
from amoeba_tools.launcher import CANNOT_START, NOT_FOUND, launch


def python(code):
    return [sys.executable, "-c", code]


def test_a_program_has_the_environment_and_its_status_is_handed_out(monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    code = "import os, sys; sys.exit(int(os.environ['KEPT']) + int(os.environ['GIVEN']))"
    assert launch(python(code), {"GIVEN": "41"}) == 42


def test_several_run_at_once_and_know_their_numbers(tmp_path, monkeypatch):
    """Each waits for the others' files."""
    code = (
        "import os, time\nrank = os.environ['AMOEBA_RANK']\nopen(rank, 'w').close()\n"
        "while len(os.listdir()) < 3: time.sleep(0.01)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert launch(python(code), {}, 3) == 0
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2"]


def test_when_one_fails_the_others_are_ended_after_a_while(monkeypatch):
    monkeypatch.setattr("amoeba_tools.launcher._PATIENCE", 0.3)
    code = "import os, sys, time\nif os.environ['AMOEBA_RANK'] == '1': sys.exit(7)\ntime.sleep(60)"
    began = time.monotonic()
    assert launch(python(code), {}, 3) == 7
    assert time.monotonic() - began < 30


def test_a_program_that_ignores_the_end_is_killed(monkeypatch):
    monkeypatch.setattr("amoeba_tools.launcher._PATIENCE", 0.3)
    code = (
        "import os, signal, sys, time\n"
        "if os.environ['AMOEBA_RANK'] == '0': signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.environ['AMOEBA_RANK'] == '1': sys.exit(3)\ntime.sleep(60)"
    )
    assert launch(python(code), {}, 2) == 3


def test_a_signal_that_ends_it_is_in_the_status():
    assert launch(python("import os; os.kill(os.getpid(), 9)"), {}) == 128 + signal.SIGKILL


def test_what_is_no_program_is_told_apart(tmp_path):
    assert launch(["there-is-no-such-program"], {}) == NOT_FOUND
    plain = tmp_path / "plain"
    plain.write_text("nothing")
    assert launch([str(plain)], {}) == CANNOT_START


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_forwarded(number, tmp_path):
    said = tmp_path / "said"
    child = (
        f"import signal, sys, time\nsignal.signal({int(number)}, lambda *_: sys.exit(5))\n"
        f"open({str(said)!r}, 'w').close()\ntime.sleep(60)"
    )
    code = f"import sys\nfrom amoeba_tools.launcher import launch\nsys.exit(launch({python(child)!r}, {{}}))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(python(code), env=environment) as process:
        while not said.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(30) == 5


def test_ctrl_c_leaves_the_decision_to_the_program(tmp_path):
    """The terminal tells the whole group; the launcher stays until the program has ended as it likes."""
    said = tmp_path / "said"
    child = (
        "import signal, sys, time\n"
        f"open({str(said)!r}, 'w').close()\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(0.2); sys.exit(9)"
    )
    code = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from amoeba_tools.launcher import launch\nsys.exit(launch({python(child)!r}, {{}}))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(python(code), env=environment, start_new_session=True) as process:
        while not said.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 9
