"""Rate of 64 KiB transfers that is left on links that lose frames: cycles of the model and the RTL, exact."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from amoeba import FabricError
from amoeba_model.impairments import Impairments
from amoeba_model.network import SimulatedDevice

from bench.nic import open_pair
from bench.report import Grid

__all__ = ["KINDS", "LOSSES", "curve", "grid", "rate"]

LOSSES = (0.0, 0.0001, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
"""Shares of all frames, either way."""
KINDS = {"model": "model", "rtl": "RTL"}
"""Kinds of NIC, and what their tables call them."""
_SIZE = 1 << 16
_KEPT = 8
"""Transfers that are posted at a time."""
_GOALS = {0.01: 80, 0.05: 50}
"""Per cent of the rate without loss."""


def rate(operation: str, loss: float, seed: int, count: int, kind: str = "model") -> float:
    """Payload bytes per cycle of ``count`` transfers, "write" or "read", by one endpoint of a kind of NIC.

    Raises FabricError where so much is lost that the PDC is given up.
    """
    with open_pair(kind, _SIZE // 8, impairments=Impairments(seed, loss=loss)) as pair:
        there, here = pair.memory, pair.results
        sent, arrived = (here, there) if operation == "write" else (there, here)
        sent[:] = np.random.default_rng(seed).integers(0, 1 << 63, len(sent), np.uint64)
        call = pair.endpoint.write if operation == "write" else pair.endpoint.read
        device = cast(SimulatedDevice, pair.fabric.devices[0])
        (peer,), region = pair.peers, pair.region
        begin, posted, done = device.cycles, 0, 0
        while done < count:
            while posted < min(count, done + _KEPT):
                call(here, peer, region.address, region.key, desc=pair.result_region)
                posted += 1
            done += len(pair.queue.read(_KEPT))
        assert np.array_equal(sent, arrived)
        return _SIZE * count / (device.cycles - begin)


def curve(
    losses: Sequence[float] = LOSSES,
    seeds: int = 3,
    count: int = 64,
    progress: Callable[[], None] = lambda: None,
    kind: str = "model",
) -> dict[str, dict[float, float]]:
    """Return payload bytes per cycle over all seeds, by operation and loss; 0 if a PDC failed."""
    found: dict[str, dict[float, float]] = {}
    for operation in ("write", "read"):
        found[operation] = {}
        for loss in losses:
            try:
                rates = [rate(operation, loss, seed, count, kind) for seed in range(seeds if loss else 1)]
                found[operation][loss] = len(rates) / sum(1 / each for each in rates)
            except FabricError as error:
                if "LOCAL_PDC_FAILED" not in str(error):
                    raise
                found[operation][loss] = 0.0
            progress()
    return found


def grid(found: dict[str, dict[float, float]], kind: str = "model") -> Grid:
    rows = []
    for loss in found["write"]:
        shares = [100 * found[operation][loss] / found[operation][0.0] for operation in ("write", "read")]
        told = [round(share, 1) if share else "given up" for share in shares]
        rates = [round(found[operation][loss], 2) for operation in ("write", "read")]
        rows.append((f"{100 * loss:g}", rates[0], told[0], rates[1], told[1], _GOALS.get(loss, "")))
    columns = ("frames lost, %", "write, bytes per cycle", "%", "read, bytes per cycle", "%", "goal, %")
    return Grid(f"64 KiB transfers on links that lose frames ({KINDS[kind]}, exact)", columns, rows)
