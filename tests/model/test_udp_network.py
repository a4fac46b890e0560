"""A network over UDP: frames between two sockets, datagrams from hell, and the passing of time.

Covers ``device.py``, ``forking.py`` and ``outside_network.py``.
"""

import contextlib
import select
import socket
import time

import pytest
from amoeba_model.device import DeviceError
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.udp_network import OUTSIDE, UdpNetwork
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted import ScriptedDevice, frame_to, mac_of
from tests.support.strategies import impairments

NUMBER = b"\x12\x34\x56\x78"
HEADER_TO_0 = b"Amoe\x02\x00" + mac_of(0) + NUMBER
"""Typed after docs/wire.md: magic, version, kind, destination, epoch."""
EAGER = 1e9
"""Idle cycles per second at which no step waits for long."""


class Ends:
    """Networks of two processes, here in one: device n with address ``mac_of(n)`` on network n."""

    def __init__(self, links: Impairments = PERFECT) -> None:
        self.networks = [UdpNetwork(impairments=links, idle_hz=EAGER) for _ in range(2)]
        self.devices = [ScriptedDevice(f"device {number}") for number in range(2)]
        for number, (network, device) in enumerate(zip(self.networks, self.devices, strict=True)):
            network.attach(device, mac_of(number))
            network.connect(mac_of(1 - number), *self.networks[1 - number].address)

    def run(self, steps: int = 20) -> None:
        for _ in range(steps):
            for network in self.networks:
                network.step()

    def __enter__(self) -> "Ends":
        return self

    def __exit__(self, *_: object) -> None:
        for network in self.networks:
            network.close()


@pytest.fixture
def ends():
    with Ends() as made:
        yield made


@pytest.fixture
def outsider():
    """A network with device 0, and a socket that it is connected to as ``mac_of(1)``."""
    with (
        UdpNetwork(idle_hz=EAGER, keepalive=3600, watchdog=3600) as network,
        contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as plain,
    ):
        plain.bind(("127.0.0.1", 0))
        plain.settimeout(10)
        network.attach(ScriptedDevice(), mac_of(0))
        network.connect(mac_of(1), *plain.getsockname())
        yield network, plain


def test_frames_cross_both_ways_in_order(ends):
    first, second = ends.devices
    there = [frame_to(1, bytes([n])) for n in range(100)]
    back = [frame_to(0, bytes([n])) for n in range(50)]
    for frame in there:
        first.send(frame)
    for frame in back:
        second.send(frame)
    ends.run()
    assert (second.frames, first.frames) == (there, back)
    assert [network.traffic.delivered for network in ends.networks] == [150, 150]


def test_the_largest_frame_crosses_and_a_larger_one_than_udp_carries_is_an_error(ends):
    first, second = ends.devices
    largest = frame_to(1, bytes(65507 - 16 - 14))
    first.send(largest)
    ends.run()
    assert second.frames == [largest]
    first.send(largest + b"x")
    with pytest.raises(DeviceError, match=r"cannot send a frame of 65492 bytes to 127\.0\.0\.1:\d+: "):
        ends.run()


def test_a_datagram_is_a_header_and_the_frame(outsider):
    network, plain = outsider
    network.devices[0].send(frame_to(1, b"hello"))
    network.step()
    number = network.epoch.to_bytes(4, "big")
    assert plain.recv(2000) == b"Amoe\x02\x00" + mac_of(1) + number + frame_to(1, b"hello")
    plain.sendto(HEADER_TO_0 + b"anything", network.address)
    network.step()
    assert network.devices[0].frames == [b"anything"], "the header, not the frame, says for whom it is"


def test_devices_of_one_process_still_reach_each_other(ends):
    third = ScriptedDevice()
    ends.networks[0].attach(third, mac_of(2))
    ends.devices[0].send(frame_to(2))
    ends.networks[0].step()
    assert third.frames == [frame_to(2)]


