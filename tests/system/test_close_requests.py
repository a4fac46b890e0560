"""Targets that ask for a CLOSE of their packet delivery contexts: an independent UET endpoint, and hostile ones.

Covers ``amoeba/transport/close_requests.py`` and more. The NICs are the model and the smallest one in RTL.
"""

import itertools
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from amoeba import Fabric, open_cluster
from amoeba.core.errors import TryAgainError
from amoeba.nic.address import EndpointAddress
from amoeba.transport.close_requests import CloseRequests
from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.parameters import BUILDS
from amoeba_model.registers import Counter, bar_blocks
from amoeba_model.wire.uet import ReturnCode

from tests.driver.endpoints import Side, make_talker
from tests.support import uet_packets as uet
from tests.support.uet_endpoint import Initiator, Target
from tests.support.uet_packets import Station
from tests.system.test_interoperation import NICS, STEPS, Bench, bench_of
from tests.system.test_messages_of_others import network_of

START = 0x4000_0000
"""The first psn of the NIC's PDC, in both directions."""
KINDS = ["model", "rtl"]
ROUNDS = 3_000
"""Of the network: longer than a CLOSE takes."""


@pytest.fixture(params=tuple(NICS))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_of(request.param)


def opened(bench: Bench) -> Target:
    """A target to which the NIC has an open PDC."""
    target = bench.target()
    assert write(bench, target) == ReturnCode.OK
    return target


def write(bench: Bench, target: Target) -> int:
    return bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0)


def settle(target: Target, steps: int = Initiator.STEPS) -> None:
    for _ in range(steps):
        target.serve()


def asked(bench: Bench) -> int:
    """The register ``close_requests`` of the first 32 entries."""
    blocks = {placed.block.name: placed for placed in bar_blocks(bench.nic.parameters)}
    return bench.nic.device.read(blocks["peers"].address("close_requests"))


def closes(target: Target) -> int:
    """How many different CLOSEs have come."""
    kinds = (packet for packet in target.packets if packet.prologue[:2] == (uet.CONTROL, uet.CLOSE_COMMAND))
    return len({struct.unpack(">I", packet.data[4:8]) for packet in kinds})


# The NIC


def test_row_12_a_close_request_is_acknowledged_and_shown_until_the_close(bench: Bench) -> None:
    target = opened(bench)
    assert asked(bench) == 0
    target.ask_for_close()
    settle(target)
    assert [(answer.psn, answer.nack, answer.bare) for answer in target.acknowledged] == [(START, 0, True)]
    assert not target.unacknowledged
    assert asked(bench) == 1
    assert write(bench, target) == ReturnCode.OK  # the PDC stays open until the driver closes it
    assert bench.execute(target, DescriptorOpcode.CLOSE) == ReturnCode.OK
    assert asked(bench) == 0
    assert write(bench, target) == ReturnCode.OK
    assert closes(target) == 1
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == 0


def test_a_close_request_takes_its_place_among_data_in_the_return_direction(bench: Bench) -> None:
    target = opened(bench)
    for _ in range(2):
        assert bench.execute(target, DescriptorOpcode.READ, length=64, remote_address=0x40) == ReturnCode.OK
        target.ask_for_close()
    settle(target, STEPS)
    assert not target.unacknowledged
    assert [answer.bare for answer in sorted(target.acknowledged, key=lambda answer: answer.psn)] == [False, True] * 2


@pytest.mark.parametrize("direction", ["drop", "deaf"])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_close_request_or_its_acknowledgement_may_be_lost(bench: Bench, direction: str, lost: int) -> None:
    target = opened(bench)
    # The WRITE and its answer were packet 0 in both directions.
    getattr(target, direction).add(1 + lost)
    target.ask_for_close()
    settle(target, STEPS)
    assert not target.unacknowledged
    assert asked(bench) == 1


def test_a_close_request_that_comes_again_is_acknowledged_again(bench: Bench) -> None:
    target = opened(bench)
    target.ask_for_close()
    settle(target)
    assert bench.execute(target, DescriptorOpcode.CLOSE) == ReturnCode.OK
    settle(target)
    before = len(target.acknowledged)
    target.send_returned(START, lambda packet: packet)  # of the former epoch
    settle(target)
    assert asked(bench) == 0
    assert len(target.acknowledged) == before


def test_a_new_peer_in_the_entry_has_not_asked(bench: Bench) -> None:
    target = opened(bench)
    target.ask_for_close()
    settle(target)
    bench.nic.set("peers", store=0)
    bench.nic.settle()
    assert asked(bench) == 0


def test_a_peer_that_has_failed_does_not_ask(bench: Bench) -> None:
    target = opened(bench)
    target.ask_for_close()
    settle(target)
    bench.nic.set("peers", fail=0)
    settle(target)
    assert asked(bench) == 0


