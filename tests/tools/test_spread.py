"""Jobs on processes of this machine: order, failures that name their jobs, and nothing left over.

Covers ``spread/jobs.py``, ``spread/here.py`` and ``spread/processes.py``.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from amoeba import Errno, FabricError
from amoeba_tools.spread import Job, open_engine, portions, spread

from tests.tools import spread_jobs

EVERYTHING = [0, 1, 4, None, 16, None, None, None, 64]
"""The results of fragile(0) to fragile(8)."""
ENGINES = (1, 2)


def numbered(count):
    return [Job(f"job {number}", number) for number in range(count)]


def gone(pid, seconds=30):
    """Whether a process ends in time; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("jobs", ENGINES)
def test_results_are_in_order_and_told_as_they_come(jobs):
    told = []
    with open_engine(jobs) as engine:
        endings = spread(spread_jobs.square, numbered(7), engine, told.append)
    assert [ending.result for ending in endings] == [0, 1, 4, 9, 16, 25, 36]
    assert [ending.index for ending in endings] == list(range(7))
    assert sorted(told, key=lambda ending: ending.index) == endings
    assert [ending.name for ending in endings] == [f"job {number}" for number in range(7)]


def test_no_jobs_have_no_endings():
    for jobs in ENGINES:
        with open_engine(jobs) as engine:
            assert spread(spread_jobs.square, [], engine) == []


def test_a_worker_that_dies_is_an_error_of_its_job_and_the_others_go_on():
    with open_engine(2) as engine:
        endings = spread(spread_jobs.fragile, numbered(9), engine)
    assert [ending.result for ending in endings] == EVERYTHING
    failures = {ending.name: ending.failure for ending in endings if ending.failure}
    assert failures == {
        "job 3": "its worker was ended by SIGKILL: about to die",
        "job 5": "ValueError: not 5",
        "job 6": "its worker ended with exit status 7",
        "job 7": "SystemExit: no more",
    }


def test_in_this_process_jobs_that_raise_are_errors_too():
    with open_engine() as engine:
        endings = spread(spread_jobs.fragile, [Job(str(number), number) for number in (4, 5, 7, 8)], engine)
    assert [ending.result for ending in endings] == [16, None, None, 64]
    assert [ending.failure for ending in endings] == ["", "ValueError: not 5", "SystemExit: no more", ""]


def test_a_result_that_cannot_be_sent_is_an_error_and_its_worker_lives():
    with open_engine(2) as engine:
        endings = spread(spread_jobs.unsendable, numbered(3), engine)
    assert all("cannot be sent" in ending.failure for ending in endings), endings


def test_jobs_run_at_the_same_time_in_processes_that_are_used_again(tmp_path):
    with open_engine(2) as engine:
        together = spread(spread_jobs.meet, [Job("a", tmp_path), Job("b", tmp_path)], engine)
        assert [ending.result for ending in together] == [True, True]
        workers = {ending.result for ending in spread(spread_jobs.whose, numbered(20), engine)}
    assert len(workers) <= 2
    assert os.getpid() not in workers
    assert all(gone(worker) for worker in workers)


def test_whoever_is_interrupted_has_been_told_what_was_done_and_leaves_nothing_running(tmp_path):
    file = tmp_path / "pids"

    def told(ending):
        while not file.exists() or not file.read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    with open_engine(2) as engine, pytest.raises(KeyboardInterrupt):
        spread(linger_unless_number, [Job("for ever", str(file)), Job("soon", 3)], engine, told)
    assert all(gone(pid) for pid in file.read_text().split())


def linger_unless_number(argument):
    return argument if isinstance(argument, int) else spread_jobs.linger(argument)


def test_workers_end_with_a_program_that_is_killed(tmp_path):
    file = tmp_path / "pids"
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parents[2])]}
from tests.tools import spread_jobs
from amoeba_tools.spread import Job, open_engine, spread
with open_engine(2) as engine:  # no `if __name__ == "__main__"`: workers do not import the program
    spread(spread_jobs.linger, [Job("for ever", {str(file)!r})], engine)
"""
    program = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline
        assert program.poll() is None
        time.sleep(0.05)
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert all(gone(pid) for pid in file.read_text().split())


@pytest.mark.parametrize("jobs", [0, -1])
def test_less_than_one_process_is_refused(jobs):
    with pytest.raises(FabricError, match=f"one process or more, got {jobs}") as caught, open_engine(jobs):
        pass
    assert caught.value.fi_errno == Errno.FI_EINVAL


def test_portions_keep_order_and_are_of_about_the_same_weight():
    with open_engine(2) as engine:
        assert portions(list(range(80)), engine) == [list(range(start, start + 10)) for start in range(0, 80, 10)]
        heavy = portions([1, 1, 100, 1, 1, 100, 1, 1], engine, lambda item: item)
        assert [item for portion in heavy for item in portion] == [1, 1, 100, 1, 1, 100, 1, 1]
        assert max(map(sum, heavy)) <= 26 + 100
        assert portions([], engine) == []
        assert portions([7], engine) == [[7]]
        assert portions([0, 0], engine, lambda item: item) in ([[0, 0]], [[0], [0]])
