"""Messages that an independent UET endpoint refuses for now: the driver sends them again.

The NICs are the model and the smallest one in RTL.
"""

from collections.abc import Iterator
from functools import partial

import pytest
from amoeba import Errno, Fabric, open_cluster
from amoeba.core.errors import ErrorAvailableError
from amoeba.nic.address import EndpointAddress
from amoeba.transport.repeats import MAX_PAUSES, Repeats
from amoeba_model.parameters import BUILDS

from tests.driver.endpoints import Side, make_talker
from tests.support import uet_packets as uet
from tests.support.uet_endpoint import Initiator, Target
from tests.support.uet_packets import Station
from tests.system.test_messages_of_others import network_of

KINDS = ["model", "rtl"]
BAD_GENERATION, DISABLED_GEN = 2, 4
ROUNDS = 200_000
"""Of the network: longer than all pauses."""


@pytest.fixture(params=KINDS)
def fabric(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabric]:
    monkeypatch.setattr("amoeba.transport.rings.Repeats", partial(Repeats, chosen=lambda *_: 0.0))
    with open_cluster([request.param], BUILDS["tiny"], rtl_options={"host_latency": 40}) as opened:
        yield opened


class Bench:
    """A side that sends, and a target that is no Amoeba."""

    def __init__(self, fabric: Fabric, *, foreign: bool = True) -> None:
        self.side: Side = make_talker(fabric.domain(0))
        vars(fabric).setdefault("kept", []).append(self.side)  # until the fabric closes it
        station = Station(network_of(fabric.devices[0]))
        self.target = Target(station, bytearray(64))
        name = EndpointAddress(station.mac.to_bytes(6, "big"), station.ip, 1, 1, 0, foreign=foreign)
        self.peer = self.side.peers.insert(name.pack())

    def refuse(self, *refusals: tuple[int, int]) -> None:
        self.target.refusals.extend(refusals)

    def end(self) -> object:
        """The context of the next message that ends, or its error."""
        for _ in range(ROUNDS):
            self.target.serve()
            try:
                found = self.side.queue.read(1)
            except ErrorAvailableError:
                return self.side.failure().err
            if found:
                return found[0].op_context
        raise AssertionError("the message did not end")


@pytest.fixture
def bench(fabric: Fabric) -> Bench:
    return Bench(fabric)


@pytest.mark.parametrize(
    "refusals",
    [
        [(uet.NO_MATCH, 0)],
        [(DISABLED_GEN, 0)],
        [(BAD_GENERATION, 3)],
        [(uet.NO_MATCH, 0), (DISABLED_GEN, 0), (BAD_GENERATION, 7)],
        [(uet.NO_MATCH, 0)] * MAX_PAUSES,
    ],
)
def test_row_7_a_message_that_was_refused_for_now_is_sent_again(
    bench: Bench, refusals: list[tuple[int, int]]
) -> None:
    bench.refuse(*refusals)
    bench.side.endpoint.send(b"once more", bench.peer, context="mine")
    assert bench.end() == "mine"
    assert bench.target.received == [b"once more"]
    generations = [request.generation for request in bench.target.requests]
    assert generations == [0] * len(refusals) + [refusals[-1][1]]


@pytest.mark.parametrize("post", ["send", "inject", "sendv"])
def test_row_7_a_message_beyond_its_descriptor_is_sent_again_whole(bench: Bench, post: str) -> None:
    content = bytes(range(64 if post == "inject" else 200))
    buffer = bytearray(content)
    bench.refuse((uet.NO_MATCH, 0), (BAD_GENERATION, 3))
    if post == "send":
        bench.side.endpoint.send(buffer, bench.peer)
    elif post == "sendv":
        bench.side.endpoint.sendv([buffer[:77], buffer[77:]], bench.peer)
    else:
        bench.side.endpoint.inject(buffer, bench.peer)
        buffer[:] = bytes(len(buffer))  # the caller's again
    for _ in range(ROUNDS):
        bench.target.serve()
        bench.side.queue.read(1)
        if bench.target.received:
            break
    assert bench.target.received == [content]


def test_row_7_a_message_that_is_refused_too_often_ends_with_the_error(bench: Bench) -> None:
    bench.refuse(*[(uet.NO_MATCH, 0)] * (MAX_PAUSES + 1))
    bench.side.endpoint.send(b"in vain", bench.peer, context="mine")
    assert bench.end() == Errno.FI_ENORX
    assert bench.target.received == []
    bench.side.endpoint.send(b"after all", bench.peer, context="next")
    assert bench.end() == "next"
    assert bench.target.received == [b"after all"]


def test_row_7_tagged_and_untagged_messages_have_generations_of_their_own(bench: Bench) -> None:
    bench.refuse((BAD_GENERATION, 9))
    bench.side.endpoint.tsend(b"tagged", bench.peer, 5, context="tagged")
    assert bench.end() == "tagged"
    bench.refuse((BAD_GENERATION, 4))
    bench.side.endpoint.send(b"untagged", bench.peer, context="untagged")
    assert bench.end() == "untagged"
    bench.side.endpoint.tsend(b"again", bench.peer, 5, context="again")
    assert bench.end() == "again"
    assert [request.generation for request in bench.target.requests] == [0, 9, 0, 4, 9]


def test_row_7_other_messages_pass_one_that_waits(bench: Bench) -> None:
    bench.refuse((uet.NO_MATCH, 0))
    for content in (b"first", b"second", b"third"):
        bench.side.endpoint.send(content, bench.peer, context=content)
    assert {bench.end() for _ in range(3)} == {b"first", b"second", b"third"}
    assert sorted(bench.target.received) == [b"first", b"second", b"third"]
    assert bench.target.received[0] == b"second"


@pytest.mark.parametrize("lost", range(6))
def test_row_7_a_lost_packet_changes_nothing(bench: Bench, lost: int) -> None:
    bench.target.station.lost = {bench.target.station.frames + lost}
    bench.refuse((uet.NO_MATCH, 0), (BAD_GENERATION, 3))
    bench.side.endpoint.send(b"once", bench.peer, context="mine")
    assert bench.end() == "mine"
    for _ in range(Initiator.STEPS):
        bench.target.serve()
    assert bench.target.received == [b"once"]


def test_a_refusal_of_an_amoeba_is_final(fabric: Fabric) -> None:
    bench = Bench(fabric, foreign=False)
    bench.refuse((uet.NO_MATCH, 0))
    bench.side.endpoint.send(b"in vain", bench.peer, context="mine")
    assert bench.end() == Errno.FI_ENORX


def test_while_a_message_waits_for_its_time_nobody_sleeps(fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amoeba.transport.rings.Repeats", partial(Repeats, chosen=lambda *_: 1e9))
    bench = Bench(fabric)
    rings, device = bench.side.endpoint._rings, fabric.devices[0]
    bench.refuse((uet.NO_MATCH, 0))
    bench.side.endpoint.send(b"later", bench.peer)
    while not rings.repeats.waiting:
        bench.target.serve()
        assert bench.side.queue.read(1) == []

    def interrupted() -> bool:
        device.wait(0)  # what came before
        rings.arm()
        for _ in range(Initiator.STEPS):
            bench.target.serve()
        return device.wait(0) != 0

    assert interrupted()
    rings.repeats.waiting.clear()
    assert not interrupted()
