"""Sleeping until there is something to do (group WAKEUP of ucp.h): one descriptor reports everything.

A NIC that runs by itself raises an interrupt when ``arm`` has asked for it. The time of simulated NICs passes in
calls alone, so that sleeping would stop their operations: the descriptor is readable at once while operations are
outstanding, and afterwards now and then.
"""

import ctypes
import os
import select
import struct
from typing import Any, Protocol

from amoeba.core.waiting import Sources, close_epoll, readable_within
from amoeba.openucx.ucp.adapter import Adapter
from amoeba.openucx.ucp.constants import ucp_wakeup_event_t
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error
from amoeba.openucx.ucp.structures import ucp_worker_params_t
from amoeba.openucx.ucp.worker_base import WorkerBase

__all__ = ["Wakeup"]

_GLANCE_NS = 10_000_000
"""Nanoseconds after which a sleep is over where time passes in calls alone."""
_MEMORY_SLICE = 1
"""Milliseconds asleep before the next look at memory, whose changes raise no interrupt."""
_TIMERFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_CLOCK_MONOTONIC = 1
_EPOLL_CTL_ADD = 1
_TIMER = struct.Struct("@qqqq")
"""``struct itimerspec``: interval and value, each in seconds and nanoseconds."""
_EPOLL_EVENT = struct.Struct("=Iq" if os.uname().machine == "x86_64" else "@Iq")
"""``struct epoll_event``, which Linux packs on one machine alone."""
_EVENT = ucp_wakeup_event_t
_SENT = int(_EVENT.UCP_WAKEUP_RMA | _EVENT.UCP_WAKEUP_AMO | _EVENT.UCP_WAKEUP_TAG_SEND | _EVENT.UCP_WAKEUP_TX)
_COME = int(_EVENT.UCP_WAKEUP_TAG_RECV | _EVENT.UCP_WAKEUP_RX)
_libc = ctypes.CDLL(None, use_errno=True)


class WakingWorker(Protocol):
    """The parts of a worker that only wakeup uses."""

    sources: Sources | None

    @property
    def base(self) -> WorkerBase: ...

    def has_work(self) -> bool:
        """Return whether a call of progress would find something that has come already."""


