"""Puts a NIC without a host in service: plays a list of register writes after reset."""

from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import Out
from amoeba_model.boot_list import BOOT_MAGIC, MAX_BOOT_ENTRIES, WAIT_BIT
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import bar_blocks

from amoeba_hw.host.axi import OKAY, Axi4LiteSignature
from amoeba_hw.host.register_bank import ADDRESS_WIDTH

__all__ = ["BootList"]

_AROUND = 3
"""Words of a list that belong to no entry."""


class BootList(wiring.Component):
    """Checks a ROM with a list of :mod:`amoeba_model.boot_list`, then performs its entries in order on the registers.

    A list whose magic number, length or CRC is wrong is not played at all, and an access that is refused ends the
    list: the NIC then keeps its context disabled and answers nobody. Two cycles for each word to check it, and then
    for each entry two cycles and its access. An entry that waits reads its register until the value is there, without
    limit: a NIC of another build stays silent, too.

    Parameters
    ----------
    words : sequence of int
        The content of the ROM. A list may be shorter than the ROM.

    Members
    -------
    bus : AXI4-Lite
        One access at a time.
    mac, ip : Out
        The NIC's addresses, as the list has written them.
    done : Out(1)
        Stays high once all entries are performed.
    failed : Out(1)
        Stays high: the list is damaged, or an access was refused.
    """

    def __init__(self, words):
        if len(words) <= _AROUND or len(words) > _AROUND + 2 * MAX_BOOT_ENTRIES:
            raise ValueError(
                f"Expected {_AROUND + 1} to {_AROUND + 2 * MAX_BOOT_ENTRIES} words of a boot list, got {len(words)}"
            )
        self._words = tuple(words)
        super().__init__(
            {
                "bus": Out(Axi4LiteSignature(ADDRESS_WIDTH)),
                "mac": Out(48),
                "ip": Out(32),
                "done": Out(1),
                "failed": Out(1),
            }
        )
        self._place = Signal(range(len(self._words) + 1))
        """The word that is read next."""
        self._entries = Signal(range(len(self._words) // 2 + 1))
        """Entries that are left."""
        self._first, self._second = Signal(32), Signal(32)

    def elaborate(self, platform):
        m = Module()
        depth = len(self._words)
        m.submodules.rom = rom = memory.Memory(shape=32, depth=depth, init=self._words)
        self._rom = rom.read_port()
        m.d.comb += [self._rom.addr.eq(self._place), self._rom.en.eq(1)]
        m.submodules.crc = self._crc = catalog.CRC32_ETHERNET(data_width=32).create()
        m.d.comb += self._crc.data.eq(self._rom.data)
        with m.FSM():
            self._elaborate_check(m)
            self._elaborate_entries(m)
            self._elaborate_accesses(m)
            with m.State("done"):
                m.d.comb += self.done.eq(1)
            with m.State("failed"):
                m.d.comb += self.failed.eq(1)
        self._elaborate_addresses(m)
        return m

    def _elaborate_check(self, m):
        """Read the whole list, and go on only if nothing is wrong with it."""
        words = Signal.like(self._place)
        most = (len(self._words) - _AROUND) // 2
        with m.State("read"):
            m.d.comb += self._crc.start.eq(self._place == 0)
            m.next = "check"
        with m.State("check"):
            m.d.comb += self._crc.valid.eq(1)
            m.d.sync += self._place.eq(self._place + 1)
            m.next = "read"
            with m.If(self._place == 0), m.If(self._rom.data != BOOT_MAGIC):
                m.next = "failed"
            with m.Elif(self._place == 1):
                m.d.sync += [self._entries.eq(self._rom.data), words.eq(2 * self._rom.data + _AROUND)]
                with m.If((self._rom.data == 0) | (self._rom.data > most)):
                    m.next = "failed"
            with m.Elif(self._place + 1 == words):
                m.next = "judge"
        with m.State("judge"):
            m.d.sync += self._place.eq(2)
            m.next = "failed"
            with m.If(self._crc.match_detected):
                m.next = "fetch"

    def _elaborate_entries(self, m):
        """Read the two words of an entry."""
        with m.State("fetch"):
            m.d.sync += self._place.eq(self._place + 1)
            m.next = "first"
        with m.State("first"):
            m.d.sync += [self._first.eq(self._rom.data), self._place.eq(self._place + 1)]
            m.next = "second"
        with m.State("second"):
            m.d.sync += self._second.eq(self._rom.data)
            m.next = "write"
            with m.If(self._first[WAIT_BIT]):
                m.next = "ask"

    def _elaborate_accesses(self, m):
        bus = self.bus
        sent_address, sent_data = Signal(), Signal()
        m.d.comb += [
            bus.awaddr.eq(self._first),
            bus.araddr.eq(self._first),
            bus.wdata.eq(self._second),
            bus.wstrb.eq(0b1111),
        ]
        with m.State("write"):
            m.d.comb += [bus.awvalid.eq(~sent_address), bus.wvalid.eq(~sent_data)]
            m.d.sync += [
                sent_address.eq(sent_address | bus.awready),
                sent_data.eq(sent_data | bus.wready),
            ]
            with m.If((sent_address | bus.awready) & (sent_data | bus.wready)):
                m.d.sync += [sent_address.eq(0), sent_data.eq(0)]
                m.next = "answer"
        with m.State("answer"):
            m.d.comb += bus.bready.eq(1)
            with m.If(bus.bvalid):
                self._end_entry(m, bus.bresp)
        with m.State("ask"):
            m.d.comb += bus.arvalid.eq(1)
            with m.If(bus.arready):
                m.next = "compare"
        with m.State("compare"):
            m.d.comb += bus.rready.eq(1)
            with m.If(bus.rvalid):
                self._end_entry(m, bus.rresp)
                with m.If((bus.rresp == OKAY) & (bus.rdata != self._second)):
                    m.d.sync += self._entries.eq(self._entries)
                    m.next = "ask"

    def _end_entry(self, m, response):
        m.d.sync += self._entries.eq(self._entries - 1)
        m.next = "fetch"
        with m.If(self._entries == 1):
            m.next = "done"
        with m.If(response != OKAY):
            m.next = "failed"

    def _elaborate_addresses(self, m):
        """Keep the addresses that pass by, for other parts of a node."""
        device = bar_blocks(NicParameters())[0]
        kept = {"mac_low": self.mac[:32], "mac_high": self.mac[32:], "ip": self.ip}
        with m.If(self.bus.wvalid & self.bus.wready), m.Switch(self.bus.awaddr):
            for name, register in kept.items():
                with m.Case(device.address(name)):
                    m.d.sync += register.eq(self.bus.wdata)