def test_frames_from_outside_are_not_sent_out_again(outsider):
    network, plain = outsider
    plain.sendto(b"Amoe\x02\x00" + mac_of(1) + NUMBER + frame_to(1), network.address)
    plain.sendto(b"Amoe\x02\x00" + mac_of(7) + NUMBER + frame_to(7), network.address)
    network.step()
    assert (network.traffic.undeliverable, network.traffic.delivered) == (2, 0)
    plain.settimeout(0.05)
    with pytest.raises(TimeoutError):
        plain.recv(2000)


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"A",
        HEADER_TO_0[:-1],
        HEADER_TO_0,
        b"amoe" + HEADER_TO_0[4:] + b"x",
        b"Amoe\x01" + HEADER_TO_0[5:] + b"x",
        b"Amoe\x02\x03" + HEADER_TO_0[6:],
        b"Amoe\x02\x01" + HEADER_TO_0[6:] + b"x",
    ],
    ids=["empty", "a byte", "half a header", "no frame", "magic", "version", "kind", "a frame"],
)
def test_malformed_datagrams_are_counted_and_forgotten(outsider, datagram):
    network, plain = outsider
    plain.sendto(datagram, network.address)
    network.step()
    assert (network.malformed, network.strangers, network.traffic.sent) == (1, 0, 0)


def test_datagrams_of_strangers_are_counted_and_forgotten(outsider):
    network, _ = outsider
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as stranger:
        stranger.sendto(HEADER_TO_0 + frame_to(0), network.address)
    network.step()
    assert (network.malformed, network.strangers, network.traffic.sent) == (0, 1, 0)


@given(st.lists(st.binary(max_size=60) | st.binary(max_size=60).map(HEADER_TO_0.__add__), max_size=20))
def test_no_datagram_raises(datagrams):
    with Ends() as ends:
        network, sender = ends.networks[0], ends.networks[1]
        for datagram in datagrams:
            sender._socket.sendto(datagram, network.address)
        ends.run(2)
        assert network.traffic.sent + network.malformed == len(datagrams)
        assert network.traffic.delivered == len(ends.devices[0].frames)


@given(impairments(), st.lists(st.binary(max_size=60), max_size=30))
def test_impaired_frames_meet_the_same_fate_as_in_one_process(links, contents):
    """All of it happens where they are sent; the receiving network does nothing more to them."""
    sent = [frame_to(1, content) for content in contents]
    expected = [copy for n, frame in enumerate(sent) for copy in links.fate(mac_of(0).hex(":"), n, frame)]
    with Ends(links) as ends:
        for frame in sent:
            ends.devices[0].send(frame)
        ends.run(30)
        assert sorted(ends.devices[1].frames) == sorted(copy.data for copy in expected if not copy.lost)
        traffic = ends.networks[0].traffic
        assert traffic.lost == sum(copy.lost for copy in expected)
        assert traffic.sent + traffic.duplicated == traffic.delivered + traffic.lost
        assert ends.networks[1].traffic.delivered == traffic.delivered


def test_pause_and_cut_hold_for_what_comes_from_outside(ends):
    first, second = ends.devices
    ends.networks[1].pause(second)
    first.send(frame_to(1, b"held"))
    ends.run(3)
    assert (second.frames, ends.networks[1].in_flight) == ([], 1)
    ends.networks[1].resume(second)
    ends.run(3)
    ends.networks[1].cut(second)
    first.send(frame_to(1, b"lost"))
    ends.run(3)
    ends.networks[1].restore(second)
    first.send(frame_to(1, b"after"))
    ends.run(3)
    assert second.frames == [frame_to(1, b"held"), frame_to(1, b"after")]
    assert ends.networks[1].traffic.lost == 1


def test_the_log_has_what_leaves_and_what_comes(ends):
    first, second = ends.devices
    ends.networks[0].recording = True
    first.send(frame_to(1))
    second.send(frame_to(0))
    ends.run(3)
    assert sorted((sender, frame.data) for sender, frame in ends.networks[0].log) == [
        (OUTSIDE, frame_to(0)),
        (0, frame_to(1)),
    ]


