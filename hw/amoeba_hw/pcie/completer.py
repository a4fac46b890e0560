"""Answers what the host asks of the BARs."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.pci import MSIX_BAR, MSIX_BAR_SIZE, REFUSED_OFFSET, REGISTER_BAR
from amoeba_model.registers import BAR_SIZE
from amoeba_model.tlp import CompletionStatus, RegisterRequestKind

from amoeba_hw.host.axi_lite import register_access
from amoeba_hw.host.register_bank import ADDRESS_WIDTH
from amoeba_hw.pcie.interfaces import REGISTER_COMPLETION, REGISTER_REQUEST
from amoeba_hw.stream import Queue, connect_streams

__all__ = ["COMPLETIONS", "TABLE_ADDRESS_WIDTH", "Completer"]

COMPLETIONS = 32
"""Answers that wait for the link while writes go on. An adapter lets no more requests that want one be in flight."""
TABLE_ADDRESS_WIDTH = (MSIX_BAR_SIZE - 1).bit_length()
_SIZES = {REGISTER_BAR: BAR_SIZE, MSIX_BAR: MSIX_BAR_SIZE}
_WHOLE = 0b1111
_LARGEST = 2
"""DWs."""


class Completer(wiring.Component):
    """Performs the host's requests one at a time, in order, as accesses of 32 bits.

    ===========================================  ==========================================================
    read of one or two whole DWs                 an access for each; one completion
    read of no bytes                             no access; a completion with one DW, of 0
    write of one or two whole DWs                an access for each, the lower address first
    write of no bytes                            nothing
    other write; poisoned; outside the BAR       not performed, and counted
    other read, I/O, locked read, atomic         completion with UR
    message                                      nothing
    ===========================================  ==========================================================

    No write waits for the link: completions that it does not take wait in a queue of :data:`COMPLETIONS`, and
    accesses are never refused for long. Only a request that wants a completion waits for a free entry there (Base
    Specification 2.4.1: acceptance of posted requests must not depend on a packet that is sent).

    Members
    -------
    requests : REGISTER_REQUEST stream
        A write takes 2 cycles, 3 with two DWs; a read 4, or 6.
    completions : REGISTER_COMPLETION stream
        In the order of the requests.
    accesses, read_data : register access streams
        BAR 0. Their target performs them within a bounded number of cycles, whatever the link does.
    table_accesses, table_read_data : register access streams
        BAR 2, likewise, but for ``REFUSED_OFFSET`` and what is above it.
    hold : In; idle : Out
        No request begins, and none has begun. Completions go on.
    count_refused : Out
        Pulse: a write was not performed.
    """

    def __init__(self, completions=COMPLETIONS):
        super().__init__(
            {
                "requests": In(stream.Signature(REGISTER_REQUEST)),
                "completions": Out(stream.Signature(REGISTER_COMPLETION)),
                "accesses": Out(stream.Signature(register_access(ADDRESS_WIDTH))),
                "read_data": In(stream.Signature(32)),
                "table_accesses": Out(stream.Signature(register_access(TABLE_ADDRESS_WIDTH))),
                "table_read_data": In(stream.Signature(32)),
                "hold": In(1),
                "idle": Out(1),
                "count_refused": Out(1),
            }
        )
        self.refused = Signal(32)
        """Writes not performed."""
        self._second = Signal()
        """The upper DW's turn has come."""
        self._address = Signal(ADDRESS_WIDTH)
        """Of the access whose turn it is."""
        self._is_own = Signal()
        """The access is one that nobody else performs."""
        self._answer = Signal(32 * _LARGEST)
        self._waiting = Queue(REGISTER_COMPLETION, completions)

    def elaborate(self, platform):
        m = Module()
        m.submodules.waiting = waiting = self._waiting
        connect_streams(m, waiting.o, wiring.flipped(self.completions))
        request = self.requests.p
        is_read = request.kind == RegisterRequestKind.MEMORY_READ
        is_write = request.kind == RegisterRequestKind.MEMORY_WRITE
        two = request.dwords == _LARGEST
        whole, empty = self._shape(m)
        m.d.comb += [
            self._address.eq(request.address + (self._second << 2)),
            self._is_own.eq((request.bar == MSIX_BAR) & (self._address[:TABLE_ADDRESS_WIDTH] >= REFUSED_OFFSET)),
        ]
        m.d.sync += self.refused.eq(self.refused + self.count_refused)
        with m.FSM(name="request") as fsm:
            m.d.comb += self.idle.eq(self.hold & fsm.ongoing("LOOK"))
            with m.State("LOOK"), m.If(self.requests.valid & ~self.hold):
                m.d.sync += [self._second.eq(0), self._answer.eq(0)]
                with m.If(whole & (is_read | (is_write & ~request.poisoned))):
                    m.next = "ACCESS"
                with m.Elif(is_read | (request.kind == RegisterRequestKind.OTHER_NON_POSTED)):
                    m.next = "ANSWER"
                with m.Else():
                    m.d.comb += [self.requests.ready.eq(1), self.count_refused.eq(is_write & ~empty)]
            with m.State("ACCESS"):
                taken = self._offer_access(m, is_write)
                with m.If(taken & is_read):
                    m.next = "DATA"
                with m.Elif(taken & two & ~self._second):
                    m.d.sync += self._second.eq(1)
                with m.Elif(taken):
                    m.d.comb += self.requests.ready.eq(1)
                    m.next = "LOOK"
            with m.State("DATA"), m.If(self._take_data(m)):
                m.d.sync += self._second.eq(1)
                m.next = "ANSWER"
                with m.If(two & ~self._second):
                    m.next = "ACCESS"
            with m.State("ANSWER"):
                m.d.comb += [waiting.i.valid.eq(1), *self._completion((whole | empty) & is_read, empty)]
                with m.If(waiting.i.ready):
                    m.d.comb += self.requests.ready.eq(1)
                    m.next = "LOOK"
        return m

    def _shape(self, m):
        """Whether the request is of one or two whole DWs inside a BAR, and whether it is of no bytes there."""
        request = self.requests.p
        inside, whole, empty = Signal(), Signal(), Signal()
        one, two = request.dwords == 1, request.dwords == _LARGEST
        with m.Switch(request.bar):
            for bar, size in _SIZES.items():
                with m.Case(bar):
                    m.d.comb += inside.eq(((request.address + Mux(two, 4, 0)) & -size) == 0)
        m.d.comb += [
            whole.eq(
                inside
                & (request.first_be == _WHOLE)
                & ((one & (request.last_be == 0)) | (two & (request.last_be == _WHOLE)))
            ),
            empty.eq(inside & one & (request.first_be == 0) & (request.last_be == 0)),
        ]
        return whole, empty

    def _ports(self):
        """Yield (selected, accesses, read_data) of every target of accesses."""
        bar = self.requests.p.bar
        yield bar == REGISTER_BAR, self.accesses, self.read_data
        yield (bar == MSIX_BAR) & ~self._is_own, self.table_accesses, self.table_read_data

    def _offer_access(self, m, is_write):
        """Offer the access whose turn it is; returns whether it was taken."""
        taken = Signal()
        m.d.comb += taken.eq(self._is_own)
        for selected, port, _ in self._ports():
            m.d.comb += [
                port.valid.eq(selected),
                port.p.address.eq(self._address),
                port.p.write.eq(is_write),
                port.p.data.eq(self.requests.p.data.word_select(self._second, 32)),
            ]
            with m.If(selected):
                m.d.comb += taken.eq(port.ready)
        return taken

    def _take_data(self, m):
        """Take what was read, if it is there; returns whether it is."""
        there, word = Signal(), Signal(32)
        m.d.comb += [
            there.eq(self._is_own),
            word.eq(Mux(self._address[:TABLE_ADDRESS_WIDTH] == REFUSED_OFFSET, self.refused, 0)),
        ]
        for selected, _, port in self._ports():
            with m.If(selected):
                m.d.comb += [port.ready.eq(1), there.eq(port.valid), word.eq(port.payload)]
        with m.If(there):
            m.d.sync += self._answer.word_select(self._second, 32).eq(word)
        return there

    def _completion(self, succeeds, empty):
        """Return the assignments that make the completion of the request on offer."""
        request = self.requests.p
        copied = ("traffic_class", "attributes", "requester_id", "tag")
        values = {
            "data": self._answer,
            "status": Mux(succeeds, CompletionStatus.SC, CompletionStatus.UR),
            "dwords": Mux(succeeds, request.dwords, 0),
            "lower_address": Mux(succeeds, request.address[:7], 0),
            "byte_count": Mux(succeeds & ~empty, request.dwords << 2, Mux(succeeds, 1, 4)),
            **{name: request[name] for name in copied},
        }
        return [self._waiting.i.p[name].eq(value) for name, value in values.items()]
