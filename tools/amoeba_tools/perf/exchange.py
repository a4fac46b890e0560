"""Tests in which both sides send and receive, whatever the API.

A message has a number, that of its iteration; those of a direction between two sides have rising numbers. ``peer`` is
the index of who gets or sends it: a server has one peer alone, the client.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Protocol

from amoeba_tools.perf.meter import Meter
from amoeba_tools.perf.sides import Steps

__all__ = ["Channel", "PingPong", "arriving", "both_ways", "one_way"]


class PingPong(Protocol):
    """Messages to and fro between two sides."""

    def send(self, number: int, peer: int) -> Steps:
        """Send the message of this number."""

    def receive(self, number: int, peer: int) -> Steps:
        """Wait until the peer's message of this number is here."""

    def finish(self) -> Steps:
        """Wait until what was sent is over."""


class Channel(PingPong, Protocol):
    """A message channel with a window of outstanding messages."""

    def receive_next(self, number: int, peer: int) -> Steps:
        """Post the receive of message ``number``, when the window has free space."""

    def received(self) -> Steps:
        """Wait until all receives are met."""


def arriving(plan: Any, index: int | None) -> Iterator[int]:
    """Return the numbers of the messages to a side, in order. ``index``: of a server; None: the client's."""
    if index is not None:
        return itertools.count(index, plan.peers)
    if plan.ping_pong:
        return itertools.count()
    return (phase for phase in range(2) for _ in range(plan.peers))


def both_ways(channel: PingPong, plan: Any, meter: Meter | None, index: int = 0) -> Steps:
    """Run a side of a ping-pong: the client, which has the meter, begins. ``index``: of a server."""
    for numbers, meant in ((range(plan.warmup), False), (range(plan.warmup, plan.total), True)):
        if meter is None:
            for number in _of(numbers, index, plan.peers):
                yield from channel.receive(number, 0)
                yield from channel.send(number, 0)
        else:
            if meant:
                meter.start()
            for number in numbers:
                yield from channel.send(number, number % plan.peers)
                yield from channel.receive(number, number % plan.peers)
                if meant:
                    meter.update()
        yield from channel.finish()
        if meter is not None and meant:
            meter.finish()


def one_way(channel: Channel, plan: Any, meter: Meter | None, index: int = 0) -> Steps:
    """Run a side of a test in which the client sends, until each server has acknowledged all messages."""
    for phase, numbers in enumerate((range(plan.warmup), range(plan.warmup, plan.total))):
        if meter is None:
            for number in _of(numbers, index, plan.peers):
                yield from channel.receive_next(number, 0)
            yield from channel.received()
            yield from channel.send(phase, 0)
            yield from channel.finish()
            continue
        if phase:
            meter.start()
        for number in numbers:
            yield from channel.send(number, number % plan.peers)
            if phase:
                meter.update()
        yield from channel.finish()
        for peer in range(plan.peers):
            yield from channel.receive(phase, peer)
        if phase:
            meter.finish()


def _of(numbers: range, index: int, peers: int) -> range:
    """Return the messages of this peer."""
    return numbers[(index - numbers.start) % peers :: peers]
