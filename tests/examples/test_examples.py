"""The examples run on every device, and do what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(params=["model", "rtl"])
def run(request):
    """Runs an example by its name, and returns what its ``main`` does."""
    return lambda name: runpy.run_path(str(EXAMPLES / name))["main"](request.param)


def test_every_example_is_run_here_and_linked_from_the_readme():
    text, readme = Path(__file__).read_text(), (EXAMPLES.parent / "README.md").read_text()
    text += (EXAMPLES.parent / "tests" / "driver" / "openucx" / "ucxx" / "test_examples.py").read_text()
    text += Path(__file__).with_name("test_team_examples.py").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.name}"' in text
        assert f"(examples/{path.name})" in readme


def test_the_counter_counts(run, capsys):
    assert run("counter.py") == [100, 101, 111]
    assert "the counter is now 211" in capsys.readouterr().out


def test_the_lock_excludes(run, capsys):
    assert run("lock.py") == (200, 10)
    assert "the account is at 200" in capsys.readouterr().out


def test_the_histogram_holds_every_sample(run, capsys):
    histogram = run("histogram.py")
    assert histogram.sum() == 3 * 10_000
    samples = [np.random.default_rng(rank).normal(32, 8, 10_000).astype(int).clip(0, 63) for rank in (1, 2, 3)]
    assert (histogram == np.bincount(np.concatenate(samples), minlength=64)).all()
    assert "30000 samples" in capsys.readouterr().out


def test_the_work_queue_gives_every_job_to_one_worker(run, capsys):
    done = run("work_queue.py")
    assert sorted(np.concatenate(done)) == list(range(30))
    assert all(done)
    assert "all squared: True" in capsys.readouterr().out


def test_the_ball_comes_back(run, capsys):
    hits, cycles = run("ping_pong.py")
    assert hits == 20
    assert cycles > 0
    assert "the ball was hit 20 times" in capsys.readouterr().out


def test_the_long_message_waits_for_its_receive(run, capsys):
    assert run("rendezvous.py") == (False, True)
    assert "same: True" in capsys.readouterr().out
