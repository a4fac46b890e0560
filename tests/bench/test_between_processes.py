"""Benches of several processes: the programs run, and their figures become tables and limits.

Covers ``process_program.py``, ``ranks_program.py``, ``processes.py`` and ``ranks.py``.
"""

import pytest

from bench import history, mpi, processes, ranks

FIGURES = {"half a round trip of 8 bytes, ms": 0.4, "half a round trip of 8 bytes, CPU us": 150.0}


@pytest.mark.parametrize("progress", ["manual", "automatic"])
@pytest.mark.parametrize("program", ["ping", "atomic"])
def test_two_processes_say_how_long_an_operation_takes(monkeypatch, program, progress):
    monkeypatch.setattr(processes, "_OPERATIONS", 25)
    assert all(figure > 0 for figure in processes._pair(history.PRESENT, program, progress))


def test_both_states_stand_side_by_side():
    before = {name: 2 * value for name, value in FIGURES.items()}
    assert [row[1:] for row in processes.comparison(FIGURES, before).rows] == [(0.8, 0.4, 0.5), (300.0, 150.0, 0.5)]
    assert processes.comparison(FIGURES, {}).rows == []


def test_a_round_trip_that_takes_too_long_misses_its_limit():
    assert processes.misses(FIGURES) == []
    assert processes.misses(FIGURES | {"half a round trip of 8 bytes, ms": 0.6}) == [
        "half a round trip of 8 bytes, ms"
    ]


@pytest.mark.skipif(not mpi.available(), reason="needs mpi4py and mpiexec: pip install '.[bench]'")
def test_ranks_say_how_long_an_operation_takes():
    assert all(figure > 0 for figure in ranks._ring(history.PRESENT, 2, 5))


def test_four_ranks_may_take_three_times_as_long_as_two():
    assert not ranks.misses([{2: (100.0, 50.0), 4: (300.0, 50.0)}])
    assert ranks.misses([{2: (100.0, 50.0), 4: (301.0, 50.0)}])
    assert not ranks.misses([{}])


def test_ranks_of_both_states_stand_side_by_side():
    now, before = {2: (100.0, 50.0), 4: (300.0, 60.0)}, {2: (200.0, 100.0), 4: (400.0, 80.0)}
    assert ranks.grid([now, before]).rows == [
        ("2 ranks, elapsed", 100.0, 200.0, 0.5),
        ("4 ranks, elapsed", 300.0, 400.0, 0.75),
        ("2 ranks, CPU of a rank", 50.0, 100.0, 0.5),
        ("4 ranks, CPU of a rank", 60.0, 80.0, 0.75),
    ]
    assert ranks.grid([now]).rows[0] == ("2 ranks, elapsed", 100.0)
    assert ranks.grid([{}, {}]).rows == []
