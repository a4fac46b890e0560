"""Amaranth streams in cocotb testbenches: sources, sinks and monitors that speak payloads, not signals.

All act on the rising edge of ``clk``: they see the signals as the edge finds them, and the signals that they
drive take effect after it. A testbench starts with::

    source = StreamSource(dut, "i", SHAPE, pace=randomly(0.5))
    sink = StreamSink(dut, "o", SHAPE, pace=randomly(0.3))
    await start(dut)

Randomness comes from the module ``random``, which cocotb seeds.
"""

import random
from collections import deque
from collections.abc import Iterator

import cocotb
from amaranth.hdl import Shape
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Event, RisingEdge

from amoeba_sim.payload import pack, unpack

__all__ = [
    "StreamMonitor", "StreamSink", "StreamSource", "always", "in_bursts", "randomly", "reader", "reset", "start",
]  # fmt: skip

_CLOCK_PERIOD = 4
"""Nanoseconds: 250 MHz."""


async def start(dut):
    """Start the clock and reset the design."""
    # The simulator's own clock: cocotb's Python clock makes a bench several times slower.
    Clock(dut.clk, _CLOCK_PERIOD, unit="ns", impl="gpi").start()
    await reset(dut)


async def reset(dut, cycles=2):
    """Hold ``rst`` for this many cycles. Streams stop meanwhile; what a source still had to send, it drops."""
    dut.rst.value = 1
    await ClockCycles(dut.clk, cycles)
    dut.rst.value = 0
    await RisingEdge(dut.clk)


# Paces: one bool per cycle, whether a source may offer a new beat, or a sink accepts.


def always() -> Iterator[bool]:
    """Never pause."""
    while True:
        yield True


def randomly(rate: float) -> Iterator[bool]:
    """Act in a cycle with probability ``rate``."""
    while True:
        yield random.random() < rate


def in_bursts(longest: int) -> Iterator[bool]:
    """Alternate between acting and pausing, for 1 to ``longest`` cycles each."""
    while True:
        for act in (True, False):
            for _ in range(random.randint(1, longest)):
                yield act


def reader(signal):
    """Return a function that reads a signal as an int. ``signal.value`` takes three times as long, most of a bench.

    The function raises ValueError where a bit is neither 0 nor 1.
    """
    read = signal._handle.get_signal_val_binstr
    return lambda: int(read(), 2)


class _Stream:
    """The signals of the stream port ``name`` (an index after two underscores picks from an array)."""

    def __init__(self, dut, name, shape):
        self.name = name
        self.shape = shape
        self._clk, self._rst = dut.clk, dut.rst
        self._edge = RisingEdge(dut.clk)
        self._valid, self._ready, self._payload = (
            getattr(dut, f"{name}__{part}") for part in ("valid", "ready", "payload")
        )
        self._in_reset, self._is_valid, self._is_ready = map(reader, (self._rst, self._valid, self._ready))


class StreamSource(_Stream):
    """Sends payloads into an input stream of the design, in order.

    While it offers nothing, the payload is random bits, so that a design which forgets ``valid`` fails.

    Parameters
    ----------
    dut : cocotb handle
        The design.
    name : str
        The stream's port, such as ``i`` or ``i__0``.
    shape : shape-like
        Its payload.
    pace : iterator of bool
        Whether a new beat may be offered, cycle by cycle.
    """

    def __init__(self, dut, name, shape, *, pace=None):
        super().__init__(dut, name, shape)
        self._pace = pace or always()
        self._width = Shape.cast(shape).width
        self._waiting = deque()
        self._idle = Event()
        self._idle.set()
        self._valid.value = 0
        cocotb.start_soon(self._run())

    def send(self, *payloads):
        """Queue payloads; they leave as the clock runs."""
        self._waiting.extend(pack(self.shape, payload) for payload in payloads)
        if self._waiting:
            self._idle.clear()

    @property
    def left(self):
        """Payloads queued and not accepted yet."""
        return len(self._waiting)

    async def sent(self):
        """Wait until everything queued has been accepted, or dropped by a reset."""
        await self._idle.wait()

    async def _run(self):
        offering = offered = False
        self._payload.value = random.getrandbits(self._width)
        while True:
            await self._edge
            if self._in_reset():
                offering = False
                self._waiting.clear()
            elif offering and self._is_ready():
                offering = False
                self._waiting.popleft()
            if not offering:
                offering = bool(self._waiting) and next(self._pace)
                bits = self._waiting[0] if offering else random.getrandbits(self._width)
                # Writes cost more than anything else here: a beat's bits, and those of the first cycle without one.
                if offering or offered:
                    self._payload.value = bits
                if offering != offered:
                    self._valid.value = offering
                offered = offering
            if not self._waiting and not self._idle.is_set():
                self._idle.set()


class StreamMonitor(_Stream):
    """Collects what passes a stream, and fails the test if its producer breaks the stream contract.

    The contract (RFC 61): once valid, a stream stays valid with the same payload until the transfer.
    Parameters are those of :class:`StreamSource`.
    """

    def __init__(self, dut, name, shape):
        super().__init__(dut, name, shape)
        self.received = []
        """Payloads transferred so far. A testbench may empty it."""
        self._arrival = Event()
        self._bits = reader(self._payload)
        cocotb.start_soon(self._run())

    async def receive(self, count):
        """Wait until ``count`` payloads are there; takes them out of :attr:`received`."""
        while len(self.received) < count:
            self._arrival.clear()
            await self._arrival.wait()
        taken, self.received[:count] = self.received[:count], []
        return taken

    def _prepare(self):
        """Set this end's signals for the next cycle."""

    async def _run(self):
        refused = None
        while True:
            await self._edge
            refused = None if self._in_reset() else self._observe(refused)
            self._prepare()

    def _observe(self, refused):
        """Look at one cycle; returns the payload that has to stay, if any."""
        if not self._is_valid():
            assert refused is None, f"stream {self.name}: valid fell before the transfer"
            return None
        bits = self._bits()
        assert refused is None or bits == refused, f"stream {self.name}: payload changed before the transfer"
        if not self._is_ready():
            return bits
        self.received.append(unpack(self.shape, bits))
        self._arrival.set()
        return None


class StreamSink(StreamMonitor):
    """Accepts what an output stream of the design offers. Parameters are those of :class:`StreamSource`."""

    def __init__(self, dut, name, shape, *, pace=None):
        self._pace = pace or always()
        super().__init__(dut, name, shape)
        self._accepting = False
        self._ready.value = False

    def _prepare(self):
        accepting = next(self._pace)
        if accepting != self._accepting:
            self._ready.value = self._accepting = accepting
