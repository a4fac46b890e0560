"""The network: who gets which frame when, what may go wrong on the way, and that all of it is accounted for.

Covers ``frames.py`` and ``impairments.py``.
"""

import dataclasses
import itertools
from dataclasses import asdict

import pytest
from amoeba_model.device import DeviceError
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.network import Network
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted import ScriptedDevice, frame_to, mac_of
from tests.support.strategies import impairments

LATENCY = 100
FRAMES = [frame_to(1, bytes([number]) * 50) for number in range(200)]
LONG = 100
"""Steps after which everything has arrived."""


def connected(
    *scripts: list[tuple[int, bytes]], links: Impairments = PERFECT
) -> tuple[Network, list[ScriptedDevice]]:
    """A network of devices that send these scripts; number n has address ``mac_of(n)``."""
    network = Network(LATENCY, links)
    devices = [ScriptedDevice(f"device {number}", script) for number, script in enumerate(scripts)]
    for number, device in enumerate(devices):
        network.attach(device, mac_of(number))
    return network, devices


def run(network: Network, steps: int = LONG) -> None:
    for _ in range(steps):
        network.step()


def sent_over(links: Impairments, *, gap: int = 10) -> tuple[Network, ScriptedDevice]:
    """``FRAMES`` sent by device 0, one every ``gap`` cycles; the network, and device 1."""
    script = [(gap * number, frame) for number, frame in enumerate(FRAMES)]
    network, (_, receiver) = connected(script, [], links=links)
    run(network)
    assert network.in_flight == 0
    return network, receiver


# A perfect network


def test_a_frame_arrives_after_the_latency_at_its_destination_alone():
    network, devices = connected([(7, frame_to(2)), (250, frame_to(1))], [], [])
    run(network, 5)
    assert [device.arrived for device in devices] == [[], [(350, frame_to(1))], [(107, frame_to(2))]]
    assert asdict(network.traffic) == {
        "sent": 2, "delivered": 2, "duplicated": 0, "lost": 0, "undeliverable": 0, "corrupted": 0, "reordered": 0,
        "delayed": 0, "dropped": 0, "marked": 0,
    }  # fmt: skip


def test_frames_that_leave_at_the_same_cycle_arrive_in_the_order_of_attachment():
    network, devices = connected([(5, frame_to(2, b"a"))], [(5, frame_to(2, b"b"))], [])
    run(network, 2)
    assert devices[2].frames == [frame_to(2, b"a"), frame_to(2, b"b")]


def test_a_device_whose_clock_is_ahead_does_not_overtake_others():
    """A device sends at cycle 450 before the network has come there; another's frame of cycle 50 goes first."""
    network, devices = connected([], [(150, frame_to(2, b"second"))], [])
    devices[0].run_until(450)
    devices[0].send(frame_to(2, b"third"))
    devices[1].send(frame_to(2, b"first"), 50)
    devices[1]._script.rotate()
    run(network, 6)
    assert devices[2].arrived == [
        (150, frame_to(2, b"first")),
        (250, frame_to(2, b"second")),
        (550, frame_to(2, b"third")),
    ]


def test_frames_for_nobody_are_counted():
    network, (device,) = connected([(0, frame_to(9)), (1, frame_to(9))])
    run(network, 1)
    assert (network.traffic.undeliverable, network.traffic.delivered) == (2, 0)
    assert device.arrived == []


def test_a_device_that_left_gets_nothing_and_its_address_is_free():
    network, (_, second) = connected([(0, frame_to(1)), (110, frame_to(1))], [])
    run(network, 1)
    second.close()
    third = ScriptedDevice()
    network.attach(third, mac_of(1))
    run(network, 2)
    assert (second.frames, third.frames) == ([frame_to(1)], [frame_to(1)])
    network.detach(second)
    assert network.devices[1] is third


