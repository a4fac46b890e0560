"""Batches for the faces above: thousands of puts, gets and atomics of one endpoint from arrays, under one request.

A batch goes to the ring in parts, each in its turn on the endpoint's lane, so that it does not block other
operations. NumPy writes the descriptors of a part. Flushes and fences treat a batch as any operation.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype
from amoeba_model.wire.uet import ReturnCode

from amoeba.openucx.ucp.atomic_operations import CSWAP, OPS, SWAP
from amoeba.openucx.ucp.lanes import Lane
from amoeba.openucx.ucp.remote_key import RemoteKey
from amoeba.openucx.ucp.requests import CountingRequest, Request, status_on
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, wrong_type
from amoeba.transport.batches import Batch, Descriptors, Numbers
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.requests import NEVER, Kind

__all__ = ["atomic_batch", "get_batch", "put_batch"]

_PART = 128
"""Maximum operations of a part."""
_OK = UcsStatus.UCS_OK
_DONE = int(ReturnCode.OK)
_INLINE = int(DescriptorFlags.INLINE)
_DATATYPES = {4: int(Datatype.FI_UINT32), 8: int(Datatype.FI_UINT64)}
Array = npt.NDArray[Any]


class _BatchRequest(CountingRequest):
    """The request of a batch, over when the last part is."""

    __slots__ = ("_endpoint", "failure", "left")

    what = "batch"

    def __init__(self, lane: Lane, kind: int, length: int) -> None:
        super().__init__(lane.worker, lane, kind, length)
        self._endpoint = lane.endpoint
        self.failure = _OK
        """The first error."""
        self.left = 0
        """Parts that have not ended."""

    def part_over(self, status: UcsStatus) -> None:
        """End a part."""
        self.left -= 1
        if self.failure is _OK:
            self.failure = status
        if not self.left:
            self.complete(self.failure)

    def abandoned(self, status: UcsStatus) -> None:
        """End a part that will not be posted."""
        self.part_over(status)

    def canceled(self, endpoint: Any) -> None:
        """End the batch if this is its endpoint."""
        if endpoint is self._endpoint:
            self.complete(UcsStatus.UCS_ERR_CANCELED)


def put_batch(rkey: RemoteKey, values: Array, addresses: Array) -> Request:
    """Write each row of ``values`` to its address. Values of up to 8 bytes are copied at once.

    ``addresses``: one integer for each row. Raises INVALID_PARAM before anything is posted.
    """
    rows, places = _rows("values", values, writable=False), _places(addresses)
    return _post(rkey, DescriptorOpcode.WRITE, Kind.WRITE, 0, rows, None, None, places)


def get_batch(rkey: RemoteKey, into: Array, addresses: Array) -> Request:
    """Read the memory at each address into a row of ``into``. Raises INVALID_PARAM before anything is posted."""
    rows, places = _rows("into", into, writable=True), _places(addresses)
    return _post(rkey, DescriptorOpcode.READ, Kind.READ, 0, None, rows, None, places)


def atomic_batch(
    rkey: RemoteKey,
    opcode: int,
    operands: Array,
    addresses: Array,
    replies: Array | None = None,
    compare: Array | None = None,
) -> Request:
    """Execute an atomic (:class:`ucp_atomic_op_t`) at each address, of 4 or 8 bytes as the operands have.

    ``replies`` takes the former values; SWAP and CSWAP need it. ``compare`` belongs to CSWAP. Raises INVALID_PARAM
    before anything is posted.
    """
    op = OPS.get(opcode)
    rows, places = _rows("operands", operands, writable=False), _places(addresses)
    size = rows.itemsize * (rows.size // len(rows)) if len(rows) else 8
    allowed = rkey.amo64 if size == 8 else rkey.amo32 if size == 4 else None
    if op is None or allowed is not rkey.endpoint:
        raise invalid_param(f"expected an operation and operands of 4 or 8 bytes with their feature, got {opcode}")
    if (compare is not None) is not (op == CSWAP) or (replies is None and op in (SWAP, CSWAP)):
        raise invalid_param("SWAP and CSWAP need replies, and compare is CSWAP's alone")
    if (places % size).any():
        raise invalid_param(f"addresses: expected multiples of {size}")
    found = None if replies is None else _rows("replies", replies, writable=True)
    compared = None if compare is None else _rows("compare", compare, writable=False)
    kind = Kind.ATOMIC if found is None else Kind.FETCH_ATOMIC
    form = DescriptorOpcode.ATOMIC if found is None else DescriptorOpcode.FETCH_ATOMIC
    return _post(
        rkey, DescriptorOpcode.COMPARE_ATOMIC if op == CSWAP else form, kind, op, rows, found, compared, places
    )


def _rows(name: str, array: Any, *, writable: bool) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype.hasobject or not array.ndim:
        raise wrong_type(name, "an array with a row for each operation", array)
    if not array.flags.c_contiguous or (writable and not array.flags.writeable):
        raise invalid_param(f"{name}: expected contiguous memory{' that can be written' if writable else ''}")
    return array


def _places(addresses: Any) -> Array:
    array = np.asarray(addresses)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.dtype.kind == "i" and (array < 0).any()):
        raise invalid_param("addresses: expected one dimension of integers from 0 on")
    return array.astype(np.uint64)


def _post(
    rkey: RemoteKey,
    opcode: DescriptorOpcode,
    kind: Kind,
    op: int,
    source: Array | None,
    sink: Array | None,
    compare: Array | None,
    places: Array,
) -> Request:
    endpoint, lane, count = rkey.endpoint, rkey.lane, len(places)
    endpoint.check()
    if not op and rkey.rma is not endpoint:
        raise invalid_param("a batch of puts or gets needs UCP_FEATURE_RMA, and a key that is not destroyed")
    for array in (source, sink, compare):
        if array is not None and len(array) != count:
            raise invalid_param(f"expected a row for each of {count} addresses, got {len(array)}")
    sizes = {array.nbytes // count for array in (source, sink, compare) if array is not None and count}
    size = sizes.pop() if sizes else 0
    if sizes:
        raise invalid_param("expected rows of one size")
    request = _BatchRequest(lane, kind, size * count)
    request.left = -(-count // _PART)
    if not count or not size:
        request.complete(_OK)
        return request
    request.follow()
    inline = source is not None and size <= INLINE_SIZE
    local = _numbers(source, size) if inline and source is not None else _starts(source, size)
    compared = 0 if compare is None else _numbers(compare, size)
    results = _starts(sink, size)
    grants = []
    if source is not None and not inline:
        grants.append((source.ctypes.data, source.nbytes, False))
    if sink is not None:
        grants.append((sink.ctypes.data, sink.nbytes, True))
    datatype = _DATATYPES[size] if op else 0
    for first in range(0, count, _PART):
        part = slice(first, min(first + _PART, count))
        _submit(
            lane, request, kind, part.stop - first, (source, sink), tuple(grants),
            (opcode, op, datatype, _INLINE if inline else 0, size),
            (_cut(places, part), rkey.key, _cut(local, part), _cut(results, part), _cut(compared, part)),
        )  # fmt: skip
    return request


def _submit(
    lane: Lane,
    request: _BatchRequest,
    kind: Kind,
    count: int,
    kept: Any,
    grants: tuple[tuple[int, int, bool], ...],
    head: tuple[int, int, int, int, int],
    rest: tuple[Numbers, Numbers, Numbers, Numbers, Numbers],
) -> None:
    def ended(status: int) -> None:
        # callbacks run later: nothing may interrupt the rings here
        lane.worker.soon.append(lambda: over(status))

    def over(status: int) -> None:
        lane.done += 1
        request.part_over(_OK if status == _DONE else status_on(lane, status))

    def post() -> None:
        entry = lane.entry()
        batch = Batch(request, int(kind), NEVER, count, Descriptors(*head, entry, *rest), {entry: lane.number})
        batch.buffers, batch.grants = kept, grants
        batch.ended = ended
        lane.rings.post_batch(batch, False, False, lambda: True)

    lane.submit(post, count, request)


def _cut(numbers: Numbers, part: slice) -> Numbers:
    return numbers if isinstance(numbers, int) else numbers[part]


def _starts(array: Array | None, size: int) -> Numbers:
    """Return the address of each row."""
    if array is None:
        return 0
    return np.uint64(array.ctypes.data) + np.arange(len(array), dtype=np.uint64) * np.uint64(size)


def _numbers(array: Array, size: int) -> Numbers:
    """Return rows of at most 8 bytes as the numbers that stand for them in descriptors."""
    padded = np.zeros((len(array), INLINE_SIZE), np.uint8)
    padded[:, :size] = array.reshape(-1).view(np.uint8).reshape(len(array), size)
    return padded.reshape(-1).view("<u8")
