"""The host's requests to the NIC wait for nothing that the NIC sends; a reset of the function cuts nothing in two."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_hw.initiator.packet_numberer import PacketNumberer
from amoeba_hw.initiator.peer_table import PeerTable
from amoeba_hw.initiator.response_handler import ResponseHandler
from amoeba_hw.pcie.completer import Completer
from amoeba_hw.pcie.function_reset import FunctionReset
from amoeba_hw.pcie.interfaces import REGISTER_REQUEST
from amoeba_hw.pcie.msix_table import MsixTable
from amoeba_model.parameters import NicParameters
from amoeba_model.tlp import RegisterRequestKind

from tests.formal.rules import StreamRules, never_reset

__all__ = ["CompleterSpec", "FunctionResetSpec", "MsixSpec", "PeerStoreSpec"]


def _free_first_psns(first_psns, done, first):
    """Let FirstPsns say any psn, at any time."""

    def elaborate(platform):
        m = Module()
        m.d.comb += [first_psns.done.eq(done), first_psns.first.eq(first)]
        return m

    first_psns.elaborate = elaborate


class PeerStoreSpec(wiring.Component):
    """PeerTable with those who hold it: an entry is stored within three cycles, whatever else never goes on.

    Everything that comes from elsewhere is free: headers that nobody takes, answers for which there is no space, the
    log, the payload. So is where a PDC begins anew, and when that is known.
    """

    _PARAMETERS = NicParameters(data_width=128, payload=64, peers=2, contexts=1)
    _BY_TABLE = ("send_", "answer_", "sent", "answered", "storing", "occupied")

    def __init__(self):
        self._table = PeerTable(2)
        self._holders = {"numberer": PacketNumberer(self._PARAMETERS), "responses": ResponseHandler(self._PARAMETERS)}
        done, first = Signal(), Signal(32)
        _free_first_psns(self._holders["responses"]._first_psns, done, first)
        self._free = {"psns_done": done, "psns_first": first}
        for name, holder in {"table": self._table, **self._holders}.items():
            for path, member, value in holder.signature.flatten(holder):
                joined = name != "table" and str(path[0]).startswith(self._BY_TABLE)
                if member.flow == In and not joined and (name != "table" or path[0] in ("stores", "check_index")):
                    self._free["_".join([name, *(str(part) for part in path)])] = value
        super().__init__({name: In(Value.cast(value).shape()) for name, value in self._free.items()})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        table, numberer, responses = self._table, self._holders["numberer"], self._holders["responses"]
        m.submodules.table = table
        m.submodules.numberer = numberer
        m.submodules.responses = responses
        m.d.comb += [Value.cast(value).eq(getattr(self, name)) for name, value in self._free.items()]
        m.d.comb += [
            table.occupied.eq(numberer.occupied | responses.occupied),
            numberer.storing.eq(table.storing),
            responses.storing.eq(table.storing),
        ]
        for holder in (numberer, responses):
            for path, member, value in holder.signature.flatten(holder):
                if len(path) == 1 and hasattr(table, path[0]) and path[0] not in ("storing", "occupied"):
                    other = Value.cast(getattr(table, path[0]))
                    m.d.comb += other.eq(Value.cast(value)) if member.flow != In else Value.cast(value).eq(other)
        # The entry on offer stays; so does what both have in hand.
        for index, watched in enumerate((table.stores, numberer.i, responses.responses, responses.flushes)):
            m.submodules[f"rules{index}"] = StreamRules(watched, Assume)
        waited = Signal(4)
        m.d.sync += waited.eq(0)
        with m.If(table.stores.valid & ~table.stores.ready):
            m.d.sync += waited.eq(waited + 1)
        m.d.comb += [
            Assert(waited <= 3),
            # Nobody writes what he has read before an entry was stored.
            Assert(~(table.opened & (numberer.sent | responses.answered))),
            Cover(table.opened & numberer.headers.valid & ~numberer.headers.ready & responses.answers.valid),
        ]
        return m


class CompleterSpec(wiring.Component):
    """Completer with 3 places: no write waits for the link; reads are answered in order, each once.

    The link takes completions when it likes, or never; an adapter lets no more requests be in flight than there are
    places. Accesses are performed at once, data comes a cycle later.
    """

    _PLACES = 3

    def __init__(self):
        super().__init__(
            {"valid": In(1), "request": In(REGISTER_REQUEST), "link_ready": In(1), "hold": In(1), "data": In(32)}
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.completer = completer = Completer(self._PLACES)
        m.submodules.assumed = StreamRules(completer.requests, Assume)
        m.submodules.asserted = StreamRules(completer.completions, Assert)
        request, completion = completer.requests, completer.completions
        answered = (self.request.kind == RegisterRequestKind.MEMORY_READ) | (
            self.request.kind == RegisterRequestKind.OTHER_NON_POSTED
        )
        outstanding, waited = Signal(range(self._PLACES + 2)), Signal(5)
        is_read = Signal()
        for accesses, data in (
            (completer.accesses, completer.read_data),
            (completer.table_accesses, completer.table_read_data),
        ):
            m.d.comb += [accesses.ready.eq(1), data.payload.eq(self.data)]
            m.d.sync += data.valid.eq(accesses.valid & ~accesses.p.write)
        m.d.comb += [
            is_read.eq(request.valid & answered),
            request.valid.eq(self.valid),
            request.payload.eq(self.request),
            completion.ready.eq(self.link_ready),
            completer.hold.eq(self.hold),
            Assume(~is_read | (outstanding < self._PLACES)),
            # A reset holds for a few cycles.
            Assume(~self.hold | completer.idle | (waited < 3)),
        ]
        taken = request.valid & request.ready
        m.d.sync += [
            outstanding.eq(outstanding + (taken & answered) - (completion.valid & completion.ready)),
            waited.eq(waited + 1),
        ]
        with m.If(~request.valid | request.ready | self.hold):
            m.d.sync += waited.eq(0)
        # Answers carry the labels of the requests that want one, in their order: one that is chosen at random.
        chosen, seen, given = Signal(2), Signal(4), Signal(4)
        labels = Signal(26)
        m.d.sync += [
            seen.eq(seen + (taken & answered)),
            given.eq(given + (completion.valid & completion.ready)),
        ]
        with m.If(taken & answered & (seen == chosen)):
            m.d.sync += labels.eq(Value.cast(self.request.tag)[:10] | (self.request.requester_id << 10))
        with m.If(completion.valid):
            m.d.comb += [
                Assert(given < seen),
                Assert((given != chosen) | (labels == (completion.p.tag | (completion.p.requester_id << 10)))),
            ]
        m.d.comb += [
            Assert(waited <= 7),
            Cover(taken & ~answered & (outstanding == self._PLACES)),
            Cover(completion.valid & (given == 2) & (completion.p.dwords == 2)),
        ]
        return m


class FunctionResetSpec(wiring.Component):
    """FunctionReset: what it resets is at rest, and is reset exactly once for each time that it is asked to."""

    def __init__(self):
        super().__init__({"request": In(1), "bus_master": In(1), "begins": In(1), "ends": In(3)})

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.function = function = FunctionReset()
        # Requests begin while they may, at any time; accesses while they are not held; all end at any time.
        sending, reading, accessing = Signal(), Signal(), Signal()
        with m.If(function.run):
            m.d.sync += sending.eq(self.begins | (sending & ~self.ends[0]))
        with m.Elif(self.ends[0]):
            m.d.sync += sending.eq(0)
        m.d.sync += reading.eq((sending & self.ends[0]) | (reading & ~self.ends[1]))
        with m.If(self.ends[2]):
            m.d.sync += accessing.eq(0)
        with m.If(~function.hold & self.begins):
            m.d.sync += accessing.eq(1)
        # The link asks until it is done, and for some cycles longer.
        outstanding, was_reset, finished = Signal(), Signal(), Signal()
        m.d.sync += [
            was_reset.eq((was_reset | function.reset) & ~function.reset_done),
            finished.eq((finished | function.reset_done) & self.request),
            outstanding.eq((outstanding | (self.request & ~finished)) & ~function.reset_done),
        ]
        m.d.comb += [
            function.bus_master.eq(self.bus_master),
            function.reset_request.eq(self.request),
            function.merger_idle.eq(~sending),
            function.reads_idle.eq(~reading),
            function.accesses_idle.eq(function.hold & ~accessing),
            Assume(self.request | ~outstanding),
            Assert(~function.run | (self.bus_master & ~outstanding)),
            Assert(~function.reset | (outstanding & function.hold & ~(sending | reading | accessing))),
            Assert(~function.reset_done | (was_reset & outstanding)),
            Assert(outstanding | ~was_reset),
            Cover(function.reset_done),
            Cover(finished & ~self.request),
        ]
        return m


class MsixSpec(wiring.Component):
    """MsixTable of 2 vectors: a message for each interrupt, and for nothing else; none of a vector that is masked.

    Masks and enables change at any time. The vectors' addresses are told apart, and set before they are unmasked.
    """

    _PATIENCE = 6

    def __init__(self):
        super().__init__(
            {
                "irq": In(2),
                "vector": In(1),
                "aims": In(1),
                "mask": In(1),
                "function_mask": In(1),
                "enable": In(1),
                "ready": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.table = table = MsixTable(2)
        m.submodules.contract = StreamRules(table.messages, Assert)
        access, message = table.accesses, table.messages
        aimed, masked, pending = Signal(2), Signal(2, init=0b11), Signal(2)
        m.d.comb += [
            table.irq.eq(self.irq),
            table.function_mask.eq(self.function_mask),
            table.enable.eq(self.enable),
            message.ready.eq(self.ready),
            access.valid.eq(1),
            access.p.write.eq(1),
            access.p.address.eq((self.vector << 4) | Mux(self.aims, 0, 12)),
            access.p.data.eq(Mux(self.aims, (self.vector + 1) << 2, self.mask)),
            Assume(self.aims | self.mask | aimed.bit_select(self.vector, 1)),
        ]
        with m.If(self.aims):
            m.d.sync += aimed.bit_select(self.vector, 1).eq(1)
        with m.Else():
            m.d.sync += masked.bit_select(self.vector, 1).eq(self.mask)
        # What came a cycle ago may have come too late for the message that begins.
        late, was_enabled, sendable, could, begins, offered = (Signal(2) for _ in range(6))
        waited = Signal(4)
        m.d.comb += [
            begins.eq(Mux(message.valid & (offered == 0), message.p.address[2:4], 0)),
            sendable.eq((pending | late) & ~masked & (self.enable & ~self.function_mask).replicate(2)),
        ]
        m.d.sync += [
            late.eq(self.irq & self.enable.replicate(2)),
            was_enabled.eq(self.enable.replicate(2)),
            could.eq(~masked & (self.enable & ~self.function_mask).replicate(2)),
            pending.eq(((pending & ~begins) | late) & self.enable.replicate(2)),
            offered.eq((message.valid & ~message.ready).replicate(2)),
            waited.eq(Mux(sendable[0] & ~begins[0], waited + (~message.valid | message.ready), 0)),
        ]
        m.d.comb += [
            Assert(~(begins & ~could).any()),
            Assert(~(begins & ~pending & was_enabled).any()),
            Assert(waited <= self._PATIENCE),
            Cover(begins[1] & late[1] & pending[0]),
            Cover(pending[0] & masked[0] & begins[1]),
        ]
        return m
