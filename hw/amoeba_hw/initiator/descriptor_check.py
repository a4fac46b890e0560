"""Decodes descriptors, and checks whether their requests are allowed."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.descriptors import RENDEZVOUS, TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.wire.uet import ATOMIC_DATATYPES, ATOMIC_OPCODES, CSWAP_VALUES_SIZE, RequestOpcode, ReturnCode

from amoeba_hw.initiator.records import PayloadKind
from amoeba_hw.layout import struct_layout

__all__ = ["DescriptorCheck"]

_LONGEST = 1 << 30
_INLINE_BYTES = 8
_FORMS = {
    DescriptorOpcode.ATOMIC: Form.BASE,
    DescriptorOpcode.FETCH_ATOMIC: Form.FETCH,
    DescriptorOpcode.COMPARE_ATOMIC: Form.COMPARE,
    DescriptorOpcode.TAGGED_ATOMIC: Form.BASE,
    DescriptorOpcode.TAGGED_FETCH_ATOMIC: Form.FETCH,
}
_FETCHING = (DescriptorOpcode.FETCH_ATOMIC, DescriptorOpcode.TAGGED_FETCH_ATOMIC)
_RENDEZVOUS = (DescriptorOpcode.RENDEZVOUS_SEND, DescriptorOpcode.RENDEZVOUS_TAGGED_SEND)
_ONE_PACKET = (DescriptorOpcode.TAGGED_ATOMIC, DescriptorOpcode.TAGGED_FETCH_ATOMIC)
"""Requests of one packet, so of at most ``payload`` bytes; a rendezvous is, too, but has a length of its own."""
_CARRYING = (
    DescriptorOpcode.WRITE,
    DescriptorOpcode.ATOMIC,
    DescriptorOpcode.SEND,
    DescriptorOpcode.TAGGED_SEND,
    DescriptorOpcode.TAGGED_ATOMIC,
    *_RENDEZVOUS,
)
"""Opcodes that carry all ``length`` bytes of their operands, whatever the operation."""
_SES_OPCODES = {
    DescriptorOpcode.WRITE: RequestOpcode.WRITE,
    DescriptorOpcode.READ: RequestOpcode.READ,
    DescriptorOpcode.ATOMIC: RequestOpcode.ATOMIC,
    DescriptorOpcode.FETCH_ATOMIC: RequestOpcode.FETCHING_ATOMIC,
    DescriptorOpcode.SEND: RequestOpcode.SEND,
    DescriptorOpcode.TAGGED_SEND: RequestOpcode.TAGGED_SEND,
    DescriptorOpcode.RENDEZVOUS_SEND: RequestOpcode.RENDEZVOUS_SEND,
    DescriptorOpcode.RENDEZVOUS_TAGGED_SEND: RequestOpcode.RENDEZVOUS_TSEND,
    DescriptorOpcode.TAGGED_ATOMIC: RequestOpcode.TSEND_ATOMIC,
    DescriptorOpcode.TAGGED_FETCH_ATOMIC: RequestOpcode.TSEND_FETCH_ATOMIC,
}
_LONG_ATOMICS = {
    DescriptorOpcode.ATOMIC: RequestOpcode.AMOEBA_ATOMIC,
    DescriptorOpcode.FETCH_ATOMIC: RequestOpcode.AMOEBA_FETCHING_ATOMIC,
}
"""Atomics of several packets, which UET does not know."""


class DescriptorCheck(wiring.Component):
    """Validates and decodes one descriptor; of its peer, it hears a cycle later.

    Parameters
    ----------
    parameters : NicParameters
        ``cells()`` says which atomics this build executes, ``payload`` how long a message may be.

    Members
    -------
    descriptor : in
        The outputs are those of the descriptor of the cycle before.
    peer_allowed : in
        Its peer is in the table, valid, and the context's own.
    status : ReturnCode
        OK, or why the descriptor is refused: the first reason in the order of the specification.
    becomes_request : out
        It is not refused, and no NOP that waits for nothing.
    is_close, is_nop : out
    is_atomic, ses_opcode, atomic_opcode, atomic_datatype, kind, returns_data : out
        Fields of the request's packets; undefined unless ``status`` is OK.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        super().__init__(
            {
                "descriptor": In(struct_layout(TX_DESCRIPTOR)),
                "peer_allowed": In(1),
                "status": Out(8),
                "becomes_request": Out(1),
                "is_close": Out(1),
                "is_nop": Out(1),
                "is_atomic": Out(1),
                "ses_opcode": Out(6),
                "atomic_opcode": Out(8),
                "atomic_datatype": Out(8),
                "kind": Out(PayloadKind),
                "returns_data": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        descriptor = self.descriptor
        malformed = Signal()
        executed = Signal()
        one_small_element = Signal()
        is_atomic = descriptor.opcode.matches(*_FORMS)
        self._elaborate_form(m, is_atomic, malformed, one_small_element)
        with m.Switch(descriptor.opcode):
            for opcode, form in _FORMS.items():
                with m.Case(opcode):
                    self._elaborate_cells(m, form, executed)
        status = Signal(8)
        needs_peer = Signal()
        waits = Signal()
        """The descriptor is in order, and has something to send or to wait for."""
        is_nop = descriptor.opcode == DescriptorOpcode.NOP
        fenced = (descriptor.flags & DescriptorFlags.FENCE).bool()
        fenced_from_all = (descriptor.flags & DescriptorFlags.FENCE_ALL).bool()
        m.d.sync += [
            self.is_close.eq(descriptor.opcode == DescriptorOpcode.CLOSE),
            self.is_nop.eq(is_nop),
            self.is_atomic.eq(is_atomic),
            self.returns_data.eq(
                descriptor.opcode.matches(DescriptorOpcode.READ, DescriptorOpcode.COMPARE_ATOMIC, *_FETCHING)
            ),
            status.eq(ReturnCode.OK),
            needs_peer.eq(~is_nop | fenced),
            waits.eq(~is_nop | fenced | fenced_from_all),
        ]
        with m.If(malformed):
            m.d.sync += [status.eq(ReturnCode.LOCAL_BAD_DESCRIPTOR), needs_peer.eq(0), waits.eq(0)]
        with m.Elif(is_atomic & ~executed):
            m.d.sync += [status.eq(ReturnCode.AMO_UNSUPPORTED_OP), needs_peer.eq(0), waits.eq(0)]
        m.d.comb += [
            self.becomes_request.eq(waits & (self.peer_allowed | ~needs_peer)),
            self.status.eq(Mux(needs_peer & ~self.peer_allowed, ReturnCode.LOCAL_BAD_PEER, status)),
        ]
        self._elaborate_packet(m, is_atomic, one_small_element)
        return m

    def _elaborate_form(self, m, is_atomic, malformed, one_small_element):
        descriptor = self.descriptor
        flags = sum(DescriptorFlags)
        fraction = Signal(5)
        """Bytes that the length exceeds a multiple of the element by; 0 where the datatype is unknown."""
        with m.Switch(descriptor.datatype):
            for datatype in Datatype:
                with m.Case(datatype):
                    m.d.comb += [
                        fraction.eq(descriptor.length[:5] & (datatype.size - 1)),
                        one_small_element.eq(
                            (descriptor.length == datatype.size) & (datatype.size <= CSWAP_VALUES_SIZE // 2)
                        ),
                    ]
        inline = (descriptor.flags & DescriptorFlags.INLINE).bool()
        # Both would be in ``compare``; what asks for nothing brings no data.
        without_data = (descriptor.flags & DescriptorFlags.IMMEDIATE).bool() & descriptor.opcode.matches(
            DescriptorOpcode.COMPARE_ATOMIC, DescriptorOpcode.PING
        )
        m.d.comb += malformed.eq(
            ~descriptor.opcode.matches(*DescriptorOpcode)
            | (descriptor.flags & ~flags & 0xFF).bool()
            | (inline & (descriptor.length > _INLINE_BYTES))
            | without_data
            | (descriptor.length > _LONGEST)
            | (descriptor.opcode.matches(*_ONE_PACKET) & (descriptor.length > self._parameters.payload))
            | (descriptor.opcode.matches(*_RENDEZVOUS) & (descriptor.length != RENDEZVOUS.size))
            | ((descriptor.opcode == DescriptorOpcode.PING) & (descriptor.length != 0))
            | (is_atomic & ((descriptor.length == 0) | (fraction != 0)))
        )

    def _elaborate_cells(self, m, form, executed):
        cells = [cell for cell in self._parameters.cells() if cell.form is form]
        with m.Switch(self.descriptor.op):
            for op in sorted({cell.op for cell in cells}):
                datatypes = [cell.datatype for cell in cells if cell.op is op]
                with m.Case(op):
                    m.d.comb += executed.eq(self.descriptor.datatype.matches(*datatypes))

    def _elaborate_packet(self, m, is_atomic, one_small_element):
        descriptor = self.descriptor
        m.d.sync += [
            self.ses_opcode.eq(RequestOpcode.NO_OP),
            self.atomic_opcode.eq(0),
            self.atomic_datatype.eq(0),
            self.kind.eq(PayloadKind.NONE),
        ]
        with m.Switch(descriptor.opcode):
            for opcode, ses_opcode in _SES_OPCODES.items():
                if opcode not in _LONG_ATOMICS:
                    with m.Case(opcode):
                        m.d.sync += self.ses_opcode.eq(ses_opcode)
            for opcode, ses_opcode in _LONG_ATOMICS.items():
                with m.Case(opcode):
                    # Each packet that only reads is a message of its own.
                    is_long = (descriptor.length > self._parameters.payload) & (descriptor.op != Op.FI_ATOMIC_READ)
                    m.d.sync += self.ses_opcode.eq(Mux(is_long, ses_opcode, _SES_OPCODES[opcode]))
            with m.Case(DescriptorOpcode.COMPARE_ATOMIC):
                m.d.sync += self.ses_opcode.eq(RequestOpcode.AMOEBA_COMPARE_ATOMIC)
                with m.If(one_small_element):
                    m.d.sync += self.ses_opcode.eq(RequestOpcode.FETCHING_ATOMIC)
        with m.If(is_atomic):
            with m.Switch(descriptor.op):
                for op in Op:
                    with m.Case(op):
                        m.d.sync += self.atomic_opcode.eq(ATOMIC_OPCODES[op])
            with m.Switch(descriptor.datatype):
                for datatype in Datatype:
                    with m.Case(datatype):
                        m.d.sync += self.atomic_datatype.eq(ATOMIC_DATATYPES[datatype])
        with m.Switch(descriptor.opcode):
            with m.Case(*_CARRYING), m.If(descriptor.length != 0):
                m.d.sync += self.kind.eq(PayloadKind.OPERANDS)
            with m.Case(*_FETCHING), m.If(descriptor.op != Op.FI_ATOMIC_READ):
                m.d.sync += self.kind.eq(PayloadKind.OPERANDS)
            with m.Case(DescriptorOpcode.COMPARE_ATOMIC):
                m.d.sync += self.kind.eq(PayloadKind.VECTORS)
                with m.If(one_small_element):
                    m.d.sync += self.kind.eq(PayloadKind.SWAP_PAIR)
