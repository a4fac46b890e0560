"""A sample of every recorded cell of the real libfabric, executed by two RTL NICs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.atomic.vectors import RecordedCell, check, load
from amoeba_tools.replay import EndpointExecutor

SOCKETS = Path(__file__).parents[1] / "data" / "libfabric-1.17-sockets.npz"
ROWS = 64


def sample(recorded: RecordedCell, seed: int) -> RecordedCell:
    """ROWS of the cell's rows, or all if there are fewer."""
    size = min(ROWS, len(recorded))
    rows = np.random.default_rng(seed).choice(len(recorded), size, replace=False)

    def take(memory: np.ndarray | None) -> np.ndarray | None:
        return None if memory is None else memory[rows]

    fields = ("target", "operand", "compare", "after", "fetched")
    return replace(recorded, **{field: take(getattr(recorded, field)) for field in fields})


@pytest.mark.parametrize(("offset", "vector"), [(0, 16), (3, 7)], ids=["aligned", "misaligned"])
def test_rtl_agrees_with_libfabric_in_every_recorded_cell(offset, vector):
    with (
        open_cluster(["rtl", "rtl"]) as fabric,
        EndpointExecutor(fabric, vector=vector, offset=offset) as executor,
    ):
        results = [check(sample(recorded, seed=offset), executor) for recorded in load(SOCKETS)]
    assert [(str(result.cell), str(result.examples[0])) for result in results if result.mismatches] == []
    assert len(results) == 361
    assert sum(result.vectors for result in results) >= 361 * 32
