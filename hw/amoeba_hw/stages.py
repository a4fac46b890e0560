"""Values of earlier cycles, for pipelines in which nothing ever waits."""

from amaranth.hdl import Signal

__all__ = ["delayed", "registered"]


def registered(m, name, value):
    """Register a value, or view: return that of the cycle before, undefined after reset."""
    register = Signal(value.shape(), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register


def delayed(m, name, value, cycles):
    """Return a value, or view, of now and of each of ``cycles`` before, the newest first; undefined after reset."""
    stages = [value]
    for cycle in range(1, cycles + 1):
        stages.append(registered(m, f"{name}_{cycle}", stages[-1]))
    return stages
