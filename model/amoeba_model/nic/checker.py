"""RequestChecker: whether a request may touch memory, and what it then does there."""

from dataclasses import dataclass
from typing import NamedTuple

from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.descriptors import RENDEZVOUS
from amoeba_model.nic.capabilities import Capabilities, fetching_form
from amoeba_model.nic.core import Core
from amoeba_model.nic.tables import Context, Key, KeyTable
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.registers import KeyFlags
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.wire.byte_order import number_size, swap_bytes
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import (
    ATOMIC_DATATYPES,
    ATOMIC_OPCODES,
    CSWAP_VALUES_SIZE,
    DIVISIBLE_REQUESTS,
    MESSAGE_REQUESTS,
    RequestOpcode,
    ReturnCode,
    SemanticControl,
    SesFlags,
    place_in_message,
)

__all__ = ["MemoryRequest", "RequestChecker"]

_OPS = {code.value: op for op, code in ATOMIC_OPCODES.items()}
_DATATYPES = {code.value: datatype for datatype, code in ATOMIC_DATATYPES.items()}
_HALF_CSWAP = CSWAP_VALUES_SIZE // 2
# Members of an enumeration, bound once: looking one up costs more than most of what is done with it.
_NO_OP = RequestOpcode.NO_OP.value
_MSG_ERROR = RequestOpcode.MSG_ERROR.value
_WRITE = RequestOpcode.WRITE.value
_READ = RequestOpcode.READ.value
_ATOMIC = RequestOpcode.ATOMIC.value
_FETCHING_ATOMIC = RequestOpcode.FETCHING_ATOMIC.value
_AMOEBA_COMPARE_ATOMIC = RequestOpcode.AMOEBA_COMPARE_ATOMIC.value
_AMOEBA_ATOMIC = RequestOpcode.AMOEBA_ATOMIC.value
_AMOEBA_FETCHING_ATOMIC = RequestOpcode.AMOEBA_FETCHING_ATOMIC.value
_TSEND_ATOMIC = RequestOpcode.TSEND_ATOMIC.value
_TSEND_FETCH_ATOMIC = RequestOpcode.TSEND_FETCH_ATOMIC.value
_SENDS = frozenset({RequestOpcode.SEND.value, RequestOpcode.TAGGED_SEND.value})
_RENDEZVOUS_SENDS = frozenset({RequestOpcode.RENDEZVOUS_SEND.value, RequestOpcode.RENDEZVOUS_TSEND.value})
_MESSAGES = frozenset(opcode.value for opcode in MESSAGE_REQUESTS)
_ATOMIC_READ = Op.FI_ATOMIC_READ
_BASE = Form.BASE
_START, _END = SesFlags.START_OF_MESSAGE.value, SesFlags.END_OF_MESSAGE.value
_WHOLE_MESSAGE = _START | _END
_DIVISIBLE = frozenset(opcode.value for opcode in DIVISIBLE_REQUESTS)
_INITIATOR_ERROR = SesFlags.INITIATOR_ERROR.value
_RELATIVE = SesFlags.RELATIVE.value
_HEADER_DATA = SesFlags.HEADER_DATA.value
_CSWAP_BY_BITS = SemanticControl.AMOEBA_CSWAP_BY_BITS.value
_READ_RIGHT = KeyFlags.REMOTE_READ.value
_WRITE_RIGHT = KeyFlags.REMOTE_WRITE.value
_NO_RIGHTS = 0
_VIRTUAL = KeyFlags.VIRTUAL.value
_DATA = KeyFlags.DATA.value
_ADDRESS_LIMIT = 1 << 64


@dataclass(slots=True)
class MemoryRequest:
    """Request of the target to the memory engine. Without ``op`` it is RMA."""

    length: int
    rights: int
    """KeyFlags that the key must have; a message has no key."""
    returns_data: bool
    """The old bytes are wanted."""
    operand: bytes | None = None
    """Data to write or to combine with; None for reads."""
    compare: bytes | None = None
    op: Op | None = None
    datatype: Datatype | None = None
    cswap_by_bits: bool = False
    address: int = 0
    """Virtual address, once the key has been looked at, or a receive has been found."""
    offset: int = 0
    """Where the packet's part of its message begins."""
    context: int = NO_CONTEXT
    """Context whose receive, or slot, is accessed; NO_CONTEXT: a region, by its key."""


class _Cell(NamedTuple):
    """A cell of the atomic matrix that the NIC executes."""

    op: Op
    datatype: Datatype
    size: int
    """Bytes per element."""
    number: int
    """Bytes per number, as of :func:`number_size`."""
    rights: int
    """As of a MemoryRequest."""