def test_what_cannot_be_attached_or_built_is_refused():
    network, (device,) = connected([])
    with pytest.raises(DeviceError, match="02:00:00:00:00:00 is already attached"):
        network.attach(ScriptedDevice(), mac_of(0))
    with pytest.raises(DeviceError, match="device 0 is already attached"):
        network.attach(device, mac_of(1))
    with pytest.raises(DeviceError, match="has 6 bytes"):
        network.attach(ScriptedDevice(), b"short")
    with pytest.raises(DeviceError, match="at least one cycle, got 0"):
        Network(0)


# One fault at a time


def test_a_perfect_link_changes_nothing():
    network, receiver = sent_over(PERFECT)
    assert receiver.arrived == [(10 * number + LATENCY, frame) for number, frame in enumerate(FRAMES)]
    assert network.traffic.delivered == len(FRAMES)


def test_of_certain_loss_nothing_is_left():
    network, receiver = sent_over(Impairments(loss=1))
    assert receiver.arrived == []
    assert network.traffic.lost == len(FRAMES)


def test_certain_duplication_brings_everything_twice():
    network, receiver = sent_over(Impairments(duplication=1))
    assert receiver.frames == [frame for frame in FRAMES for _ in range(2)]
    assert network.traffic.duplicated == len(FRAMES)


def test_certain_corruption_changes_every_frame_in_up_to_three_bits_or_its_length():
    network, receiver = sent_over(Impairments(corruption=1))
    flips = set()
    for sent, arrived in zip(FRAMES, receiver.frames, strict=True):
        if len(arrived) == len(sent):
            difference = int.from_bytes(sent) ^ int.from_bytes(arrived)
            flips.add(difference.bit_count())
        else:
            assert 1 <= len(arrived) < len(sent)
            assert sent.startswith(arrived)
            flips.add("cut")
    assert flips == {1, 2, 3, "cut"}
    assert network.traffic.corrupted == len(FRAMES)


def test_corruption_reaches_every_byte():
    touched = set()
    for number in range(2000):
        (copy,) = Impairments(corruption=1).fate("link", number, bytes(20))
        touched |= {at for at, byte in enumerate(copy.data) if byte}
    assert touched == set(range(20))


def test_a_frame_of_one_byte_is_corrupted_too_and_not_to_nothing():
    for number in range(100):
        (copy,) = Impairments(corruption=1).fate("link", number, b"\0")
        assert len(copy.data) == 1
        assert copy.data != b"\0"


def test_reordered_frames_are_overtaken_and_none_is_changed():
    network, receiver = sent_over(Impairments(reordering=0.3, holdback=200))
    assert sorted(receiver.frames) == sorted(FRAMES)
    assert receiver.frames != FRAMES
    late = {frame for number, frame in enumerate(FRAMES) if (10 * number + LATENCY, frame) not in receiver.arrived}
    assert len(late) == network.traffic.reordered
    assert 30 < len(late) < 90
    # the others keep their order and their time
    assert [frame for frame in receiver.frames if frame not in late] == [f for f in FRAMES if f not in late]
    for cycle, frame in receiver.arrived:
        assert 0 <= cycle - (10 * FRAMES.index(frame) + LATENCY) <= 200


def test_delay_keeps_the_order():
    network, receiver = sent_over(Impairments(delay=500))
    assert receiver.frames == FRAMES
    waits = [cycle - 10 * number - LATENCY for number, (cycle, _) in enumerate(receiver.arrived)]
    assert min(waits) >= 0
    assert 300 < max(waits) <= 500
    assert network.traffic.delayed > 0.9 * len(FRAMES)