# Time


def test_an_idle_clock_passes_no_faster_than_it_is_told():
    with UdpNetwork(idle_hz=20_000) as network:
        network.attach(ScriptedDevice(), mac_of(0))
        begin = time.monotonic()
        for _ in range(20):
            network.step()
        assert time.monotonic() - begin > 0.95 * 20 * 100 / 20_000


def test_a_slow_simulation_sleeps_three_times_as_long_as_it_works():
    class Slow(ScriptedDevice):
        def run_until(self, cycle: int) -> None:
            time.sleep(0.005)
            super().run_until(cycle)

    with UdpNetwork(idle_hz=EAGER) as network:
        network.attach(Slow(), mac_of(0))
        begin = time.monotonic()
        for _ in range(10):
            network.step()
        # the first step knows nothing of its work yet
        assert time.monotonic() - begin > 0.95 * (10 * 0.005 + 9 * 0.015)


def test_a_frame_ends_the_wait_and_a_step_after_a_departure_does_not_wait(outsider):
    """Waiting would take 100 seconds."""
    network, plain = outsider
    network.idle_hz = 1.0
    begin = time.monotonic()
    for _ in range(5):
        plain.sendto(HEADER_TO_0 + frame_to(0), network.address)
        network.step()
    for _ in range(5):
        network.devices[0].send(frame_to(1))
        plain.sendto(HEADER_TO_0 + frame_to(0), network.address)
        network.step()
        network.step()
    assert time.monotonic() - begin < 50


def test_who_looks_again_and_again_waits_only_when_it_has_looked_often(outsider):
    """Waiting would take a minute; no time passes for the NIC meanwhile."""
    network, plain = outsider
    network.idle_hz = network.latency / 60
    network.step(at_once=True)
    now = network.now
    for _ in range(2):
        for _ in range(16):
            network.advance()
        assert network.now == now
        plain.sendto(HEADER_TO_0 + frame_to(0, b"come"), network.address)
        network.advance()  # has been asked for often enough to wait, which the frame ends
        assert network.now > now
        network.devices[0].send(frame_to(1))  # something goes on, so it may look as often again
        network.step(at_once=True)
        while not network.patience:
            network.advance()
        now = network.now


def test_what_has_come_is_handed_over_by_who_looks(outsider):
    network, plain = outsider
    network.step(at_once=True)
    now = network.now
    plain.sendto(HEADER_TO_0 + frame_to(0, b"come"), network.address)
    network.advance()
    assert network.now > now
    assert network.devices[0].frames == [frame_to(0, b"come")]


# What is refused


def test_who_has_waited_for_the_socket_steps_at_once(outsider):
    """As a thread does that makes progress; the clock of a network on which nothing happens is a slow one."""
    network, plain = outsider
    network.idle_hz = network.latency / 60  # a minute per step
    network.step(at_once=True)
    assert network.patience == 60
    assert select.select([network.outside], [], [], 0)[0] == []
    plain.sendto(HEADER_TO_0 + frame_to(0, b"come"), network.address)
    assert select.select([network.outside], [], [], 10)[0] == [network.outside]
    begin = time.monotonic()
    network.step(at_once=True)
    assert time.monotonic() - begin < 30
    assert network.devices[0].frames == [frame_to(0, b"come")]
    assert select.select([network.outside], [], [], 0)[0] == []


def test_addresses_are_given_once(ends):
    network = ends.networks[0]
    with pytest.raises(DeviceError, match="02:00:00:00:00:01 is already connected"):
        network.attach(ScriptedDevice(), mac_of(1))
    for taken in (0, 1):
        with pytest.raises(DeviceError, match=f"02:00:00:00:00:0{taken} is already attached or connected"):
            network.connect(mac_of(taken), "127.0.0.1", 9)
    with pytest.raises(DeviceError, match="has 6 bytes"):
        network.connect(b"short", "127.0.0.1", 9)


