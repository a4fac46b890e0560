"""The switch: what waits at its ports, what is dropped, marked and held up, and that all of it is accounted for."""

import itertools
import random
from dataclasses import asdict

import pytest
from amoeba_model.device import DeviceError
from amoeba_model.frames import Frame
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.network import Network
from amoeba_model.nic import ModelDevice
from amoeba_model.switch import Switch, congestion_experienced
from amoeba_model.wire.codec import FrameHeader, decode, encode
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from tests.support.scripted import ScriptedDevice, frame_to, mac_of

LATENCY = 100
RATE = 32


class Obedient(ScriptedDevice):
    """One that stops when it is told to: what its script has for later leaves when it may again, in order.

    It can say itself when the switch is to stop, and when to go on: ``says``.
    """

    def __init__(self, name: str, script: list[tuple[int, bytes]], says: list[tuple[int, bool]]) -> None:
        super().__init__(name, script)
        self.told: list[tuple[int, bool]] = []
        self._says = says
        self._free = 0

    def pause_transmission(self, cycle: int, stop: bool) -> None:
        assert cycle > self._now, "told of something that has passed"
        self.told.append((cycle, stop))

    def take_pauses(self) -> list[tuple[int, bool]]:
        said = [entry for entry in self._says if entry[0] <= self._now]
        self._says = self._says[len(said) :]
        return said

    def take_frames(self):
        taken = []
        while self._script:
            cycle, data = self._script[0]
            start = max(cycle, self._free)
            stopped = False
            for at, stop in self.told:
                if at <= start:
                    stopped = stop
                elif stopped and not stop:
                    start, stopped = at, False
            end = start - (-len(data) // RATE)
            if stopped or end > self._now:
                break
            self._script.popleft()
            self._free = end
            taken.append(Frame(end, data))
        return taken


def connected(
    switch: Switch, *scripts: list[tuple[int, bytes]], says: dict[int, list[tuple[int, bool]]] | None = None,
    obey: bool = False, links: Impairments = PERFECT,
) -> tuple[Network, list[ScriptedDevice]]:  # fmt: skip
    network = Network(LATENCY, links, switch)
    devices: list[ScriptedDevice] = [
        Obedient(f"device {n}", script, (says or {}).get(n, [])) if obey else ScriptedDevice(f"device {n}", script)
        for n, script in enumerate(scripts)
    ]
    for number, device in enumerate(devices):
        network.attach(device, mac_of(number))
    return network, devices


def run(network: Network, steps: int = 200) -> None:
    for _ in range(steps):
        network.step()


def accounted(network: Network) -> bool:
    traffic = network.traffic
    gone = traffic.delivered + traffic.lost + traffic.dropped + traffic.undeliverable + network.in_flight
    return traffic.sent + traffic.duplicated == gone


def burst(number: int, count: int, size: int, start: int = 0, gap: int = 0) -> list[tuple[int, bytes]]:
    """Frames of that many bytes for NIC ``number``, numbered in their first two bytes of content."""
    return [
        (start + gap * index, frame_to(number, index.to_bytes(2, "big")).ljust(size, b".")) for index in range(count)
    ]


def order(frames: list[bytes]) -> list[int]:
    return [int.from_bytes(frame[14:16], "big") for frame in frames]


# A port


def test_a_frame_leaves_when_it_has_been_stored_and_sent_again():
    network, devices = connected(Switch(rate=RATE), [(7, frame_to(1).ljust(320, b"."))], [])
    run(network, 3)
    assert devices[1].arrived == [(7 + LATENCY + 10, frame_to(1).ljust(320, b"."))]


def test_frames_of_several_nics_share_the_port_in_the_order_in_which_they_came():
    first, second = burst(2, 2, 320), burst(2, 2, 320, start=5)
    network, devices = connected(Switch(rate=RATE), first, second, [])
    run(network, 5)
    assert devices[2].arrived == [
        (110, first[0][1]), (120, first[1][1]), (130, second[0][1]), (140, second[1][1]),
    ]  # fmt: skip


def test_ports_do_not_wait_for_one_another():
    network, devices = connected(Switch(rate=1), burst(1, 5, 100), burst(2, 1, 100), [])
    run(network, 8)
    assert devices[2].arrived == [(200, burst(2, 1, 100)[0][1])]
    assert [cycle for cycle, _ in devices[1].arrived] == [200, 300, 400, 500, 600]


def test_what_does_not_fit_behind_what_waits_is_dropped_at_its_tail():
    network, devices = connected(Switch(buffer=1000, rate=1), burst(1, 8, 300), [])
    run(network, 50)
    assert order(devices[1].frames) == [0, 1, 2]
    assert (network.traffic.dropped, network.in_flight) == (5, 0)
    assert accounted(network)


def test_a_dropped_frame_leaves_space_for_a_shorter_one_behind_it():
    long, short = burst(1, 4, 300), [(1, frame_to(1, b"\0\x63"))]
    network, devices = connected(Switch(buffer=1000, rate=1), long + short, [])
    run(network, 50)
    assert order(devices[1].frames) == [0, 1, 2, 0x63]


def test_frames_for_nobody_never_enter_it():
    network, _ = connected(Switch(), burst(7, 3, 100), [])
    run(network, 3)
    assert (network.traffic.undeliverable, network.in_flight) == (3, 0)


def test_what_waits_for_a_nic_that_leaves_is_undeliverable_and_others_go_on():
    network, devices = connected(Switch(rate=1), burst(1, 3, 200), [], [(0, frame_to(0))])
    run(network, 1)
    network.detach(devices[1])
    run(network, 20)
    assert network.traffic.undeliverable == 3
    assert network.in_flight == 0
    assert devices[0].frames == [frame_to(0)]


# Marks


def uet(length: int) -> bytes:
    header = FrameHeader(mac=int.from_bytes(mac_of(1), "big"), ip=0x0A000002, is_request=True, psn=5, opcode=1,
                         request_length=length, payload_length=length)  # fmt: skip
    return encode(header, bytes(length), int.from_bytes(mac_of(0), "big"), 0x0A000001)


def test_packets_that_come_to_a_long_queue_are_marked_and_nothing_else_of_them_changes():
    frame = uet(200)
    network, devices = connected(Switch(rate=1, mark=700), [(number, frame) for number in range(6)], [])
    run(network, 60)
    marked = [data != frame for data in devices[1].frames]
    assert marked == [False, False, False, True, True, True]
    assert network.traffic.marked == 3
    for data in devices[1].frames[3:]:
        assert {at for at, (a, b) in enumerate(zip(data, frame, strict=True)) if a != b} <= {15, 24, 25}
        assert data[15] & 3 == 3
        packet = Ether(data)[IP]
        right = packet.chksum
        del packet.chksum
        assert IP(bytes(packet)).chksum == right, "scapy finds another checksum"
        assert not isinstance(decode(data), int)
        assert decode(data).payload == bytes(200), "a NIC takes it as before"


@given(st.binary(min_size=34, max_size=60), st.integers(0, 255))
def test_a_mark_keeps_a_right_checksum_right_and_a_wrong_one_wrong(content: bytes, traffic_class: int):
    """Packets that are not ECN-capable stay as they are."""
    frame = bytearray(content)
    frame[12:16] = bytes([8, 0, 0x45, traffic_class])

    def remainder(data: bytes) -> int:
        total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(14, 34, 2))
        return total % 0xFFFF

    marked = congestion_experienced(bytes(frame))
    assert marked[15] == (traffic_class | 3 if traffic_class & 3 else traffic_class)
    assert remainder(marked) == remainder(bytes(frame))


