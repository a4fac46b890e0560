"""Asks for the operands of packets."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.records import PACKET, PayloadKind
from amoeba_hw.interfaces import DMA_COMMAND
from amoeba_hw.stream import connect_streams

__all__ = ["OperandRequester", "operand_spaces"]

_LATENCY_BEATS = 512
"""Space for operands that keeps a beat per cycle coming through 250 cycles of host latency: beats asked for, a packet
that fills and one that empties."""


def operand_spaces(parameters, packets):
    """Beats of operands and of compare values to store, for so many packets on their way.

    At least four packets of the largest size, of which compare values are half, or a beat for each packet.
    """
    packet_beats = parameters.payload // parameters.beat_bytes
    return max(4 * packet_beats, packets, _LATENCY_BEATS), max(2 * packet_beats, packets)


class OperandRequester(wiring.Component):
    """Sends packets on, and asks for their operands, as soon as the buffers have space for these.

    Parameters
    ----------
    parameters : NicParameters
    operand_space, compare_space : int
        Beats that the buffers of operands and compare values hold: at least those of one packet.

    Members
    -------
    new, resends : PACKET streams
        A packet every two cycles; ``resends`` go first.
    packets : PACKET stream
        One cycle after it came in, if its operands fit.
    operand_commands, compare_commands : DMA_COMMAND streams
        For packets without ``fault`` whose values are not inline. ``packets``, and these, do not wait for each other.
    operand_freed, compare_freed : in
        Pulse: one beat of the buffer is free again.

    Raises
    ------
    ValueError
        If a packet of the largest size does not fit.
    """

    def __init__(self, parameters, operand_space, compare_space):
        self._beat_bytes = parameters.beat_bytes
        self._most_beats = parameters.payload // parameters.beat_bytes
        for name, space, least in (
            ("operands", operand_space, self._most_beats),
            ("compare values", compare_space, (self._most_beats + 1) // 2),
        ):
            if space < least:
                raise ValueError(f"Expected space for at least {least} beats of {name}, got {space}")
        super().__init__(
            {
                "new": In(stream.Signature(PACKET)),
                "resends": In(stream.Signature(PACKET)),
                "packets": Out(stream.Signature(PACKET)),
                "operand_commands": Out(stream.Signature(DMA_COMMAND)),
                "compare_commands": Out(stream.Signature(DMA_COMMAND)),
                "operand_freed": In(1),
                "compare_freed": In(1),
            }
        )
        self._operand_space = Signal(range(operand_space + 1), init=operand_space)
        self._compare_space = Signal(range(compare_space + 1), init=compare_space)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fork = fork = Fork(PACKET, 3)
        packet = Signal(PACKET)
        beats = Signal(range(self._most_beats + 1))
        needs_operands = Signal()
        needs_compares = Signal()
        from_memory = ~packet.inline & ~packet.fault & (packet.kind != PayloadKind.NONE)
        space = Signal()
        left = Signal()
        m.d.comb += [
            beats.eq((packet.length + self._beat_bytes - 1) >> (self._beat_bytes.bit_length() - 1)),
            needs_operands.eq(from_memory),
            needs_compares.eq(from_memory & (packet.kind != PayloadKind.OPERANDS)),
            # Free space only grows until the packet has gone.
            space.eq(
                (~needs_operands | (self._operand_space >= beats))
                & (~needs_compares | (self._compare_space >= beats))
            ),
            fork.i.payload.eq(packet),
            fork.select.eq(Cat(1, needs_operands, needs_compares)),
            left.eq(fork.i.valid & fork.i.ready),
        ]
        with m.FSM(name="request"):
            with m.State("TAKE"):
                m.d.comb += [self.resends.ready.eq(1), self.new.ready.eq(~self.resends.valid)]
                m.d.sync += packet.eq(Mux(self.resends.valid, self.resends.payload, self.new.payload))
                with m.If(self.resends.valid | self.new.valid):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += fork.i.valid.eq(space)
                with m.If(left):
                    m.next = "TAKE"
        m.d.sync += [
            self._operand_space.eq(self._operand_space + self.operand_freed - Mux(left & needs_operands, beats, 0)),
            self._compare_space.eq(self._compare_space + self.compare_freed - Mux(left & needs_compares, beats, 0)),
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
                commands.p.context.eq(packet.ticket.context),
                source.ready.eq(commands.ready),
            ]
        return m
