"""Whether a request may touch memory, and what it then does there."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import ANSWER_INLINE_SIZE, EventKind
from amoeba_model.opcodes import Op
from amoeba_model.registers import KeyFlags
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.uet import CSWAP_VALUES_SIZE, RequestOpcode, ReturnCode, SemanticControl, SesFlags

from amoeba_hw.interfaces import CONTEXT, MemoryKind
from amoeba_hw.target.atomic_codes import AtomicCodes
from amoeba_hw.target.records import CHECKED_REQUEST, LOCATED_REQUEST

__all__ = ["RequestChecker"]

_CONTEXT_VIEW = data.StructLayout({"enable": 1, "domain": 8, "job_matches": 1, "pid_matches": 1, "has_events": 1})

_ATOMIC_VIEW = data.StructLayout(
    {"op": 5, "op_datatype": 5, "size_bits": 3, "is_compare": 1, "has_op": 1, "has_cell": 1}
)

_DECODED = data.StructLayout(
    {
        "located": LOCATED_REQUEST,
        "context": _CONTEXT_VIEW,
        "atomic": _ATOMIC_VIEW,
        "difference": 65,  # buffer_offset - base: bit 64 says negative
        "sum": 65,  # buffer_offset + base
    }
)

_REFUSALS = (
    ("closes", ReturnCode.OK),  # a CLOSE_COMMAND, with nothing to be checked
    ("violation", ReturnCode.OP_VIOLATION),
    ("idle", ReturnCode.OK),  # nothing to do
    ("index", ReturnCode.BAD_INDEX),
    ("job", ReturnCode.BAD_JOB_ID),
    ("pid", ReturnCode.BAD_PID),
    ("opcode", ReturnCode.UNSUPPORTED_OP),
    ("atomic_opcode", ReturnCode.AMO_UNSUPPORTED_OP),
    ("atomic_datatype", ReturnCode.AMO_UNSUPPORTED_DT),
    ("rma_size", ReturnCode.UNSUPPORTED_SIZE),
    ("atomic_size", ReturnCode.AMO_UNSUPPORTED_SIZE),
    ("events", ReturnCode.DISABLED),
    ("key", ReturnCode.BAD_MKEY),
    ("rights", ReturnCode.PERM_VIOLATION),
    ("bounds", ReturnCode.BAD_ADDR),
)
"""The check table of the architecture, in its order."""

_FAULTS = data.StructLayout({name: 1 for name, _ in _REFUSALS if name != "bounds"})

_JUDGED = data.StructLayout(
    {
        "checked": CHECKED_REQUEST,  # all but what depends on the bounds
        "faults": _FAULTS,
        "outside": 1,
        "part_end": 66,  # end of the part, from the region's first byte
        "region_length": 64,
        "address_end": 66,
    }
)


class RequestChecker(wiring.Component):
    """The table "Checks (target)" of the architecture.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    contexts : array of CONTEXT, In
    keeps_data : In(1)
        There is an answer memory.
    located : LOCATED_REQUEST stream
    checked : CHECKED_REQUEST stream
        Latency two cycles, one request per cycle. ``located.ready`` depends on ``checked.ready`` combinationally.

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
        advance = Signal()
        m.d.comb += [advance.eq(~self.checked.valid | self.checked.ready), self.located.ready.eq(advance)]
        decode = self._decode(m, codes)
        judge = self._judge(m)
        with m.If(advance):
            m.d.sync += [self._decoded_valid.eq(self.located.valid), *decode]
            m.d.sync += [self.checked.valid.eq(self._decoded_valid), *judge]
        self._elaborate_verdict(m)
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
                        context.pid_matches.eq(header.pid_on_fep == chosen.pid_on_fep),
                        context.has_events.eq(chosen.event_base != 0),
                    ]
        m.d.comb += [
            codes.request_opcode.eq(header.opcode),
            codes.opcode.eq(header.atomic_opcode),
            codes.datatype.eq(header.atomic_datatype),
        ]
        return [
            self._decoded.located.eq(self.located.p),
            self._decoded.context.eq(context),
            *(self._decoded.atomic[name].eq(getattr(codes, name)) for name, _ in _ATOMIC_VIEW),
            self._decoded.difference.eq(header.buffer_offset - entry.base),
            self._decoded.sum.eq(header.buffer_offset + entry.base),
        ]

    def _judge(self, m):
        """Statements that fill the second stage."""
        located, atomic = self._decoded.located, self._decoded.atomic
        request, header = located.request, located.request.header
        is_write = header.opcode == int(RequestOpcode.WRITE)
        is_read = header.opcode == int(RequestOpcode.READ)
        is_base = header.opcode == int(RequestOpcode.ATOMIC)
        is_fetching = header.opcode == int(RequestOpcode.FETCHING_ATOMIC)
        is_vendor = header.opcode == int(RequestOpcode.AMOEBA_COMPARE_ATOMIC)
        is_atomic = is_base | is_fetching | is_vendor
        only_reads = is_read | (is_fetching & (atomic.op == int(Op.FI_ATOMIC_READ)))
        has_operand = (is_write & (header.request_length != 0)) | (is_atomic & ~only_reads)
        # The compare-and-swap extension: compare value and swap value in 16 bytes each.
        is_extended = is_fetching & atomic.is_compare
        length = header.request_length[:14]
        is_virtual = (located.entry.flags & int(KeyFlags.VIRTUAL)) != 0
        address = Mux(is_virtual, header.buffer_offset, self._decoded.sum)
        offset = Mux(is_virtual, self._decoded.difference[:64], header.buffer_offset)
        judged, memory = self._judged, self._judged.checked.memory
        job, answer = self._judged.checked.job, self._judged.checked.answer
        return [
            *self._judge_faults(is_write, is_read, is_base, is_atomic, only_reads, is_extended, is_vendor),
            judged.outside.eq(is_virtual & self._decoded.difference[64]),
            judged.part_end.eq(offset + header.request_length),
            judged.region_length.eq(located.entry.length),
            judged.address_end.eq(address + header.request_length),
            judged.checked.dropped.eq(request.dropped),
            judged.checked.has_payload.eq(~header.is_control & (header.payload_length != 0)),
            judged.checked.context.eq(Mux(header.is_control, NO_CONTEXT, header.resource_index)),
            memory.address.eq(address),
            memory.length.eq(length),
            memory.kind.eq(Mux(is_write, MemoryKind.WRITE, Mux(is_read, MemoryKind.READ, MemoryKind.ATOMIC))),
            memory.op.eq(atomic.op),
            memory.datatype.eq(atomic.op_datatype),
            memory.has_operand.eq(has_operand),
            memory.has_compare.eq(is_atomic & atomic.is_compare),
            memory.cswap_by_bits.eq((header.semantic_control & int(SemanticControl.AMOEBA_CSWAP_BY_BITS)) != 0),
            memory.returns_data.eq((is_read & (header.request_length != 0)) | is_fetching | is_vendor),
            memory.pdc.eq(request.pdc),
            memory.psn.eq(header.psn),
            job.operand.skip.eq(Mux(is_extended, CSWAP_VALUES_SIZE // 2, 0)),
            job.operand.length.eq(length),
            job.compare.skip.eq(Mux(is_extended, 0, length)),
            job.compare.length.eq(length),
            *(answer[name].eq(header[name]) for name in ("mac", "ip", "port", "psn", "clear_psn_offset", "retx")),
            # A control packet has none of these.
            *(
                answer[name].eq(Mux(header.is_control, 0, header[name]))
                for name in ("message_id", "job_id", "request_length")
            ),
            answer.spdcid.eq(request.pdc),
            answer.dpdcid.eq(header.spdcid),
            answer.incarnation.eq(request.incarnation),
            answer.event.promised.eq(request.promised),
            answer.event.context.eq(header.resource_index),
            answer.event.generation.eq(request.generation),
            answer.event.kind.eq(
                Mux(
                    is_write,
                    EventKind.REMOTE_WRITE.value,
                    Mux(is_read, EventKind.REMOTE_READ.value, EventKind.REMOTE_ATOMIC.value),
                )
            ),
            answer.event.data.eq(header.header_data),
            answer.event.address.eq(address),
            answer.event.initiator.eq(header.initiator),
        ]

    def _judge_faults(self, is_write, is_read, is_base, is_atomic, only_reads, is_extended, is_vendor):
        """The checks but the last."""
        decoded, located, atomic = self._decoded, self._decoded.located, self._decoded.atomic
        header, context, entry = located.request.header, decoded.context, located.entry
        length, payload = header.request_length, header.payload_length
        most = self._parameters.payload
        whole = int(SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE)
        reads = (entry.flags & int(KeyFlags.REMOTE_READ)) != 0
        writes = (entry.flags & int(KeyFlags.REMOTE_WRITE)) != 0
        element = (1 << atomic.size_bits)[:6]
        fits = Mux(
            is_extended,
            (length == element) & (element <= CSWAP_VALUES_SIZE // 2) & (payload == CSWAP_VALUES_SIZE),
            Mux(
                is_vendor,
                (payload == (length << 1)) & (length <= most // 2),
                payload == Mux(only_reads, 0, length),
            ),
        )
        conditions = {
            "closes": header.is_control,
            "violation": (header.version != 0) | ((header.flags & whole) != whole),
            "idle": (header.opcode == int(RequestOpcode.NO_OP))
            | ((header.flags & int(SesFlags.INITIATOR_ERROR)) != 0),
            "index": ~context.enable,
            "job": ~context.job_matches,
            "pid": ~context.pid_matches,
            "opcode": ~(is_write | is_read | is_atomic),
            "atomic_opcode": is_atomic & ~atomic.has_op,
            "atomic_datatype": is_atomic & ~atomic.has_cell,
            "rma_size": ~is_atomic & ((length > most) | (payload != Mux(is_write, length, 0))),
            "atomic_size": is_atomic
            & ((length == 0) | (length > most) | ((length & (element - 1)[:6]) != 0) | ~fits),
            "events": ((header.flags & int(SesFlags.HEADER_DATA)) != 0) & ~context.has_events,
            "key": ~located.found,
            "rights": (entry.domain != context.domain) | (~(is_write | is_base) & ~reads) | (~only_reads & ~writes),
        }
        return [self._judged.faults[name].eq(condition) for name, condition in conditions.items()]

    def _elaborate_verdict(self, m):
        judged, checked = self._judged, self.checked.p
        bounds = judged.outside | (judged.part_end > judged.region_length) | (judged.address_end > 1 << 64)
        refused = Signal(len(_REFUSALS))
        code = Signal(6)
        m.d.comb += [
            refused.eq(Cat(bounds if name == "bounds" else judged.faults[name] for name, _ in _REFUSALS)),
            code.eq(int(ReturnCode.OK)),
        ]
        # The last assignment wins: the first check that fails.
        for position, (_, return_code) in reversed(tuple(enumerate(_REFUSALS))):
            with m.If(refused[position]):
                m.d.comb += code.eq(int(return_code))
        executed = ~checked.dropped & ~refused.any()
        returns_data = executed & judged.checked.memory.returns_data
        m.d.comb += [
            checked.eq(judged.checked),
            checked.answer.return_code.eq(code),
            checked.answer.executed.eq(executed),
            checked.answer.returns_data.eq(returns_data),
            checked.answer.copied.eq(
                returns_data & self.keeps_data & (judged.checked.memory.length > ANSWER_INLINE_SIZE)
            ),
            checked.job.has_operand.eq(executed & judged.checked.memory.has_operand),
            checked.job.has_compare.eq(executed & judged.checked.memory.has_compare),
        ]
