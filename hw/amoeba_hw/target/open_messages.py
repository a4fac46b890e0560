"""The message of several packets that each target PDC has begun."""

from amaranth.hdl import Module, Mux
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.request_records import EPOCH_BITS

__all__ = ["MESSAGE_IDENTITY", "MESSAGE_PACKET", "OpenMessages"]

MESSAGE_IDENTITY = data.StructLayout(
    {
        "opcode": 6,
        "message_id": 16,
        "job_id": 24,
        "context": 8,  # that the request is for
        "initiator": 32,
        "buffer_offset": 64,
        "request_length": 32,
    }
)
"""Fields that are equal in all packets of a message, but for the key."""

MESSAGE_PACKET = data.StructLayout(
    {
        "epoch": EPOCH_BITS,
        "identity": MESSAGE_IDENTITY,
        "key": 64,
        "starts": 1,
        "ends": 1,
        "offset": 32,  # of the packet's part; 0 with starts
        "size": 14,
        "has_data": 1,  # with starts: immediate data
        "data": 64,
    }
)
"""Fields of a request that say to which message it belongs, and where."""

_ROW = data.StructLayout(
    {
        "open": 1,
        "epoch": EPOCH_BITS,
        "identity": MESSAGE_IDENTITY,
        "key": 64,
        "received": 32,  # bytes: where the next packet's part begins
        "has_data": 1,
        "data": 64,
    }
)


class OpenMessages(wiring.Component):
    """Lets a packet without START pass only where it continues the message that its PDC has begun.

    A PDC has one message at a time, since ROD keeps the order. Any packet that is refused, or begins another message,
    ends it; a new connection epoch knows nothing of the one before.

    Parameters
    ----------
    pdcs : int

    Members
    -------
    advance : In(1)
        The packet in hand is left for the one of ``following``, a cycle later.
    following : In
        PDC of the next packet.
    pdc, packet : In
        The packet in hand: its PDC, and MESSAGE_PACKET.
    passed : In(1)
        Nothing is wrong with the packet, ``stray`` and ``other_key`` included.
    accepted : In(1)
        With ``advance``: the packet counts, whether it is refused or not.
    stray : Out(1)
        The packet continues no message.
    other_key : Out(1)
        The packet continues a message with another key.
    has_data, data : Out
        Immediate data of the message that the packet continues.
    """

    def __init__(self, pdcs):
        self._pdcs = pdcs
        super().__init__(
            {
                "advance": In(1),
                "following": In(range(pdcs)),
                "pdc": In(range(pdcs)),
                "packet": In(MESSAGE_PACKET),
                "passed": In(1),
                "accepted": In(1),
                "stray": Out(1),
                "other_key": Out(1),
                "has_data": Out(1),
                "data": Out(64),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = memory.Memory(shape=_ROW, depth=self._pdcs, init=[])
        write = rows.write_port()
        # Two packets of one PDC may follow each other at once.
        read = rows.read_port(transparent_for=(write,))
        packet, row, after = self.packet, read.data, write.data
        continues = (
            row.open
            & (row.epoch == packet.epoch)
            & (row.identity.as_value() == packet.identity.as_value())
            & (row.received == packet.offset)
        )
        m.d.comb += [
            read.en.eq(self.advance),
            read.addr.eq(self.following),
            self.stray.eq(~packet.starts & ~continues),
            self.other_key.eq(~packet.starts & continues & (row.key != packet.key)),
            self.has_data.eq(row.has_data),
            self.data.eq(row.data),
            write.en.eq(self.advance & self.accepted),
            write.addr.eq(self.pdc),
            after.open.eq(self.passed & ~packet.ends),
            *(after[name].eq(packet[name]) for name in ("epoch", "identity", "key")),
            after.received.eq(packet.offset + packet.size),
            after.has_data.eq(Mux(packet.starts, packet.has_data, row.has_data)),
            after.data.eq(Mux(packet.starts, packet.data, row.data)),
        ]
        return m
