"""Turns interrupts into messages."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.pci import MSIX_PBA_OFFSET

from amoeba_hw.host.axi_lite import register_access
from amoeba_hw.pcie.completer import TABLE_ADDRESS_WIDTH
from amoeba_hw.pcie.interfaces import MSIX_MESSAGE

__all__ = ["MsixTable"]

_CONTROL = 3
"""Word of an entry whose bit 0 masks its vector."""


class MsixTable(wiring.Component):
    """MSI-X: table and pending bits behind BAR 2, and a message for each interrupt (Base Specification 6.1.4).

    An interrupt announces a completion or event that is on its way to the host, and must not overtake it. The core
    pulses when the entry has entered its last register; RequestMerger puts a message behind all writes that it has
    accepted, and the one on offer, when the message comes::

        cycle           0         1         2         3         4
        core.writes           on offer
        irq                   pulse
        message                                             on offer at the earliest

    An interrupt whose vector, or function, is masked stays pending, once however often it comes. One that comes while
    MSI-X is not enabled is lost: the function has no other way to tell of it.

    Parameters
    ----------
    vectors : int
        At most 64.

    Members
    -------
    accesses, read_data : register access streams
        Of 32 bits, never refused but for an answer that is not taken; a read is answered a cycle after it was taken.
        Beyond the vectors all is 0 and stays so. A reset masks all vectors; addresses and data stay.
    irq : In, a bit per vector
        Pulses.
    enable, function_mask : In(1)
        Of the MSI-X capability.
    messages : MSIX_MESSAGE stream
        Vectors are served round robin, a message every three cycles. A message on offer stays, even if it is masked
        meanwhile.
    """

    def __init__(self, vectors):
        if not 1 <= vectors <= 64:
            raise ValueError(f"Expected 1 to 64 vectors, got {vectors}")
        self._vectors = vectors
        super().__init__(
            {
                "accesses": In(stream.Signature(register_access(TABLE_ADDRESS_WIDTH))),
                "read_data": Out(stream.Signature(32)),
                "irq": In(vectors),
                "enable": In(1),
                "function_mask": In(1),
                "messages": Out(stream.Signature(MSIX_MESSAGE)),
            }
        )
        self._masked = Signal(vectors, init=(1 << vectors) - 1)
        self._pending = Signal(vectors)
        """Interrupts that wait for their message."""

    def elaborate(self, platform):
        m = Module()
        # Message address, upper address, data: words of one memory, so that one may be written alone.
        m.submodules.entries = entries = memory.Memory(shape=96, depth=self._vectors, init=[])
        clear = Signal(self._vectors)
        self._elaborate_accesses(m, entries)
        self._elaborate_messages(m, entries.read_port(), clear)
        m.d.sync += self._pending.eq(Mux(self.enable, (self._pending & ~clear) | self.irq, 0))
        return m

    def _elaborate_accesses(self, m, entries):
        access = self.accesses
        write, read = entries.write_port(granularity=32), entries.read_port()
        taken = Signal()
        word, entry = access.p.address[2:4], access.p.address[4:]
        in_table = entry < self._vectors
        m.d.comb += [
            access.ready.eq(~self.read_data.valid | self.read_data.ready),
            taken.eq(access.valid & access.ready),
            write.addr.eq(entry),
            # An address is that of a DW.
            write.data.eq(Cat(Mux(word == 0, 0, access.p.data[:2]), access.p.data[2:]).replicate(3)),
            write.en.eq(Mux(taken & access.p.write & in_table, 1 << word, 0)),
            read.addr.eq(entry),
            read.en.eq(taken & ~access.p.write),
        ]
        with m.If(taken & access.p.write & in_table & (word == _CONTROL)):
            m.d.sync += self._masked.bit_select(entry, 1).eq(access.p.data[0])
        self._elaborate_answers(m, read, in_table)

    def _elaborate_answers(self, m, read, in_table):
        address = self.accesses.p.address
        answered_word, from_table, other = Signal(2), Signal(), Signal(32)
        with m.If(self.read_data.ready):
            m.d.sync += self.read_data.valid.eq(0)
        with m.If(read.en):
            m.d.sync += [
                self.read_data.valid.eq(1),
                answered_word.eq(address[2:4]),
                from_table.eq(in_table & (address[2:4] != _CONTROL)),
                other.eq(0),
            ]
            with m.If(in_table):
                m.d.sync += other.eq(self._masked.bit_select(address[4:], 1))
            for half in range(2):
                with m.If(address == MSIX_PBA_OFFSET + 4 * half):
                    m.d.sync += other.eq(self._pending[32 * half : 32 * half + 32])
        m.d.comb += self.read_data.payload.eq(
            Mux(from_table, Cat(read.data, Const(0, 32)).word_select(answered_word, 32), other)
        )

    def _elaborate_messages(self, m, read, clear):
        """Choose a vector, read its entry, offer it."""
        sendable = Signal(self._vectors)
        following, vector = Signal(range(self._vectors)), Signal(range(self._vectors))
        m.d.comb += sendable.eq(Mux(self.enable & ~self.function_mask, self._pending & ~self._masked, 0))
        turns = [index > vector for index in range(self._vectors)]
        for is_turn in ([1] * self._vectors, turns):  # the later wins: above the last one before all others
            for index in reversed(range(self._vectors)):
                with m.If(sendable[index] & is_turn[index]):
                    m.d.comb += following.eq(index)
        m.d.comb += [read.addr.eq(vector), self.messages.p.eq(read.data)]
        with m.FSM(name="message"):
            with m.State("CHOOSE"), m.If(sendable.any()):
                m.d.sync += vector.eq(following)
                m.next = "READ"
            with m.State("READ"):
                m.next = "CHOOSE"
                # It may have been masked since.
                with m.If(sendable.bit_select(vector, 1)):
                    m.d.comb += clear.eq(1 << vector)
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += [read.en.eq(0), self.messages.valid.eq(1)]
                with m.If(self.messages.ready):
                    m.next = "CHOOSE"
