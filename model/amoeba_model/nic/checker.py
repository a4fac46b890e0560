"""RequestChecker: whether a request may touch memory, and what it then does there."""

from dataclasses import dataclass

from amoeba_model.atomic.matrix import COMPARE_OPS
from amoeba_model.nic.capabilities import Capabilities, fetching_form
from amoeba_model.nic.core import Core
from amoeba_model.nic.tables import Context, Key, KeyTable
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.registers import KeyFlags
from amoeba_model.wire.codec import FrameHeader
from amoeba_model.wire.uet import (
    ATOMIC_DATATYPES,
    ATOMIC_OPCODES,
    CSWAP_VALUES_SIZE,
    RequestOpcode,
    ReturnCode,
    SemanticControl,
    SesFlags,
)

__all__ = ["MemoryRequest", "RequestChecker"]

_OPS = {code.value: op for op, code in ATOMIC_OPCODES.items()}
_DATATYPES = {code.value: datatype for datatype, code in ATOMIC_DATATYPES.items()}
_SIZES = [datatype.size for datatype in Datatype]
_WHOLE_MESSAGE = (SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE).value
_INITIATOR_ERROR = SesFlags.INITIATOR_ERROR.value
_CSWAP_BY_BITS = SemanticControl.AMOEBA_CSWAP_BY_BITS.value
_READ_RIGHT = KeyFlags.REMOTE_READ.value
_WRITE_RIGHT = KeyFlags.REMOTE_WRITE.value
_VIRTUAL = KeyFlags.VIRTUAL.value
_ADDRESS_LIMIT = 1 << 64


@dataclass(slots=True)
class MemoryRequest:
    """What the target asks of the memory engine; checked already. Without ``op`` it is RMA."""

    address: int
    length: int
    op: Op | None
    datatype: Datatype | None
    operand: bytes | None
    """What to write or combine with; None for reads."""
    compare: bytes | None
    cswap_by_bits: bool
    returns_data: bool
    """The old bytes are wanted."""


@dataclass(slots=True)
class _Meaning:
    """What a request asks for, before its key has been looked at."""

    rights: int
    returns_data: bool
    op: Op | None = None
    datatype: Datatype | None = None
    operand: bytes | None = None
    compare: bytes | None = None


class RequestChecker:
    """The table "Checks (target)" of the architecture."""

    def __init__(self, core: Core, capabilities: Capabilities, contexts: list[Context], keys: KeyTable) -> None:
        self._payload = core.parameters.payload
        self._capabilities = capabilities
        self._contexts = contexts
        self._keys = keys

    def check(self, header: FrameHeader, payload: bytes) -> MemoryRequest | ReturnCode:
        """RequestChecker: what to do to memory, or the return code; OK means there is nothing to do."""
        if header.version or header.flags & _WHOLE_MESSAGE != _WHOLE_MESSAGE:
            return ReturnCode.OP_VIOLATION
        if header.opcode == RequestOpcode.NO_OP or header.flags & _INITIATOR_ERROR:
            return ReturnCode.OK
        if header.resource_index >= len(self._contexts):
            return ReturnCode.BAD_INDEX
        context = self._contexts[header.resource_index]
        if not context.enabled:
            return ReturnCode.BAD_INDEX
        if header.job_id != context.job_id:
            return ReturnCode.BAD_JOB_ID
        if header.pid_on_fep != context.pid_on_fep:
            return ReturnCode.BAD_PID
        meaning = self._understand(header, payload)
        if isinstance(meaning, ReturnCode):
            return meaning
        key = self._keys.find(header.memory_key)
        if key is None:
            return ReturnCode.BAD_MKEY
        if key.domain != context.domain or meaning.rights & ~key.flags:
            return ReturnCode.PERM_VIOLATION
        address = _locate(key, header.buffer_offset, header.request_length)
        if address is None:
            return ReturnCode.BAD_ADDR
        return MemoryRequest(
            address,
            header.request_length,
            meaning.op,
            meaning.datatype,
            meaning.operand,
            meaning.compare,
            bool(header.semantic_control & _CSWAP_BY_BITS),
            meaning.returns_data,
        )

    def _understand(self, header: FrameHeader, payload: bytes) -> _Meaning | ReturnCode:
        """The checks on opcode, operation, datatype and size."""
        opcode, length = header.opcode, header.request_length
        if opcode == RequestOpcode.WRITE:
            if length > self._payload or len(payload) != length:
                return ReturnCode.UNSUPPORTED_SIZE
            return _Meaning(_WRITE_RIGHT, False, operand=payload)
        if opcode == RequestOpcode.READ:
            if length > self._payload or payload:
                return ReturnCode.UNSUPPORTED_SIZE
            return _Meaning(_READ_RIGHT, True)
        if opcode == RequestOpcode.ATOMIC:
            return self._understand_atomic(header, payload, Form.BASE)
        if opcode == RequestOpcode.FETCHING_ATOMIC:
            return self._understand_atomic(header, payload, None)
        if opcode == RequestOpcode.AMOEBA_COMPARE_ATOMIC:
            return self._understand_atomic(header, payload, Form.COMPARE)
        return ReturnCode.UNSUPPORTED_OP

    def _understand_atomic(self, header: FrameHeader, payload: bytes, form: Form | None) -> _Meaning | ReturnCode:
        """``form`` None: the operation of a FETCHING_ATOMIC decides."""
        op = _OPS.get(header.atomic_opcode)
        if op is None:
            return ReturnCode.AMO_UNSUPPORTED_OP
        fetching = form is None
        if form is None:
            form = fetching_form(op)
        if not self._capabilities.mask(form, op):
            return ReturnCode.AMO_UNSUPPORTED_OP
        datatype = _DATATYPES.get(header.atomic_datatype)
        if datatype is None or not self._capabilities.executes(form, op, datatype):
            return ReturnCode.AMO_UNSUPPORTED_DT
        length, size = header.request_length, _SIZES[datatype]
        if not length or length % size or length > self._payload:
            return ReturnCode.AMO_UNSUPPORTED_SIZE
        operand: bytes | None = payload
        compare: bytes | None = None
        if op is Op.FI_ATOMIC_READ:
            operand, fits = None, not payload
        elif op not in COMPARE_OPS:
            fits = len(payload) == length
        elif fetching:
            half = CSWAP_VALUES_SIZE // 2
            fits = length == size <= half and len(payload) == CSWAP_VALUES_SIZE
            compare, operand = payload[:size], payload[half : half + size]
        else:
            fits = 2 * length <= self._payload and len(payload) == 2 * length
            operand, compare = payload[:length], payload[length:]
        if not fits:
            return ReturnCode.AMO_UNSUPPORTED_SIZE
        if form is Form.BASE:
            rights = _WRITE_RIGHT
        elif op is Op.FI_ATOMIC_READ:
            rights = _READ_RIGHT
        else:
            rights = _READ_RIGHT | _WRITE_RIGHT
        return _Meaning(rights, form is not Form.BASE, op, datatype, operand, compare)


def _locate(key: Key, buffer_offset: int, length: int) -> int | None:
    """The virtual address of a remote address; None unless all bytes lie in the region, without wrap-around."""
    offset = buffer_offset - key.base if key.flags & _VIRTUAL else buffer_offset
    address = key.base + offset
    if offset < 0 or offset + length > key.length or address + length > _ADDRESS_LIMIT:
        return None
    return address
