"""UCX's endpoint: the way to one worker (group ENDPOINT of ucp.h)."""

import functools
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.ucp import MessageKind

from amoeba.core.buffers import address_of
from amoeba.nic.address import EndpointAddress
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.handles import ucp_ep_h
from amoeba.openucx.ucp.lanes import Lane, LaneKind
from amoeba.openucx.ucp.message_headers import message_header
from amoeba.openucx.ucp.objects import UcpObject, call_all
from amoeba.openucx.ucp.requests import Quiet, Request
from amoeba.openucx.ucp.status import UcsStatus, ucs_error
from amoeba.openucx.ucp.worker_base import WorkerBase
from amoeba.transport.requests import Kind, Piece

__all__ = ["NOBODY_YET", "Endpoint", "Link"]

_SEND = int(DescriptorOpcode.SEND)
_IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
_SENDS = int(Kind.SEND)
_CANCELED = UcsStatus.UCS_ERR_CANCELED

NOBODY_YET = WorkerAddress(0, EndpointAddress(bytes(6), 0, 0, 0, 0), 0, (0, 0))
"""``remote`` of an endpoint that a socket address is connecting."""


class Link(Protocol):
    """The TCP connection of an endpoint that was made by a socket address."""

    def end(self) -> None:
        """Hang up; the other end is told. Idempotent."""

    @property
    def local_sockaddr(self) -> tuple[Any, ...] | None: ...

    @property
    def remote_sockaddr(self) -> tuple[Any, ...] | None: ...


