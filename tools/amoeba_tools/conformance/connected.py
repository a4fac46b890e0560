"""Connected endpoints for checks: the initiator's NIC listens, and connects to itself."""

import time
from dataclasses import dataclass
from typing import Any

from amoeba.core.errors import ErrorAvailableError
from amoeba.libfabric.objects.constants import BindFlags, CqFormat, EqEvent
from amoeba.libfabric.objects.endpoints.connected import ConnectedEndpoint
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.queues.event_queue import EqCmEntry, EqErrEntry
from amoeba.libfabric.objects.structures import Info

from amoeba_tools.conformance.expectations import CheckFailedError, expect_equal
from amoeba_tools.conformance.pair import CONNECTED, Initiator, Pair

__all__ = ["Connected", "Parties"]

_BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
_TICK = 0.02
"""Seconds between two looks at the events."""


@dataclass
class Connected(Initiator):
    """An endpoint that is to have one peer, and its queue."""

    endpoint: ConnectedEndpoint


class Parties:
    """Connecting and listening endpoints of one domain, with one event queue for both.

    Raises the errors of opening a passive endpoint. The pair closes the endpoints.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.events = pair.keep(pair.fabric.eq_open())
        self.passive = self.listener()

    def listener(self) -> PassiveEndpoint:
        """Open a passive endpoint that listens at its own port."""
        passive = self.pair.keep(self.pair.fabric.passive_ep(CONNECTED))
        passive.bind(self.events)
        passive.listen()
        return passive

    def endpoint(self, info: Info = CONNECTED, **options: Any) -> Connected:
        """Open an endpoint with its own queue that connects or, opened with a request's Info, accepts."""
        queue = self.pair.keep(self.pair.domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED))
        opened = self.pair.domain.endpoint(info, cq=queue, cq_flags=_BOTH, eq=self.events, **options)
        assert isinstance(opened, ConnectedEndpoint)
        return Connected(queue, self.pair.patience, self.pair.keep(opened))

    def event(self, kind: EqEvent) -> EqCmEntry:
        """Return the next event. Raises CheckFailedError unless the event is of this kind."""
        found = self._next()
        if not isinstance(found, EqCmEntry) or found.event != kind:
            raise CheckFailedError(f"expected {kind.name}, got {found}")
        return found

    def failure(self) -> EqErrEntry:
        """Return the next event. Raises CheckFailedError unless the event is an error."""
        found = self._next()
        if not isinstance(found, EqErrEntry):
            raise CheckFailedError(f"expected an error, got {found}")
        return found

    def connect(self) -> tuple[Connected, Connected]:
        """Connect two endpoints, and return both ends: the requester, and the acceptor."""
        calling = self.endpoint()
        calling.endpoint.connect(self.passive.getname())
        answering = self.endpoint(self.event(EqEvent.FI_CONNREQ).info or CONNECTED)
        answering.endpoint.accept()
        told = {self.event(EqEvent.FI_CONNECTED).fid for _ in range(2)}
        expect_equal("endpoints that are connected", told, {calling.endpoint, answering.endpoint})
        return calling, answering

    def _next(self) -> Any:
        deadline = time.monotonic() + self.pair.patience
        while time.monotonic() < deadline:
            try:
                if (found := self.events.sread(_TICK)) is not None:
                    return found
            except ErrorAvailableError:
                return self.events.readerr()
        return None