class RequestChecker:
    """The table "Checks" of hw/amoeba_hw/target/README.md."""

    def __init__(self, core: Core, capabilities: Capabilities, contexts: list[Context], keys: KeyTable) -> None:
        self._payload = core.parameters.payload
        self._has_messages = core.parameters.has_messages
        self._without_ring = ReturnCode.DISABLED if core.parameters.event_rings else ReturnCode.UNSUPPORTED_OP
        """Answers immediate data for a context that has no event ring."""
        self._capabilities = capabilities
        self._contexts = contexts
        self._keys = keys
        self._cells: dict[tuple[Form | None, int, int], _Cell | ReturnCode] = {}
        """Answers of :meth:`_find_cell` to former requests: at most three times 2**16."""

    def check(self, header: FrameHeader, payload: bytes) -> MemoryRequest | ReturnCode:
        """RequestChecker: what to do to memory, or the return code; OK means there is nothing to do."""
        is_whole = header.flags & _WHOLE_MESSAGE == _WHOLE_MESSAGE
        ends_early = header.opcode == _MSG_ERROR and header.flags & _WHOLE_MESSAGE == _END
        if header.version or not (is_whole or ends_early or header.opcode in _DIVISIBLE):
            return ReturnCode.OP_VIOLATION
        if header.flags & _INITIATOR_ERROR:
            return ReturnCode.INITIATOR_ERROR
        if header.opcode == _NO_OP or ends_early:
            return ReturnCode.OK
        if header.resource_index >= len(self._contexts):
            return ReturnCode.BAD_INDEX
        context = self._contexts[header.resource_index]
        if not context.enabled:
            return ReturnCode.BAD_INDEX
        if header.job_id != context.job_id:
            return ReturnCode.BAD_JOB_ID
        if header.pid_on_fep != context.pid_on_fep or bool(header.flags & _RELATIVE) != context.relative:
            return ReturnCode.BAD_PID
        request = self._understand(header, payload)
        if not isinstance(request, MemoryRequest):
            return request
        if header.opcode in _MESSAGES:
            return request if context.takes_messages() else ReturnCode.DISABLED
        key = self._keys.find(header.memory_key)
        has_data = header.flags & _HEADER_DATA and header.flags & _START
        if has_data and not _takes_data(context, header.opcode, key):
            return self._without_ring
        if key is None:
            return ReturnCode.BAD_MKEY
        if key.domain != context.domain or request.rights & ~key.flags:
            return ReturnCode.PERM_VIOLATION
        # Each packet names the whole message's range, and the whole range is checked.
        address = _locate(key, header.buffer_offset, request.length if is_whole else header.request_length)
        if address is None:
            return ReturnCode.BAD_ADDR
        request.address = address + request.offset
        return request

    def _understand(self, header: FrameHeader, payload: bytes) -> MemoryRequest | ReturnCode:
        """Check opcode, operation, datatype and size."""
        opcode, length = header.opcode, header.request_length
        if not self._has_messages and opcode in _MESSAGES:
            return ReturnCode.UNSUPPORTED_OP
        if opcode == _WRITE or opcode in _SENDS:
            rights = _WRITE_RIGHT if opcode == _WRITE else _NO_RIGHTS
            if header.flags & _WHOLE_MESSAGE != _WHOLE_MESSAGE:
                if len(payload) > self._payload:
                    return ReturnCode.UNSUPPORTED_SIZE
                return _part(header, MemoryRequest(len(payload), rights, False, payload))
            if length > self._payload or len(payload) != length:
                return ReturnCode.UNSUPPORTED_SIZE
            return MemoryRequest(length, rights, False, payload)
        if opcode == _READ:
            if length > self._payload or payload:
                return ReturnCode.UNSUPPORTED_SIZE
            return MemoryRequest(length, _READ_RIGHT, True)
        if opcode in (_ATOMIC, _AMOEBA_ATOMIC):
            return self._understand_atomic(header, payload, Form.BASE)
        if opcode == _FETCHING_ATOMIC:
            return self._understand_atomic(header, payload, None)
        if opcode == _AMOEBA_COMPARE_ATOMIC:
            return self._understand_atomic(header, payload, Form.COMPARE)
        if opcode in _RENDEZVOUS_SENDS:
            if len(payload) != length or length != RENDEZVOUS.size:
                return ReturnCode.UNSUPPORTED_SIZE
            return MemoryRequest(length, _NO_RIGHTS, False, payload)
        if opcode == _TSEND_ATOMIC:
            return self._understand_atomic(header, payload, Form.BASE)
        if opcode in (_TSEND_FETCH_ATOMIC, _AMOEBA_FETCHING_ATOMIC):
            return self._understand_atomic(header, payload, Form.FETCH)
        return ReturnCode.UNSUPPORTED_OP

    def _understand_atomic(
        self, header: FrameHeader, payload: bytes, form: Form | None
    ) -> MemoryRequest | ReturnCode:
        """``form`` None: the operation of a FETCHING_ATOMIC decides."""
        asked = (form, header.atomic_opcode, header.atomic_datatype)
        cell = self._cells.get(asked)
        if cell is None:
            self._cells[asked] = cell = self._find_cell(*asked)
        if not isinstance(cell, _Cell):
            return cell
        op, datatype, rights, number = cell.op, cell.datatype, cell.rights, cell.number
        length, size = header.request_length, cell.size
        if form is None and op in COMPARE_OPS:
            return _understand_cswap(header, payload, cell)
        is_part = header.flags & _WHOLE_MESSAGE != _WHOLE_MESSAGE
        total = length
        if is_part:
            length = len(payload) // 2 if op in COMPARE_OPS else len(payload)
        if not total or total % size or length % size or length > self._payload:
            return ReturnCode.AMO_UNSUPPORTED_SIZE
        operand: bytes | None = payload
        compare: bytes | None = None
        if op is _ATOMIC_READ:
            operand, fits = None, not payload
        elif op not in COMPARE_OPS:
            fits = len(payload) == length
        else:
            fits = 2 * length <= self._payload and len(payload) == 2 * length
            operand, compare = payload[:length], payload[length:]
        if not fits:
            return ReturnCode.AMO_UNSUPPORTED_SIZE
        operand = operand if operand is None else swap_bytes(operand, number)
        compare = compare if compare is None else swap_bytes(compare, number)
        by_bits = bool(header.semantic_control & _CSWAP_BY_BITS)
        request = MemoryRequest(length, rights, form is not _BASE, operand, compare, op, datatype, by_bits)
        return _part(header, request) if is_part else request

    def _find_cell(self, form: Form | None, opcode: int, datatype_code: int) -> _Cell | ReturnCode:
        """Find the cell of UET's numbers of operation and datatype; arguments as of :meth:`_understand_atomic`."""
        op = _OPS.get(opcode)
        if op is None:
            return ReturnCode.AMO_UNSUPPORTED_OP
        if form is None:
            form = fetching_form(op)
        if not self._capabilities.mask(form, op):
            return ReturnCode.AMO_UNSUPPORTED_OP
        datatype = _DATATYPES.get(datatype_code)
        if datatype is None or not self._capabilities.executes(form, op, datatype):
            return ReturnCode.AMO_UNSUPPORTED_DT
        if form is _BASE:
            rights = _WRITE_RIGHT
        elif op is _ATOMIC_READ:
            rights = _READ_RIGHT
        else:
            rights = _READ_RIGHT | _WRITE_RIGHT
        return _Cell(op, datatype, datatype.size, number_size(datatype), rights)


