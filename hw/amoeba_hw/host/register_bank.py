"""The BAR in hardware: register blocks and doorbell pages, generated from the model's declarations."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.layout import Access
from amoeba_model.nic.first_psns import KEY_WORDS
from amoeba_model.opcodes import Form
from amoeba_model.registers import (
    ABI_VERSION,
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    ContextControl,
    Counter,
    PeerFlags,
    bar_blocks,
    ignored_doorbells,
)

from amoeba_hw.host.axi_lite import register_access
from amoeba_hw.interfaces import (
    CONTEXT,
    COUNTER_ADMISSION,
    KEY_ENTRY,
    KEY_STORE,
    PDC_COMMAND,
    PDC_VIEW,
    PEER,
    PEER_STORE,
    RETRANSMISSION,
    RING_INDEX,
    SLOT_RELEASE,
)
from amoeba_hw.stream import Queue, SkidBuffer, connect_streams

__all__ = ["ADDRESS_WIDTH", "RegisterBank"]

ADDRESS_WIDTH = (BAR_SIZE - 1).bit_length()
EVENT_DEPTH = 16

_DOORBELLS = {
    "transmit_tails": ("transmit_tail", RING_INDEX),
    "completion_heads": ("completion_head", RING_INDEX),
    "arms": ("arm", RING_INDEX),
    "event_heads": ("event_head", RING_INDEX),
    "event_arms": ("event_arm", RING_INDEX),
    "receive_tails": ("receive_tail", RING_INDEX),
    "slot_releases": ("slot_release", SLOT_RELEASE),
}
"""Doorbell register behind each stream, and the payload: a context, and what was written."""

_PEER_FLAGS = {
    "valid": PeerFlags.VALID,
    "relative": PeerFlags.RELATIVE,
    "whole_window": PeerFlags.WHOLE_WINDOW,
}
"""Bit of the peer table's ``flags`` behind each member of PEER that is one."""


