"""Frames of the core on AXI4-Stream."""

from amaranth.hdl import Cat

__all__ = ["connect_frames"]


def connect_frames(m, core, rx, tx):
    """Connect the core's frames to a top level's ports ``rx`` and ``tx``, AXI4-Stream from and to the link.

    AXI4-Stream counts bytes by TKEEP, the core by number; both pack them from byte 0.
    """
    received, transmitted = core.received, core.transmitted
    m.d.comb += [
        received.p.data.eq(rx.tdata),
        received.p.count.eq(sum(rx.tkeep[index] for index in range(len(rx.tkeep)))),
        received.p.last.eq(rx.tlast),
        received.valid.eq(rx.tvalid),
        rx.tready.eq(received.ready),
        tx.tdata.eq(transmitted.p.data),
        tx.tkeep.eq(Cat(index < transmitted.p.count for index in range(len(tx.tkeep)))),
        tx.tlast.eq(transmitted.p.last),
        tx.tvalid.eq(transmitted.valid),
        transmitted.ready.eq(tx.tready),
    ]
