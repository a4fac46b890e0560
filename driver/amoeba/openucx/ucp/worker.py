"""UCX's worker: posting, progress and callbacks (group WORKER of ucp.h).

A worker has one context of the NIC for sending, for memory and tagged messages. If it takes streams or active
messages, it has another context for them, so that neither kind of message blocks the other. Everything goes on in
:meth:`Worker.progress`, callbacks included.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from amoeba_model.ucp import NO_CONTEXT

from amoeba.core.errors import FabricError
from amoeba.core.waiting import Source, Sources
from amoeba.openucx.ucp.active_messages import ActiveMessages
from amoeba.openucx.ucp.addresses import Identity, WorkerAddress
from amoeba.openucx.ucp.config_keys import AUTO
from amoeba.openucx.ucp.constants import ucp_feature, ucs_thread_mode_t
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.endpoint import Endpoint
from amoeba.openucx.ucp.idle_lanes import IdleLanes
from amoeba.openucx.ucp.inbox import Inbox
from amoeba.openucx.ucp.keepalive import Keepalive
from amoeba.openucx.ucp.objects import call_all
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error_of
from amoeba.openucx.ucp.streams import Streams
from amoeba.openucx.ucp.structures import ucp_worker_params_t
from amoeba.openucx.ucp.tags import Tags
from amoeba.openucx.ucp.wakeup import Wakeup
from amoeba.openucx.ucp.wireup import Wireup
from amoeba.openucx.ucp.worker_base import WorkerBase
from amoeba.transport.context import Context as NicContext
from amoeba.transport.operation import Operation
from amoeba.transport.receives import Outlet
from amoeba.transport.rendezvous import LongReceives
from amoeba.transport.requests import NEVER

__all__ = ["Worker"]

_ENTRIES = 1024
"""Entries of the transmit ring."""
_EVENTS = 512
"""Maximum events of peers that may wait in either event ring."""
_MAX_NAME = 31
"""Maximum characters of a name."""
_SELDOM = 63
"""Mask of the count of busy progress calls: one in 64 looks at connections and dead peers, too."""
_KEEPALIVE = 20.0
"""Default seconds between looks for dead peers."""
_CANCELED = UcsStatus.UCS_ERR_CANCELED
_BATCH = 256
"""Maximum completions, and messages of each kind, of one call of progress."""
_TAGGED = ucp_feature.UCP_FEATURE_TAG
_MESSAGES = ucp_feature.UCP_FEATURE_STREAM | ucp_feature.UCP_FEATURE_AM


def _seconds(context: Context, name: str) -> float:
    value = context.config.value(name)
    return _KEEPALIVE if value is AUTO else float(value)


class Worker(WorkerBase):
    """Posts operations and makes progress. Not safe for several threads at a time."""

    def __init__(self, context: Context, params: ucp_worker_params_t) -> None:
        self.name = (params.name or f"{id(self):#x}")[:_MAX_NAME]
        self.thread_mode = ucs_thread_mode_t.UCS_THREAD_MODE_SINGLE
        self.endpoints: dict[tuple[Identity, int], Endpoint] = {}
        """Endpoints by (identity of the worker at the other end, number of the endpoint as that one says it)."""
        self._taken: deque[Any] = deque()
        self.sources: Sources | None = None
        """TCP connections and sockets that progress lets go on, from the first one on."""
        self.wakeup: Wakeup | None = None
        """Only with that feature."""
        self._passes = 0
        self._keepalive = Keepalive(self.endpoints, _seconds(context, "KEEPALIVE_INTERVAL"))
        self._failed_lanes: deque[int] = deque()
        super().__init__(context, params)
        try:
            self._open()
        except FabricError as error:
            self._closed = True
            raise ucs_error_of(error) from error
        self.wireup = Wireup(self)
        self.streams = Streams(self, self.wireup)
        self.active_messages = ActiveMessages(self, self.wireup, params.am_alignment or 1)
        self.followers |= {self.streams: None, self.active_messages: None}
        if context.features & _TAGGED:
            self.tags = Tags(self)
            self.followers[self.tags] = None
        if context.features & ucp_feature.UCP_FEATURE_WAKEUP:
            try:
                self.wakeup = Wakeup(self, params)
            except BaseException:
                self.close()
                raise
        self._stay()

    def _open(self) -> None:
        self.nic.peers.require_initiator()
        if self.context.features & (_TAGGED | _MESSAGES):
            self.nic.require_messages()
        self.main = main = NicContext(self.context.protection)
        self.rings = main.open_rings(_ENTRIES)
        self.peers = main.open_peers()
        self.idle_lanes = IdleLanes(self.nic, self.peers, self.context.adapter.shortage)
        self.dispatch = main.open_events(_EVENTS, self._number_of, listening=True)
        self.long_sends = main.open_long_sends(lambda: None)
        if self.context.features & _TAGGED:
            self.receives = main.open_receives(main.outlet(None, selective=False))
        failed = self.rings.peer_failed

        def peer_failed(number: int) -> None:
            failed(number)
            self._failed_lanes.append(number)

        self.rings.peer_failed = peer_failed
        if self.context.features & _MESSAGES:
            try:
                self._open_messages()
            except BaseException:
                main.abandon()
                self.nic.contexts.release(main.number)
                raise
        main.enable()
        if self.messages is not None and self.inbox is not None:
            self.messages.enable()
            self.inbox.start()

    def _open_messages(self) -> None:
        self.messages = messages = NicContext(self.context.protection)
        dispatch = messages.open_events(_EVENTS, lambda ip, context: ip << 32 | context, listening=True)
        self.long_receives = LongReceives(self.rings, self.peers, dispatch)
        outlet = Outlet(dispatch.ready, dispatch.number_of, self.long_receives.fetch, None, False)
        receives = messages.open_receives(outlet)
        self.inbox = Inbox(receives, self.nic.parameters.payload)

    def describe(self) -> str:
        """Describe the worker, in lines."""
        return (
            f"# UCP worker {self.name}\n#\n"
            f"#   address    : {self.address}\n"
            f"#   endpoints  : {len(self.endpoints)}\n"
            f"#   in flight  : {self.rings.outstanding} of {self.rings.entries} ring entries\n"
        )

    # Addresses

    @property
    def address(self) -> WorkerAddress:
        """The address by which peers reach the worker."""
        messages = NO_CONTEXT if self.messages is None else self.messages.number
        return WorkerAddress(self.uid, self.main.address, messages, self.context.adapter.link)

    def pack_address(self) -> bytes:
        """Pack the address as bytes."""
        return self.address.pack()

    def make_endpoint(self, remote: WorkerAddress, number: int, remote_number: int) -> Endpoint:
        """Make an endpoint to a worker, whose driver names it by ``remote_number``."""
        self.context.adapter.reach(remote.main.mac, *remote.link)
        endpoint = Endpoint(self, remote, number, remote_number)
        endpoint.on_close = self.wireup.forget
        self.wireup.register(endpoint)
        return endpoint

    def _watch(self, source: Source, *, writing: bool = False) -> None:
        """Let a source go on in progress when it is ready."""
        if self.sources is None:
            self.sources = Sources()
            if self.wakeup is not None:
                self.wakeup.watch(self.sources.fileno())
        self.sources.add(source, writing=writing)

    def _unwatch(self, source: Source) -> None:
        """Forget a source, before its descriptor is closed."""
        if self.sources is not None:
            self.sources.remove(source)

    def connect(self, remote: WorkerAddress, *, loopback: bool = True) -> Endpoint:
        """Make the application's next endpoint to a worker. Without ``loopback`` the next two to oneself pair up."""
        number = self.wireup.next_number(remote.identity)
        crossed = remote.uid == self.uid and not loopback
        remote_number = number ^ 1 if crossed else number
        endpoint = self.wireup.adopt(remote.identity, number)
        if endpoint is None:
            endpoint = self.make_endpoint(remote, number, remote_number)
            endpoint.unasked = False
        endpoint.remote_number = remote_number
        return endpoint

    def _number_of(self, ip: int, context: int) -> int:
        """Return the number of the lane by which to read from a sender, or a number that no lane has."""
        return self.wireup.memory_lane(ip, context)

    # Progress

    def progress(self) -> int:
        """Go on with everything that can go on; return how much did. Raises INVALID_PARAM inside a callback.

        An exception of a callback comes out of this call; everything else goes on at the next one.
        """
        self._check_open()
        if self.progressing:
            raise invalid_param("progress was called inside a callback of progress")
        self.progressing = threading.get_ident()
        try:
            count = self._go_on()
            if not count:
                self.nic.advance()
                count = self._go_on() + self._look_around()
            elif self._passes & _SELDOM == 0:
                count += self._look_around()
            self._passes += 1
            if not count and self.wakeup is not None and self.wakeup.edge:
                self.wakeup.renew()
        finally:
            self.progressing = 0
        return count

    def _go_on(self) -> int:
        count = 0
        rings, taken = self.rings, self._taken
        rings.announce()
        while True:
            batch: list[Any] = []
            rings.poll(_BATCH, batch)
            taken.extend(batch)
            while taken:
                over = taken.popleft()
                count += 1
                if over.silent != NEVER:
                    over.over()
            if not batch or count >= _BATCH:
                break
        if self._failed_lanes:
            count += self._fail_lanes()
        ready = self.dispatch.ready
        most = count + _BATCH
        while ready and count < most:  # a callback may take some out
            arrival = ready.popleft()
            count += 1
            if arrival.context is None:
                self.wireup.malformed += 1  # immediate data, which no receiver here asks for
            else:
                arrival.context.arrived(arrival)
        if self.inbox is not None:
            count += self._read_inbox(self.inbox)
        while self.soon:
            count += 1
            self.soon.popleft()()
        if self.held_lanes:
            count += self._drain()
        if self.waiters:
            count += self._look_at_waiters()
        rings.announce()
        return count

    def _look_around(self) -> int:
        """Look at connections, dead peers, and other workers that need entries of the peer table."""
        sources = self.sources
        count = 0
        if sources is not None and len(sources):
            count = sources.go_on()
        if self.context.adapter.shortage.waiting:
            count += self.idle_lanes.help()
        self._keepalive.look(self)
        if self.soon:
            count += self._go_on()
        return count

    @property
    def base(self) -> WorkerBase:
        """The worker as its parts know it."""
        return self

    def has_work(self) -> bool:
        """Return whether a call of progress would find something that has come already."""
        rings, dispatch, messages = self.rings, self.dispatch, self.messages
        if self._taken or self.soon or self._failed_lanes or rings.absorb() or dispatch.waiting:
            return True
        if messages is not None and messages.dispatch is not None and messages.dispatch.waiting:
            return True
        return self.sources is not None and self.sources.ready

    def _read_inbox(self, inbox: Inbox) -> int:
        assert self.messages is not None
        dispatch = self.messages.dispatch
        assert dispatch is not None
        dispatch.progress()
        for count in range(_BATCH):
            letter = inbox.take(dispatch.ready)
            if letter is None:
                return count
            self.wireup.handle(letter)
        return _BATCH

    def _drain(self) -> int:
        count = 0
        for lane in list(self.held_lanes):
            count += lane.drain()
            if not lane.waiting:
                self.held_lanes.pop(lane, None)
        return count

    def _look_at_waiters(self) -> int:
        waiters, self.waiters = self.waiters, []
        count = 0
        try:
            while waiters:
                waiter = waiters.pop(0)
                if waiter():
                    count += 1
                else:
                    self.waiters.append(waiter)
        finally:
            self.waiters += waiters
        return count

    def _fail_lanes(self) -> int:
        count = 0
        while self._failed_lanes:
            lane = self.lanes.get(self._failed_lanes.popleft())
            if lane is not None:
                count += 1
                lane.endpoint.fail(UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT)
        return count

    def requests_to(self, number: int) -> list[Operation]:
        taken = [over for over in self._taken if isinstance(over, Operation) and over.dest_addr == number]
        return [*taken, *self.rings.requests_to(number), *self.long_sends.requests_to(number)]

    def close(self) -> None:
        """Close the worker: all outstanding operations end with CANCELED.

        The NIC may finish the operations that it has, if that does not take long; then it touches nothing any more.
        Raises INVALID_PARAM inside a callback of progress; exceptions of callbacks are raised when all is over.
        """
        if self._closed or self.ending:
            return
        if self.progressing:
            raise invalid_param("a worker cannot be destroyed inside a callback of its progress")
        self.ending = True
        self.progressing = threading.get_ident()
        calls: list[Callable[[], object]] = [endpoint.close for endpoint in list(self.endpoints.values())]
        calls += [endpoint.cut_short for endpoint in list(self.closing)]
        calls += [follower.cancel_all for follower in self.followers]
        call_all([*calls, self._run_soon, super().close])

    def _run_soon(self) -> None:
        while self.soon:
            self.soon.popleft()()

    def _release(self) -> None:
        self.idle_lanes.release()
        for lane in list(self.held_lanes):
            lane.abandon(UcsStatus.UCS_ERR_CANCELED)
        if self.sources is not None:
            self.sources.close()
        if self.wakeup is not None:
            self.wakeup.close()
        if self.inbox is not None:
            self.inbox.close()
        if self.messages is not None:
            self.messages.close()
        try:
            self.main.close()
        except FabricError as error:
            raise ucs_error_of(error) from error
        if self.tags is not None:
            self.tags.release()
        if self.request_pool is not None:
            self.request_pool.clean()

    def __repr__(self) -> str:
        return f"<Worker {self.uid:#x} of {self.nic.device.name}>"
