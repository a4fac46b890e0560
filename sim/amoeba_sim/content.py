"""Digests of everything that results of simulation and synthesis depend on: equal digests, equal results."""

import functools
import hashlib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from amoeba_sim.area import synthesis_tools
from amoeba_sim.verilate import harness_sources, package_files

__all__ = ["simulation_content", "synthesis_content"]


@functools.cache
def simulation_content() -> str:
    """Return the digest of all that determines the RTL's behaviour by cycle; compilers do not."""
    files = [*package_files("amoeba_hw", "amoeba_model", "amoeba_sim"), *harness_sources()]
    return _digest(files, f"amaranth {metadata.version('amaranth')}")


@functools.cache
def synthesis_content() -> str:
    """Return the digest of all that determines the size of a block."""
    return _digest(package_files("amoeba_hw", "amoeba_model"), synthesis_tools())


def _digest(files: Iterable[Path], tools: str) -> str:
    total = hashlib.sha256(tools.encode())
    for path in sorted(files, key=lambda path: (path.parts[-3:], path)):
        content = path.read_bytes()
        total.update(f"\0{path.name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()[:32]