@pytest.mark.parametrize("name", ["loss", "duplication", "corruption", "reordering"])
def test_a_chance_is_about_that_often(name):
    network, _ = sent_over(Impairments(**{name: 0.25}))
    counter = {"loss": "lost", "duplication": "duplicated", "corruption": "corrupted", "reordering": "reordered"}[
        name
    ]
    assert 30 <= getattr(network.traffic, counter) <= 70  # 200 / 4, and 3 standard deviations of 6.1


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": -0.1}, {"duplication": 1.1}, {"corruption": float("nan")}, {"reordering": 2}, {"delay": -1},
        {"holdback": 0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_senseless_impairments_are_refused_by_name(wrong):
    with pytest.raises(DeviceError, match="got"):
        Impairments(**wrong)


# Everything at once

scripts = st.lists(
    st.lists(st.tuples(st.integers(0, 2000), st.builds(frame_to, st.integers(0, 3), st.binary(max_size=40)))),
    min_size=1,
    max_size=3,
)


disturbances = st.lists(
    st.tuples(st.integers(0, 29), st.sampled_from(["pause", "resume", "cut", "restore"]), st.integers(0, 2))
)
"""(step, what is done, to which device)"""


@given(impairments(), scripts, disturbances)
def test_every_frame_is_accounted_for_at_any_time_and_arrives_in_order(links, traffic, disturbed):
    """That arrivals are in order and never in the past, each ScriptedDevice insists on."""
    network, devices = connected(*traffic, links=links)
    network.recording = True
    for step in range(100):
        for at, call, number in disturbed:
            if at == step:
                getattr(network, call)(devices[number % len(devices)])
        if step == 30:
            for device in devices:
                network.resume(device)
        network.step()
        seen = network.traffic
        assert seen.sent + seen.duplicated == seen.delivered + seen.lost + seen.undeliverable + network.in_flight
    assert network.in_flight == 0
    assert network.traffic.sent == sum(map(len, traffic))
    assert network.traffic.delivered == sum(len(device.arrived) for device in devices)
    departures = [frame.cycle for _, frame in network.log]
    assert departures == sorted(cycle for script in traffic for cycle, _ in script)
    assert all(cycle >= min(departures) + LATENCY for device in devices for cycle, _ in device.arrived)


@given(impairments(), scripts)
def test_equal_seeds_and_traffic_give_equal_runs(links, traffic):
    runs = []
    for _ in range(2):
        network, devices = connected(*traffic, links=links)
        run(network, 60)
        runs.append([device.arrived for device in devices])
    assert runs[0] == runs[1]


@given(impairments(), st.lists(st.integers(0, 300), min_size=30, max_size=30))
def test_a_frames_fate_does_not_depend_on_when_it_leaves_or_what_others_send(links, gaps):
    """So a model and an RTL NIC, which differ in their cycles, meet the same fate."""
    remarks = []
    for times, other in (
        ([10 * n for n in range(30)], []),
        (list(itertools.accumulate(gaps)), [(5, frame_to(0))] * 7),
    ):
        script = list(zip(times, FRAMES[:30], strict=True))
        network, _ = connected(script, other, links=links)
        network.recording = True
        run(network)
        remarks.append([frame.remark for sender, frame in network.log if sender == 0])
    assert remarks[0] == remarks[1]


def test_other_seeds_and_other_links_have_other_fates():
    links = Impairments(loss=0.5)
    fates = {
        tuple(one.fate(name, number, b"x")[0].lost for number in range(100))
        for one in (links, dataclasses.replace(links, seed=1))
        for name in ("a", "b")
    }
    assert len(fates) == 4


def test_one_device_can_be_impaired_alone():
    network, devices = connected([(0, frame_to(1))], [(0, frame_to(0))])
    network.impair(devices[0], Impairments(loss=1))
    run(network, 2)
    assert (devices[0].frames, devices[1].frames) == ([frame_to(0)], [])
    network.impair(devices[0], PERFECT)
    devices[0].send(frame_to(1))
    run(network, 2)
    assert devices[1].frames == [frame_to(1)]


# Pause and cut


def test_a_paused_link_delivers_everything_later_and_in_order():
    network, (first, second, third) = connected(
        [(n, frame_to(1, bytes([n]))) for n in range(5)], [(3, frame_to(2))], []
    )
    network.pause(second)
    run(network, 5)
    assert (second.arrived, third.arrived, network.in_flight) == ([], [], 6)
    first.send(frame_to(2))
    run(network, 2)
    assert third.frames == [frame_to(2)], "other links go on"
    network.resume(second)
    first.send(frame_to(1, b"new"))
    run(network, 2)
    assert second.frames == [frame_to(1, bytes([n])) for n in range(5)] + [frame_to(1, b"new")]
    assert third.frames == [frame_to(2)] * 2
    assert (network.traffic.lost, network.in_flight) == (0, 0)


def test_frames_move_until_they_arrive_or_meet_a_pause():
    network, (_, second) = connected([(0, frame_to(1)), (1, frame_to(1))], [])
    assert not network.moving
    network.pause(second)
    seen = []
    for _ in range(20):
        run(network, 1)
        seen.append((network.moving, network.in_flight))
    assert (seen[-1], network.outside, network.patience) == ((False, 2), None, 0.0)
    network.resume(second)
    assert network.moving
    run(network, 2)
    assert (network.moving, len(second.frames)) == (False, 2)


def test_between_two_paused_devices_both_must_be_resumed():
    network, (first, second) = connected([(0, frame_to(1))], [])
    network.pause(first)
    network.pause(second)
    run(network, 2)
    network.resume(first)
    run(network, 2)
    assert second.arrived == []
    network.resume(second)
    run(network, 1)
    assert second.frames == [frame_to(1)]


def test_a_device_that_leaves_while_paused_leaves_nothing_behind():
    network, (first, second) = connected([(0, frame_to(1))], [(0, frame_to(0))])
    network.pause(second)
    run(network, 2)
    second.close()
    run(network, 1)
    assert first.frames == [frame_to(0)]
    assert (network.traffic.undeliverable, network.in_flight) == (1, 0)


def test_a_cut_link_loses_what_is_sent_either_way_until_it_is_restored():
    network, (first, second) = connected([(0, frame_to(1, b"before"))], [])
    run(network, 1)
    network.cut(second)
    first.send(frame_to(1))
    second.send(frame_to(0))
    run(network, 3)
    assert network.traffic.lost == 2
    network.restore(second)
    first.send(frame_to(1, b"after"))
    second.send(frame_to(0, b"after"))
    run(network, 2)
    assert (first.frames, second.frames) == (
        [frame_to(0, b"after")],
        [frame_to(1, b"before"), frame_to(1, b"after")],
    )


@pytest.mark.parametrize("call", ["pause", "resume", "cut", "restore"])
def test_only_links_of_this_network_can_be_handled(call):
    network, _ = connected([])
    with pytest.raises(DeviceError, match="stranger is not attached to this network"):
        getattr(network, call)(ScriptedDevice("stranger"))


# The log


def test_the_log_says_what_became_of_each_frame():
    def remarks(links: Impairments) -> str:
        network, _ = connected([(0, FRAMES[0])], [], links=links)
        network.recording = True
        run(network, 1)
        assert [(sender, frame.cycle, frame.data) for sender, frame in network.log] == [(0, 0, FRAMES[0])]
        return network.log[0][1].remark

    assert remarks(PERFECT) == ""
    assert remarks(Impairments(loss=1)) == "lost"
    assert remarks(Impairments(duplication=1)) == "intact; copy: intact"
    assert remarks(Impairments(duplication=1, loss=1)) == "lost; copy: lost"
    assert remarks(Impairments(reordering=1, holdback=1)) == "held back for 1 cycles"
    assert remarks(Impairments(delay=10**9)).startswith("delayed by ")
    assert remarks(Impairments(corruption=1)).startswith(("bits flipped: ", "cut off after "))


def test_nothing_is_logged_unless_asked():
    network, _ = connected([(0, FRAMES[0])], [])
    run(network, 1)
    assert network.log == []
