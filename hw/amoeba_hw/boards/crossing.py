"""AXI4-Stream from one clock to another."""

from amaranth.hdl import Cat
from amaranth.lib import fifo

__all__ = ["cross_stream"]

_DEPTH = 32
"""Beats between the clocks."""


def cross_stream(m, name, source, from_domain, sink, to_domain):
    """Carry an AXI4-Stream from one clock domain to another, by an asynchronous queue of this name."""
    beat = Cat(source.tdata, source.tkeep, source.tlast)
    m.submodules[name] = queue = fifo.AsyncFIFOBuffered(
        width=len(beat), depth=_DEPTH, w_domain=from_domain, r_domain=to_domain
    )
    m.d.comb += [
        queue.w_data.eq(beat),
        queue.w_en.eq(source.tvalid),
        source.tready.eq(queue.w_rdy),
        Cat(sink.tdata, sink.tkeep, sink.tlast).eq(queue.r_data),
        sink.tvalid.eq(queue.r_rdy),
        queue.r_en.eq(sink.tready),
    ]
