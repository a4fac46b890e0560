"""Endpoints that share their receives, and somebody who sends to them."""

from dataclasses import dataclass

import pytest
from amoeba import (
    FI_ADDR_UNSPEC,
    BindFlags,
    Caps,
    CqFormat,
    ErrorAvailableError,
    FabricError,
    OpFlags,
    SharedReceiveContext,
    TaggedMsg,
    WaitObj,
)

from tests.driver.endpoints import BOTH, Side, entries, idle, make_talker

PEEK, CLAIM, DISCARD, MULTI = OpFlags.FI_PEEK, OpFlags.FI_CLAIM, OpFlags.FI_DISCARD, OpFlags.FI_MULTI_RECV
RECEIVED = Caps.FI_MSG | Caps.FI_RECV
TAGGED = Caps.FI_TAGGED | Caps.FI_RECV
TAG = 0x51


def text(length, start=0):
    return bytes(1 + (start + number) % 251 for number in range(length))


def tagged(buffers, tag, context=None):
    return TaggedMsg(buffers, FI_ADDR_UNSPEC, tag, context=context)


def failure(queue):
    """The next entry, which must be an error."""
    with pytest.raises(ErrorAvailableError):
        assert queue.sread(timeout=30)
    return queue.readerr()


@dataclass
class Office:
    """A context, endpoints that share its receives, and somebody elsewhere who sends to them."""

    context: SharedReceiveContext
    peers: object
    sides: list[Side]
    sender: Side
    numbers: list[int]
    """Of the endpoints, by which the sender knows them."""

    def send(self, message, desk, **options):
        self.sender.endpoint.send(message, self.numbers[desk], **options)

    def tsend(self, message, desk, tag=TAG, **options):
        self.sender.endpoint.tsend(message, self.numbers[desk], tag, **options)

    def wait(self, reads=20):
        """Let what is in flight come, unseen by the completion queues."""
        assert idle(self.sender, reads) == []

    def sent(self, count):
        return entries(self.sender.queue, count)


def desk(domain, context, peers, flags=BOTH, ring=None, wait_obj=WaitObj.FI_WAIT_UNSPEC, **options):
    """An endpoint that shares receives, with a queue of its own."""
    queue = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, wait_obj)
    endpoint = domain.endpoint(tx_size=16, **options)
    try:
        for target in (context, peers, ring):
            if target is not None:
                endpoint.bind(target)
        endpoint.bind(queue, flags)
        endpoint.enable()
    except FabricError:
        queue.close()
        raise
    return Side(domain, queue, peers, endpoint)


def make_office(fabric, keep, **options):
    """Two endpoints on the one NIC, their sender on the other; ``options`` are those of :func:`desk`."""
    domain = keep(fabric.domain(1))
    context, peers = keep(domain.srx_context(32)), keep(domain.av_open())
    sides = [keep(desk(domain, context, peers, **options)) for _ in range(2)]
    sender = keep(make_talker(keep(fabric.domain(0)), cq_flags=BOTH | BindFlags.FI_SELECTIVE_COMPLETION))
    numbers = [sender.peers.insert(side.endpoint.getname()) for side in sides]
    number = peers.insert(sender.endpoint.getname())
    for side in sides:
        side.peer = number
    return Office(context, peers, sides, sender, numbers)
