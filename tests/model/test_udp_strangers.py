"""Datagrams that anybody may send to a UDP network: they become neither an error nor lasting state.

Covers ``remote_process.py``.
"""

import contextlib
import fcntl
import resource
import socket
import struct

import pytest
from amoeba_model.device import DeviceError
from amoeba_model.link_addresses import ip_of_link, mac_of_link
from amoeba_model.remote_process import RemoteProcess, RemoteProcesses
from amoeba_model.udp_network import UdpNetwork
from amoeba_model.wire.codec import FrameHeader, encode

from tests.support.scripted import ScriptedDevice, mac_of

EAGER = 1e9
HONEST = ("127.0.0.1", 50_000)
UNREACHABLE = [("127.255.255.255", 50_000), ("203.0.113.255", 50_000), ("255.255.255.255", 50_000), ("127.0.0.1", 0)]


def datagram(kind, content=b"", destination=bytes(6), epoch=1):
    """Typed after docs/wire.md."""
    return b"Amoe\x02" + bytes([kind]) + destination + struct.pack(">I", epoch) + content


def frame_from(source, destination, content=b""):
    macs = mac_of_link(*destination) + mac_of_link(*source)
    ips = ip_of_link(*source).to_bytes(4, "big") + ip_of_link(*destination).to_bytes(4, "big")
    return macs + b"\x08\x00" + b"\x45" + bytes(11) + ips + content


def request_to(destination, source, number=1):
    """A frame with a request of packet delivery context ``number``."""
    header = FrameHeader(
        mac=int.from_bytes(mac_of_link(*destination), "big"),
        ip=ip_of_link(*destination),
        port=4793,
        is_request=True,
        psn=number,
        spdcid=number,
        dpdcid=0,
        syn=True,
    )
    return encode(header, b"", int.from_bytes(mac_of_link(*source), "big"), ip_of_link(*source))


@pytest.fixture
def network():
    with UdpNetwork(arithmetic=True, idle_hz=EAGER, keepalive=3600, watchdog=3600) as made:
        made.attach(ScriptedDevice(), mac_of_link(*made.address))
        yield made


def say(network, source, kind, content=b"", epoch=1):
    """Let a datagram come from any source, as whoever can send raw packets does."""
    network._take(datagram(kind, content, mac_of_link(*network.address), epoch), source)


def probe_all(network):
    network._next_probe = 0
    network.step()


# Senders that cannot be answered


@pytest.mark.parametrize("source", UNREACHABLE, ids=str)
def test_b1_a_sender_that_cannot_be_answered_is_counted_and_raises_nothing(network, source):
    device = network.devices[0]
    for kind in range(3):
        say(network, source, kind, frame_from(source, network.address) if kind == 0 else b"")
    device.send(request_to(source, network.address))
    for _ in range(3):
        probe_all(network)
    assert network.traffic.undeliverable == 1
    say(network, HONEST, 0, frame_from(HONEST, network.address, b"honest"))
    network.step()
    assert device.frames[-1] == frame_from(HONEST, network.address, b"honest")


def test_a_datagram_from_port_0_is_ignored(network):
    raw_source = ("127.0.0.1", 0)
    say(network, raw_source, 0, frame_from(raw_source, network.address))
    network.step()
    assert (network.strangers, network.devices[0].frames, len(network.processes)) == (1, [], 0)


@pytest.mark.parametrize("error", [PermissionError(1, "no"), OSError(90, "too long"), OSError(105, "no buffers")])
def test_b2_no_error_of_a_datagram_that_is_sent_ends_a_step(network, error):
    real = network._socket

    class Failing:
        def __getattr__(self, name):
            return getattr(real, name)

        def sendto(self, *_):
            raise error

    network._socket = Failing()
    try:
        network.devices[0].send(frame_from(network.address, HONEST))
        say(network, HONEST, 1)
        network.step()
        network.step()
    finally:
        network._socket = real
    assert (network.unsent, network.traffic.undeliverable) == (2, 1)


@pytest.mark.parametrize("port", [-1, 0, 1 << 16])
def test_a_port_that_is_none_is_refused_when_it_is_named(network, port):
    with pytest.raises(DeviceError, match=f"expected a UDP port of 1 to 65535, got {port}"):
        network.connect(mac_of(1), "127.0.0.1", port)


@pytest.mark.parametrize("host", ["a" * 300, "\0", "a..b"])
def test_a_host_that_is_none_is_refused_when_it_is_named(network, host):
    with pytest.raises(DeviceError, match="cannot find the host"):
        network.connect(mac_of(1), host, 9)


def test_a_network_whose_socket_has_a_high_number_waits_as_others_do(network):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= 1100:
        pytest.skip("this system grants no descriptor above 1023")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    try:
        high = fcntl.fcntl(network._socket.fileno(), fcntl.F_DUPFD, 1100)
        old, network._socket = network._socket, socket.socket(fileno=high)
        old.close()
        network.step()
        network.advance()
        network.rest(0.001)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert network.now > 0


# Many strangers