def _part(header: FrameHeader, request: MemoryRequest) -> MemoryRequest | ReturnCode:
    """Give a packet's request its place in a message of several packets."""
    size, total = request.length, header.request_length
    if header.flags & _START:
        fits = 0 < size < total
    else:
        named, request.offset = place_in_message(header.header_data)
        end = request.offset + size
        fits = named == size > 0 and end <= total and (end == total) == bool(header.flags & _END)
    return request if fits else ReturnCode.OP_VIOLATION


def _understand_cswap(header: FrameHeader, payload: bytes, cell: _Cell) -> MemoryRequest | ReturnCode:
    """Check a compare atomic with the compare-and-swap extension."""
    size = cell.size
    if size > _HALF_CSWAP:
        return ReturnCode.AMO_UNSUPPORTED_SIZE
    if header.request_length != CSWAP_VALUES_SIZE or len(payload) != CSWAP_VALUES_SIZE:
        return ReturnCode.OP_VIOLATION
    values = payload[_HALF_CSWAP - size : _HALF_CSWAP], payload[CSWAP_VALUES_SIZE - size :]
    compare, operand = (swap_bytes(value, cell.number) for value in values)
    by_bits = bool(header.semantic_control & _CSWAP_BY_BITS)
    return MemoryRequest(size, cell.rights, True, operand, compare, cell.op, cell.datatype, by_bits)


def _takes_data(context: Context, opcode: int, key: Key | None) -> bool:
    """Whether a request with this opcode, by this key, may have immediate data."""
    by_key = opcode == _READ and key is not None and bool(key.flags & _DATA)
    return bool(context.events.base) and (by_key or not context.data_by_key)


def _locate(key: Key, buffer_offset: int, length: int) -> int | None:
    """Compute the virtual address of a remote one; None unless all bytes lie in the region, without wrap-around."""
    offset = buffer_offset - key.base if key.flags & _VIRTUAL else buffer_offset
    address = key.base + offset
    if offset < 0 or offset + length > key.length or address + length > _ADDRESS_LIMIT:
        return None
    return address
