"""Recorded atomics, executed once more through endpoints: see :mod:`amoeba_model.atomic.vectors`."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from amoeba.core.errno import Errno
from amoeba.core.errors import ErrorAvailableError, fabric_error
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba.libfabric.objects.constants import MrAccess, OpFlags
from amoeba.libfabric.objects.endpoints.endpoint import Endpoint
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.queues.completion import CompletionQueue
from amoeba_model.atomic.vectors import CellResult, RecordedCell, check
from amoeba_model.opcodes import Form

__all__ = ["EndpointExecutor", "ReplayJob", "replay_cells"]

Memory = npt.NDArray[np.uint8]

_ALIGNMENT = 64
_RING = 256


def _aligned(size: int) -> Memory:
    """Zeroed bytes that begin at a multiple of 64."""
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size]


class _Side:
    """An endpoint of the first NIC whose FI_CSWAP compares in one of the two ways."""

    def __init__(self, fabric: Fabric, exits: contextlib.ExitStack, *, cswap_by_bits: bool) -> None:
        domain = exits.enter_context(fabric.domain(0, cswap_by_bits=cswap_by_bits))
        self.queue: CompletionQueue[Any] = exits.enter_context(domain.cq_open())
        self.peers = exits.enter_context(domain.av_open())
        self.endpoint: Endpoint = exits.enter_context(domain.endpoint(tx_size=_RING, cq=self.queue, av=self.peers))


class EndpointExecutor:
    """Executes recorded cells by atomics of the fabric's first NIC on memory of its second.

    Parameters
    ----------
    fabric : Fabric
        At least two NICs; the second one needs no initiator.
    vector : int
        Rows per request: consecutive elements of one vector atomic.
    offset : int
        Offset of the target from 64-byte alignment, in bytes.

    A call with a :class:`RecordedCell` returns the target memory afterwards and the fetched values, as
    ``uint8[n, size]``. The call raises the FabricError of a request that fails.
    """

    def __init__(self, fabric: Fabric, *, vector: int = 16, offset: int = 0) -> None:
        if len(fabric.nics) < 2 or vector < 1 or offset < 0:
            raise fabric_error(
                Errno.FI_EINVAL,
                f"expected two NICs, a vector of at least one row and no negative offset, "
                f"got {len(fabric.nics)} NICs, {vector} and {offset}",
            )
        self._vector = vector
        self._offset = offset
        self._exits = contextlib.ExitStack()
        with self._exits:
            self._target_domain = self._exits.enter_context(fabric.domain(1))
            queue = self._exits.enter_context(self._target_domain.cq_open())
            addresses = self._exits.enter_context(self._target_domain.av_open())
            target = self._exits.enter_context(self._target_domain.endpoint(cq=queue, av=addresses))
            self._sides = [_Side(fabric, self._exits, cswap_by_bits=by_bits) for by_bits in (False, True)]
            for side in self._sides:
                side.peers.insert(target.getname())
                if fabric.nics[1].parameters.has_initiator:
                    addresses.insert(side.endpoint.getname())
            self._exits = self._exits.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def __call__(self, recorded: RecordedCell) -> tuple[Memory, Memory | None]:
        side = self._sides[recorded.cswap_by_bits]
        rows, size = recorded.target.shape
        storage = _aligned(self._offset + recorded.target.size)
        memory = storage[self._offset :].reshape(rows, size)
        memory[:] = recorded.target
        fetched = None if recorded.cell.form is Form.BASE else _aligned(memory.size).reshape(rows, size)
        access = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        with self._target_domain.mr_reg(storage, access) as region:
            started = finished = 0
            while finished < rows:
                batch = range(started, rows, self._vector)[: _RING - (started - finished) // self._vector]
                for start in batch:
                    last = start == batch[-1]
                    address = region.address + self._offset + start * size
                    self._post(side, recorded, fetched, start, address, region.key, last=last)
                started = min(rows, started + len(batch) * self._vector)
                finished = min(rows, finished + self._reap(side) * self._vector)
        return memory.copy(), fetched

    def _post(
        self,
        side: _Side,
        recorded: RecordedCell,
        fetched: Memory | None,
        start: int,
        address: int,
        key: int,
        *,
        last: bool,
    ) -> None:
        def rows(memory: Memory | None) -> Any:
            return None if memory is None else np.ascontiguousarray(memory[start : start + self._vector])

        def place(memory: Memory | None) -> Any:
            return None if memory is None else memory[start : start + self._vector]

        cell, endpoint = recorded.cell, side.endpoint
        flags = OpFlags(0) if last else OpFlags.FI_MORE
        operand, compare = rows(recorded.operand), rows(recorded.compare)
        if cell.form is Form.BASE:
            endpoint.atomic(operand, 0, address, key, cell.op, cell.datatype, flags=flags)
        elif cell.form is Form.FETCH:
            endpoint.fetch_atomic(operand, place(fetched), 0, address, key, cell.op, cell.datatype, flags=flags)
        else:
            endpoint.compare_atomic(
                operand, compare, place(fetched), 0, address, key, cell.op, cell.datatype, flags=flags
            )

    def _reap(self, side: _Side) -> int:
        try:
            return len(side.queue.read(_RING))
        except ErrorAvailableError:
            failed = side.queue.readerr()
            assert failed is not None  # the queue has just said so
            raise failed.error() from None


@dataclass(frozen=True)
class ReplayJob:
    """Some cells of a recording, for :func:`replay_cells` anywhere."""

    cells: Sequence[RecordedCell]
    kinds: Sequence[str]
    """Kinds of the NICs."""
    vector: int
    offset: int


def replay_cells(job: ReplayJob) -> list[CellResult]:
    """Open NICs, and execute all vectors of these cells; a result for each. Raises as :class:`EndpointExecutor`."""
    with open_cluster(job.kinds) as fabric, EndpointExecutor(fabric, vector=job.vector, offset=job.offset) as run:
        return [check(recorded, run) for recorded in job.cells]