class Wakeup:
    """The descriptor of one worker, and its sources. Raises INVALID_PARAM if ``event_fd`` is no epoll's."""

    def __init__(self, worker: WakingWorker, params: ucp_worker_params_t) -> None:
        self._worker = worker
        base = worker.base
        self._adapter: Adapter = base.context.adapter
        events = int(params.events or 0)
        self.edge = bool(events & _EVENT.UCP_WAKEUP_EDGE)
        """Progress asks for the next interrupt itself, so the application need not."""
        anything = not events & (_SENT | _COME)
        self._sent = anything or bool(events & _SENT)
        self._come = anything or bool(events & _COME)
        self._device = base.nic.device
        self._epoll = select.epoll()
        self._signal = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Signals of others: the application, and workers that took notice of a common interrupt."""
        self._outstanding = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._timer = -1
        self._external = params.event_fd is not None
        self.watch(self._signal)
        self.watch(self._outstanding)
        self.watch(self._device.fileno())
        if self._device.stepped:
            self._timer = _libc.timerfd_create(_CLOCK_MONOTONIC, _TIMERFD_FLAGS)
            self.watch(self._timer)
            outside = self._adapter.wire.outside
            if outside is not None:
                self.watch(outside)
        self._adapter.wakeups.add(self)
        if params.event_fd is not None:
            self._join(params.event_fd, params.user_data)

    def _join(self, event_fd: int, user_data: Any) -> None:
        """Let the application's epoll report this descriptor, with its ``user_data`` if that is a number."""
        given = (
            user_data if isinstance(user_data, int) and -(1 << 63) <= user_data < 1 << 63 else self._epoll.fileno()
        )
        flags = select.EPOLLIN | (select.EPOLLET if self.edge else 0)
        event = _EPOLL_EVENT.pack(flags, given)
        if _libc.epoll_ctl(event_fd, _EPOLL_CTL_ADD, self._epoll.fileno(), event):
            what = os.strerror(ctypes.get_errno())
            self.close()
            raise invalid_param(f"event_fd: expected a descriptor of epoll, got {event_fd}: {what}")

    @property
    def descriptor(self) -> int:
        """The descriptor, readable when there is something to do, once :meth:`arm` has said so.

        Raises UNSUPPORTED if the application uses a descriptor of its own.
        """
        if self._external:
            raise ucs_error(
                UcsStatus.UCS_ERR_UNSUPPORTED, "the worker was made with an event_fd, which has the events"
            )
        return self._epoll.fileno()

    @property
    def signal_descriptor(self) -> int:
        """An eventfd: writing to it is :meth:`signal`."""
        return self._signal

    def watch(self, descriptor: int) -> None:
        """Be readable when this descriptor is."""
        self._epoll.register(descriptor, select.EPOLLIN)

    def signal(self) -> None:
        """Make the descriptor readable until the next :meth:`arm`. Safe in any thread; several signals count once."""
        os.eventfd_write(self._signal, 1)

    def arm(self) -> bool:
        """Ask to be woken. Return False if there is something to do already."""
        busy = [_drain(each) for each in (self._signal, self._outstanding, self._timer)]
        if self._adapter.clear_interrupts(self) or any(busy):
            return False
        self._ask()
        if self._worker.has_work():
            return False
        if self._device.stepped:
            self._wake_for_time()
        return True

    def _ask(self) -> None:
        """Have the NIC raise an interrupt at the next event, or for one that is there."""
        worker = self._worker.base
        if self._sent or worker.held_lanes or worker.waiters:
            worker.rings.arm()
        if self._come:
            worker.dispatch.arm()
            if worker.messages is not None and worker.messages.dispatch is not None:
                worker.messages.dispatch.arm()

    def _wake_for_time(self) -> None:
        """Be readable while time has to pass: at once if operations are outstanding, else after a glance."""
        worker = self._worker.base
        if worker.rings.outstanding or worker.rings.held or self._adapter.wire.moving:
            os.eventfd_write(self._outstanding, 1)
        else:
            setting = _TIMER.pack(0, 0, 0, _GLANCE_NS)
            _libc.timerfd_settime(self._timer, 0, setting, None)

    def renew(self) -> None:
        """Prepare the next edge after progress has found nothing: with EDGE, later events are another edge."""
        self._adapter.clear_interrupts(self)
        self._ask()
        if self._worker.has_work():
            self.signal()
        elif self._device.stepped:
            self._wake_for_time()

    def wait(self) -> None:
        """Sleep until there is something to do; not at all if there is."""
        if self.arm():
            self.sleep()

    def sleep(self) -> None:
        """Sleep until there is something to do, after asking to be woken."""
        readable_within([self._epoll.fileno()], None)

    def wait_for_change(self, memory: memoryview) -> None:
        """Sleep until these bytes change, or there is something else to do."""
        before = bytes(memory)
        while memory == before and self.arm():
            if self._device.stepped:
                self._worker.base.nic.advance()
            else:
                self._epoll.poll(_MEMORY_SLICE / 1000)

    def close(self) -> None:
        """Close the descriptor, which wakes its sleepers."""
        self._adapter.wakeups.discard(self)
        close_epoll(self._epoll)
        for descriptor in (self._signal, self._outstanding, self._timer):
            if descriptor >= 0:
                os.close(descriptor)


def _drain(descriptor: int) -> bool:
    """Make an eventfd or a timer unreadable; return whether it was readable."""
    if descriptor < 0:
        return False
    try:
        return bool(os.read(descriptor, 8))
    except BlockingIOError:
        return False
