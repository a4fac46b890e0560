"""One stream to several consumers."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Fork"]


class Fork(wiring.Component):
    """Hands every payload to each selected output exactly once; none waits for another.

    Parameters
    ----------
    shape : shape-like
        Payload of all streams.
    count : int
        Number of outputs, at least 1.

    Members
    -------
    i : stream of ``shape``
        Latency zero, one payload per cycle. Taken when every selected output has taken it.
    select : ``count`` bits
        The outputs that get the payload on ``i``; must hold like the payload. None: it is dropped.
    o : array of ``count`` streams of ``shape``
    """

    def __init__(self, shape, count):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"Expected at least one output, got {count!r}")
        self._count = count
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "select": In(count),
                "o": Out(stream.Signature(shape)).array(count),
            }
        )
        self._served = Signal(count)

    def elaborate(self, platform):
        m = Module()
        served = Signal(self._count)
        for index in range(self._count):
            output = self.o[index]
            m.d.comb += [
                output.payload.eq(self.i.payload),
                output.valid.eq(self.i.valid & self.select[index] & ~self._served[index]),
                served[index].eq(self._served[index] | output.ready | ~self.select[index]),
            ]
        m.d.comb += self.i.ready.eq(served.all())
        with m.If(self.i.valid):
            m.d.sync += self._served.eq(served)
            with m.If(self.i.ready):
                m.d.sync += self._served.eq(0)
        return m