def _put(packet: bytes, at: int, value: bytes) -> bytes:
    return packet[:at] + value + packet[at + len(value) :]


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "sender's PDC": lambda packet: _put(packet, 8, struct.pack(">H", 99)),
    "no sender's PDC": lambda packet: _put(packet, 8, bytes(2)),
    "receiver's PDC": lambda packet: _put(packet, 10, struct.pack(">H", 2)),
    "no PDC of the NIC": lambda packet: _put(packet, 10, struct.pack(">H", 0xFFFF)),
    "psn ahead": lambda packet: _put(packet, 4, struct.pack(">I", START + 1)),
    "psn far ahead": lambda packet: _put(packet, 4, struct.pack(">I", START + 0x1_0000)),
    "psn before the first": lambda packet: _put(packet, 4, struct.pack(">I", START - 1)),
    "a payload": lambda packet: packet + b"more",
    "cut short": lambda packet: packet[:-1],
}
"""CLOSE_REQUESTs that are not the target's next packet: nobody is asked to close, and nothing is acknowledged."""


@pytest.mark.parametrize("change", HOSTILE)
def test_a_close_request_that_does_not_fit_is_dropped(bench: Bench, change: str) -> None:
    target = opened(bench)
    target.forge = HOSTILE[change]
    target.ask_for_close()
    settle(target)
    assert asked(bench) == 0
    assert target.acknowledged == []
    target.forge = None
    assert write(bench, target) == ReturnCode.OK


def test_a_stranger_cannot_ask_for_a_close(bench: Bench) -> None:
    target = opened(bench)
    stranger = Station(bench.network, number=9)
    target.forge = lambda packet: b""
    target.ask_for_close()
    packet = uet.prologue(uet.CONTROL, uet.CLOSE_REQUEST, uet.ACK_REQUEST) + struct.pack(">HIHHI", 0, START, 1, 1, 0)
    stranger.send(bench.address, packet)
    settle(target)
    assert asked(bench) == 0
    assert not stranger.arrived()


# The driver


@pytest.fixture(params=KINDS)
def fabric(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabric]:
    always = partial(CloseRequests, clock=itertools.count(1.0).__next__)
    monkeypatch.setattr("amoeba.transport.transmit_rings.CloseRequests", always)
    with open_cluster([request.param], BUILDS["tiny"], rtl_options={"host_latency": 40}) as opened:
        yield opened


class Sender:
    """A side that sends to a target that is no Amoeba."""

    def __init__(self, fabric: Fabric) -> None:
        self.side: Side = make_talker(fabric.domain(0))
        vars(fabric).setdefault("kept", []).append(self.side)  # until the fabric closes it
        self.station = Station(network_of(fabric.devices[0]))
        self.target = Target(self.station, bytearray(64))
        name = EndpointAddress(self.station.mac.to_bytes(6, "big"), self.station.ip, 1, 1, 0, foreign=True)
        self.peer = self.side.peers.insert(name.pack())

    def send(self, text: bytes) -> None:
        self.side.endpoint.send(text, self.peer, context=text)
        self.serve(lambda: text in [found.op_context for found in self.side.queue.read(8)])

    def serve(self, over: Callable[[], bool]) -> None:
        for _ in range(ROUNDS):
            self.target.serve()
            if over():
                return
        raise AssertionError("it did not come to that")

    def closed(self, times: int) -> None:
        """Read the completion queue until the NIC has closed its PDC so often."""
        self.serve(lambda: not self.side.queue.read(8) and closes(self.target) == times)


@pytest.fixture
def sender(fabric: Fabric) -> Sender:
    return Sender(fabric)


def test_row_12_the_driver_closes_as_often_as_the_target_asks(sender: Sender) -> None:
    for times in (1, 2):
        sender.send(b"before %d" % times)
        sender.target.ask_for_close()
        sender.closed(times)
    sender.send(b"after")
    assert sender.target.received == [b"before 1", b"before 2", b"after"]
    assert not sender.target.unacknowledged


def test_operations_that_are_outstanding_complete_before_the_close(sender: Sender) -> None:
    sender.send(b"first")
    for number in range(5):
        sender.side.endpoint.send(b"%d" % number, sender.peer)
    sender.target.lose = 3
    sender.target.ask_for_close()
    sender.closed(1)
    assert sender.target.received == [b"first", *(b"%d" % number for number in range(5))]


def test_a_program_that_removes_the_peer_meanwhile_gets_no_error(sender: Sender) -> None:
    sender.send(b"only")
    sender.target.ask_for_close()
    settle(sender.target)
    sender.side.queue.read(8)  # posts a CLOSE
    sender.side.peers.remove(sender.peer)
    sender.serve(lambda: closes(sender.target) >= 1)


def test_a_target_that_asks_while_the_ring_is_full_gets_its_close_later(sender: Sender) -> None:
    sender.send(b"first")
    sender.target.lose = 1 << 20
    posted = 0
    with suppress(TryAgainError):
        while True:
            sender.side.endpoint.send(b"more", sender.peer)
            posted += 1
    sender.target.lose = 0
    sender.target.ask_for_close()
    sender.closed(1)
    assert sender.target.received == [b"first", *[b"more"] * posted]
