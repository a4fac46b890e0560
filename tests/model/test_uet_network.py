"""Bare UET on the host's UDP: what a datagram is, what is ignored, and what becomes of the socket."""

import contextlib
import os
import socket

import pytest
from amoeba_model import uet_network
from amoeba_model.device import DeviceError
from amoeba_model.impairments import Impairments
from amoeba_model.link_addresses import ip_of_link, mac_of_link
from amoeba_model.uet_network import MAX_HEADERS, UetNetwork, mtu_of, to_datagram, to_frame
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import NackCode
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted import ScriptedDevice
from tests.support.uet_dissector import crc32c

PORT = 4793
HERE, THERE = ("127.0.0.21", PORT), ("127.0.0.22", PORT)
EAGER = 1e9
"""Idle cycles per second at which no step waits for long."""


def frame(payload=b"", source=HERE, destination=THERE, **fields):
    header = FrameHeader(
        mac=int.from_bytes(mac_of_link(*destination), "big"), ip=ip_of_link(*destination), port=0xC0DE,
        **{"psn": 7, "spdcid": 3, "syn": True, "opcode": 1, "request_length": len(payload)} | fields,
    )  # fmt: skip
    return encode(header, payload, int.from_bytes(mac_of_link(*source), "big"), ip_of_link(*source))


def decoded(data, destination=HERE):
    found = decode(data, int.from_bytes(mac_of_link(*destination), "big"), ip_of_link(*destination))
    assert isinstance(found, DecodedFrame), found
    return found


def plain(host, port=PORT):
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind((host, port))
    opened.settimeout(10)
    return contextlib.closing(opened)


@pytest.fixture
def network():
    with UetNetwork(HERE[0], idle_hz=EAGER) as opened:
        opened.attach(ScriptedDevice(), mac_of_link(*HERE))
        yield opened


def run(network, steps=20):
    for _ in range(steps):
        network.step()


# Translation


@given(st.binary(max_size=300), st.integers(1, 65535))
def test_a_datagram_has_the_crc_of_the_hosts_addresses(payload, port):
    datagram = to_datagram(frame(payload), (HERE[0], port), THERE)
    body, crc = datagram[:-4], int.from_bytes(datagram[-4:], "little")
    assert body == frame(payload)[42:-4]
    covered = socket.inet_aton(HERE[0]) + socket.inet_aton(THERE[0])
    covered += b"".join(number.to_bytes(2, "big") for number in (port, PORT, len(datagram) + 8, 0))
    assert crc == crc32c(covered + body)


@given(st.binary(max_size=300), st.integers(1, 65535), st.integers(0, 255))
def test_the_other_end_gets_the_nic_s_frame_back(payload, port, tos):
    sent = frame(payload)
    arrived = to_frame(to_datagram(sent, (HERE[0], port), THERE), (HERE[0], port), THERE, tos)
    assert arrived[15] == tos
    found = decoded(arrived, THERE)
    assert (found.header.port, found.header.marked, found.payload) == (port, tos & 3 == 3, payload)
    found.header.port, found.header.marked = 0xC0DE, False
    assert found == decoded(sent, THERE)


@given(st.binary(min_size=1, max_size=300), st.data())
def test_damage_stays_damage(payload, data):
    damaged = bytearray(to_datagram(frame(payload), HERE, THERE))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    arrived = to_frame(bytes(damaged), HERE, THERE)
    assert not isinstance(decode(arrived), DecodedFrame)


@given(st.one_of(st.binary(min_size=4, max_size=300), st.integers(1000, 65507).map(bytes)), st.integers(0, 255))
def test_any_datagram_is_a_frame_that_the_nic_judges(datagram, tos):
    arrived = to_frame(datagram, THERE, HERE, tos)
    assert arrived[42:-4] == datagram[:-4]
    decode(arrived, int.from_bytes(mac_of_link(*HERE), "big"), ip_of_link(*HERE))


@pytest.mark.parametrize("port", [1, 4793, 49152, 65535])
def test_another_uet_port_is_the_port_of_both_ends(port):
    here, there = (HERE[0], port), (THERE[0], port)
    sent = frame(b"hello", here, there)
    arrived = to_frame(to_datagram(sent, (HERE[0], 50000), there), (HERE[0], 50000), there)
    assert decoded(arrived, there).header.mac == int.from_bytes(mac_of_link(*here), "big")


# Datagrams


def test_frames_leave_from_one_of_the_source_ports_and_keep_it(network):
    with plain(*THERE) as peer:
        for number in range(4):
            network.devices[0].send(frame(bytes([number])))
        run(network)
        arrived = [peer.recvfrom(2000) for _ in range(4)]
    assert [data[-5] for data, _ in arrived] == [0, 1, 2, 3]
    assert len({sender for _, sender in arrived}) == 1
    assert arrived[0][1][1] in network.source_ports


def test_dscp_and_congestion_marks_pass_both_ways(network):
    sent = bytearray(frame())
    sent[15] = 46 << 2 | 3
    with plain(*THERE) as peer:
        peer.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
        network.devices[0].send(bytes(sent))
        run(network)
        _, told, _, _ = peer.recvmsg(2000, 64)
        assert told[0][2][0] == 46 << 2 | 3
        peer.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 1)
        peer.sendto(to_datagram(frame(source=THERE, destination=HERE), THERE, HERE), HERE)
        run(network)
    assert [each[15] for each in network.devices[0].frames] == [1]


