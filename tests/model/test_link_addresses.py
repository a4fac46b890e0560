"""Addresses that follow from where a NIC's process listens, and networks that know nobody and need no telling."""

import contextlib
import socket

import pytest
from amoeba_model.link_addresses import FIRST_PORT, ip_of_link, link_of, mac_of_link
from amoeba_model.nic.device import ModelDevice
from amoeba_model.udp_network import UdpNetwork
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted import ScriptedDevice

three = st.binary(min_size=3, max_size=3)
hosts = st.builds(lambda first, rest: socket.inet_ntoa(bytes([first]) + rest), st.integers(1, 223), three)
ports = st.integers(1, 65535)


def frame_between(destination, source, content=b""):
    """Ethernet and IPv4 headers, as far as a switch looks at them, typed after RFC 791."""
    macs = mac_of_link(*destination) + mac_of_link(*source)
    ips = ip_of_link(*source).to_bytes(4, "big") + ip_of_link(*destination).to_bytes(4, "big")
    return macs + b"\x08\x00" + b"\x45" + bytes(11) + ips + content


@given(hosts, ports)
def test_the_addresses_of_a_link_name_it_and_are_good_ones(host, port):
    mac, ip = mac_of_link(host, port), ip_of_link(host, port)
    assert link_of(mac, ip.to_bytes(4, "big")) == (host, port)
    assert len(mac) == 6
    assert mac[0] & 3 == 2  # locally administered, of one station: IEEE 802, section 8.4
    assert 0 < ip < 1 << 32


def test_the_addresses_of_a_link_are_these():
    assert mac_of_link("10.1.2.3", 0xC0DE) == bytes([0x02, 10, 1, 2, 3, 0xDE])
    assert ip_of_link("10.1.2.3", 0xC0DE) == 0x0203_C0DE


@given(st.lists(st.tuples(hosts, st.integers(FIRST_PORT, 65535)), unique=True))
def test_hosts_and_ports_that_networks_choose_have_ethernet_addresses_of_their_own(links):
    assert len({mac_of_link(*link) for link in links}) == len(links)


@given(st.lists(st.tuples(st.binary(min_size=2, max_size=2), ports), unique=True))
def test_within_a_network_of_16_bits_all_have_ipv4_addresses_of_their_own(links):
    assert len({ip_of_link(socket.inet_ntoa(b"\x0a\x00" + host), port) for host, port in links}) == len(links)


@given(st.binary(min_size=6, max_size=6), st.binary(min_size=4, max_size=4))
def test_other_addresses_name_no_link_or_the_one_whose_they_are(mac, ip):
    link = link_of(mac, ip)
    assert link is None or (mac_of_link(*link), ip_of_link(*link).to_bytes(4, "big")) == (mac, ip)


@pytest.mark.parametrize("host", ["0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255"])
def test_nobody_is_sent_to_where_no_host_is(host):
    assert link_of(mac_of_link(host, 50000), ip_of_link(host, 50000).to_bytes(4, "big")) is None


@pytest.fixture
def strangers():
    """Four networks with a device each, of which two share a host address; nobody has been told of anybody."""
    with contextlib.ExitStack() as opened:
        networks = [
            opened.enter_context(UdpNetwork(host, arithmetic=True, idle_hz=1e9))
            for host in ("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.1.0.1")
        ]
        devices = [ScriptedDevice(f"device {number}") for number in range(len(networks))]
        for network, device in zip(networks, devices, strict=True):
            network.attach(device, mac_of_link(*network.address))
        yield networks, devices


def step(networks, rounds=6):
    for _ in range(rounds):
        for network in networks:
            network.step()


def test_everybody_reaches_everybody(strangers):
    networks, devices = strangers
    links = [network.address for network in networks]
    for source, device in zip(links, devices, strict=True):
        for destination in links:
            device.send(frame_between(destination, source))
    step(networks)
    for number, device in enumerate(devices):
        assert sorted(device.frames) == sorted(frame_between(links[number], source) for source in links)
    assert [network.strangers for network in networks] == [0, 0, 0, 0]


def test_a_network_takes_a_port_that_ethernet_addresses_tell_apart():
    with UdpNetwork(arithmetic=True) as network:
        assert network.address[1] >= FIRST_PORT


def test_who_says_that_he_is_another_is_a_stranger(strangers):
    networks, devices = strangers
    here, other = (network.address for network in networks[:2])
    header = b"Amoe\x02\x00" + mac_of_link(*here) + b"\x12\x34\x56\x78"
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as plain:
        plain.bind(("127.0.0.1", 0))
        plain.sendto(header + frame_between(here, other), here)
        step(networks, 1)
        assert (networks[0].strangers, devices[0].frames) == (1, [])
        own = frame_between(here, plain.getsockname())
        plain.sendto(header + own, here)
        step(networks, 1)
        assert devices[0].frames == [own]


def test_a_frame_for_nobody_is_undeliverable(strangers):
    networks, devices = strangers
    devices[0].send(bytes(60))
    devices[0].send(b"\x02")
    damaged = bytearray(frame_between(networks[1].address, networks[0].address))
    damaged[31] ^= 1
    devices[0].send(bytes(damaged))
    step(networks)
    assert networks[0].traffic.undeliverable == 3


def test_a_process_that_comes_back_is_reached_again(strangers):
    networks, devices = strangers
    links = [network.address for network in networks]
    devices[1].send(frame_between(links[0], links[1], b"former"))
    step(networks)
    networks[1].close()
    with UdpNetwork(*links[1], arithmetic=True, idle_hz=1e9) as latter:
        device = ScriptedDevice("latter")
        latter.attach(device, mac_of_link(*links[1]))
        devices[0].send(frame_between(links[1], links[0], b"hello"))
        device.send(frame_between(links[0], links[1], b"again"))
        step([networks[0], latter])
        assert device.frames == [frame_between(links[1], links[0], b"hello")]
        assert devices[0].frames[-1] == frame_between(links[0], links[1], b"again")
        assert networks[0].resets == 1


# Time


class Working(ScriptedDevice):
    """Says itself whether it is idle."""

    idle = True
    idle_hz = 1_000_000


def clock_after(network, steps):
    before = network.now
    for _ in range(steps):
        network.step()
    return network.now - before


def test_time_passes_freely_while_a_nic_does_something_and_by_the_wall_clock_while_it_waits():
    with UdpNetwork(arithmetic=True) as network:
        device = Working()
        network.attach(device, mac_of_link(*network.address))
        assert network.patience > 0
        device.idle = False
        assert network.patience == 0
        assert clock_after(network, 50) == 50 * network.latency
        device.idle = True
        network.step()
        assert 10 * network.latency <= clock_after(network, 50) <= 50 * 1000  # a millisecond each, at 1 MHz


def test_what_a_process_does_elsewhere_takes_no_time(monkeypatch):
    with UdpNetwork(arithmetic=True) as network:
        network.attach(Working(), mac_of_link(*network.address))
        network.step()
        network._rested_since -= 3600
        assert clock_after(network, 1) <= 1000


def test_a_model_says_when_it_waits():
    device = ModelDevice()
    with UdpNetwork(arithmetic=True) as network:
        network.attach(device, mac_of_link(*network.address))
        network.step()
        assert device.idle
        device.write(0, 0)
        assert not device.idle
        network.step()
        network.step()
        assert device.idle
        device.deliver(bytes(64), device.cycles + 50)
        assert not device.idle
        network.step()
        network.step()
        assert device.idle
        device.close()