def test_b3_strangers_do_not_keep_an_honest_process_from_being_served(network):
    device = network.devices[0]
    for number in range(4200):
        stranger = (f"127.{1 + number // 250}.{number % 250}.1", 50_000)
        say(network, stranger, 0, frame_from(stranger, network.address))
    say(network, HONEST, 0, frame_from(HONEST, network.address, b"honest"))
    network.step()
    assert device.frames[-1] == frame_from(HONEST, network.address, b"honest")
    assert len(network.processes) <= 4096
    assert network.processes.displaced == 4201 - 4096


def test_nobody_is_probed_for_no_more_than_frames_that_it_has_sent(network):
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.setblocking(False)
        say(network, stranger.getsockname(), 0, frame_from(stranger.getsockname(), network.address))
        for _ in range(3):
            probe_all(network)
        with pytest.raises(BlockingIOError):
            stranger.recv(100)


def test_a_process_that_has_been_forgotten_still_learns_that_its_peer_lives(network):
    """Otherwise strangers that displace a client would end its server, in that client's eyes."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
        client.bind(("127.0.0.1", 0))
        client.settimeout(10)
        client.sendto(datagram(1), network.address)
        network.step()
        assert client.recv(100) == datagram(2, epoch=network.epoch)
    assert (len(network.processes), network.strangers) == (0, 0)


def test_a_process_that_sent_frames_alone_is_forgotten_when_it_has_been_silent():
    now = [0.0]
    processes = RemoteProcesses(lambda: now[0])
    processes.name(("127.0.0.1", 1))
    processes.ask(("127.0.0.1", 2))
    processes.hear(("127.0.0.1", 3))
    now[0] = 5.0
    processes.hear(("127.0.0.1", 4))
    now[0] = 10.5
    processes.expire(10.0)
    assert [processes.get(("127.0.0.1", port)) is not None for port in (1, 2, 3, 4)] == [True, True, False, True]


def test_processes_that_speak_do_not_displace_one_that_is_awaited():
    processes = RemoteProcesses()
    awaited = processes.ask(HONEST)
    for port in range(1, 5000):
        processes.hear(("127.0.0.2", port))
    assert processes.get(HONEST) is awaited
    assert len(processes) == 4097


def test_what_is_asked_of_many_processes_is_bounded_and_the_latest_stays():
    processes = RemoteProcesses()
    for port in range(1, 5000):
        latest = processes.ask(("127.0.0.2", port))
    assert (len(processes), processes.displaced) == (4096, 4999 - 4096)
    assert processes.get(("127.0.0.2", 4999)) is latest


def test_a_round_of_probes_asks_a_bounded_number_and_each_process_in_turn():
    processes = RemoteProcesses()
    for port in range(1, 1001):
        processes.ask(("127.0.0.2", port))
    turns = [processes.turn() for _ in range(4)]
    assert max(map(len, turns)) <= 256
    assert sorted(process.address[1] for turn in turns for process in turn) == list(range(1, 1001))


def test_a_process_that_never_answers_is_forgotten_once_nothing_is_sent_to_it(network):
    network.keepalive, network.watchdog = 0.25, 1.0
    network.devices[0].send(request_to(HONEST, network.address))
    network.step()
    network.step()
    assert len(network.processes) == 1
    for _ in range(6):
        probe_all(network)
    assert len(network.processes) == 0


# One stranger that claims much


def test_b4_frames_of_one_process_from_the_address_of_another_are_dropped(network):
    """Also when the other is known; either address of the frame alone is not enough."""
    other = ("127.0.0.1", 50_001)
    here = network.address
    for source in (HONEST, other):
        say(network, source, 0, frame_from(source, here))
    network.step()
    assert len(network.devices[0].frames) == 2
    forged = bytearray(frame_from(HONEST, here))
    for source in (other, HONEST):
        say(network, source, 0, frame_from(other if source is HONEST else HONEST, here, b"forged"))
    forged[26:30] = ip_of_link(*other).to_bytes(4, "big")
    say(network, HONEST, 0, bytes(forged))
    twin = (HONEST[0], HONEST[1] - (1 << 14))  # whose Ethernet address is the same
    assert mac_of_link(*twin) == mac_of_link(*HONEST)
    say(network, twin, 0, frame_from(HONEST, here, b"forged"))
    say(network, HONEST, 0, frame_from(HONEST, here)[:33])
    network.step()
    assert len(network.devices[0].frames) == 2
    assert network.strangers == 5


def test_a_named_process_is_not_taken_for_another_that_is_named_or_attached():
    with UdpNetwork(idle_hz=EAGER) as network:
        network.attach(ScriptedDevice(), mac_of(0))
        network.connect(mac_of(1), *HONEST)
        network.connect(mac_of(2), "127.0.0.1", 50_001)
        for claimed, delivered in ((1, 1), (2, 1), (0, 1), (3, 2)):
            frame = mac_of(0) + mac_of(claimed) + b"\x88\xb5"
            network._take(datagram(0, frame, mac_of(0)), HONEST)
            network.step()
            assert len(network.devices[0].frames) == delivered
        assert network.strangers == 2


def test_a_process_that_says_that_it_is_another_each_time_takes_no_memory(network):
    for epoch in range(5000):
        say(network, HONEST, 0, frame_from(HONEST, network.address), epoch)
    process = network.processes.get(HONEST)
    assert isinstance(process, RemoteProcess)
    assert len(process.former) <= 16
    say(network, HONEST, 0, frame_from(HONEST, network.address), 4990)
    assert network.outdated == 1
