"""The examples run, and do what they say."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_counter_counts(capsys):
    seen = runpy.run_path(str(EXAMPLES / "counter.py"))["main"]()
    assert seen == [100, 101, 111]
    assert "the counter is now 211" in capsys.readouterr().out
