"""The initiator's request half: places of queues and beats of buffers are promised once."""

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.initiator.operand_requester import OperandRequester
from amoeba_hw.initiator.packetizer import Packetizer
from amoeba_hw.initiator.records import ABORT, GENERATION_BITS, HEAD, PACKET, REQUEST, PayloadKind
from amoeba_hw.initiator.request_queues import SUMMARY, QueueEnds
from amoeba_hw.initiator.transmit_scheduler import TransmitRing
from amoeba_hw.initiator.window_credits import WindowCredits
from amoeba_hw.interfaces import CONTEXT, DMA_COMMAND
from amoeba_model.parameters import NicParameters

from formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["FenceSpec", "OperandRoomSpec", "QueuePlacesSpec"]


class QueuePlacesSpec(wiring.Component):
    """Whatever is fetched, refused, queued and disabled: no request comes to a full queue, and no place is lost."""

    def __init__(self, depth=8):
        self._depth = depth
        super().__init__(
            {
                "set_tail": In(1),
                "set_head": In(1),
                "value": In(16),
                "registers": In(CONTEXT),
                "skip": In(1),
                "takes": In(1),
                "ended": In(1),  # a descriptor on its way ends before the queue, or ...
                "push": In(1),  # ... reaches it
                "pushed": In(SUMMARY),
                "pop": In(1),
                "following": In(SUMMARY),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.ring = ring = TransmitRing(self._depth)
        m.submodules.queue = queue = QueueEnds(self._depth)
        for name in ("set_tail", "set_head", "value", "registers", "skip", "ended"):
            m.d.comb += getattr(ring, name).eq(getattr(self, name))
        for name in ("push", "pushed", "pop", "following"):
            m.d.comb += getattr(queue, name).eq(getattr(self, name))
        under_way = Signal(range(self._depth + 1))
        m.d.sync += under_way.eq(under_way + ring.take - self.ended - self.push)
        m.d.comb += [
            ring.take.eq(Mux(self.takes, ring.count, 0)),
            ring.left.eq(self.pop),
            Assume(~(self.ended & self.push)),
            Assume((under_way != 0) | ~(self.ended | self.push)),
            Assume(queue.head.known | ~self.pop),
            Assert(ring._claimed == under_way + queue._level),
            Assert(ring._claimed <= self._depth),
            Assert((queue._level != self._depth) | ~self.push),
            # The free place follows the last request, modulo the depth.
            Assert(((queue.free - queue.first - queue._level) & (self._depth - 1)) == 0),
            # A head that is not known is on its way: no request waits for ever.
            Assert(queue._awaited == (queue.head.present & ~queue.head.known)),
            Assert(queue.head.present | ~queue.head.known),
            Cover(queue._level == self._depth),
            Cover(self.pop & self.push & (queue._level == 1)),
        ]
        return m


class OperandRoomSpec(wiring.Component):
    """An OperandRequester asks for no beat without room, loses none, and lets packets sent again go first."""

    _PARAMETERS = NicParameters(data_width=128, payload=64)
    _ROOMS = {"operand": 4, "compare": 3}

    def __init__(self):
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

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = OperandRequester(self._PARAMETERS, *self._ROOMS.values())
        connect_ports(m, self, dut)
        for name in ("new", "resends"):
            port = getattr(self, name)
            most = Mux(port.p.kind == PayloadKind.VECTORS, 32, Mux(port.p.kind == PayloadKind.SWAP_PAIR, 16, 64))
            m.submodules[f"environment_{name}"] = StreamRules(port, Assume)
            m.d.comb += Assume((port.p.length <= most) & ((port.p.length != 0) | (port.p.kind == PayloadKind.NONE)))
        for name in ("packets", "operand_commands", "compare_commands"):
            m.submodules[f"contract_{name}"] = StreamRules(getattr(self, name), Assert)
        for name, capacity in self._ROOMS.items():
            self._prove_room(m, name, capacity, getattr(dut, f"_{name}_room"))
        m.d.comb += Assert(~(self.resends.valid & self.new.valid & self.new.ready))
        return m

    def _prove_room(self, m, name, capacity, room):
        commands, freed = getattr(self, f"{name}_commands"), getattr(self, f"{name}_freed")
        asked = Signal(range(2 * capacity + 1), name=f"{name}_asked")
        """Beats asked for and not freed."""
        beats = Signal(4, name=f"{name}_beats")
        """Of the command on offer."""
        fresh = Signal(4, name=f"{name}_fresh")
        """Beats of the packet that is still with the requester: they are not freed before it has left."""
        given = Mux(commands.valid & commands.ready, beats, 0)
        m.d.comb += beats.eq((commands.p.length + 15) >> 4)
        m.d.sync += [
            asked.eq(asked + given - freed),
            fresh.eq(Mux(self.new.ready | self.resends.ready, 0, fresh + given)),
        ]
        m.d.comb += [
            Assume(~freed | (asked > fresh)),
            Assert(asked + Mux(commands.valid, beats, 0) <= capacity),
            # Nothing is lost: between packets, room is what was not asked for.
            Assert(~(self.new.ready | self.resends.ready) | (asked + room == capacity)),
            Cover(asked == capacity),
        ]


class FenceSpec(wiring.Component):
    """What has a fence begins, or ends if it is a NOP, only when no packet is on its way of those that it waits for.

    Packetizer and WindowCredits of two contexts and two PDCs: what is known of packets is two cycles old, and one is
    cut every two cycles.
    """

    _PARAMETERS = NicParameters(contexts=2, peers=2, window=2)

    def __init__(self):
        self._events = ("dropped", "numbered", "answered", "opened")
        super().__init__(
            {
                "heads": In(HEAD).array(2),
                "request": In(REQUEST),
                "generations": In(GENERATION_BITS).array(2),
                "aborts": In(ABORT).array(2),
                "held": In(2),  # PDCs that send nothing new
                "failed": In(2),
                "packets_ready": In(1),
                "ended_ready": In(1),
                **{event: In(1) for event in self._events},
                **{f"{event}_peer": In(1) for event in self._events},
                "closed": In(1),
                "opened_context": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.packetizer = packetizer = Packetizer(self._PARAMETERS)
        m.submodules.credits = credits = WindowCredits(2, 2, 2)
        m.d.comb += [
            packetizer.request.eq(self.request),
            packetizer.may_send.eq(credits.room & ~self.held),
            packetizer.all_answered.eq(credits.all_answered),
            packetizer.context_answered.eq(credits.context_answered),
            packetizer.failed.eq(self.failed),
            packetizer.packets.ready.eq(self.packets_ready),
            packetizer.ended.ready.eq(self.ended_ready),
            credits.cut.eq(packetizer.cut),
            credits.cut_peer.eq(packetizer.cut_peer),
            credits.cut_close.eq(packetizer.cut_close),
            credits.closed.eq(self.closed),
            credits.opened_context.eq(self.opened_context),
        ]
        for event in self._events:
            for name in (event, f"{event}_peer"):
                m.d.comb += getattr(credits, name).eq(getattr(self, name))
        for index in range(2):
            m.d.comb += [
                packetizer.heads[index].eq(self.heads[index]),
                packetizer.generations[index].eq(self.generations[index]),
                packetizer.aborts[index].eq(self.aborts[index]),
            ]
            self._assume_head(m, packetizer, index)
        under_way = Cat(self._count(m, packetizer, peer) for peer in range(2))
        self._prove_fences(m, packetizer, under_way)
        return m

    def _assume_head(self, m, packetizer, index):
        """A head stays until it leaves, and what is read of its request is its request's."""
        head = self.heads[index]
        before = Signal(HEAD, name=f"before{index}")
        stays = Signal(name=f"stays{index}")
        pops = packetizer.pop & (packetizer.head_context == index)
        m.d.sync += [before.eq(head), stays.eq(head.known & ~pops)]
        chosen = packetizer._chosen == index
        m.d.comb += [
            Assume(~stays | (Value.cast(before) == Value.cast(head))),
            Assume(head.present | ~head.known),
            Assume(head.peer < 2),
            Assume(~(chosen & head.known) | (self.request.ticket.peer == head.peer)),
        ]

    def _count(self, m, packetizer, peer):
        """Whether packets of a PDC are on their way: those that were cut, and not dropped or answered."""
        waiting, unanswered = Signal(3, name=f"waiting{peer}"), Signal(3, name=f"unanswered{peer}")
        dropped, numbered, answered, opened = (
            getattr(self, event) & (getattr(self, f"{event}_peer") == peer) for event in self._events
        )
        cut = packetizer.cut & (packetizer.cut_peer == peer)
        m.d.sync += [
            waiting.eq(waiting + cut - dropped - numbered),
            unanswered.eq(Mux(opened, 0, unanswered + numbered - answered)),
        ]
        m.d.comb += [
            Assume(waiting >= dropped + numbered),
            Assume(unanswered >= answered),
            # An entry is stored when nothing is under way to it; what was numbered is forgotten.
            Assume(~opened | ((waiting == 0) & ~cut)),
        ]
        return (waiting != 0) | (unanswered != 0)

    def _prove_fences(self, m, packetizer, under_way):
        owners = [Signal(name=f"owner{peer}") for peer in range(2)]
        for peer, owner in enumerate(owners):
            with m.If(self.opened & (self.opened_peer == peer)):
                m.d.sync += owner.eq(self.opened_context)
        chosen = packetizer._chosen
        head = Array(self.heads)[chosen]
        own = Cat(under_way[peer] & (owner == chosen) for peer, owner in enumerate(owners))
        begins = packetizer.cut & ~packetizer._current.begun
        ends = Signal()
        ended = Signal()
        m.d.sync += ended.eq(packetizer.ended.valid & ~self.ended_ready)
        gone = Signal(2)
        """Contexts whose head left in the cycle before, and which fences it had."""
        fences, owned, target = Signal(2), Signal(), Signal()
        m.d.sync += [
            gone.eq(packetizer.pop & ~packetizer.cut),
            fences.eq(Cat(head.barrier, head.barrier_all)),
            owned.eq(own.any()),
            target.eq(under_way.bit_select(head.peer[:1], 1)),
        ]
        m.d.comb += [
            # A NOP is on offer the cycle after it left its queue.
            ends.eq(packetizer.ended.valid & ~ended & gone.any()),
            Assert(~(begins & head.barrier) | ~under_way.bit_select(head.peer[:1], 1)),
            Assert(~(begins & head.barrier_all) | ~own.any()),
            Assert(~(ends & fences[0]) | ~target),
            Assert(~(ends & fences[1]) | ~owned),
            Assert(~(packetizer.cut & head.is_nop)),
            Cover(begins & head.barrier_all & under_way.any()),
            Cover(ends & fences[1] & under_way.any()),
            Cover(ends & fences[0]),
        ]