@pytest.mark.parametrize(
    "frame", [frame_to(1, bytes(60)), b"\x02" * 20, uet(8)[:33]], ids=["another", "short", "cut"]
)
def test_what_is_no_ipv4_packet_is_not_marked(frame: bytes):
    assert congestion_experienced(frame) is frame


# Pause


LOSSLESS = Switch(buffer=100_000, nic_buffer=100_000, pause=True, rate=RATE)


def test_nics_are_stopped_before_anything_is_lost_and_all_arrives_in_order():
    """Three send to one, each as fast as its port: 4 MB where 300 kB fit."""
    scripts = [burst(3, 300, 4000) for _ in range(3)]
    network, devices = connected(LOSSLESS, *scripts, [], obey=True)
    run(network, 1500)
    assert network.traffic.dropped == 0
    assert len(devices[3].arrived) == 900
    for device, script in zip(devices, scripts, strict=False):
        assert [entry[1] for entry in device.told[:2]] == [True, False]
        assert [frame for frame in devices[3].frames if frame in {data for _, data in script}]
    assert accounted(network)
    # The port was never idle: one frame every 125 cycles.
    cycles = [cycle for cycle, _ in devices[3].arrived]
    assert {later - sooner for sooner, later in itertools.pairwise(cycles)} == {125}


def test_one_that_does_not_stop_loses_what_does_not_fit():
    network, devices = connected(LOSSLESS, *[burst(3, 300, 4000, gap=125) for _ in range(3)], [])
    run(network, 1500)
    assert network.traffic.dropped > 0
    assert len(devices[3].arrived) == 900 - network.traffic.dropped


def test_nothing_begins_to_leave_for_a_nic_that_has_told_the_switch_to_stop():
    says = {1: [(55, True), (2050, False)]}
    network, devices = connected(LOSSLESS, burst(1, 3, 320, start=40, gap=20), [], obey=True, says=says)
    run(network, 30)
    # 40, 60 and 80 are when they begin to leave; the switch is notified of the stop in cycle 155, of its end in 2150
    assert [cycle for cycle, _ in devices[1].arrived] == [160, 2160, 2170]


