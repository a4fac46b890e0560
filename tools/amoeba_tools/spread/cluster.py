"""Jobs on the workers of a dask.distributed cluster, on any number of hosts.

dask provides the cluster: workers that come and go, jobs that move from dead workers to others, data between them,
TLS. This module adds three properties. Jobs are submitted a few at a time, so that millions of jobs are possible. A
job has exactly one ending. Each thread of a worker runs its jobs in a separate process: jobs share no state and
cannot crash a worker.
"""

import contextlib
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.release import RELEASE
from amoeba_model.extras import installation

from amoeba_tools.spread.jobs import Ending, Job
from amoeba_tools.spread.processes import Worker

__all__ = ["Cluster"]

_CONNECTING = 10.0
"""Seconds that a scheduler has to answer, and a cluster to have a worker."""
_PATIENCE = 60.0
"""Seconds without any worker after which jobs are given up."""
_LOOK = 1.0
_AHEAD = 3
"""Jobs in flight per worker, so that a worker never waits for its next job."""
_own = threading.local()
"""State of each thread of a worker."""


def _do(function: Callable[[Any], Any], argument: Any) -> tuple[Any, str]:
    """Run a job on a worker; return its result, or the reason of its failure."""
    while True:
        worker: Worker | None = getattr(_own, "worker", None)
        if worker is None:
            worker = _own.worker = Worker()
        if worker.tell(function, argument):
            break
        worker.end()
        _own.worker = None
    answer = worker.answer()
    if answer is None:
        _own.worker = None
        return None, worker.end()
    return answer


def _release() -> str:
    """Return the Amoeba release of the worker that calls the function."""
    return RELEASE


class Cluster:
    """The workers of the scheduler at an address. Raises the errors of :func:`amoeba_tools.spread.open_engine`."""

    def __init__(self, address: str, *, patience: float = _PATIENCE) -> None:
        try:
            import distributed
            from distributed.comm.addressing import parse_host_port
        except ImportError as error:
            raise fabric_error(
                Errno.FI_ENOSYS, f"a cluster needs dask.distributed: {installation('cluster')} ({error})"
            ) from error
        self._dask: Any = distributed
        self._closed: type[Exception] = distributed.client.ClosedClientError
        self._address = address
        self._patience = patience
        try:
            scheme, _, place = address.rpartition("://")
            if scheme in ("", "tcp", "tls"):  # a client that does not find its scheduler goes on to look for it
                host, port = parse_host_port(place)
                socket.create_connection((host, port), timeout=_CONNECTING).close()
            self._client: Any = self._dask.Client(address, timeout=_CONNECTING, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:  # the last two: it is no address
            raise fabric_error(Errno.FI_ECONNREFUSED, f"no scheduler at {address}: {error}") from error
        try:
            self._meet_workers()
        except BaseException:
            self.close()
            raise

    def _meet_workers(self) -> None:
        """See that there is one, and that all have this release of Amoeba."""
        try:
            self._client.wait_for_workers(1, timeout=_CONNECTING)
            releases = self._client.run(_release, on_error="return")
        except (OSError, self._dask.TimeoutError) as error:
            raise fabric_error(
                Errno.FI_ECONNREFUSED, f"the cluster at {self._address} has no worker: {error}"
            ) from error
        for worker, release in releases.items():
            if release != RELEASE:
                raise fabric_error(
                    Errno.FI_ECONNREFUSED,
                    f"expected Amoeba {RELEASE} on the cluster's workers, as here; {worker} has {release}",
                )

    @property
    def name(self) -> str:
        return f"{self.workers} workers of {self._address}"

    @property
    def workers(self) -> int:
        """Their threads, those that there are now."""
        return max(self._present(), 1)

    def run(self, function: Callable[[Any], Any], jobs: Sequence[Job]) -> Generator[Ending]:
        """Yield the endings as they come."""
        outstanding: dict[Any, int] = {}
        over: queue.SimpleQueue[Any] = queue.SimpleQueue()
        left = deque(range(len(jobs)))
        last_seen = time.monotonic()
        try:
            while left or outstanding:
                present = self._present()
                if present:
                    last_seen = time.monotonic()
                    while left and len(outstanding) < _AHEAD * present:
                        future = self._client.submit(_do, function, jobs[left[0]].argument, pure=False)
                        future.add_done_callback(over.put)
                        outstanding[future] = left.popleft()
                elif self._client.status == "closed" or time.monotonic() - last_seen > self._patience:
                    break
                for future in _ended(over, outstanding):
                    index = outstanding.pop(future)
                    yield Ending(index, jobs[index].name, *_outcome(future))
            for index in sorted([*outstanding.values(), *left]):
                yield Ending(index, jobs[index].name, failure=self._why_alone())
        finally:
            with contextlib.suppress(self._closed, OSError):  # where they are cancelled with the scheduler
                self._client.cancel(list(outstanding), force=True)

    def _present(self) -> int:
        """How many jobs can run now: none if the scheduler does not answer."""
        try:
            return sum(map(int, self._client.nthreads().values())) if self._client.status == "running" else 0
        except (self._closed, OSError, RuntimeError):
            return 0

    def _why_alone(self) -> str:
        if self._client.status != "running":
            return f"the scheduler at {self._address} does not answer any more"
        return f"the cluster at {self._address} has had no worker for {self._patience:g} s"

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()


def _ended(over: "queue.SimpleQueue[Any]", outstanding: dict[Any, int]) -> list[Any]:
    """Wait a moment, and return the jobs that have ended."""
    try:
        future = over.get(timeout=_LOOK)
    except queue.Empty:  # a scheduler that is gone tells of nothing
        return [future for future in outstanding if future.status != "pending"]
    return [future] if future in outstanding else []


def _outcome(future: Any) -> tuple[Any, str]:
    """Return a job's result, or the reason of its failure, such as the death of all workers that tried it."""
    try:
        result, failure = future.result()
    except Exception as error:  # whatever dask has to say
        return None, f"{type(error).__name__}: {error}"
    return result, failure