def test_a_datagram_shorter_than_a_crc_is_malformed(network):
    with plain(*THERE) as peer:
        for size in range(5):
            peer.sendto(bytes(size), HERE)
        run(network)
    assert (network.malformed, len(network.devices[0].frames)) == (4, 1)


def test_a_datagram_from_the_own_address_is_a_stranger_s(network):
    with plain(HERE[0], 0) as thief:
        thief.sendto(to_datagram(frame(source=HERE, destination=HERE), HERE, HERE), HERE)
        run(network)
    assert (network.strangers, network.devices[0].frames) == (1, [])


@pytest.mark.parametrize("host", ["255.255.255.255", "127.255.255.255", "203.0.113.7"])
def test_a_host_that_cannot_be_reached_ends_no_step(network, host):
    network.devices[0].send(frame(destination=(host, PORT)))
    run(network)
    assert network.traffic.sent == 1


def test_a_peer_of_another_port_is_undeliverable(network):
    network.devices[0].send(frame(destination=(THERE[0], 50000)))
    run(network)
    assert network.traffic.undeliverable == 1


def test_frames_are_lost_on_purpose_where_they_leave():
    with UetNetwork(HERE[0], idle_hz=EAGER, impairments=Impairments(loss=1)) as network, plain(*THERE) as peer:
        network.attach(ScriptedDevice(), mac_of_link(*HERE))
        network.devices[0].send(frame())
        run(network)
        peer.setblocking(False)
        with pytest.raises(BlockingIOError):
            peer.recv(2000)


# A peer that is gone


def test_a_peer_whose_port_is_closed_after_it_spoke_is_gone(network):
    device = network.devices[0]
    with plain(*THERE) as peer:
        peer.sendto(to_datagram(frame(source=THERE, destination=HERE), THERE, HERE), HERE)
        run(network)
    for _ in range(3):
        device.send(frame())
        run(network)
    nacks = [decoded(each) for each in device.frames[1:]]
    assert nacks, "the host says that its port is closed"
    assert {(each.header.nack_code, each.header.dpdcid) for each in nacks} == {(NackCode.CLOSING_IN_ERR, 3)}
    assert network.resets >= 1


def test_a_peer_that_has_not_begun_is_waited_for(network):
    device = network.devices[0]
    for _ in range(3):
        device.send(frame())
        run(network)
    assert (device.frames, network.resets) == ([], 0)


def test_strangers_take_bounded_room(network, monkeypatch):
    monkeypatch.setattr("amoeba_model.remote_process._MAX_HEARD", 16)
    for number in range(1, 101):
        with plain(f"127.0.1.{number}", 0) as stranger:
            stranger.sendto(bytes(20), HERE)
            run(network, 1)
    assert len(network.processes) == 16


# The socket


def test_the_nic_has_the_addresses_of_the_link(network):
    with pytest.raises(DeviceError, match=r"a UET port has one NIC, with MAC address 4a:7f:00:00:15:b9"):
        network.attach(ScriptedDevice(), mac_of_link(*HERE))
    with UetNetwork(THERE[0]) as other, pytest.raises(DeviceError, match="one NIC"):
        other.attach(ScriptedDevice(), mac_of_link(*HERE))


def test_a_peer_s_address_follows_from_its_host(network):
    assert network.knows(mac_of_link(*THERE))
    network.connect(mac_of_link(*THERE), *THERE)
    with pytest.raises(DeviceError, match=r"expected the MAC address 4a:7f:00:00:16:b9 at 127.0.0.22, got 02:"):
        network.connect(bytes([2, 0, 0, 0, 0, 1]), *THERE)


def test_all_ends_use_one_port(network):
    with pytest.raises(DeviceError, match="expected port 4793, which all endpoints of the UET network use, got 5000"):
        network.move(5000)


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("0.0.0.0", PORT, "expected one IPv4 address of this host, got 0.0.0.0"),
        ("203.0.113.1", PORT, "cannot listen at UDP address 203.0.113.1:4793"),
        ("127.0.0.1", 0, "expected a UET port of 1 to 65535, got 0"),
        ("127.0.0.1", 65536, "expected a UET port of 1 to 65535, got 65536"),
        (HERE[0], PORT, "cannot listen at UDP address 127.0.0.21:4793: .*in use"),
    ],
)
def test_an_impossible_address_is_refused(network, host, port, message):
    with pytest.raises(DeviceError, match=message):
        UetNetwork(host, port)


def test_closing_returns_all_descriptors(network):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        UetNetwork(THERE[0]).close()
        with pytest.raises(DeviceError):
            UetNetwork(*HERE)
    assert len(os.listdir("/proc/self/fd")) == before
    network.close()
    network.close()
    with pytest.raises(DeviceError, match="closed"):
        network.step()


def test_a_forked_child_takes_no_datagram(network):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        with contextlib.suppress(DeviceError):
            network.step()
            os.write(writing, b"stepped")
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as told:
        assert told.read() == b""
    with plain(*THERE) as peer:
        peer.sendto(to_datagram(frame(source=THERE, destination=HERE), THERE, HERE), HERE)
        run(network)
    assert len(network.devices[0].frames) == 1


# Interfaces


def test_the_mtu_is_that_of_the_interface(monkeypatch):
    assert mtu_of("127.0.0.77") == mtu_of("127.0.0.1") > 1500
    assert mtu_of("203.0.113.9") == 1500, "of no interface"


def test_the_longest_headers_are_those_of_a_compare_and_swap():
    longest = frame(bytes(32), opcode=0x0B, atomic_opcode=0x0D, request_length=32)
    assert len(longest) - 14 <= MAX_HEADERS
    assert uet_network.MAX_HEADERS == 124