class Endpoint(UcpObject, ucp_ep_h):
    """One end of a connection.

    Messages from the other end name this endpoint by ``number``; this one's messages name the other end by
    ``remote_number``.
    """

    def __init__(self, worker: WorkerBase, remote: WorkerAddress, number: int, remote_number: int) -> None:
        self.worker = worker
        self.remote = remote
        self.number = number
        self.remote_number = remote_number
        self.name = f"{id(self):#x}"
        self.unasked = True
        """A peer has made the endpoint; the application has not asked for it, or only as a reply endpoint."""
        self.failure: UcsStatus | None = None
        """The error that ended the endpoint."""
        self.peer_failures = False
        """UCP_ERR_HANDLING_MODE_PEER: the endpoint may be closed by force."""
        self.err_handler: Callable[[Any, Endpoint, UcsStatus], None] | None = None
        self.err_arg: Any = None
        self.user_data: Any = None
        self.link: Link | None = None
        """The connection of an endpoint that was made by a socket address."""
        self.connected = remote is not NOBODY_YET
        """Whether the other end is known and ready; before, everything waits."""
        self.wired = False
        """The other end knows who sends."""
        self.stream: Any = None
        """The endpoint's stream, from the first use on."""
        self.incoming: Any = None
        """The incomplete active message."""
        self._known = False
        """The other end exists, and has said so."""
        self._left = False
        """The other end is closed."""
        self.ended = False
        """This end is closed, and nothing waits for it."""
        self.on_close: Callable[[Endpoint], object] = lambda endpoint: None
        """Called at the end."""
        super().__init__(worker)

    # Lanes, each from its first use on

    @cached_property
    def memory(self) -> Lane:
        """Lane for put, get and atomics."""
        return self._lane(LaneKind.MEMORY, self.remote.main)

    @cached_property
    def tagged(self) -> Lane:
        """Lane for tagged messages."""
        return self._lane(LaneKind.TAGGED, self.remote.main)

    @cached_property
    def messages(self) -> Lane:
        """Lane for streams, active messages and messages between drivers."""
        address = self.remote.messages
        if address is None:
            raise ucs_error(UcsStatus.UCS_ERR_UNREACHABLE, f"{self.remote} takes neither streams nor active messages")
        return self._lane(LaneKind.MESSAGES, address)

    def _lane(self, kind: LaneKind, address: EndpointAddress) -> Lane:
        return Lane(self.worker, self, kind, address if self.connected else None)

    @property
    def lanes(self) -> list[Lane]:
        """Lanes that have been used."""
        return [self.__dict__[name] for name in ("memory", "tagged", "messages") if name in self.__dict__]

    @property
    def idle(self) -> bool:
        """Whether the lanes have no outstanding operation, and none waits for the receiver of a stream."""
        return all(lane.idle for lane in self.lanes) and not (self.stream is not None and self.stream.held)

    def check(self) -> None:
        """Raise the reason why the endpoint cannot be used: INVALID_PARAM when it is closed, or its failure."""
        if self._closed:
            self._check_open()
        if self.failure is not None:
            raise ucs_error(self.failure, f"{self!r} has failed")

    def connect(self, remote: WorkerAddress) -> None:
        """Connect to this worker, where the other end is ready: send everything that waits."""
        self.remote = remote
        self.connected = True
        for lane in self.lanes:
            address = remote.messages if lane.kind is LaneKind.MESSAGES else remote.main
            if address is None:
                lane.abandon(UcsStatus.UCS_ERR_UNREACHABLE)
            else:
                lane.connect(address)

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
        """Send a message to the other end's driver, behind everything that was sent on this lane before.

        ``data``: at most one packet, which stays as it is until ``request`` is over. Without a request the message
        keeps ``data`` alive, and its end is not reported. This method grants device access.
        """
        lane = self.messages
        if not self.wired:
            self.wire()
        length, start = data.nbytes, address_of(data)
        header = message_header(kind, self.remote_number, flags, am_id, header_length)
        sent = Quiet(lane, _SENDS, data.nbytes) if request is None else request
        sent.buffers = sent.buffers, data
        if length:
            sent.grants = (*sent.grants, (start, length, False))
        # the request may have more bytes than this message, so its one descriptor has a length of its own
        packet = (Piece(_SEND, _IMMEDIATE, length, 0, 0, start, 0, header),)

        def send() -> None:
            sent.peer = lane.entry()
            self.worker.rings.post_chain(sent, packet)

        lane.submit(send, 1, sent)

    def wire(self) -> None:
        """Tell the other end about this one, if that is possible and was not done."""
        if not self.wired and self.remote.messages is not None:
            self.wired = True
            self.send_message(MessageKind.WIREUP_REQUEST, memoryview(self.worker.pack_address()))

    def heard(self) -> None:
        """Note that the other end has said who it is."""
        self._known = True

    def gone(self) -> None:
        """Note that the other end was closed."""
        self._left = True
        self.fail(UcsStatus.UCS_ERR_CONNECTION_RESET)

    # The end

    def fail(self, status: UcsStatus) -> None:
        """Fail the endpoint. The next progress tells its requests and the application, once."""
        if self.failure is None and not self.ended:
            self.failure = status
            self.worker.soon.append(self._tell_failure)

    def _tell_failure(self) -> None:
        status = self.failure
        if self.ended or status is None:
            return
        worker = self.worker
        for lane in self.lanes:
            self._give_up(lane)
            worker.close_lane(lane)
        if self.link is not None:
            self.link.end()
        calls = [functools.partial(lane.abandon, status) for lane in self.lanes]
        calls += [functools.partial(each.endpoint_ended, self, status) for each in worker.followers]
        call_all([*calls, self._call_handler])

    def _call_handler(self) -> None:
        if self.err_handler is not None and self.failure is not None and not self._closed:
            self.err_handler(self.err_arg, self, self.failure)

    def _give_up(self, lane: Lane) -> None:
        """Let the NIC end the outstanding operations of a lane without waiting for answers."""
        if not lane.idle and lane.number in self.worker.peers:
            self.worker.peers.fail(lane.number)

    def disconnect(self, request: Request) -> None:
        """Close the endpoint when all operations have ended, and tell the other end; ``request`` ends then."""
        for child in list(self._children.values()):
            child.close()
        self._closed = True
        failed_before = self.failure is not None
        said = False

        def over() -> bool:
            nonlocal said
            if self.ended:  # closing was cut short
                return True
            if not self.idle:
                return False
            if self.failure is None and not said:
                said = True
                self.say_gone()
                if not self.idle:
                    return False
            self._end()
            for lane in self.lanes:
                self.worker.close_lane(lane)
            lost = self.failure is not None and not failed_before and not said
            request.complete(self.failure if lost and self.failure is not None else UcsStatus.UCS_OK)
            return True

        if not over():
            self.worker.closing[self] = request
            self.worker.waiters.append(over)

    def cut_short(self) -> None:
        """Stop waiting for an endpoint that is being closed: outstanding operations end with CANCELED."""
        if not self.ended:
            request = self.worker.closing.get(self)
            calls: list[Callable[[], object]] = [self._release]
            if request is not None:
                calls.append(functools.partial(request.complete, _CANCELED))
            call_all(calls)

    def _release(self) -> None:
        """Close the endpoint now: outstanding operations end with CANCELED, and the NIC leaves their buffers.

        If the worker is being destroyed, the NIC goes on with its operations, and the worker waits for them.
        """
        worker = self.worker
        self.ended = True
        # a lane does not count messages that are read from the peer, or that the peer has not read
        busy = [lane for lane in self.lanes if not lane.idle or worker.peers.busy(lane.number)]
        engine = [request for lane in busy for request in worker.requests_to(lane.number)]
        requests = dict.fromkeys(each.context for each in engine if isinstance(each.context, Request))
        if not worker.ending:
            for lane in busy:
                if lane.number in worker.peers:
                    worker.peers.fail(lane.number)
            worker.settle([lane.number for lane in busy])
        if self.failure is None and (worker.ending or all(lane.kind is not LaneKind.MESSAGES for lane in busy)):
            self.say_gone()
        calls: list[Callable[[], object]] = [functools.partial(each.complete, _CANCELED) for each in requests]
        calls += [functools.partial(lane.abandon, _CANCELED) for lane in busy]
        calls.append(self._end)  # flushes end behind what they wait for
        calls += [functools.partial(worker.close_lane, lane) for lane in self.lanes]
        first = len(worker.soon)
        call_all([*calls, lambda: self._tell_now(first)])

    def _tell_now(self, first: int) -> None:
        """Run the tasks of the next progress from this place on: a forced close does not wait for it."""
        soon = self.worker.soon
        left = [soon.pop() for _ in range(len(soon) - first)]
        call_all(reversed(left))

    def say_gone(self) -> None:
        """Tell the other end about the closing, if it can know this one."""
        told = self.wired or self._known
        if told and not self._left and self.connected and self.remote.messages is not None:
            self.send_message(MessageKind.GONE, memoryview(b""))

    def _end(self) -> None:
        """End the endpoint: nothing finds it any more."""
        self.ended = True
        self.worker.closing.pop(self, None)
        self.on_close(self)
        if self.link is not None:
            self.link.end()
        call_all([functools.partial(each.endpoint_ended, self, _CANCELED) for each in self.worker.followers])

    def describe(self) -> str:
        """Describe the endpoint, in lines."""
        lanes = ", ".join(f"{lane.kind.name.lower()} ({lane.posted - lane.done} in flight)" for lane in self.lanes)
        state = "failed: " + self.failure.name if self.failure is not None else "connected"
        return (
            f"# UCP endpoint {self.name}\n#\n"
            f"#   peer       : {self.remote if self.connected else 'being connected'}\n"
            f"#   state      : {state if self.connected or self.failure is not None else 'being connected'}\n"
            f"#   lanes      : {lanes or 'none yet'}\n"
        )

    def __repr__(self) -> str:
        return f"<Endpoint {self.number} to {self.remote}>"
