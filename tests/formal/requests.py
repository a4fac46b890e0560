"""The initiator's request half: places of queues and beats of buffers are reserved once."""

from amaranth.hdl import Array, Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.initiator.context_order import ContextOrder
from amoeba_hw.initiator.operand_requester import OperandRequester
from amoeba_hw.initiator.packetizer import Packetizer
from amoeba_hw.initiator.records import ABORT, GENERATION_BITS, PACKET, REQUEST, PayloadKind, order_tag
from amoeba_hw.initiator.request_store import RequestStore
from amoeba_hw.initiator.transmit_scheduler import TransmitRing
from amoeba_hw.initiator.window_credits import WindowCredits
from amoeba_hw.interfaces import CONTEXT, DMA_COMMAND
from amoeba_model.parameters import NicParameters

from tests.formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["FenceSpec", "OperandSpaceSpec", "QueuePlacesSpec"]


class QueuePlacesSpec(wiring.Component):
    """No request comes without a place, and no place is lost, for any fetches, refusals, queues and disabling.

    TransmitRing and RequestStore of one context and two peers: places that are free, queued and reserved add up.
    """

    def __init__(self, depth=4):
        self._depth = depth
        super().__init__(
            {
                "set_tail": In(1),
                "tail": In(16),
                "set_head": In(1),
                "head": In(16),
                "registers": In(CONTEXT),
                "skip": In(1),
                "takes": In(1),
                "ended": In(1),  # a descriptor on its way ends before the queue, or ...
                "push": In(1),  # ... reaches it
                "pushed": In(REQUEST),
                "queue": In(range(3)),
                "pop": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.ring = ring = TransmitRing(self._depth)
        m.submodules.store = store = RequestStore(1, 2, self._depth)
        for name in ("set_tail", "tail", "set_head", "head", "registers", "skip", "ended"):
            m.d.comb += getattr(ring, name).eq(getattr(self, name))
        for name in ("push", "pushed", "queue", "pop"):
            m.d.comb += getattr(store, name).eq(getattr(self, name))
        outstanding, queued = Signal(range(self._depth + 1)), Signal(range(self._depth + 1))
        levels = [Signal(range(self._depth + 1), name=f"level{queue}") for queue in range(3)]
        came = [Signal(name=f"came{queue}") for queue in range(3)]
        left = [Signal(name=f"left{queue}") for queue in range(3)]
        for queue, level in enumerate(levels):
            m.d.comb += [
                came[queue].eq(self.push & (store.arriving == queue)),
                left[queue].eq(self.pop & (self.queue == queue)),
                Assert(store._present[queue] == (level != 0)),
                # A queue knows whether a request follows the one that leaves.
                Assert(~left[queue] | (store.more == (level + came[queue] != 1))),
            ]
            m.d.sync += level.eq(level + came[queue] - left[queue])
        # Descriptors take a while from the ring to the queue, longer than a place to come back.
        recently = Signal(3)
        before, popped = Signal.like(self.queue), Signal()
        m.d.sync += [
            outstanding.eq(outstanding + ring.take - self.ended - self.push),
            queued.eq(queued + self.push - self.pop),
            recently.eq(Cat(ring.take.any(), recently)),
            before.eq(self.queue),
            popped.eq(self.pop),
        ]
        m.d.comb += [
            ring.take.eq(Mux(self.takes, ring.count, 0)),
            ring.left.eq(self.pop),
            Assume(~(self.ended & self.push)),
            Assume((outstanding != 0) | ~(self.ended | self.push)),
            Assume(~recently.any() | ~self.push),
            Assume((self.pushed.ticket.peer < 2) | (self.pushed.is_nop & ~self.pushed.fence)),
            Assume(self.pushed.ticket.context == 0),
            Assume(self.queue < 3),
            # Who lets one leave has looked at it a cycle before, when it was the first.
            Assume(~self.pop | (~popped & (before == self.queue) & (Array(levels)[self.queue] != 0))),
            Assert(ring._claimed == outstanding + queued),
            Assert(ring._claimed <= self._depth),
            Assert(~self.push | (store._fresh != self._depth) | store._returned),
            Cover(queued == self._depth),
            Cover(self.pop & self.push & (queued == 1)),
        ]
        return m


class OperandSpaceSpec(wiring.Component):
    """An OperandRequester asks for no beat without space, loses none, and lets packets sent again go first."""

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
            self._prove_space(m, name, capacity, getattr(dut, f"_{name}_space"))
        m.d.comb += Assert(~(self.resends.valid & self.new.valid & self.new.ready))
        return m

    def _prove_space(self, m, name, capacity, space):
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
            # Nothing is lost: between packets, space is what was not asked for.
            Assert(~(self.new.ready | self.resends.ready) | (asked + space == capacity)),
            Cover(asked == capacity),
        ]


class FenceSpec(wiring.Component):
    """A fenced request begins, or ends if it is a NOP, only when no packet that it waits for is outstanding.

    Packetizer, ContextOrder and WindowCredits of two contexts and two PDCs, with any request in any turn: what is
    known of packets is two cycles old, and one is cut every two cycles.
    """

    _PARAMETERS = NicParameters(contexts=2, peers=2, window=2)

    def __init__(self):
        self._events = ("dropped", "numbered", "answered", "opened")
        super().__init__(
            {
                "request": In(REQUEST),
                "tag": In(order_tag(4)),
                "offered": In(1),
                "queue": In(range(4)),
                "generations": In(GENERATION_BITS).array(2),
                "abort": In(ABORT),
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
        m.submodules.order = order = ContextOrder(2, 4, 4)
        m.submodules.credits = credits = WindowCredits(2, 2, 2)
        context = self.request.ticket.context[:1]
        m.d.comb += [
            *(getattr(packetizer, name).eq(getattr(self, name)) for name in ("offered", "queue", "request", "abort")),
            packetizer.in_order.eq(order.in_order),
            packetizer.may_send.eq(credits.space & ~self.held),
            packetizer.all_answered.eq(credits.all_answered),
            packetizer.failed.eq(self.failed),
            packetizer.packets.ready.eq(self.packets_ready),
            packetizer.ended.ready.eq(self.ended_ready),
            order.context.eq(context),
            order.queue.eq(packetizer._chosen),
            order.fence.eq(self.request.fence_all),
            order.asked.eq(self.tag),
            order.passes.eq(packetizer.passes),
            order.leaves.eq(packetizer.pop),
            order.context_answered.eq(credits.context_answered),
            credits.cut.eq(packetizer.cut),
            credits.cut_peer.eq(packetizer.cut_peer),
            credits.cut_close.eq(packetizer.cut_close),
            credits.closed.eq(self.closed),
            credits.opened_context.eq(self.opened_context),
            # A NOP ends as it begins.
            Assume(~self.request.is_nop | packetizer._begins),
            Assume(self.request.ticket.context < 2),
            Assume((self.request.ticket.peer < 2) | (self.request.is_nop & ~self.request.fence)),
        ]
        for event in self._events:
            for name in (event, f"{event}_peer"):
                m.d.comb += getattr(credits, name).eq(getattr(self, name))
        for index in range(2):
            m.d.comb += packetizer.generations[index].eq(self.generations[index])
        outstanding = Cat(self._count(m, packetizer, peer) for peer in range(2))
        self._prove_fences(m, packetizer, outstanding)
        return m

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
            # An entry is stored when nothing is in flight to it; what was numbered is forgotten.
            Assume(~opened | ((waiting == 0) & ~cut)),
        ]
        return (waiting != 0) | (unanswered != 0)

    def _prove_fences(self, m, packetizer, outstanding):
        owners = [Signal(name=f"owner{peer}") for peer in range(2)]
        for peer, owner in enumerate(owners):
            with m.If(self.opened & (self.opened_peer == peer)):
                m.d.sync += owner.eq(self.opened_context)
        request = self.request
        stale = Array(self.generations)[request.ticket.context[:1]] != request.ticket.generation
        barrier = request.fence | request.is_close
        own = Cat(outstanding[peer] & (owner == request.ticket.context) for peer, owner in enumerate(owners))
        target = outstanding.bit_select(request.ticket.peer[:1], 1)
        begins = packetizer.cut & packetizer._begins
        nop = packetizer.pop & ~packetizer.cut & request.is_nop & ~stale
        m.d.comb += [
            Assert(~(begins & barrier) | ~target),
            Assert(~(begins & request.fence_all) | ~own.any()),
            Assert(~(nop & request.fence) | ~target),
            Assert(~(nop & request.fence_all) | ~own.any()),
            Assert(~(packetizer.cut & request.is_nop)),
            Cover(begins & request.fence_all & outstanding.any()),
            Cover(nop & request.fence_all & outstanding.any()),
            Cover(nop & request.fence),
        ]
