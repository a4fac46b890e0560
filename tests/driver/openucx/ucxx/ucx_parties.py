"""Two workers with an endpoint to each other, and data that says where it comes from."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import amoeba.ucx as ucxx
import numpy as np

__all__ = ["PATIENCE", "SIZES", "Parties", "pattern", "run_program"]

PATIENCE = 120.0
"""Seconds that a test waits for simulated NICs, and for other processes."""
SIZES = (0, 1, 16, 1000, 2**12, 2**16, 2**20)
"""Of messages, from those that fit a descriptor to those that the receiver fetches."""
_ROOT = Path(__file__).resolve().parents[4]


def pattern(size: int, seed: int = 0) -> "np.ndarray[Any, Any]":
    """So many bytes that do not repeat soon."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


class Parties:
    """``a`` and ``b``, workers on two NICs; ``ab`` and ``ba``, their endpoints to each other."""

    def __init__(self, adapters: Any, features: tuple[ucxx.Feature, ...] = tuple(ucxx.Feature)) -> None:
        self.contexts = [ucxx.Context(feature_flags=features, adapter=adapter) for adapter in adapters]
        self.a, self.b = (ucxx.Worker(context) for context in self.contexts)
        self.ab = ucxx.Endpoint.create_from_worker_address(self.a, self.b.address)
        self.ba = ucxx.Endpoint.create_from_worker_address(self.b, self.a.address)

    def __enter__(self) -> "Parties":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (self.a, self.b):
            worker.close()
        for context in self.contexts:
            context.close()


def run_program(source: str, *arguments: str) -> "subprocess.Popen[str]":
    """A process of its own with this program; what it prints can be read."""
    return subprocess.Popen(
        [sys.executable, "-W", "error::ResourceWarning", "-c", source, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(_ROOT / each) for each in ("model", "hw", "sim", "driver")),
        },
    )
