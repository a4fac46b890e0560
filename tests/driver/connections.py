"""Parties that connect: on a domain each, with queues for their connections and for what goes over them."""

import contextlib
import socket
from dataclasses import dataclass, field

import pytest
from amoeba import (
    CompletionQueue,
    ConnectedEndpoint,
    Domain,
    EndpointOption,
    EpAttr,
    EpType,
    EqEvent,
    ErrorAvailableError,
    EventQueue,
    Info,
    OptionLevel,
)

from tests.driver.endpoints import BOTH

MSG = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))
CM_DATA_SIZE = (OptionLevel.FI_OPT_ENDPOINT, EndpointOption.FI_OPT_CM_DATA_SIZE)
DATA = bytes(range(256)) * 8
"""For ``param``: more than goes with a request."""


@dataclass
class Party:
    """Somebody who connects or listens, on a domain of his own."""

    domain: Domain
    events: EventQueue
    queue: CompletionQueue
    kept: list = field(default_factory=list)

    def endpoint(self, info: Info = MSG, **options) -> ConnectedEndpoint:
        made = self.domain.endpoint(info, cq=self.queue, cq_flags=BOTH, eq=self.events, **options)
        self.kept.append(made)
        return made

    def event(self, kind: EqEvent):
        """The next event, which must be of this kind."""
        found = self.events.sread(30)
        assert found is not None
        assert found.event is kind
        return found

    def error(self):
        """The next event, which must be an error."""
        with pytest.raises(ErrorAvailableError):
            assert self.events.sread(30) is not None
        return self.events.readerr()

    def entry(self):
        (found,) = self.queue.sread(timeout=30)
        return found


def free_port() -> tuple[str, int]:
    """A TCP address of this host where nobody listens."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as reserved:
        return reserved.getsockname()


def listen(fabric, keep, party):
    """A passive endpoint that reports to this party."""
    passive = keep(fabric.passive_ep(MSG))
    passive.bind(party.events)
    passive.listen()
    return passive


def connect(client, server, passive):
    """Both ends of a new connection."""
    calling = client.endpoint()
    calling.connect(passive.getname())
    answering = server.endpoint(asked(client, server).info)
    answering.accept()
    client.event(EqEvent.FI_CONNECTED)
    server.event(EqEvent.FI_CONNECTED)
    return calling, answering


def asked(client, server):
    """The server's FI_CONNREQ; the client must read its queue meanwhile, as its request is sent then."""
    for _ in range(1000):
        assert client.events.read() is None
        if found := server.events.sread(0.03):
            assert found.event is EqEvent.FI_CONNREQ
            return found
    raise AssertionError("no request came")


def failed(client, *others):
    """The client's error; others read their queues meanwhile."""
    for _ in range(1000):
        for other in others:
            other.events.read()
        with contextlib.suppress(ErrorAvailableError):
            assert client.events.sread(0.03) is None
            continue
        return client.events.readerr()
    raise AssertionError("no error came")
