"""The keys of registered memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.registers import KEY_PROBES, KeyFlags

from amoeba_hw.interfaces import KEY_ENTRY, KEY_STORE
from amoeba_hw.target.records import LOCATED_REQUEST, SEQUENCED_REQUEST

__all__ = ["KeyTable"]


class KeyTable(wiring.Component):
    """Looks up the key of each request in the slots that ``key_slots`` of the model names, in that order.

    Parameters
    ----------
    keys : int
        Slots, a power of two, at most 65,536.

    Members
    -------
    stores : KEY_STORE stream
        Taken in every cycle; slots outside the table do not exist and swallow the entry. A lookup in the same cycle
        may see the slot's old entry or the new one.
    requests : SEQUENCED_REQUEST stream
    located : LOCATED_REQUEST stream
        Two cycles per request whose key is in the first slot, and one more for each further slot; dropped requests
        are not looked up.
    """

    def __init__(self, keys):
        self._keys = keys
        super().__init__(
            {
                "stores": In(stream.Signature(KEY_STORE)),
                "requests": In(stream.Signature(SEQUENCED_REQUEST)),
                "located": Out(stream.Signature(LOCATED_REQUEST)),
            }
        )
        self._stored = Signal(keys)
        """Slots written since reset, which the memory itself does not obey."""
        self._probe = Signal(range(KEY_PROBES + 1))
        """Slots read so far; the read port shows the last of them."""
        self._was_stored = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = memory.Memory(shape=KEY_ENTRY, depth=self._keys, init=[])
        write, read = entries.write_port(), entries.read_port()
        store = self.stores.p
        m.d.comb += [
            self.stores.ready.eq(1),
            write.addr.eq(store.slot),
            write.data.eq(store.entry),
            write.en.eq(self.stores.valid & (store.slot < self._keys)),
        ]
        with m.If(write.en):
            m.d.sync += self._stored.bit_select(write.addr, 1).eq(1)

        request = self.requests.p
        key = request.header.memory_key
        folded = key[:16] ^ key[16:32] ^ key[32:48] ^ key[48:]
        found = Signal()
        decided = Signal()
        m.d.comb += [
            found.eq(
                self._was_stored
                & (read.data.key == key)
                & ((read.data.flags & int(KeyFlags.VALID)) != 0)
                & (self._probe != 0)
            ),
            decided.eq(found | request.dropped | (self._probe == min(KEY_PROBES, self._keys))),
            self.located.valid.eq(self.requests.valid & decided),
            self.located.p.request.eq(request),
            self.located.p.found.eq(found),
            self.located.p.entry.eq(read.data),
            self.requests.ready.eq(self.located.ready & decided),
            read.addr.eq(folded + self._probe),
            read.en.eq(self.requests.valid & ~decided),
        ]
        with m.If(self.requests.valid & self.requests.ready):
            m.d.sync += self._probe.eq(0)
        with m.Elif(read.en):
            m.d.sync += [
                self._probe.eq(self._probe + 1),
                self._was_stored.eq(self._stored.bit_select(read.addr, 1)),
            ]
        return m
