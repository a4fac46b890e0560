"""The wait for what the target has accepted: which requests it is for, and their writes."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In
from amoeba_hw.host.write_fence import FENCE_BITS, WriteFence
from amoeba_hw.interfaces import KEY_STORE
from amoeba_hw.request_records import SEQUENCED_REQUEST
from amoeba_hw.target.drain import Drain
from amoeba_hw.target.key_table import KeyTable

from tests.formal.rules import StreamRules, connect_ports, never_reset

__all__ = ["DrainSpec", "KeyVersionSpec", "WriteFenceSpec"]

_MOST = 3
"""Items in flight."""
_COUNT_BITS = 4


class DrainSpec(wiring.Component):
    """Drain ends when all that was in flight or on offer, once the writes before it had left their queue, has ended.

    ``begin`` may come at any time. With nothing in flight and no fence to wait for, it ends soon.
    """

    QUIET = 2

    def __init__(self):
        self._dut = Drain(self.QUIET)
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = self._dut
        connect_ports(m, self, self._dut)
        held_since, writes = Signal(), Signal()
        """No write before ``begin`` has left the queue; an event that was being written then still is."""
        waits = Signal()
        m.d.comb += waits.eq(self.begin | (held_since & self.held))
        m.d.sync += [held_since.eq(waits), writes.eq(self.writes_event & (waits | writes))]
        for name in ("requests", "fetches"):
            self._follow(m, name, waits)
        fences, was_draining, fence_done = Signal(), Signal(), Signal()
        m.d.sync += [
            fences.eq(self.fence & ~self.fenced & ~self.begin),
            was_draining.eq(self.draining),
            fence_done.eq(self.fence & self.fenced),
        ]
        quick = Signal(range(16))
        at_rest = ~self.held & ~self.begin & ~self.writes_event & self.fenced
        at_rest &= ~(self.requests.offered | self.fetches.offered)
        empty = Signal()
        m.d.comb += empty.eq((self.requests_level == 0) & (self.fetches_level == 0) & at_rest)
        m.d.sync += quick.eq(Mux(self.draining & empty, quick + 1, 0))
        m.d.comb += [
            Assume(~fences | ~self.fenced | self.fence),
            Assert(~fences | self.fence),
            Assert(~(self.fence | ~self.draining) | ~writes),
            Assert(self.draining | ~was_draining | fence_done),
            Assert(quick < self.QUIET + 5),
            Cover(fence_done & ~self.draining),
        ]
        return m

    def _follow(self, m, name, waits):
        """Keep a naive account of the items, and of those that are waited for."""
        items = getattr(self, name)
        level = Signal(range(_MOST + 1), name=f"{name}_level")
        needed = Signal(range(_MOST + 2), name=f"{name}_needed")
        offered = Signal(name=f"{name}_waiting")
        setattr(self, f"{name}_level", level)
        m.d.comb += [
            # An item on offer stays until it enters; one that enters in a cycle ends in a later one.
            Assume(~items.entered | items.offered),
            Assume(~offered | items.offered),
            Assume(~items.ended | (level != 0)),
            Assume(~items.entered | (level != _MOST)),
            Assert(~(self.fence | ~self.draining) | (needed == 0)),
            Cover((needed == 0) & self.fence & (level != 0)),
        ]
        m.d.sync += [
            offered.eq(items.offered & ~items.entered),
            level.eq(level + items.entered - items.ended),
        ]
        with m.If(waits):
            m.d.sync += needed.eq(level + items.offered - items.ended)
        with m.Elif(items.ended & (needed != 0)):
            m.d.sync += needed.eq(needed - 1)


class WriteFenceSpec(wiring.Component):
    """WriteFence is done when the writes that were ordered as it was asked have settled, and have left."""

    def __init__(self):
        self._dut = WriteFence()
        super().__init__(self._dut.signature)

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = self._dut
        connect_ports(m, self, self._dut)
        started, asked, settled_all, has_left = Signal(), Signal(), Signal(), Signal()
        ordered, settled, last = (Signal(FENCE_BITS, name=name) for name in ("before", "settled_before", "last"))
        reached = Signal()
        m.d.comb += [
            # Both grow, and no more settle than were ordered; few are between.
            Assume(~started | ((self.ordered - ordered)[:FENCE_BITS] < 4)),
            Assume(~started | ((self.settled - settled)[:FENCE_BITS] < 4)),
            Assume((self.ordered - self.settled)[:FENCE_BITS] < 64),
            reached.eq((self.settled - last)[FENCE_BITS - 1] == 0),
            Assert(~(self.done & self.ask) | (asked & settled_all & has_left)),
            Cover(self.done & (self.settled != self.ordered)),
        ]
        m.d.sync += [started.eq(1), ordered.eq(self.ordered), settled.eq(self.settled), asked.eq(self.ask)]
        m.d.sync += [
            settled_all.eq(self.ask & asked & (settled_all | reached)),
            has_left.eq(self.ask & asked & (has_left | (settled_all & self.leaves))),
        ]
        with m.If(self.ask & ~asked):
            m.d.sync += last.eq(self.ordered)
        return m


class KeyVersionSpec(wiring.Component):
    """KeyTable: a request that comes on offer after a store meets the new entry, and no earlier one.

    The stores are numbered by their ``base``.
    """

    KEYS = 2

    def __init__(self):
        super().__init__(
            {
                "stores": In(stream.Signature(KEY_STORE)),
                "ahead": In(1),
                "ahead_key": In(64),
                "requests": In(stream.Signature(SEQUENCED_REQUEST)),
                "takes": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        never_reset(m)
        m.submodules.dut = dut = KeyTable(self.KEYS)
        for name in ("stores", "requests"):
            outer, inner = getattr(self, name), getattr(dut, name)
            m.d.comb += [inner.valid.eq(outer.valid), inner.p.eq(outer.p), outer.ready.eq(inner.ready)]
            m.submodules[f"{name}_rules"] = StreamRules(outer, Assume)
        stored, at_offer, waiting = Signal(_COUNT_BITS), Signal(_COUNT_BITS), Signal()
        since = Signal(_COUNT_BITS)
        """Stores before the request came on offer."""
        found = Signal()
        version = dut.located.p.entry.base[:_COUNT_BITS]
        m.d.comb += [
            dut.ahead.eq(self.ahead),
            dut.ahead_key.eq(self.ahead_key),
            dut.located.ready.eq(self.takes),
            # One slot and one key: the others are alike.
            Assume(self.stores.p.slot == 0),
            Assume(self.stores.p.entry.base == stored + 1),
            Assume((self.stores.p.entry.key == 0) & (self.ahead_key == 0)),
            Assume(self.requests.p.header.memory_key == 0),
            Assume(stored != 2**_COUNT_BITS - 2),
            since.eq(Mux(waiting, at_offer, stored)),
            found.eq(dut.located.valid & dut.located.p.found),
            Assert(~found | (version >= since)),
            Assert(~found | (version <= stored)),
            Cover(found & (version < stored)),
            Cover(found & (version == 2)),
        ]
        m.d.sync += [
            stored.eq(stored + (self.stores.valid & self.stores.ready)),
            at_offer.eq(since),
            waiting.eq(self.requests.valid & ~self.requests.ready),
        ]
        return m
