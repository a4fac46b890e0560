"""Operations, counters, events and wait sets for asyncio programs.

::

    queue = domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD)
    endpoint = domain.endpoint(cq=queue, av=peers)
    async with aio.AsyncCompletionQueue(queue) as completions:
        remote = completions.endpoint(endpoint)
        await remote.fetch_atomic(np.uint64(1), found, peer, address, key, Op.FI_SUM)

Waiting is by file descriptors, so that other tasks run meanwhile. Cancelling a task, or a timeout, ends the waiting.
Receives are then cancelled, and so are operations that still wait for a counter. A NIC cannot cancel any other
operation: until it completes, its buffers are kept alive, and may be written to.
"""

from amoeba.libfabric.asyncio.endpoints import AsyncEndpoint, AsyncReceiver
from amoeba.libfabric.asyncio.queue import AsyncCompletionQueue
from amoeba.libfabric.asyncio.watching import read_event, wait_counter, wait_set

__all__ = ["AsyncCompletionQueue", "AsyncEndpoint", "AsyncReceiver", "read_event", "wait_counter", "wait_set"]
