"""Thousands of operations in one call: RMA and atomics on arrays of addresses, indices and peers."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.wire.uet import ReturnCode

from amoeba.core.buffers import Buffer, datatype_of
from amoeba.core.errno import Errno
from amoeba.core.errors import RETURN_CODE_ERRNO, FabricError, completion_error, fabric_error, type_error
from amoeba.core.waiting import WAIT_SLICE
from amoeba.libfabric.objects.checks import check_datatype_argument, check_number, check_op, check_op_flags
from amoeba.libfabric.objects.constants import Datatype, Op, OpFlags
from amoeba.libfabric.objects.memory_region import MemoryRegion
from amoeba.libfabric.objects.operations.atomics import AtomicOperations
from amoeba.libfabric.objects.operations.batch_arguments import (
    BatchCall,
    Rows,
    check_report,
    common_count,
    count_of,
    numbers_of,
    places_of,
    results_of,
    sources_of,
)
from amoeba.libfabric.objects.operations.operations import CHANGE_FLAGS, NO_FLAGS, TRANSMIT_FLAGS
from amoeba.libfabric.objects.operations.rights import MAY_ATOMIC, MAY_FETCH, MAY_READ, MAY_WRITE, not_permitted
from amoeba.libfabric.objects.remote_array import RemoteArray, RemotePlace
from amoeba.transport.batches import Batch, Descriptors, Numbers
from amoeba.transport.operation import Operation, begun
from amoeba.transport.posting import INLINE_SIZE
from amoeba.transport.requests import NEVER, Kind
from amoeba.transport.transmit_rings import TransmitRings

__all__ = ["BatchOperations"]

_MORE = int(OpFlags.FI_MORE)
_FENCED = int(OpFlags.FI_FENCE)
_INJECT = int(OpFlags.FI_INJECT)
_TRIGGER = int(OpFlags.FI_TRIGGER)
_COMMIT = int(OpFlags.FI_COMMIT_COMPLETE)
_INLINE = int(DescriptorFlags.INLINE)
_OK = int(ReturnCode.OK)
_MOST = 2**32 - 2
"""Operations of one batch, as their numbers travel through the NIC in 32 bits."""
_SMALL = 1 << 16
"""Numbers of peers below this are looked up in a table."""
_WRITE = DescriptorOpcode.WRITE
_READ = DescriptorOpcode.READ
_ATOMIC = DescriptorOpcode.ATOMIC
_FETCH = DescriptorOpcode.FETCH_ATOMIC
_COMPARE = DescriptorOpcode.COMPARE_ATOMIC
_NEEDED = {
    _WRITE: MAY_WRITE,
    _READ: MAY_READ,
    _ATOMIC: MAY_ATOMIC,
    _FETCH: MAY_ATOMIC | MAY_FETCH,
    _COMPARE: MAY_ATOMIC | MAY_FETCH,
}
_KINDS = {
    _WRITE: Kind.WRITE,
    _READ: Kind.READ,
    _ATOMIC: Kind.ATOMIC,
    _FETCH: Kind.FETCH_ATOMIC,
    _COMPARE: Kind.FETCH_ATOMIC,
}


class BatchOperations(AtomicOperations):
    """Calls for batches; :class:`amoeba.Endpoint` says what the arguments of single operations are.

    dest_addr, addr, key : int, or array of ints
        One for all operations, or one for each.
    index : array of ints, optional
        Of rows behind ``addr``: operation i concerns what lies ``index[i]`` times the bytes of one operation further.
    buf, compare, result : array
        A row along the first axis for each operation: an element, or several. Operands, compare values and data to be
        written may also be one row, or a scalar, for all; they are copied at once if a row has at most 8 bytes.
    context : object
        Comes back once, in the only completion of the batch, whose ``len`` has the bytes of all operations.
    flags : OpFlags
        As of single operations, but neither FI_TRIGGER nor FI_COMMIT_COMPLETE.
    wait : bool
        Whether to wait for free ring entries until all operations are posted; else only as many are posted as ring
        entries are free now.
    status : array of BATCH_STATUS, optional
        Where to store the result of each operation, by the time that the batch completes.

    Returns how many operations have been posted, which are the first ones: they alone are in the completion and
    ``status``. The others can be submitted again, in another batch. Fewer than all are posted without ``wait``, and
    when the NIC gives a peer up meanwhile. If none is posted, there is no completion. Operations to one peer are
    executed in their order.

    All arguments are checked first, and errors name the operation; nothing has been posted then. An operation that
    fails later fails alone, and the others are executed. Then the batch has an error entry, with the reason of the
    first failed operation, and all failed operations in :attr:`amoeba.CqErrEntry.failures`. Counters count
    operations, not batches.
    """

    _rights: int

    def write_batch(
        self,
        buf: Buffer,
        dest_addr: Any,
        addr: Any,
        key: Any,
        *,
        index: Any = None,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
        wait: bool = True,
        status: npt.NDArray[Any] | None = None,
    ) -> int:
        """Many :meth:`write`: each copies a row of ``buf`` into a peer's memory."""
        call = BatchCall(_WRITE, dest_addr, addr, key, index, buf=buf, desc=desc, report=status)
        return self._batch(call, context, flags, self._selective, wait=wait).posted

    def inject_write_batch(
        self, buf: Buffer, dest_addr: Any, addr: Any, key: Any, *, index: Any = None, wait: bool = True
    ) -> int:
        """:meth:`write_batch` of rows of any size that may be changed at once; no completion unless one fails."""
        call = BatchCall(_WRITE, dest_addr, addr, key, index, buf=buf)
        return self._batch(call, None, OpFlags.FI_INJECT, True, wait=wait).posted

    def read_batch(
        self,
        buf: Buffer,
        dest_addr: Any,
        addr: Any,
        key: Any,
        *,
        index: Any = None,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
        wait: bool = True,
        status: npt.NDArray[Any] | None = None,
    ) -> int:
        """Many :meth:`read`: each copies a peer's memory into a row of ``buf``."""
        call = BatchCall(_READ, dest_addr, addr, key, index, result=buf, result_desc=desc, report=status)
        return self._batch(call, context, flags, self._selective, wait=wait).posted

    def atomic_batch(
        self,
        buf: Buffer,
        dest_addr: Any,
        addr: Any,
        key: Any,
        op: Op,
        datatype: Datatype | None = None,
        *,
        index: Any = None,
        desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
        wait: bool = True,
        status: npt.NDArray[Any] | None = None,
    ) -> int:
        """Many :meth:`atomic`. Operations on the same address all take effect."""
        call = BatchCall(_ATOMIC, dest_addr, addr, key, index, op, datatype, buf, desc=desc, report=status)
        return self._batch(call, context, flags, self._selective, wait=wait).posted

    def inject_atomic_batch(
        self,
        buf: Buffer,
        dest_addr: Any,
        addr: Any,
        key: Any,
        op: Op,
        datatype: Datatype | None = None,
        *,
        index: Any = None,
        wait: bool = True,
    ) -> int:
        """:meth:`atomic_batch` of rows of any size that may be changed at once; no completion unless one fails."""
        call = BatchCall(_ATOMIC, dest_addr, addr, key, index, op, datatype, buf)
        return self._batch(call, None, OpFlags.FI_INJECT, True, wait=wait).posted

    def fetch_atomic_batch(
        self,
        buf: Buffer | None,
        result: Buffer,
        dest_addr: Any,
        addr: Any,
        key: Any,
        op: Op,
        datatype: Datatype | None = None,
        *,
        index: Any = None,
        desc: MemoryRegion | None = None,
        result_desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
        wait: bool = True,
        status: npt.NDArray[Any] | None = None,
    ) -> int:
        """Many :meth:`fetch_atomic`. Operations on the same address see each other's results, one after the other."""
        call = BatchCall(
            _FETCH, dest_addr, addr, key, index, op, datatype, buf, None, result, desc, result_desc, status
        )
        return self._batch(call, context, flags, self._selective, wait=wait).posted

    def compare_atomic_batch(
        self,
        buf: Buffer,
        compare: Buffer,
        result: Buffer,
        dest_addr: Any,
        addr: Any,
        key: Any,
        op: Op,
        datatype: Datatype | None = None,
        *,
        index: Any = None,
        desc: MemoryRegion | None = None,
        result_desc: MemoryRegion | None = None,
        context: Any = None,
        flags: OpFlags = NO_FLAGS,
        wait: bool = True,
        status: npt.NDArray[Any] | None = None,
    ) -> int:
        """Many :meth:`compare_atomic`. ``desc`` holds both operands and compare values."""
        call = BatchCall(
            _COMPARE, dest_addr, addr, key, index, op, datatype, buf, compare, result, desc, result_desc, status
        )
        return self._batch(call, context, flags, self._selective, wait=wait).posted

    def _batch(
        self,
        call: BatchCall,
        context: Any,
        flags: OpFlags,
        silent: bool,
        *,
        wait: bool,
        ended: Callable[[int], None] | None = None,
    ) -> Batch:
        """Check everything, then post it. ``ended``: told of the end, of which nobody else hears then."""
        rings = self._rings or self._not_enabled()
        element = self._elements_of(call)
        operation = begun(_KINDS[call.opcode], call.opcode, context, 0)
        operation.length, operation.silent = 0, silent
        copied, bits = self._batch_flags(operation, call, flags)
        used = self._rows_of(call, copied=copied)
        size = next(iter(used.values())).size
        if size % element:
            raise fabric_error(Errno.FI_EINVAL, f"expected elements of {element} bytes, got rows of {size} bytes")
        operation.length = size
        self._check(operation, NO_FLAGS, TRANSMIT_FLAGS)
        places, keys = places_of(call.addr, call.index, size), numbers_of("key", call.key)
        numbers = 0 if self._connection is not None else numbers_of("dest_addr", call.dest_addr)
        counts = {"addr or index": count_of(places), "key": count_of(keys), "dest_addr": count_of(numbers)}
        count = common_count(counts | {name: rows.count for name, rows in used.items()})
        if count > _MOST:
            raise fabric_error(Errno.FI_EMSGSIZE, f"a batch has at most {_MOST} operations, got {count}")
        if call.report is not None:
            check_report(call.report, count)
            call.report["done"] = False
        peers, destinations = self._entries(numbers, count)
        inline = _INLINE if "buf" in used and size <= INLINE_SIZE else 0
        descriptors = Descriptors(
            call.opcode, call.op or 0, call.datatype or 0, inline, size, peers, places, keys,
            *(used[name].local if name in used else 0 for name in ("buf", "result", "compare")),
        )  # fmt: skip
        batch = Batch(
            context,
            operation.kind,
            operation.silent if ended is None else NEVER,
            count,
            descriptors,
            destinations,
            fenced=bool(bits & _FENCED),
            report=call.report,
        )
        batch.buffers = [rows.keep for rows in used.values()]
        batch.grants = tuple(grant for rows in used.values() for grant in rows.grants)
        batch.ended = ended
        if batch.unfenced:
            self._await_beside(rings, destinations, wait)
        if count:
            rings.post_batch(batch, bits & _MORE, wait, lambda: self._reaches(destinations))
        return batch

    def _elements_of(self, call: BatchCall) -> int:
        """Return the bytes of an element of a batch, whose operation and datatype are numbers from here on.

        Raises FI_EOPNOTSUPP for operations that the endpoint or the NIC does not execute.
        """
        opcode = call.opcode
        needed = _NEEDED[opcode]
        if opcode not in (_WRITE, _READ):
            call.op = check_op(call.op)
            if call.reads_only:
                needed &= ~MAY_ATOMIC
            if call.datatype is None:
                call.datatype = datatype_of(call.result, "result") if call.reads_only else datatype_of(call.buf)
            call.datatype = check_datatype_argument(call.datatype)
        if needed & ~self._rights:
            raise not_permitted(needed & ~self._rights, datagrams=self._max_rma_size < 0)
        return 1 if call.datatype is None or call.op is None else self._element_size(opcode, call.op, call.datatype)

    def _batch_flags(self, operation: Operation, call: BatchCall, flags: OpFlags) -> tuple[bool, int]:
        """Return whether operands are copied, as rows of any size can be here, and the other flags as bits."""
        bits = check_op_flags(flags)
        copied, bits = bool(bits & _INJECT), bits & ~_INJECT
        allowed = TRANSMIT_FLAGS if call.opcode == _READ or call.reads_only else CHANGE_FLAGS
        bits = self._check(operation, OpFlags(bits) if bits else NO_FLAGS, allowed)
        if bits & (_TRIGGER | _COMMIT):
            raise fabric_error(Errno.FI_EBADFLAGS, "batches neither wait for counters nor are committed")
        return copied, bits

    def _rows_of(self, call: BatchCall, *, copied: bool) -> dict[str, Rows]:
        """Return the local memory of a batch by the name of its argument: at least one, all with rows of one size."""
        opcode, domain, datatype = call.opcode, self.domain, call.datatype
        used: dict[str, Rows] = {}
        size: int | None = None
        if opcode != _READ and not call.reads_only:
            used["buf"] = sources_of(domain, "buf", call.buf, datatype, call.desc, copied=copied)
            size = used["buf"].size
        if opcode == _COMPARE:
            used["compare"] = sources_of(
                domain, "compare", call.compare, datatype, call.desc, copied=copied, size=size
            )
        if opcode in (_READ, _FETCH, _COMPARE):
            name = "buf" if opcode == _READ else "result"
            used["result"] = results_of(domain, name, call.result, datatype, call.result_desc, size)
        return used

    def _entries(self, numbers: Numbers, count: int) -> tuple[Numbers, dict[int, int]]:
        """Return entries of the peer table, and the number of each.

        Raises FI_EINVAL and FI_EAGAIN, naming an operation.
        """
        if self._connection is not None:
            numbers = self._connection.destination()
        if isinstance(numbers, int):
            if not count:
                return 0, {}
            entry = self._entry(numbers)
            return entry, {entry: numbers}
        if not numbers.size:
            return 0, {}
        if int(numbers.max()) < _SMALL:  # a table by number is several times as fast as np.unique
            places = numbers.astype(np.intp)
            distinct = slots = np.flatnonzero(np.bincount(places))
        else:
            distinct, places = np.unique(numbers, return_inverse=True)
            slots = np.arange(len(distinct))
        table = np.zeros(int(slots[-1]) + 1, np.uint16)
        destinations: dict[int, int] = {}
        for slot, number in zip(slots.tolist(), distinct.tolist(), strict=True):
            try:
                entry = self._entry(number)
            except FabricError as error:
                first = int(np.argmax(numbers == np.uint64(number)))
                raise fabric_error(error.fi_errno, f"operation {first}: {error.strerror}") from None
            table[slot] = entry
            destinations[entry] = number
        return table[places], destinations

    def _entry(self, number: int) -> int:
        entry = self._open_peers.get(number)
        return self._find_peer(number, self._open_peers) if entry is None else entry

    def _await_beside(self, rings: TransmitRings, destinations: dict[int, int], wait: bool) -> None:
        """Let a fenced batch wait for messages to its peers, too, and so for all before it.

        With ``wait``, it waits for a free ring entry. Without a free entry, the batch cannot be posted either.
        """
        if any(self._is_beside(number, entry) for entry, number in destinations.items()) and (
            rings.wait_until(rings.has_space, math.inf) if wait else rings.has_space()
        ):
            rings.post_fence(lambda status: None, more=True)

    def _reaches(self, destinations: dict[int, int]) -> bool:
        """Whether peers can be sent to as when they were looked up."""
        return all(self._open_peers.get(number) == entry for entry, number in destinations.items())

    # Remote arrays

    def array(
        self,
        peer: int,
        region: "RemotePlace | tuple[int, int]",
        dtype: npt.DTypeLike,
        shape: int | tuple[int, ...],
    ) -> RemoteArray:
        """Return a peer's memory as an array: the first bytes of ``region``, or of a region's (address, key).

        Raises FI_EINVAL for a dtype of references, and for a region that is known to be smaller, and
        ArgumentTypeError if ``region`` is no region.
        """
        self._check_open()
        try:
            address, key = region if isinstance(region, tuple) else (region.address, region.key)
        except (AttributeError, ValueError):
            raise type_error("region", "a region, or (address, key)", region) from None
        address, key = check_number("address", address), check_number("key", key)
        found = RemoteArray(self, check_number("peer", peer), address, key, dtype, shape)
        length = getattr(region, "length", None)
        if length is not None and found.nbytes > length:
            raise fabric_error(
                Errno.FI_EINVAL, f"an array of {found.nbytes} bytes does not fit into a region of {length} bytes"
            )
        return found

    def _execute(
        self,
        opcode: DescriptorOpcode,
        array: RemoteArray,
        offsets: npt.NDArray[np.uint64],
        *,
        op: Op | None = None,
        buf: Buffer | None = None,
        compare: Buffer | None = None,
        result: Buffer | None = None,
    ) -> None:
        """Execute a batch on an array, and wait until it is over; ``offsets`` are in bytes.

        Raises the error of the first operation that failed.
        """
        with self._auto or contextlib.nullcontext():
            addresses = offsets + np.uint64(array.address)
            call = BatchCall(opcode, array.peer, addresses, array.key, None, op, None, buf, compare, result)
            batch = self._batch(call, None, NO_FLAGS, True, wait=True, ended=lambda status: None)
            self._await(batch)
        if batch.status != _OK:
            first = min(batch.failures)
            name = ReturnCode(batch.status).name
            raise completion_error(
                RETURN_CODE_ERRNO[ReturnCode(batch.status)],
                f"{len(batch.failures)} of {batch.posted} operations failed, number {first} first, with {name}",
                batch.status,
                divided=batch.posted > 1,
            )
        if batch.posted < batch.count:
            raise fabric_error(
                Errno.FI_ECONNRESET, f"the peer was given up: {batch.posted} of {batch.count} operations were posted"
            )

    def _await(self, batch: Batch) -> None:
        """Let time pass until a batch is over. Completions of others are kept for those who read the queue."""
        if self._auto is not None:
            self._auto.wait_for(lambda: batch.over or self._closed, None)
        while not batch.over:
            rings = self._rings or self._not_enabled()
            if rings.absorb():
                continue
            rings.progress()
            self._nic.advance()
            if not rings.absorb() and not batch.over:
                rings.arm()
                self._nic.device.wait(WAIT_SLICE)