class RegisterBank(wiring.Component):
    """All registers of the BAR. Holes read as zero and ignore writes.

    Written values are kept twice: in flip-flops for the NIC, and in a memory for reads of the host, since a
    multiplexer of all registers would be as large as everything else here.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    accesses, read_data : streams
        A read is answered one cycle after it was taken. A write to a full queue waits; who takes from the queues does
        so within a few cycles, whatever host and link do (after a reset, ``key_stores`` within as many as there are
        keys). So no write waits for one of the NIC's own to the host. ``accesses.ready`` comes from a register: a
        write that waits for a queue has been taken, and the next access waits for that write.
    counts : in, one bit per :class:`Counter`
        Each pulse counts one.
    contexts : array of CONTEXT
        A build without event rings has an ``event_base`` of 0, whatever is written.
    mac, ip
        Own addresses.
    dscp : Out(6)
        Of requests.
    psn_key : Out(96)
        The first word on top.
    retransmission : RETRANSMISSION
    answer_base : Out(64)
        Where the answer memory lies in host memory, or 0.
    counter_base : Out(64)
        Where the event counters lie in host memory, or 0.
    transmit_tails, completion_heads, arms, event_heads, event_arms, receive_tails : RING_INDEX streams
    slot_releases : SLOT_RELEASE stream
        Of doorbells that the build ignores, nothing comes.
    counter_clears : stream of 8 bits
        Numbers of event counters to set to zero.
    counter_admissions : COUNTER_ADMISSION stream
    key_stores, peer_stores : streams
        Without an initiator nothing comes of ``peer_stores``.
    close_requests : in, a bit per peer
        The register of this name, a cycle later.
    pdc_command : PDC_COMMAND, Out
    pdc_view : PDC_VIEW, In
        Of the target PDC that a command has selected, from the next cycle on.
    drain : Out
        Pulse: the register is written. Writes to ``key_stores`` before it are in their queue, or have left it.
    draining : In
    cycles : Out(48)
        Since reset.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        self._blocks = bar_blocks(parameters)
        super().__init__(
            {
                "accesses": In(stream.Signature(register_access(ADDRESS_WIDTH))),
                "read_data": Out(stream.Signature(32)),
                "counts": In(len(Counter)),
                "contexts": Out(CONTEXT).array(parameters.contexts),
                "mac": Out(48),
                "ip": Out(32),
                "dscp": Out(6),
                "psn_key": Out(32 * KEY_WORDS),
                "retransmission": Out(RETRANSMISSION),
                "answer_base": Out(64),
                "counter_base": Out(64),
                **{name: Out(stream.Signature(payload)) for name, (_, payload) in _DOORBELLS.items()},
                "counter_clears": Out(stream.Signature(8)),
                "counter_admissions": Out(stream.Signature(COUNTER_ADMISSION)),
                "key_stores": Out(stream.Signature(KEY_STORE)),
                "peer_stores": Out(stream.Signature(PEER_STORE)),
                "close_requests": In(max(parameters.peers, 1)),
                "pdc_command": Out(PDC_COMMAND),
                "pdc_view": In(PDC_VIEW),
                "drain": Out(1),
                "draining": In(1),
                "cycles": Out(48),
            }
        )
        stored = [
            (placed, register, index)
            for placed in self._blocks
            for register in placed.block.registers
            for index in range(register.count)
            if register.access is Access.RW
        ]
        self._storage = {
            (placed.block.name, register.name, index): Signal(
                32, init=register.reset, name=f"{placed.block.name}_{register.name}_{index}"
            )
            for placed, register, index in stored
        }
        self._storage_addresses = [placed.address(register.name, index) for placed, register, index in stored]
        """BAR address of each register in ``_storage``, in the same order: that of the memory."""
        self._masks = [register.kept(0xFFFF_FFFF) for _, register, _ in stored]
        """Bits that each of them has."""
        self._written = Signal(len(stored))
        """Registers written since reset, which the memory itself does not obey."""
        self._accesses = SkidBuffer(register_access(ADDRESS_WIDTH))
        self._counters = [Signal(32, name=f"counter_{counter.name.lower()}") for counter in Counter]
        self._cycles = Signal(64)
        self._close_requests = Signal(-(-max(parameters.peers, 1) // 32) * 32)

    def elaborate(self, platform):
        m = Module()
        m.submodules.accesses = self._accesses
        connect_streams(m, wiring.flipped(self.accesses), self._accesses.i)
        m.d.sync += [self._cycles.eq(self._cycles + 1), self._close_requests.eq(self.close_requests)]
        for counter, signal in zip(Counter, self._counters, strict=True):
            with m.If(self.counts[counter]):
                m.d.sync += signal.eq(signal + 1)
        waits = self._elaborate_events(m)
        self._elaborate_accesses(m, waits)
        self._elaborate_outputs(m)
        return m

    def _register(self, block, name, index=0):
        return self._storage[block, name, index]

    def _value(self, block, register, index):
        """Return the value of a register that was not written: a constant of this build, or a counter."""
        if register.access is not Access.R:
            return register.reset
        if block.name == "counters":
            return self._counters[index]
        if block.name == "atomics":
            form = Form(register.name)
            return sum(
                1 << cell.datatype for cell in self._parameters.cells() if (cell.form, cell.op) == (form, index)
            )
        if block.name == "device":
            own = {
                "abi_version": ABI_VERSION,
                "cycles_low": self._cycles[:32],
                "cycles_high": self._cycles[32:],
                "draining": self.draining,
            }
            return own[register.name] if register.name in own else int(getattr(self._parameters, register.name))
        if register.name == "close_requests":
            return self._close_requests.word_select(index, 32)
        if block.name == "target_pdcs":
            came = {"came_low": self.pdc_view.came[:32], "came_high": self.pdc_view.came[32:]}
            return came[register.name] if register.name in came else self.pdc_view[register.name]
        return 0

    def _elaborate_accesses(self, m, waits):
        access = self._accesses.o
        taken = Signal()
        place = Signal(range(len(self._storage)))
        mask = Signal(32)
        is_stored = Signal()
        m.d.comb += [
            access.ready.eq((~self.read_data.valid | self.read_data.ready) & ~waits),
            taken.eq(access.valid & access.ready),
        ]
        with m.Switch(access.p.address):
            for number, address in enumerate(self._storage_addresses):
                with m.Case(address):
                    m.d.comb += [place.eq(number), mask.eq(self._masks[number]), is_stored.eq(1)]
        m.submodules.readable = readable = memory.Memory(shape=32, depth=len(self._storage), init=[])
        write, read = readable.write_port(), readable.read_port()
        m.d.comb += [
            write.addr.eq(place),
            write.data.eq(access.p.data & mask),
            write.en.eq(taken & access.p.write & is_stored),
            read.addr.eq(place),
            read.en.eq(taken & ~access.p.write),
        ]
        with m.If(write.en):
            m.d.sync += self._written.bit_select(place, 1).eq(1)
            with m.Switch(place):
                for number, stored in enumerate(self._storage.values()):
                    with m.Case(number):
                        m.d.sync += stored.eq(access.p.data & self._masks[number])
        self._elaborate_answers(m, read, is_stored & self._written.bit_select(place, 1))

    def _elaborate_answers(self, m, read, was_written):
        """Offer what the memory reads if the register was written, what the register is by itself if it was not."""
        other = Signal(32)
        from_memory = Signal()
        m.d.comb += self.read_data.payload.eq(Mux(from_memory, read.data, other))
        with m.If(self.read_data.ready):
            m.d.sync += self.read_data.valid.eq(0)
        with m.If(read.en):
            m.d.sync += [self.read_data.valid.eq(1), from_memory.eq(was_written), other.eq(0)]
            with m.Switch(self._accesses.o.p.address):
                for address, value in self._readable():
                    with m.Case(address):
                        m.d.sync += other.eq(value)

    def _readable(self):
        for placed in self._blocks:
            for offset, value in placed.block.header(placed.following).items():
                yield placed.offset + offset, value
            for register in placed.block.registers:
                for index in range(register.count):
                    yield placed.address(register.name, index), self._value(placed.block, register, index)

    def _elaborate_events(self, m):
        """Queues behind the write-only registers; returns whether the access on offer must wait for one."""
        access = self._accesses.o
        waits = []
        for name, selected, fields in self._events():
            output = getattr(self, name)
            m.submodules[name] = queue = Queue(output.signature.members["payload"].shape, EVENT_DEPTH)
            connect_streams(m, queue.o, wiring.flipped(output))
            m.d.comb += queue.i.valid.eq(selected & access.valid & access.p.write & access.ready)
            m.d.comb += [Value.cast(queue.i.p[field]).eq(value) for field, value in fields]
            waits.append(selected & access.p.write & ~queue.i.ready)
        return Cat(*waits).any()

    def _events(self):
        """Per event stream: its name, whether the address selects it, and the parts of its payload."""
        address, value = self._accesses.o.p.address, self._accesses.o.p.data
        page_bits = (DOORBELL_PAGE_SIZE - 1).bit_length()
        pages_end = DOORBELL_PAGE + self._parameters.contexts * DOORBELL_PAGE_SIZE
        in_pages = (address >= DOORBELL_PAGE) & (address < pages_end)
        context = (address - DOORBELL_PAGE)[page_bits:]
        offsets = {register.name: register.offset for register in DOORBELL_REGISTERS}
        ignored = ignored_doorbells(self._parameters)
        for name, (register, payload) in _DOORBELLS.items():
            selected = in_pages & (address[:page_bits] == offsets[register])
            if register not in ignored:
                yield name, selected, tuple(zip(payload.members, (context, value), strict=True))
        blocks = {placed.block.name: placed for placed in self._blocks}
        stored = address == blocks["keys"].address("store")
        yield "key_stores", stored, (("slot", value), ("entry", self._key_entry()))
        if "peers" in blocks:
            # One queue, so that both take effect in the order in which they are written.
            fails = address == blocks["peers"].address("fail")
            stored = address == blocks["peers"].address("store")
            yield "peer_stores", stored | fails, (("index", value), ("peer", self._peer()), ("fail", fails))
        # The payload is nothing but the number.
        yield "counter_clears", address == blocks["device"].address("counter_clear"), ((slice(None), value),)
        admits = address == blocks["device"].address("counter_admit")
        contexts = self._register("device", "counter_contexts")
        yield "counter_admissions", admits, (("counter", value), ("contexts", contexts))

    def _wide(self, block, name, index=0):
        """Join a 64-bit value kept in two registers."""
        return Cat(self._register(block, f"{name}_low", index), self._register(block, f"{name}_high", index))

    def _key_entry(self):
        wide = {name: self._wide("keys", name) for name in ("key", "base", "length")}
        narrow = {name: self._register("keys", name)[:8] for name in KEY_ENTRY.members if name not in wide}
        return self._struct(KEY_ENTRY, wide | narrow)

    def _peer(self):
        own = {name: self._register("peers", name) for name in PEER.members if name not in ("mac", *_PEER_FLAGS)}
        flags = {name: (self._register("peers", "flags") & flag).any() for name, flag in _PEER_FLAGS.items()}
        return self._struct(PEER, {**own, **flags, "mac": self._wide("peers", "mac")})

    @staticmethod
    def _struct(layout, values):
        """Concatenate the members of a layout, each cut to its width."""
        return Cat(*(values[name][: Shape.cast(layout.members[name]).width] for name in layout.members))

    def _elaborate_outputs(self, m):
        access = self._accesses.o
        device, target_pdcs = (
            next(placed for placed in self._blocks if placed.block.name == name) for name in ("device", "target_pdcs")
        )
        written = access.valid & access.ready & access.p.write
        m.d.comb += [
            self.pdc_command.select.eq(written & (access.p.address == target_pdcs.address("select"))),
            self.pdc_command.close.eq(written & (access.p.address == target_pdcs.address("close"))),
            self.pdc_command.pdc.eq(access.p.data),
            self.drain.eq(written & (access.p.address == device.address("drain"))),
            self.cycles.eq(self._cycles),
            self.mac.eq(self._wide("device", "mac")),
            self.ip.eq(self._register("device", "ip")),
            self.dscp.eq(self._register("device", "dscp")),
            self.psn_key.eq(Cat(*(self._register("device", "psn_key", word) for word in reversed(range(KEY_WORDS))))),
            self.answer_base.eq(self._wide("device", "answer_base")),
            self.counter_base.eq(self._wide("device", "counter_base")),
            self.retransmission.timeout.eq(self._register("device", "retransmit_timeout")),
            self.retransmission.limit.eq(self._register("device", "retransmit_limit")),
        ]
        for index in range(self._parameters.contexts):
            control = self._register("contexts", "control", index)
            flags = {
                "enable": (control & ContextControl.ENABLE).any(),
                "cswap_by_bits": (control & ContextControl.CSWAP_BY_BITS).any(),
                "data_by_key": (control & ContextControl.DATA_BY_KEY).any(),
                "shares_receives": (control & ContextControl.SHARES_RECEIVES).any(),
                "announces": (control & ContextControl.ANNOUNCE).any(),
                "relative": (control & ContextControl.RELATIVE).any(),
            }
            bases = {name for name in CONTEXT.members if name.endswith("_base")}
            wide = {name: self._wide("contexts", name, index) for name in bases}
            if not self._parameters.event_rings:
                wide["event_base"] = Const(0, 64)
            own = {
                name: self._register("contexts", name, index)
                for name in CONTEXT.members
                if name not in flags and name not in bases
            }
            m.d.comb += Value.cast(self.contexts[index]).eq(self._struct(CONTEXT, own | wide | flags))
