"""Several buffers as one: sent with their sizes ahead, so that the receiver can allocate memory.

The first message has the number of buffers, and the first seven sizes. If there are more, a second message has the
other sizes. Then come the buffers. All have the same tag: tagged messages of an endpoint keep their order.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from amoeba.openucx.ucp.status import UcsError, UcsStatus
from amoeba.openucx.ucxx.buffers import bytes_view
from amoeba.openucx.ucxx.request import BufferRequests, Home, Request

__all__ = ["FrameReceive", "FrameReceives", "send_frames"]

_FIRST = 7
"""Number of sizes in the first message."""
_MOST = 1 << 20
"""Maximum number of buffers of one call: a message with a larger number is no header."""
_OK = UcsStatus.UCS_OK
_MALFORMED = UcsStatus.UCS_ERR_MESSAGE_TRUNCATED


class _Tagged(Protocol):
    """An endpoint, as this module uses it."""

    @property
    def worker(self) -> Home: ...

    def tag_send(self, buffer: Any, tag: int) -> Request: ...

    def tag_recv(self, buffer: Any, tag: int, tag_mask: int = ...) -> Request: ...


def send_frames(endpoint: _Tagged, frames: Sequence[Any], tag: int) -> BufferRequests:
    """Send buffers as one; the request ends when all may be changed. Its parts are the buffers' requests."""
    views = [bytes_view(frame, name=f"frames[{index}]") for index, frame in enumerate(frames)]
    sizes = np.array([len(views), *(view.nbytes for view in views)], np.uint64)
    first = np.zeros(1 + _FIRST, np.uint64)
    first[: min(len(sizes), 1 + _FIRST)] = sizes[: 1 + _FIRST]
    whole = BufferRequests(endpoint.worker)
    whole.add(endpoint.tag_send(first, tag))
    if len(views) > _FIRST:
        whole.add(endpoint.tag_send(sizes[1 + _FIRST :].copy(), tag))
    for frame in frames:
        whole.add(endpoint.tag_send(frame, tag))
    whole.close()
    return whole


class FrameReceive(BufferRequests):
    """A receive of several buffers as one: its result is a list of them."""

    __slots__ = ("_queue", "buffers")

    def __init__(self, home: Home, queue: "FrameReceives") -> None:
        super().__init__(home)
        self._queue = queue
        self.buffers: list[Any] = []

    def finish(self, status: UcsStatus) -> None:
        if status is _OK:
            self._value = self.buffers
        super().finish(status)

    def _cancel(self) -> None:
        self._queue.take_back(self)


class FrameReceives:
    """The receives of one endpoint with one tag: one after the other, as only order distinguishes their messages."""

    def __init__(self, endpoint: _Tagged, tag: int, mask: int) -> None:
        self._endpoint = endpoint
        self._tag = tag
        self._mask = mask
        self._waiting: deque[FrameReceive] = deque()
        self._now: FrameReceive | None = None
        self._header: Request | None = None

    def receive(self) -> FrameReceive:
        """Add a receive."""
        receive = FrameReceive(self._endpoint.worker, self)
        self._waiting.append(receive)
        if self._now is None:
            self._next()
        return receive

    def take_back(self, receive: FrameReceive) -> None:
        """Cancel a receive, unless a part of it has arrived."""
        if receive is self._now:
            if self._header is not None:
                self._header.cancel()
        elif receive in self._waiting:
            self._waiting.remove(receive)
            receive.finish(UcsStatus.UCS_ERR_CANCELED)

    def _next(self) -> None:
        self._now = None
        while self._waiting and self._now is None:
            self._now = self._waiting.popleft()
            self._header = self._post(np.zeros(1 + _FIRST, np.uint64))
            if self._header is not None:
                self._header.then(self._counted)

    def _post(self, buffer: Any) -> Request | None:
        """Receive a part; None: the part failed, and so has the whole."""
        try:
            return self._endpoint.tag_recv(buffer, self._tag, self._mask)
        except UcsError as error:
            self._fail(error.status)
            return None

    def _fail(self, status: UcsStatus) -> None:
        receive, self._now = self._now, None
        if receive is not None:
            receive.finish(status)

    def _counted(self, header: Request) -> None:
        """Take the first message."""
        self._header = None
        receive = self._now
        if receive is None:
            return
        if header.status is not _OK:
            self._fail(header.status)
            self._next()
            return
        sizes = header.recv_buffer
        count = int(sizes[0])
        if header.info is None or header.info.length != sizes.nbytes or count > _MOST:
            self._fail(_MALFORMED)
            self._next()
        elif count <= _FIRST:
            self._fetch(sizes[1 : 1 + count])
        else:
            rest = self._post(np.zeros(count - _FIRST, np.uint64))
            if rest is None:
                self._next()
            else:
                rest.then(lambda over: self._sized(sizes, over))

    def _sized(self, sizes: Any, rest: Request) -> None:
        if rest.status is not _OK:
            self._fail(rest.status)
            self._next()
        else:
            self._fetch(np.concatenate([sizes[1:], rest.recv_buffer]))

    def _fetch(self, sizes: Any) -> None:
        """Receive the buffers, all of whose sizes are known."""
        receive = self._now
        assert receive is not None
        for size in sizes:
            try:
                buffer = np.empty(int(size), np.uint8)
            except (MemoryError, ValueError):
                self._fail(UcsStatus.UCS_ERR_NO_MEMORY)
                self._next()
                return
            part = self._post(buffer)
            if part is None:
                self._next()
                return
            receive.buffers.append(buffer)
            receive.add(part)
        # the next one's first message is posted behind these
        self._next()
        receive.close()
