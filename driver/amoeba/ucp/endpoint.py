"""UCX's endpoint: the way to one worker (group ENDPOINT of ucp.h)."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.ucp import MessageKind

from amoeba.core.buffers import address_of
from amoeba.transport.requests import Kind
from amoeba.ucp.addresses import WorkerAddress
from amoeba.ucp.handles import ucp_ep_h
from amoeba.ucp.lanes import Lane, LaneKind
from amoeba.ucp.message_headers import Header, message_header
from amoeba.ucp.objects import UcpObject
from amoeba.ucp.requests import Quiet, Request
from amoeba.ucp.status import UcsStatus, ucs_error
from amoeba.ucp.worker_base import WorkerBase

__all__ = ["Endpoint"]

_SEND = int(DescriptorOpcode.SEND)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_SENDS = int(Kind.SEND)


class Endpoint(UcpObject, ucp_ep_h):
    """One end of a connection.

    ``number``: by which messages from the other end name it; ``remote_number``: by which this one's name the other.
    """

    def __init__(self, worker: WorkerBase, remote: WorkerAddress, number: int, remote_number: int) -> None:
        self.worker = worker
        self.remote = remote
        self.number = number
        self.remote_number = remote_number
        self.unasked = True
        """A peer has made it; the application has not asked for it, or only as a reply endpoint."""
        self.failure: UcsStatus | None = None
        """Why it cannot be used any more."""
        self.err_handler: Callable[[Any, Endpoint, UcsStatus], None] | None = None
        self.err_arg: Any = None
        self.user_data: Any = None
        self.wired = False
        """The other end has been told who sends."""
        self.stream: Any = None
        """What there is of its stream, from the first use on."""
        self.incoming: Any = None
        """The active message of which fragments have come."""
        self.on_close: Callable[[Endpoint], object] = lambda endpoint: None
        """Told of its end."""
        super().__init__(worker)

    # Lanes, each from its first use on

    @cached_property
    def memory(self) -> Lane:
        """For put, get and atomics."""
        return Lane(self.worker, self, LaneKind.MEMORY, self.remote.main)

    @cached_property
    def tagged(self) -> Lane:
        """For tagged messages."""
        return Lane(self.worker, self, LaneKind.TAGGED, self.remote.main)

    @cached_property
    def messages(self) -> Lane:
        """For streams, active messages and what drivers tell each other."""
        address = self.remote.messages
        if address is None:
            raise ucs_error(UcsStatus.UCS_ERR_UNREACHABLE, f"{self.remote} takes neither streams nor active messages")
        return Lane(self.worker, self, LaneKind.MESSAGES, address)

    @property
    def lanes(self) -> list[Lane]:
        """Those that have been used."""
        return [self.__dict__[name] for name in ("memory", "tagged", "messages") if name in self.__dict__]

    def check(self) -> None:
        """Raise what keeps it from being used: INVALID_PARAM when it is closed, or its failure."""
        if self._closed:
            self._check_open()
        if self.failure is not None:
            raise ucs_error(self.failure, f"{self!r} has failed")

    # Messages between drivers

    def send_message(
        self,
        kind: MessageKind,
        data: memoryview,
        *,
        flags: int = 0,
        am_id: int = 0,
        header_length: int = 0,
        request: Request | Quiet | None = None,
    ) -> None:
        """Send a message to the other end's driver, behind all that was sent on this lane before.

        ``data``: at most one packet, which stays as it is until ``request`` is over; without a request it is kept
        alive, and nobody hears of the end. Device access is granted here.
        """
        lane = self.messages
        if not self.wired:
            self.wire()
        header = message_header(kind, self.remote_number, flags, am_id, header_length)
        sent = Quiet(lane, _SENDS, data.nbytes) if request is None else request
        sent.buffers = sent.buffers, data
        start = address_of(data)
        if data.nbytes:
            sent.grants = (*sent.grants, (start, data.nbytes, False))
        post = self.worker.rings.post

        def send() -> None:
            post(sent, False, lane.entry(), _SEND, _IMMEDIATE, 0, 0, data.nbytes, 0, 0, start, 0, header)

        lane.submit(send)

    def wire(self) -> None:
        """Say who sends, ahead of everything else on the lane for messages."""
        self.wired = True
        self.send_message(MessageKind.WIREUP_REQUEST, memoryview(self.worker.pack_address()))

    def heard(self, header: Header) -> None:
        """The other end has said who it is."""

    def gone(self) -> None:
        """The other end was closed."""
        self.fail(UcsStatus.UCS_ERR_CONNECTION_RESET)

    # Its end

    def fail(self, status: UcsStatus) -> None:
        """It cannot be used any more. The application is told once, by the next progress."""
        if self.failure is not None or self._closed:
            return
        self.failure = status
        self._end(status)
        for lane in self.lanes:
            lane.abandon()
        handler = self.err_handler
        if handler is not None:
            self.worker.soon.append(lambda: None if self._closed else handler(self.err_arg, self, status))

    def _end(self, status: UcsStatus) -> None:
        for follower in self.worker.followers:
            follower.endpoint_ended(self, status)

    def _release(self) -> None:
        self.on_close(self)
        self._end(UcsStatus.UCS_ERR_CANCELED)
        for lane in self.lanes:
            lane.abandon()
            self.worker.close_lane(lane)

    def __repr__(self) -> str:
        return f"<Endpoint {self.number} to {self.remote}>"
