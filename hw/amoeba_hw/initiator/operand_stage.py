"""Holds packets back until all their operands are here."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.byte_order import decode_swap, number_swap, pair_swap
from amoeba_hw.initiator.fork import Fork
from amoeba_hw.initiator.packet_buffer import PacketBuffer
from amoeba_hw.initiator.payload_join import PAYLOAD, PayloadJoin
from amoeba_hw.initiator.records import ABORT, PACKET, PayloadKind
from amoeba_hw.interfaces import packet_beat
from amoeba_hw.stream import Queue, RegisterSlice, connect_streams

__all__ = ["OperandStage"]

_WAITING_PAYLOADS = 4


class OperandStage(wiring.Component):
    """Passes each packet on when the payload that it needs is stored; makes that payload.

    A packet whose operands or compare values the host refused goes on with ``fault`` set and without payload. If it
    is new, it is the last of its request, and the packets of that request behind it are dropped; a packet sent again
    keeps its place. A packet that comes with ``fault`` has no operands.

    Parameters
    ----------
    parameters : NicParameters
    depth : int
        Packets that may wait for their operands.
    operand_space, compare_space : int
        Beats stored of operands and of compare values.

    Members
    -------
    i : PACKET stream
    operands, compares : packet streams
        For the packets without ``fault`` whose values are not inline, in the same order. Never refused while they
        fit.
    operand_freed, compare_freed : out
        Pulse: one beat more fits.
    o : PACKET stream
        Three cycles after its packet's last operand beat; one every cycle.
    payload : packet stream
        One packet per packet on ``o`` that has a ``kind`` other than NONE and no ``fault``, in order; complete, but
        possibly earlier than the packet on ``o``. Operands of atomics are in network order.
    abort_peer : in; abort : out
        ABORT of that peer, in the same cycle: from a refused packet on until one of another request passes.
    dropped, dropped_peer : out
        Pulse: a packet that was cut for this peer will not be sent.
    """

    def __init__(self, parameters, depth, operand_space, compare_space):
        self._width = width = parameters.data_width
        self._datatypes = parameters.datatypes
        self._depth = depth
        self._operand_space = operand_space
        self._compare_space = compare_space
        self._aborting = Signal(parameters.peers)
        """Peers whose ABORT is valid."""
        beat = packet_beat(width)
        super().__init__(
            {
                "i": In(stream.Signature(PACKET)),
                "operands": In(stream.Signature(beat)),
                "compares": In(stream.Signature(beat)),
                "operand_freed": Out(1),
                "compare_freed": Out(1),
                "o": Out(stream.Signature(PACKET)),
                "payload": Out(stream.Signature(beat)),
                "abort_peer": In(range(parameters.peers)),
                "abort": Out(ABORT),
                "dropped": Out(1),
                "dropped_peer": Out(range(parameters.peers)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = Queue(PACKET, self._depth)
        m.submodules.operand_buffer = operands = PacketBuffer(self._width, self._operand_space)
        m.submodules.compare_buffer = compares = PacketBuffer(self._width, self._compare_space)
        m.submodules.fork = fork = Fork(PACKET, 2)
        m.submodules.payloads = payloads = Queue(PAYLOAD, _WAITING_PAYLOADS)
        m.submodules.join = join = PayloadJoin(self._width)
        m.submodules.joined = joined = RegisterSlice(packet_beat(self._width))
        connect_streams(m, wiring.flipped(self.i), waiting.i)
        connect_streams(m, wiring.flipped(self.operands), operands.i)
        connect_streams(m, wiring.flipped(self.compares), compares.i)
        connect_streams(m, payloads.o, join.payloads)
        connect_streams(m, operands.o, join.operands)
        connect_streams(m, compares.o, join.compares)
        connect_streams(m, join.o, joined.i)
        connect_streams(m, joined.o, wiring.flipped(self.payload))
        connect_streams(m, fork.o[0], wiring.flipped(self.o))
        m.d.comb += [self.operand_freed.eq(operands.freed), self.compare_freed.eq(compares.freed)]
        discard = self._elaborate_gate(m, waiting, operands, compares, fork)
        source = fork.o[1]
        m.d.comb += [
            payloads.i.valid.eq(source.valid),
            source.ready.eq(payloads.i.ready),
            payloads.i.p.discard.eq(discard),
            payloads.i.p.swap.eq(self._swap(source.p)),
            *(
                getattr(payloads.i.p, name).eq(getattr(source.p, name))
                for name in ("kind", "inline", "length", "local", "compare")
            ),
        ]
        return m

    def _swap(self, packet):
        """Return the permutation that brings the packet's operands into network order."""
        number, pair = (decode_swap(packet.atomic_datatype, of, self._datatypes) for of in (number_swap, pair_swap))
        return Mux(packet.is_atomic, Mux(packet.kind == PayloadKind.SWAP_PAIR, pair, number), 0)

    def _elaborate_gate(self, m, waiting, operands, compares, fork):
        packet = waiting.o.payload
        needs_operands = Signal()
        needs_compares = Signal()
        complete = Signal()
        refused = Signal()
        faulty = Signal()
        unwanted = Signal()
        passed = Signal()
        abort = self._elaborate_aborts(m, passed & ~packet.resend, refused | unwanted, packet.number)
        m.d.comb += [
            needs_operands.eq(~packet.inline & ~packet.fault & (packet.kind != PayloadKind.NONE)),
            needs_compares.eq(needs_operands & (packet.kind != PayloadKind.OPERANDS)),
            complete.eq((~needs_operands | operands.outcomes.valid) & (~needs_compares | compares.outcomes.valid)),
            refused.eq((needs_operands & operands.outcomes.p.error) | (needs_compares & compares.outcomes.p.error)),
            faulty.eq(packet.fault | refused),
            unwanted.eq(~packet.resend & abort.valid & (abort.number == packet.number)),
            fork.i.valid.eq(waiting.o.valid & complete),
            fork.i.payload.eq(packet),
            fork.i.p.fault.eq(faulty),
            fork.i.p.last.eq(packet.last | (refused & ~packet.resend)),
            # A NO_OP has no header data.
            fork.i.p.immediate.eq(packet.immediate & ~faulty),
            fork.select.eq(Cat(~unwanted, ~packet.fault & (packet.kind != PayloadKind.NONE))),
            passed.eq(fork.i.valid & fork.i.ready),
            waiting.o.ready.eq(passed),
            operands.outcomes.ready.eq(passed & needs_operands),
            compares.outcomes.ready.eq(passed & needs_compares),
            self.dropped.eq(passed & unwanted),
            self.dropped_peer.eq(packet.ticket.peer),
        ]
        return refused | unwanted

    def _elaborate_aborts(self, m, passes, aborts, number):
        """Note a new packet of ``dropped_peer`` that passes; return ABORT of that peer."""
        m.submodules.numbers = numbers = memory.Memory(shape=8, depth=len(self._aborting), init=[])
        write, own, asked = numbers.write_port(), numbers.read_port(domain="comb"), numbers.read_port(domain="comb")
        peer, abort = self.dropped_peer, Signal(ABORT)
        m.d.comb += [
            write.addr.eq(peer),
            write.data.eq(number),
            write.en.eq(passes),
            own.addr.eq(peer),
            abort.number.eq(own.data),
            abort.valid.eq(self._aborting.bit_select(peer, 1)),
            asked.addr.eq(self.abort_peer),
            self.abort.number.eq(asked.data),
            self.abort.valid.eq(self._aborting.bit_select(self.abort_peer, 1)),
        ]
        with m.If(passes):
            m.d.sync += self._aborting.bit_select(peer, 1).eq(aborts)
        return abort