def test_one_that_is_stopped_holds_up_only_those_that_send_to_it():
    says = {2: [(10, True)]}
    network, devices = connected(LOSSLESS, burst(2, 60, 4000), burst(3, 60, 4000), [], [], obey=True, says=says)
    run(network, 200)
    assert devices[2].arrived == []
    assert len(devices[3].arrived) == 60
    assert [stop for _, stop in devices[0].told] == [True]
    assert devices[1].told == []
    assert network.traffic.dropped == 0
    assert network.in_flight > 0


def test_a_stop_spreads_and_ends_when_its_cause_does():
    """NIC 0 sends to 2, which has stopped; so what it has for 3 waits behind."""
    mixed = [entry for pair in zip(burst(2, 30, 4000), burst(3, 30, 4000), strict=True) for entry in pair]
    network, devices = connected(LOSSLESS, mixed, [], [], [], obey=True, says={2: [(10, True), (30_000, False)]})
    run(network, 250)
    assert len(devices[3].arrived) < 30
    run(network, 400)
    assert len(devices[2].arrived) == len(devices[3].arrived) == 30


def test_a_nic_that_leaves_while_it_has_stopped_the_switch_gives_free_what_waits_for_it():
    network, devices = connected(LOSSLESS, burst(1, 40, 4000), [], obey=True, says={1: [(0, True)]})
    run(network, 100)
    network.detach(devices[1])
    run(network, 400)
    assert network.in_flight == 0
    assert network.traffic.undeliverable == 40


def test_pause_and_resume_of_a_nic_fill_the_switch_and_empty_it():
    network, devices = connected(LOSSLESS, burst(1, 60, 4000), [], obey=True)
    network.pause(devices[1])
    run(network, 200)
    assert devices[1].arrived == []
    assert devices[0].told == [(devices[0].told[0][0], True)]
    network.resume(devices[1])
    run(network, 400)
    assert order(devices[1].frames) == list(range(60))


# Accounts


@settings(max_examples=25)
@given(st.integers(0, 1 << 30))
def test_every_frame_is_accounted_for_and_a_run_is_the_same_again(seed: int):
    def go() -> tuple[dict[str, int], list[list[tuple[int, bytes]]]]:
        chance = random.Random(seed)
        switch = Switch(
            buffer=chance.choice((2000, 100_000)), rate=chance.choice((1, 8, 32)), mark=chance.choice((None, 0, 3000))
        )
        links = Impairments(seed, loss=0.05, duplication=0.05, corruption=0.05, reordering=0.05, delay=30)
        scripts = [
            [(chance.randrange(2000), frame_to(chance.randrange(5), bytes(chance.randrange(400)))) for _ in range(30)]
            for _ in range(4)
        ]
        network, devices = connected(switch, *scripts, links=links)
        for _ in range(30):
            network.step()
            assert accounted(network)
        while network.in_flight:
            network.step()
        assert accounted(network)
        assert network.traffic.delivered == sum(len(device.arrived) for device in devices)
        return asdict(network.traffic), [device.arrived for device in devices]

    assert go() == go()


# Models


def test_a_model_that_is_told_to_stop_finishes_its_frame_and_goes_on_when_it_may():
    device = ModelDevice()
    sent = device._transmitter
    header = FrameHeader(mac=1, ip=2, is_request=True, psn=5, opcode=1, request_length=3000, payload_length=3000)
    for _ in range(4):
        sent.send(header, bytes(3000), 10, (0, 0, 0, 0, 0))
    device.pause_transmission(150, True)
    device.pause_transmission(900, False)
    device.run_until(500)
    before = device.take_frames()
    device.run_until(2000)
    after = device.take_frames()
    beats = -(-len(before[0].data) // 32)
    assert [frame.cycle for frame in before] == [10 + beats, 10 + 2 * beats]
    assert [frame.cycle for frame in after] == [900 + beats, 900 + 2 * beats]


# What cannot be


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer": 0}, "buffer is at least 1, got 0"), ({"rate": -1}, "rate is at least 1"),
        ({"nic_buffer": 0}, "nic_buffer is at least 1"), ({"mark": -1}, "got -1"),
    ],
)  # fmt: skip
def test_senseless_switches_are_refused(options: dict[str, int], message: str):
    with pytest.raises(DeviceError, match=message):
        Switch(**options)


@pytest.mark.parametrize("name", ["buffer", "nic_buffer"])
def test_one_that_could_not_keep_its_guarantee_to_lose_nothing_is_refused(name: str):
    with pytest.raises(DeviceError, match=f"latency of 1000 cycles, a switch needs .* bytes of {name}"):
        Network(1000, switch=Switch(pause=True, **{"buffer": 1 << 20, "nic_buffer": 1 << 20, name: 10_000}))
    Network(1000, switch=Switch(pause=False, buffer=10_000))
