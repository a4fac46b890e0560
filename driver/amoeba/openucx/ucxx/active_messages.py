"""Active messages as queues: messages and waiting receives of each endpoint."""

import contextlib
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from amoeba.openucx.ucp.calls.active_messages import (
    ucp_am_data_release,
    ucp_am_recv_data_nbx,
    ucp_worker_set_am_recv_handler,
)
from amoeba.openucx.ucp.constants import ucp_am_recv_attr_t
from amoeba.openucx.ucp.endpoint import Endpoint as UcpEndpoint
from amoeba.openucx.ucp.status import UcsError, UcsStatus
from amoeba.openucx.ucp.structures import ucp_am_handler_param_t, ucp_am_recv_param_t
from amoeba.openucx.ucp.worker import Worker as UcpWorker
from amoeba.openucx.ucxx.request import Request, new_param

__all__ = ["AM_ID", "ActiveMessages"]

AM_ID = 0
"""Id of all messages: only their senders distinguish them."""
_REPLY_EP = ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FIELD_REPLY_EP
_RENDEZVOUS = ucp_am_recv_attr_t.UCP_AM_RECV_ATTR_FLAG_RNDV
_OK = UcsStatus.UCS_OK


class _Late:
    """A message whose data stays with its sender until a receive takes it."""

    __slots__ = ("descriptor", "length")

    def __init__(self, descriptor: Any, length: int) -> None:
        self.descriptor = descriptor
        self.length = length


class _Inbox:
    """The queue of one endpoint, in order of arrival: messages, or receives that wait for some; never both."""

    __slots__ = ("messages", "receives")

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.receives: deque[Request] = deque()


class ActiveMessages:
    """The active messages of one worker. Refers to none of the application's objects, so these can be dropped."""

    def __init__(self, worker: UcpWorker) -> None:
        self._worker = worker
        self._inboxes: weakref.WeakKeyDictionary[UcpEndpoint, _Inbox] = weakref.WeakKeyDictionary()
        self._param = new_param(always=True)
        self.allocator: Callable[[int], Any] = _array
        """Makes the buffer for a message of a given number of bytes."""
        ucp_worker_set_am_recv_handler(worker, ucp_am_handler_param_t(id=AM_ID, cb=self._arrived))

    def _inbox(self, endpoint: UcpEndpoint) -> _Inbox:
        inbox = self._inboxes.get(endpoint)
        if inbox is None:
            inbox = self._inboxes[endpoint] = _Inbox()
        return inbox

    def _arrived(
        self, arg: Any, header: Any, header_length: int, data: Any, length: int, param: ucp_am_recv_param_t
    ) -> UcsStatus:
        endpoint = param.reply_ep
        if not param.recv_attr & _REPLY_EP or not isinstance(endpoint, UcpEndpoint):
            return _OK  # no receive can ask for it
        inbox = self._inbox(endpoint)
        if param.recv_attr & _RENDEZVOUS:
            late = _Late(data, length)
            if inbox.receives:
                request = inbox.receives.popleft()
                # this handler must say that it keeps the data before a receive asks for it
                self._worker.soon.append(lambda: self._finish(request, late))
            else:
                inbox.messages.append(late)
            return UcsStatus.UCS_INPROGRESS
        buffer = self.allocator(length)
        if length:
            memoryview(buffer).cast("B")[:length] = data
        self._hand_over(inbox, buffer)
        return _OK

    def _hand_over(self, inbox: _Inbox, message: Any) -> None:
        if not inbox.receives:
            inbox.messages.append(message)
            return
        self._finish(inbox.receives.popleft(), message)

    def _finish(self, request: Request, message: Any) -> None:
        """Give a message to a receive."""
        if not isinstance(message, _Late):
            request.recv_buffer = message
            request.finish(_OK)
            return
        buffer = self.allocator(message.length)
        request.recv_buffer = buffer
        param = self._param
        param.user_data = request
        try:
            request.follow(
                ucp_am_recv_data_nbx(self._worker, message.descriptor, buffer, message.length, param), param
            )
        except UcsError as error:
            request.finish(error.status)

    def probe(self, endpoint: UcpEndpoint) -> bool:
        """Return whether a message has arrived that was not received."""
        inbox = self._inboxes.get(endpoint)
        return inbox is not None and bool(inbox.messages)

    def receive(self, endpoint: UcpEndpoint, request: Request) -> None:
        """Give this receive the next message."""
        inbox = self._inbox(endpoint)
        if inbox.messages:
            self._finish(request, inbox.messages.popleft())
        elif endpoint.failure is not None:
            request.finish(endpoint.failure)
        else:
            inbox.receives.append(request)

    def take_back(self, endpoint: UcpEndpoint, request: Request) -> None:
        """Cancel a receive, if it still waits."""
        inbox = self._inboxes.get(endpoint)
        if inbox is not None and request in inbox.receives:
            inbox.receives.remove(request)
            request.finish(UcsStatus.UCS_ERR_CANCELED)

    def end(self, endpoint: UcpEndpoint, status: UcsStatus, *, drop: bool) -> None:
        """End the waiting receives of an endpoint that has failed, or with ``drop`` is closed."""
        inbox = self._inboxes.get(endpoint)
        if inbox is None:
            return
        receives = list(inbox.receives)
        inbox.receives.clear()
        if drop:
            self._drop(inbox)
            self._inboxes.pop(endpoint, None)
        for each in receives:
            each.finish(status)

    def _drop(self, inbox: _Inbox) -> None:
        for message in inbox.messages:
            if isinstance(message, _Late) and not self._worker.closed:
                with contextlib.suppress(UcsError):  # its sender has gone
                    ucp_am_data_release(self._worker, message.descriptor)
        inbox.messages.clear()

    def close(self) -> None:
        """Cancel all receives of the worker, which is being closed."""
        for endpoint in list(self._inboxes):
            self.end(endpoint, UcsStatus.UCS_ERR_CANCELED, drop=True)


def _array(length: int) -> Any:
    return np.empty(length, np.uint8)