def test_what_cannot_be_listened_at_is_refused(ends):
    host, port = ends.networks[0].address
    with pytest.raises(DeviceError, match=f"cannot listen at UDP address {host}:{port}: "):
        UdpNetwork(host, port)
    with pytest.raises(DeviceError, match=r"cannot listen at UDP address 192\.0\.2\.1:0"):
        UdpNetwork("192.0.2.1")
    with pytest.raises(DeviceError, match="cannot listen"):
        UdpNetwork(port=1 << 16)
    with pytest.raises(DeviceError, match="more than 0 cycles per second, got 0"):
        UdpNetwork(idle_hz=0)


def test_an_unknown_host_is_refused(ends, monkeypatch):
    def fail(host):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", fail)
    with pytest.raises(DeviceError, match="cannot find the host 'nowhere'"):
        ends.networks[0].connect(mac_of(5), "nowhere", 9)


def test_a_closed_network_refuses_every_call(ends):
    network = ends.networks[0]
    network.close()
    network.close()
    for call in (
        network.step,
        lambda: network.address,
        lambda: network.attach(ScriptedDevice(), mac_of(6)),
        lambda: network.connect(mac_of(6), "127.0.0.1", 9),
    ):
        with pytest.raises(DeviceError, match="closed"):
            call()


def probe_of(network, plain):
    """The next probe that a network sends."""
    plain.settimeout(10)
    network._next_probe = 0
    network.step()
    datagram = plain.recv(2000)
    assert datagram == b"Amoe\x02\x01" + bytes(6) + network.epoch.to_bytes(4, "big")
    return datagram


def test_a_probe_is_answered_and_is_no_traffic(outsider):
    network, plain = outsider
    plain.sendto(b"Amoe\x02\x01" + bytes(6) + NUMBER, network.address)
    network.step()
    assert plain.recv(2000) == b"Amoe\x02\x02" + bytes(6) + network.epoch.to_bytes(4, "big")
    assert (network.malformed, network.traffic.sent) == (0, 0)


def test_a_process_that_has_sent_nothing_is_waited_for(outsider):
    network, plain = outsider
    plain.close()
    network.devices[0].send(frame_to(1))
    for _ in range(10):
        network._next_probe = 0
        network.step()
        time.sleep(0.01)
    assert network.resets == 0


def test_a_process_whose_port_nobody_has_is_gone(outsider):
    network, plain = outsider
    plain.sendto(HEADER_TO_0 + frame_to(0), network.address)
    network.step()
    probe_of(network, plain)
    plain.close()
    deadline = time.monotonic() + 10
    while not network.resets:
        assert time.monotonic() < deadline
        network._next_probe = 0
        network.step()


def test_another_process_at_the_same_address_ends_the_one_before_once(outsider):
    network, plain = outsider
    second = HEADER_TO_0[:-1] + b"\x79" + frame_to(0, b"second")
    for datagram in (HEADER_TO_0 + frame_to(0, b"first"), second, HEADER_TO_0 + frame_to(0, b"late"), second):
        plain.sendto(datagram, network.address)
        network.step()
    network.step()
    assert network.resets == 1
    assert network.devices[0].frames == [frame_to(0, b"first"), frame_to(0, b"second"), frame_to(0, b"second")]


def test_a_process_that_is_silent_for_too_long_is_gone(outsider):
    """So many probes have gone out that were to be answered; waiting for it begins again then."""
    network, plain = outsider
    network.keepalive, network.watchdog = 0.25, 1.0
    plain.sendto(HEADER_TO_0 + frame_to(0), network.address)
    network.step()
    for _ in range(4):
        probe_of(network, plain)
    assert network.resets == 0
    probe_of(network, plain)
    assert network.resets == 1
