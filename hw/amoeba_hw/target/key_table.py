"""The keys of registered memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.registers import KEY_PROBES, KeyFlags

from amoeba_hw.interfaces import KEY_ENTRY, KEY_STORE
from amoeba_hw.request_records import LOCATED_REQUEST, SEQUENCED_REQUEST, is_message

__all__ = ["KeyTable"]


def _folded(key):
    return key[:16] ^ key[16:32] ^ key[32:48] ^ key[48:]


class KeyTable(wiring.Component):
    """Looks up the key of each request in the slots that ``key_slots`` of the model names, in that order.

    Parameters
    ----------
    keys : int
        Slots, a power of two, at most 65,536.

    Members
    -------
    stores : KEY_STORE stream
        From ``keys`` cycles after a reset, in which all slots are cleared, taken in every cycle, a whole entry at
        once. Slots outside the table do not exist and swallow the entry. Slots read from the next cycle on show the
        new entry; a request whose slot was read before proceeds with the old one, also if that is now invalid. A
        store on offer goes first: no slot is read before it is in place.
    ahead, ahead_key : in
        If there is a request in the next cycle that is not here now, it has this key: whose first slot is read
        meanwhile, unless one of another's is.
    requests : SEQUENCED_REQUEST stream
    located : LOCATED_REQUEST stream
        One cycle per request whose key is in the first slot and was known ``ahead``, otherwise two; and one more for
        each further slot. Dropped requests, control packets and messages are not looked up. Depends on ``requests``
        combinationally, and ``requests.ready`` on ``located.ready``.
    """

    def __init__(self, keys):
        self._keys = keys
        super().__init__(
            {
                "stores": In(stream.Signature(KEY_STORE)),
                "ahead": In(1),
                "ahead_key": In(64),
                "requests": In(stream.Signature(SEQUENCED_REQUEST)),
                "located": Out(stream.Signature(LOCATED_REQUEST)),
            }
        )
        self._cleared = Signal(range(keys + 1))
        """Slots cleared since reset, which the memory itself does not obey; nothing is looked up before all are."""
        self._probe = Signal(range(KEY_PROBES + 1))
        """Slots of the request read so far, or of the one that comes next; the read port shows the last of them."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = memory.Memory(
            shape=KEY_ENTRY, depth=self._keys, init=[], attrs={"ram_style": "block"}
        )
        write, read = entries.write_port(), entries.read_port()
        self._elaborate_stores(m, write)
        request = self.requests.p
        key = request.header.memory_key
        found, has_no_key, decided, looks, stays, may_read = (
            Signal(name=name) for name in ("found", "has_no_key", "decided", "looks", "stays", "may_read")
        )
        m.d.comb += [
            found.eq((read.data.key == key) & ((read.data.flags & int(KeyFlags.VALID)) != 0) & (self._probe != 0)),
            has_no_key.eq(request.dropped | request.header.is_control | is_message(request.header)),
            decided.eq(found | has_no_key | (self._probe == min(KEY_PROBES, self._keys))),
            self.located.valid.eq(self.requests.valid & decided),
            self.located.p.request.eq(request),
            self.located.p.found.eq(found),
            self.located.p.entry.eq(read.data),
            self.requests.ready.eq(self.located.ready & decided),
            looks.eq(self.requests.valid & ~decided),
            stays.eq(self.requests.valid & ~self.requests.ready),
            may_read.eq((self._cleared == self._keys) & ~self.stores.valid),
            read.addr.eq(Mux(looks, _folded(key) + self._probe, _folded(self.ahead_key))),
            read.en.eq(may_read & (looks | (self.ahead & ~stays))),
        ]
        with m.If(~stays):
            m.d.sync += self._probe.eq(read.en)
        with m.Elif(read.en):
            m.d.sync += self._probe.eq(self._probe + 1)
        return m

    def _elaborate_stores(self, m, write):
        store = self.stores.p
        with m.If(self._cleared < self._keys):
            # The data of the port is zero unless something else is said.
            m.d.comb += [write.addr.eq(self._cleared), write.en.eq(1)]
            m.d.sync += self._cleared.eq(self._cleared + 1)
        with m.Else():
            m.d.comb += [
                self.stores.ready.eq(1),
                write.addr.eq(store.slot),
                write.data.eq(store.entry),
                write.en.eq(self.stores.valid & (store.slot < self._keys)),
            ]
