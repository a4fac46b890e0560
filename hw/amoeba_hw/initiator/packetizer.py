"""Cuts requests into packets."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.records import PACKET, REQUEST, PayloadKind
from amoeba_hw.interfaces import DMA_COMMAND
from amoeba_hw.stream import connect_streams

__all__ = ["ABORT", "Packetizer"]

ABORT = data.StructLayout({"valid": 1, "number": 8})
"""While valid: no more packets of the request with this number are wanted."""


class Packetizer(wiring.Component):
    """Cuts requests into packets, and asks for their operands once there is room for these.

    Parameters
    ----------
    parameters : NicParameters
    operand_room, compare_room : int
        Beats that the buffers of operands and compare values hold: at least one packet each.

    Members
    -------
    requests : REQUEST stream
    packets : PACKET stream
        One every two cycles, the first two cycles after its request.
    operand_commands, compare_commands : DMA_COMMAND streams
        For packets whose values are not inline. ``packets``, and these, do not wait for each other.
    operand_freed, compare_freed : in
        Pulse: one beat of the buffer is free again.
    abort : ABORT
    """

    def __init__(self, parameters, operand_room, compare_room):
        self._payload = parameters.payload
        self._beat_bytes = parameters.beat_bytes
        super().__init__(
            {
                "requests": In(stream.Signature(REQUEST)),
                "packets": Out(stream.Signature(PACKET)),
                "operand_commands": Out(stream.Signature(DMA_COMMAND)),
                "compare_commands": Out(stream.Signature(DMA_COMMAND)),
                "operand_freed": In(1),
                "compare_freed": In(1),
                "abort": In(ABORT),
            }
        )
        self._operand_room = Signal(range(operand_room + 1), init=operand_room)
        self._compare_room = Signal(range(compare_room + 1), init=compare_room)
        self._number = Signal(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fork = fork = Fork(PACKET, 3)
        packet = Signal(PACKET)
        done = Signal(30)
        beats = Signal(range(self._payload // self._beat_bytes + 1))
        needs_operands = Signal()
        needs_compares = Signal()
        room = Signal()
        m.d.comb += [
            fork.i.payload.eq(packet),
            fork.select.eq(Cat(1, needs_operands, needs_compares)),
            room.eq(
                (~needs_operands | (self._operand_room >= beats)) & (~needs_compares | (self._compare_room >= beats))
            ),
        ]
        with m.FSM(name="cut"):
            with m.State("CUT"), m.If(self.requests.valid):
                m.d.sync += self._cut(m, packet, done, beats, needs_operands, needs_compares)
                m.next = "OFFER"
            with m.State("OFFER"):
                # Room only grows until the packet has gone.
                m.d.comb += fork.i.valid.eq(room)
                with m.If(fork.i.valid & fork.i.ready):
                    m.next = "CUT"
                    m.d.sync += done.eq(done + packet.length)
                    with m.If(packet.last):
                        m.d.comb += self.requests.ready.eq(1)
                        m.d.sync += [done.eq(0), self._number.eq(self._number + 1)]
        left = fork.i.valid & fork.i.ready
        m.d.sync += [
            self._operand_room.eq(self._operand_room + self.operand_freed - Mux(left & needs_operands, beats, 0)),
            self._compare_room.eq(self._compare_room + self.compare_freed - Mux(left & needs_compares, beats, 0)),
        ]
        connect_streams(m, fork.o[0], wiring.flipped(self.packets))
        for source, commands, address in (
            (fork.o[1], self.operand_commands, packet.local),
            (fork.o[2], self.compare_commands, packet.compare),
        ):
            m.d.comb += [
                commands.valid.eq(source.valid),
                commands.p.address.eq(address),
                commands.p.length.eq(packet.length),
                source.ready.eq(commands.ready),
            ]
        return m

    def _cut(self, m, packet, done, beats, needs_operands, needs_compares):
        """The assignments that make the request's next packet, ``done`` bytes into it."""
        request = self.requests.payload
        remaining = Signal(31)
        limit = Signal(14)
        length = Signal(14)
        final = Signal()
        m.d.comb += [
            remaining.eq(request.length - done),
            limit.eq(Mux(request.kind == PayloadKind.VECTORS, self._payload // 2, self._payload)),
            final.eq(remaining <= limit),
            length.eq(Mux(final, remaining, limit)),
        ]
        copied = [
            getattr(packet, name).eq(getattr(request, name))
            for name, _ in REQUEST
            if name not in ("length", "remote_address", "result", "local", "compare")
        ]
        from_memory = ~request.inline & (request.kind != PayloadKind.NONE)
        return [
            *copied,
            packet.length.eq(length),
            packet.number.eq(self._number),
            packet.last.eq(final | (self.abort.valid & (self.abort.number == self._number))),
            packet.remote_address.eq(request.remote_address + done),
            packet.result.eq(request.result + done),
            # Values that are inline fit into the first packet.
            packet.local.eq(request.local + done),
            packet.compare.eq(request.compare + done),
            beats.eq((length + self._beat_bytes - 1) >> (self._beat_bytes.bit_length() - 1)),
            needs_operands.eq(from_memory),
            needs_compares.eq(from_memory & (request.kind != PayloadKind.OPERANDS)),
        ]
