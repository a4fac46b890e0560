"""The examples run, and do what they say."""

import runpy
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name):
    """What the ``main`` of an example returns."""
    return runpy.run_path(str(EXAMPLES / name))["main"]()


def test_every_example_is_run_here():
    text = Path(__file__).read_text()
    assert all(f'"{path.name}"' in text for path in EXAMPLES.glob("*.py"))


def test_the_counter_counts(capsys):
    assert run("counter.py") == [100, 101, 111]
    assert "the counter is now 211" in capsys.readouterr().out


def test_the_lock_excludes(capsys):
    assert run("lock.py") == (200, 10)
    assert "the account is at 200" in capsys.readouterr().out


def test_the_histogram_holds_every_sample(capsys):
    histogram = run("histogram.py")
    assert histogram.sum() == 3 * 10_000
    samples = [np.random.default_rng(rank).normal(32, 8, 10_000).astype(int).clip(0, 63) for rank in (1, 2, 3)]
    assert (histogram == np.bincount(np.concatenate(samples), minlength=64)).all()
    assert "30000 samples" in capsys.readouterr().out


def test_the_work_queue_gives_every_job_to_one_worker(capsys):
    done = run("work_queue.py")
    assert sorted(np.concatenate(done)) == list(range(30))
    assert all(done)
    assert "all squared: True" in capsys.readouterr().out


def test_the_ball_comes_back(capsys):
    hits, cycles = run("ping_pong.py")
    assert hits == 20
    assert cycles > 0
    assert "the ball was hit 20 times" in capsys.readouterr().out


def test_the_long_message_waits_for_its_receive(capsys):
    assert run("long_message.py") == (False, True)
    assert "same: True" in capsys.readouterr().out
