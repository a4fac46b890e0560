"""The initiator's request half: places of queues and beats of buffers are promised once."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.initiator.operand_requester import OperandRequester
from amoeba_hw.initiator.records import PACKET, PayloadKind
from amoeba_hw.initiator.request_queues import SUMMARY, QueueEnds
from amoeba_hw.initiator.transmit_scheduler import TransmitRing
from amoeba_hw.interfaces import CONTEXT, DMA_COMMAND
from amoeba_model.parameters import NicParameters

from formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["OperandRoomSpec", "QueuePlacesSpec"]


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
