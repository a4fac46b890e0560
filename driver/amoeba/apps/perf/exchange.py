"""Tests in which both sides send and receive, whatever the API."""

from typing import Any, Protocol

from amoeba.apps.perf.meter import Meter
from amoeba.apps.perf.sides import Steps

__all__ = ["Channel", "PingPong", "both_ways", "one_way"]


class PingPong(Protocol):
    """What goes to and fro."""

    def send(self, number: int) -> Steps:
        """Send the message of this number; the numbers of a direction rise by one."""

    def receive(self, number: int) -> Steps:
        """Wait until the other side's message of this number is here."""

    def finish(self) -> Steps:
        """Wait until what was sent is over."""


class Channel(PingPong, Protocol):
    """The same, with a window of messages under way."""

    def receive_next(self, number: int) -> Steps:
        """Post the receive of the message of this number, when the window has room for it."""

    def received(self) -> Steps:
        """Wait until all receives are met."""


def both_ways(channel: PingPong, plan: Any, meter: Meter | None) -> Steps:
    """A side of a ping-pong: that with the meter, the client, begins."""
    number = 0
    for count, meant in ((plan.warmup, False), (plan.iterations, True)):
        if meter is not None and meant:
            meter.start()
        for _ in range(count):
            if meter is not None:
                yield from channel.send(number)
            yield from channel.receive(number)
            if meter is None:
                yield from channel.send(number)
            elif meant:
                meter.update()
            number += 1
        yield from channel.finish()
        if meter is not None and meant:
            meter.finish()


def one_way(channel: Channel, plan: Any, meter: Meter | None) -> Steps:
    """A side of a test in which the client sends: it is over when the server has said that it has everything."""
    number = 0
    for phase, count in enumerate((plan.warmup, plan.iterations)):
        if meter is not None and phase:
            meter.start()
        for _ in range(count):
            if meter is None:
                yield from channel.receive_next(number)
            else:
                yield from channel.send(number)
                if phase:
                    meter.update()
            number += 1
        if meter is None:
            yield from channel.received()
            yield from channel.send(phase)
            yield from channel.finish()
        else:
            yield from channel.finish()
            yield from channel.receive(phase)
            if phase:
                meter.finish()
