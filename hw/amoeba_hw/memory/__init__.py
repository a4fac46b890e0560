"""The memory engine: reads, writes and atomics on host memory, in order, through a table of lines in flight."""

from amoeba_hw.memory.engine import MemoryEngine

__all__ = ["MemoryEngine"]
