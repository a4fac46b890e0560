"""Whether a request may touch memory, and what it then does there."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import ANSWER_INLINE_SIZE, RENDEZVOUS, EventFlags, EventKind
from amoeba_model.opcodes import Op
from amoeba_model.registers import KeyFlags
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import (
    CSWAP_VALUES_SIZE,
    MESSAGE_REQUESTS,
    UNTAGGED_MESSAGES,
    RequestOpcode,
    ReturnCode,
    SemanticControl,
    SesFlags,
)

from amoeba_hw.byte_order import SWAP_BITS
from amoeba_hw.interfaces import CONTEXT, MemoryKind
from amoeba_hw.request_records import (
    CHECKED_REQUEST,
    COUNTERS,
    LOCATED_REQUEST,
    MESSAGE,
    among_opcodes,
    gives_up,
    is_divisible,
    is_message,
    message_extent,
)
from amoeba_hw.target.atomic_codes import BASE_ATOMICS, FETCH_ATOMICS, AtomicCodes
from amoeba_hw.target.open_messages import MESSAGE_PACKET, OpenMessages

__all__ = ["RequestChecker"]

_RENDEZVOUS = (RequestOpcode.RENDEZVOUS_SEND.value, RequestOpcode.RENDEZVOUS_TSEND.value)
_SENDS = (RequestOpcode.SEND.value, RequestOpcode.TAGGED_SEND.value, *_RENDEZVOUS)

_CONTEXT_VIEW = data.StructLayout(
    {
        "enable": 1,
        "domain": 8,
        "job_matches": 1,
        "pid_matches": 1,
        "has_events": 1,
        "data_by_key": 1,
        "takes_messages": 1,  # or its receiver does
        "read_counter": 8,
        "write_counter": 8,
    }
)

_KIND = data.StructLayout(
    {
        "writes": 1,  # its payload, as it is: WRITE, and messages
        "reads": 1,
        "base": 1,  # ATOMIC, AMOEBA_ATOMIC and TSEND_ATOMIC
        "fetching": 1,  # FETCHING_ATOMIC, AMOEBA_FETCHING_ATOMIC and TSEND_FETCH_ATOMIC
        "vendor": 1,  # AMOEBA_COMPARE_ATOMIC
        "divided": 1,  # one of several packets of its message
        "indivisible": 1,  # so it is, with an opcode that may not
        "gives_up": 1,
    }
)

_ATOMIC_VIEW = data.StructLayout(
    {
        "op": 5,
        "op_datatype": 5,
        "size_bits": 3,
        "swap": SWAP_BITS,
        "pair_swap": SWAP_BITS,
        "is_compare": 1,
        "has_op": 1,
        "has_cell": 1,
    }
)

_DECODED = data.StructLayout(
    {
        "located": LOCATED_REQUEST,
        "context": _CONTEXT_VIEW,
        "kind": _KIND,
        "message": MESSAGE,
        "atomic": _ATOMIC_VIEW,
        "difference": 65,  # buffer_offset - base: bit 64 says negative
        "sum": 65,  # buffer_offset + base
    }
)

_REFUSALS = (
    ("closes", ReturnCode.NULL),  # a CLOSE_COMMAND, with nothing to be checked and no response
    ("violation", ReturnCode.OP_VIOLATION),
    ("failed", ReturnCode.INITIATOR_ERROR),
    ("idle", ReturnCode.OK),  # nothing to do
    ("index", ReturnCode.BAD_INDEX),
    ("job", ReturnCode.BAD_JOB_ID),
    ("pid", ReturnCode.BAD_PID),
    ("opcode", ReturnCode.UNSUPPORTED_OP),
    ("atomic_opcode", ReturnCode.AMO_UNSUPPORTED_OP),
    ("atomic_datatype", ReturnCode.AMO_UNSUPPORTED_DT),
    ("size", ReturnCode.UNSUPPORTED_SIZE),  # of RMA and messages
    ("atomic_size", ReturnCode.AMO_UNSUPPORTED_SIZE),
    ("cswap", ReturnCode.OP_VIOLATION),  # not as long as its compare-and-swap extension
    ("part", ReturnCode.OP_VIOLATION),  # not a part of the message
    ("bases", ReturnCode.DISABLED),  # UNSUPPORTED_OP in a build without event rings
    ("key", ReturnCode.BAD_MKEY),
    ("rights", ReturnCode.PERM_VIOLATION),
    ("bounds", ReturnCode.BAD_ADDR),
    ("stray", ReturnCode.OP_VIOLATION),  # continues no message
    ("other_key", ReturnCode.PERM_VIOLATION),
    ("without_ring", ReturnCode.DISABLED),  # ends a message with immediate data
)
"""The table "Checks" of README.md, in its order."""

_LATE = ("bounds", "stray", "other_key", "without_ring")
"""Checks of the last stage."""

_NAMES = [name for name, _ in _REFUSALS]
_CHECKS_BEFORE_KEY, _CHECKS_BEFORE_MESSAGE = _NAMES.index("key"), _NAMES.index("stray")

_FAULTS = data.StructLayout({name: 1 for name in _NAMES if name not in _LATE})

_JUDGED = data.StructLayout(
    {
        "checked": CHECKED_REQUEST,  # all but what depends on the bounds
        "faults": _FAULTS,
        "packet": MESSAGE_PACKET,
        "divided": 1,
        "outside": 1,
        "part_end": 66,  # end of the message's bytes, from the region's first one
        "region_length": 64,
        "address_end": 66,
    }
)


class RequestChecker(wiring.Component):
    """The table "Checks" of README.md.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT, In
    takes_messages : In, a bit per context
        Of :class:`~amoeba_hw.target.receivers.Receivers`.
    keeps_data : In(1)
        There is an answer memory.
    located : LOCATED_REQUEST stream
    checked : CHECKED_REQUEST stream
        A message that passes is still to be matched: its memory request is that of a WRITE, or of an atomic, at
        ``buffer_offset``, and its event has no kind. Latency two cycles, one request per cycle. ``located.ready``
        depends on ``checked.ready`` combinationally.

    ::

        stage     decoded                      judged                   checked
        work      context and cell chosen,     sizes, rights, ends      bounds compared,
                  address added up             added up                 first failure chosen
    """

    def __init__(self, parameters):
        self._parameters = parameters
        super().__init__(
            {
                "contexts": In(CONTEXT).array(parameters.contexts),
                "takes_messages": In(parameters.contexts),
                "keeps_data": In(1),
                "located": In(stream.Signature(LOCATED_REQUEST)),
                "checked": Out(stream.Signature(CHECKED_REQUEST)),
            }
        )
        self._decoded = Signal(_DECODED)
        self._decoded_valid = Signal()
        self._judged = Signal(_JUDGED)

    def elaborate(self, platform):
        m = Module()
        m.submodules.codes = codes = AtomicCodes(self._parameters)
        m.submodules.messages = messages = OpenMessages(self._parameters.target_pdcs)
        advance = Signal()
        m.d.comb += [advance.eq(~self.checked.valid | self.checked.ready), self.located.ready.eq(advance)]
        decode = self._decode(m, codes)
        judge = self._judge(m)
        with m.If(advance):
            m.d.sync += [self._decoded_valid.eq(self.located.valid), *decode]
            m.d.sync += [self.checked.valid.eq(self._decoded_valid), *judge]
        self._elaborate_message(m, messages, advance)
        self._elaborate_verdict(m, messages)
        return m

    def _decode(self, m, codes):
        """Statements that fill the first stage."""
        header, entry = self.located.p.request.header, self.located.p.entry
        context = Signal(_CONTEXT_VIEW)
        with m.Switch(header.resource_index):
            for index in range(self._parameters.contexts):
                chosen = self.contexts[index]
                with m.Case(index):
                    m.d.comb += [
                        context.enable.eq(chosen.enable),
                        context.domain.eq(chosen.domain),
                        context.job_matches.eq(header.job_id == chosen.job_id),
                        context.pid_matches.eq(
                            Cat(header.pid_on_fep, (header.flags & SesFlags.RELATIVE) != 0)
                            == Cat(chosen.pid_on_fep, chosen.relative)
                        ),
                        context.has_events.eq(chosen.event_base != 0),
                        context.data_by_key.eq(chosen.data_by_key),
                        context.takes_messages.eq(self.takes_messages[index]),
                        context.read_counter.eq(chosen.read_counter),
                        context.write_counter.eq(chosen.write_counter),
                    ]
        m.d.comb += [
            codes.request_opcode.eq(header.opcode),
            codes.opcode.eq(header.atomic_opcode),
            codes.datatype.eq(header.atomic_datatype),
        ]
        return [
            self._decoded.located.eq(self.located.p),
            self._decoded.context.eq(context),
            *self._decode_opcode(header),
            *(self._decoded.atomic[name].eq(getattr(codes, name)) for name, _ in _ATOMIC_VIEW),
            self._decoded.difference.eq(header.buffer_offset - entry.base),
            self._decoded.sum.eq(header.buffer_offset + entry.base),
        ]

    def _decode_opcode(self, header):
        opcode, kind, message = header.opcode, self._decoded.kind, self._decoded.message
        has_messages = self._parameters.has_messages
        starts, ends = message_extent(header)
        divided = ~(starts & ends) & ~gives_up(header)
        is_one = is_message(header) & has_messages

        def among(*opcodes):
            """Whether the opcode is one of these; a NIC without messages knows none of theirs."""
            return opcode.matches(*(each for each in opcodes if has_messages or each not in MESSAGE_REQUESTS))

        return [
            kind.writes.eq(among(RequestOpcode.WRITE.value, *_SENDS)),
            kind.reads.eq(opcode == RequestOpcode.READ.value),
            kind.base.eq(among(*BASE_ATOMICS)),
            kind.fetching.eq(among(RequestOpcode.FETCHING_ATOMIC.value, *FETCH_ATOMICS)),
            kind.vendor.eq(opcode == RequestOpcode.AMOEBA_COMPARE_ATOMIC.value),
            kind.divided.eq(divided & is_divisible(opcode)),
            kind.indivisible.eq(divided & ~is_divisible(opcode)),
            kind.gives_up.eq(gives_up(header)),
            message.valid.eq(is_one),
            message.tagged.eq(is_one & ~among_opcodes(opcode, UNTAGGED_MESSAGES)),
            message.rendezvous.eq(among(*_RENDEZVOUS)),
            message.atomic.eq(is_one & ~opcode.matches(*_SENDS)),
            message.divided.eq(is_one & divided),
            message.ends.eq(ends),
            *(
                message[name].eq(self.located.p.request[name])
                for name in ("slot_reserved", "receive_kept", "target_generation")
            ),
        ]

    def _judge(self, m):
        """Statements that fill the second stage."""
        decoded, judged = self._decoded, self._judged
        located, header = decoded.located, decoded.located.request.header
        only_reads = decoded.kind.reads | (decoded.kind.fetching & (decoded.atomic.op == int(Op.FI_ATOMIC_READ)))
        # The compare-and-swap extension: compare value and swap value in 16 bytes each.
        is_extended = decoded.kind.fetching & decoded.atomic.is_compare & ~decoded.message.valid
        is_virtual = (located.entry.flags & int(KeyFlags.VIRTUAL)) != 0
        # A message brings its offset to where it is matched.
        address = Mux(is_virtual | decoded.message.valid, header.buffer_offset, decoded.sum)
        offset = Mux(is_virtual, decoded.difference[:64], header.buffer_offset)
        # Bytes of memory concerned by the message, and by this packet of it.
        length = Mux(is_extended, (1 << decoded.atomic.size_bits)[:6], header.request_length)
        # Half of the payload of a compare atomic are compare values.
        part = Mux(decoded.kind.vendor, header.payload_length >> 1, header.payload_length)
        size = Mux(decoded.kind.divided, part, length)[:14]
        return [
            *self._judge_faults(only_reads, is_extended, size),
            *self._judge_memory(only_reads, is_extended, address, size),
            *self._judge_answer(size),
            *self._judge_event(address, length),
            *self._judge_packet(size),
            *self._judge_counters(only_reads),
            judged.outside.eq(is_virtual & decoded.difference[64]),
            judged.part_end.eq(offset + length),
            judged.region_length.eq(located.entry.length),
            judged.address_end.eq(address + length),
            judged.checked.dropped.eq(located.request.dropped),
            judged.checked.gap.eq(located.request.gap),
            judged.checked.has_payload.eq(~header.is_control & (header.payload_length != 0)),
            judged.checked.message.eq(decoded.message),
            judged.checked.context.eq(Mux(header.is_control, NO_CONTEXT, header.resource_index)),
        ]

    def _judge_packet(self, size):
        """Say to which message the packet belongs, and where."""
        located, packet = self._decoded.located, self._judged.packet
        header = located.request.header
        starts, ends = message_extent(header)
        identity = packet.identity
        return [
            self._judged.divided.eq(self._decoded.kind.divided),
            packet.epoch.eq(located.request.epoch),
            *(
                identity[name].eq(header[name])
                for name in ("opcode", "message_id", "job_id", "initiator", "buffer_offset", "request_length")
            ),
            identity.context.eq(header.resource_index),
            packet.key.eq(header.memory_key),
            packet.starts.eq(starts),
            packet.ends.eq(ends),
            packet.offset.eq(self._message_offset()),
            packet.size.eq(size),
            packet.has_data.eq((header.flags & int(SesFlags.HEADER_DATA)) != 0),
            packet.data.eq(header.header_data),
        ]

    def _message_offset(self):
        """Return where the packet's part of its message begins, if that has several packets."""
        header = self._decoded.located.request.header
        return Mux(self._decoded.kind.divided & ~message_extent(header)[0], header.header_data[:32], 0)

    def _judge_memory(self, only_reads, is_extended, address, length):
        """Assign the work of the memory engine, with the parts of the payload."""
        decoded, kind, atomic = self._decoded, self._decoded.kind, self._decoded.atomic
        request, header = decoded.located.request, decoded.located.request.header
        memory, job = self._judged.checked.memory, self._judged.checked.job
        is_atomic = kind.base | kind.fetching | kind.vendor
        # A message in parts says where the part begins in it, and nothing else.
        base = Mux(decoded.message.divided, 0, address)
        return [
            memory.address.eq(base + self._message_offset()),
            memory.context.eq(Mux(decoded.message.valid, request.receiver, NO_CONTEXT)),
            memory.length.eq(length),
            memory.kind.eq(Mux(kind.writes, MemoryKind.WRITE, Mux(kind.reads, MemoryKind.READ, MemoryKind.ATOMIC))),
            memory.op.eq(atomic.op),
            memory.datatype.eq(atomic.op_datatype),
            memory.has_operand.eq((kind.writes & (header.request_length != 0)) | (is_atomic & ~only_reads)),
            memory.has_compare.eq(is_atomic & atomic.is_compare),
            memory.cswap_by_bits.eq((header.semantic_control & int(SemanticControl.AMOEBA_CSWAP_BY_BITS)) != 0),
            memory.returns_data.eq((kind.reads & (header.request_length != 0)) | kind.fetching | kind.vendor),
            memory.pdc.eq(request.pdc),
            memory.psn.eq(header.psn),
            job.operand.skip.eq(Mux(is_extended, CSWAP_VALUES_SIZE // 2, 0)),
            job.operand.length.eq(length),
            job.compare.skip.eq(Mux(is_extended, 0, length)),
            job.compare.length.eq(length),
            job.swap.eq(Mux(is_atomic, Mux(is_extended, atomic.pair_swap, atomic.swap), 0)),
        ]

    def _judge_answer(self, size):
        request, answer = self._decoded.located.request, self._judged.checked.answer
        header, kind = request.header, self._decoded.kind
        is_atomic = kind.base | kind.fetching | kind.vendor
        return [
            *(
                answer[name].eq(header[name])
                for name in ("mac", "ip", "port", "psn", "clear_psn_offset", "retx", "marked")
            ),
            # A control packet has none of these.
            *(
                answer[name].eq(Mux(header.is_control, 0, value))
                for name, value in (
                    ("message_id", header.message_id),
                    ("job_id", header.job_id),
                    ("request_length", header.request_length),
                    ("length", size),
                )
            ),
            answer.continues.eq(kind.divided & ~message_extent(header)[0]),
            answer.swap.eq(Mux(is_atomic, self._decoded.atomic.swap, 0)),
            answer.spdcid.eq(request.pdc),
            answer.dpdcid.eq(header.spdcid),
            answer.epoch.eq(request.epoch),
        ]

    def _judge_event(self, address, length):
        """Of a message it has no kind yet: matching says which, if any."""
        decoded, event = self._decoded, self._judged.checked.answer.event
        kind, message = decoded.kind, decoded.message
        request, header = decoded.located.request, decoded.located.request.header
        has_data = ((header.flags & int(SesFlags.HEADER_DATA)) != 0) & message_extent(header)[0]
        rma_kind = Mux(kind.writes, int(EventKind.REMOTE_WRITE), int(EventKind.REMOTE_READ))
        is_rma = kind.writes | kind.reads
        return [
            event.reserved.eq(request.reserved),
            event.context.eq(request.receiver),
            event.generation.eq(request.generation),
            event.kind.eq(Mux(message.valid, 0, Mux(is_rma, rma_kind, int(EventKind.REMOTE_ATOMIC)))),
            event.flags.eq(
                Mux(has_data, int(EventFlags.IMMEDIATE), 0) | Mux(message.tagged, int(EventFlags.TAGGED), 0)
            ),
            event.status.eq(int(ReturnCode.OK)),
            event.data.eq(Mux(has_data, header.header_data, 0)),
            event.tag.eq(Mux(message.tagged, header.memory_key, 0)),
            event.address.eq(address),
            event.length.eq(length),
            event.initiator.eq(header.initiator),
            event.target.eq(header.resource_index),
        ]

    def _judge_counters(self, only_reads):
        """Assign the context's and the key's counters, if the request is not refused before its key is looked at.

        Of the context one counts, as fi_endpoint(3) says. Of the key, as fi_mr(3) says, the one for writes counts
        whatever may change memory, and that for reads what brings data back. If they are the same it counts once.
        """
        decoded, entry, context = self._decoded, self._decoded.located.entry, self._decoded.context
        writes = decoded.kind.writes | decoded.kind.base
        counters = self._judged.checked.answer.counters
        last = int(SesFlags.DELIVERY_COMPLETE | SesFlags.END_OF_MESSAGE)
        is_counted = ((decoded.located.request.header.flags & last) == last) & ~decoded.message.valid
        has_key = decoded.located.found & (entry.domain == decoded.context.domain)
        by_key = is_counted & has_key
        changes = writes | (~only_reads & (entry.write_counter != entry.read_counter))
        return [
            counters[0].eq(Mux(is_counted, Mux(writes, context.write_counter, context.read_counter), 0)),
            counters[1].eq(Mux(by_key & ~writes, entry.read_counter, 0)),
            counters[2].eq(Mux(by_key & changes, entry.write_counter, 0)),
        ]

    def _judge_faults(self, only_reads, is_extended, size):
        """Check a request, but for the last check."""
        decoded, located, atomic = self._decoded, self._decoded.located, self._decoded.atomic
        header, context, entry = located.request.header, decoded.context, located.entry
        kind, message = decoded.kind, decoded.message
        is_atomic = kind.base | kind.fetching | kind.vendor
        length, payload = header.request_length, header.payload_length
        most = self._parameters.payload
        starts, ends = message_extent(header)
        divided, end = kind.divided, header.header_data[:32] + size
        has_data = ((header.flags & int(SesFlags.HEADER_DATA)) != 0) & starts
        by_key = kind.reads & located.found & ((entry.flags & int(KeyFlags.DATA)) != 0)
        takes_data = context.has_events & (by_key | ~context.data_by_key)
        reads = (entry.flags & int(KeyFlags.REMOTE_READ)) != 0
        writes = (entry.flags & int(KeyFlags.REMOTE_WRITE)) != 0
        element = (1 << atomic.size_bits)[:6]
        fits = Mux(
            kind.vendor,
            (payload == Cat(0, size)) & (size <= most // 2),
            payload == Mux(only_reads, 0, size),
        )
        fits = fits & (divided | (length <= most))
        whole_elements = (length != 0) & (size <= most) & (((length | size) & (element - 1)[:6]) == 0) & fits
        conditions = {
            "closes": header.is_control,
            "violation": (header.version != 0) | kind.indivisible,
            "failed": (header.flags & int(SesFlags.INITIATOR_ERROR)) != 0,
            "idle": (header.opcode == int(RequestOpcode.NO_OP)) | kind.gives_up,
            "index": ~context.enable,
            "job": ~context.job_matches,
            "pid": ~context.pid_matches,
            "opcode": ~(kind.writes | kind.reads | is_atomic),
            "atomic_opcode": is_atomic & ~atomic.has_op,
            "atomic_datatype": is_atomic & ~atomic.has_cell,
            "size": ~is_atomic
            & (
                (Mux(divided, payload, length) > most)
                | (~divided & (payload != Mux(kind.writes, length, 0)))
                | (message.rendezvous & (length != RENDEZVOUS.size))
            ),
            "atomic_size": is_atomic & Mux(is_extended, element > CSWAP_VALUES_SIZE // 2, ~whole_elements),
            "cswap": is_extended & ((length != CSWAP_VALUES_SIZE) | (payload != CSWAP_VALUES_SIZE)),
            "part": divided
            & (
                (size == 0)
                | Mux(
                    starts,
                    size >= length,
                    (header.header_data[32:46] != size) | (end > length) | ((end == length) != ends),
                )
            ),
            "bases": Mux(message.valid, ~context.takes_messages, has_data & ~takes_data),
            "key": ~message.valid & ~located.found,
            "rights": ~message.valid
            & ((entry.domain != context.domain) | (~(kind.writes | kind.base) & ~reads) | (~only_reads & ~writes)),
        }
        return [self._judged.faults[name].eq(condition) for name, condition in conditions.items()]

    def _elaborate_message(self, m, messages, advance):
        """Look the next packet's message up, and the one of the packet in hand brought up to date."""
        judged = self._judged
        m.d.comb += [
            messages.advance.eq(advance),
            messages.following.eq(self._decoded.located.request.pdc),
            messages.pdc.eq(judged.checked.answer.spdcid),
            messages.packet.eq(judged.packet),
            messages.accepted.eq(self.checked.valid & ~judged.checked.dropped),
        ]

    def _elaborate_verdict(self, m, messages):
        judged, checked = self._judged, self.checked.p
        event = judged.checked.answer.event
        continues = judged.divided & ~judged.packet.starts
        concludes = continues & judged.packet.ends & messages.has_data
        bounds = ~judged.checked.message.valid & (
            judged.outside | (judged.part_end > judged.region_length) | (judged.address_end > 1 << 64)
        )
        refused = Signal(len(_REFUSALS))
        code = Signal(6)
        late = {
            "bounds": bounds,
            "stray": continues & messages.stray,
            "other_key": continues & messages.other_key,
            # Of a message, the receive that it has met has kept the entry.
            "without_ring": concludes & ~event.reserved & ~judged.checked.message.valid,
        }
        m.d.comb += [
            refused.eq(Cat(late[name] if name in late else judged.faults[name] for name, _ in _REFUSALS)),
            code.eq(int(ReturnCode.OK)),
            messages.passed.eq(~refused.any()),
        ]
        # The last assignment wins: the first check that fails.
        for position, (_, return_code) in reversed(tuple(enumerate(_REFUSALS))):
            if return_code is ReturnCode.DISABLED and not self._parameters.event_rings:
                return_code = ReturnCode.UNSUPPORTED_OP
            with m.If(refused[position]):
                m.d.comb += code.eq(int(return_code))
        executed = ~judged.checked.dropped & ~refused.any()
        returns_data = executed & judged.checked.memory.returns_data
        is_strange = ~refused[:_CHECKS_BEFORE_MESSAGE].any() & (late["stray"] | late["without_ring"])
        is_counted = ~refused[:_CHECKS_BEFORE_KEY].any() & ~is_strange
        m.d.comb += [
            checked.eq(judged.checked),
            checked.answer.return_code.eq(code),
            checked.answer.executed.eq(executed),
            checked.answer.event.data.eq(Mux(concludes, messages.data, event.data)),
            checked.answer.event.flags.eq(event.flags | Mux(concludes, int(EventFlags.IMMEDIATE), 0)),
            checked.answer.returns_data.eq(returns_data),
            checked.answer.copied.eq(
                returns_data & self.keeps_data & (judged.checked.memory.length > ANSWER_INLINE_SIZE)
            ),
            *(
                checked.answer.counters[place].eq(Mux(is_counted, judged.checked.answer.counters[place], 0))
                for place in range(COUNTERS)
            ),
            checked.job.has_operand.eq(executed & judged.checked.memory.has_operand),
            checked.job.has_compare.eq(executed & judged.checked.memory.has_compare),
        ]
