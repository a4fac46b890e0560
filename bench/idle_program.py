"""How fast one RTL NIC is simulated that has nothing to do: a program of its own, which runs with any state of the
packages.

Prints cycles per second of CPU time, the best of several runs; how many of how many cycles are the arguments:
``python idle_program.py RUNS CYCLES``.
"""

import sys
import time
from typing import Any

import amoeba

_SETTLED = 1000
"""Cycles after which nothing of the reset is left."""


def measure(runs: int, cycles: int) -> float:
    """Cycles per second."""
    with amoeba.open_device("rtl") as opened:
        device: Any = opened
        device.run_until(_SETTLED)
        seconds = []
        for _ in range(runs):
            started = time.process_time()
            device.run_until(device.cycles + cycles)
            seconds.append(time.process_time() - started)
        return cycles / min(seconds)


if __name__ == "__main__":
    print(measure(int(sys.argv[1]), int(sys.argv[2])))
