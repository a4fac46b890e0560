"""Honest state together with hostile fields: UDP datagrams, and the words of listeners and rendezvous.

Nothing of it raises out of a step or of progress, nothing of it grows without bound, and honest work goes on.
"""

import contextlib
import itertools
import json
import random
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import amoeba.ucp as ucp
import pytest
from amoeba import EpAttr, EpType, EqEvent, Info, Rendezvous, open_cluster
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.link_addresses import FIRST_PORT, ip_of_link, mac_of_link
from amoeba_model.udp_network import DATAGRAM_HEADER, UdpNetwork
from amoeba_model.wire.codec import FrameHeader, encode

from tests.support.scripted import ScriptedDevice

SEEDS = range(3)


# Datagrams


class Link:
    """A network of one process and what its NIC sends and hears."""

    def __init__(self, opened):
        self.network = opened.enter_context(UdpNetwork(arithmetic=True, idle_hz=1e9, keepalive=3600, watchdog=3600))
        self.device = ScriptedDevice()
        self.network.attach(self.device, mac_of_link(*self.network.address))

    def request_to(self, other, number):
        """A request, or an answer, of a NIC: what the network keeps state of, and what it does not."""
        link, own = other.network.address, self.network.address
        header = FrameHeader(
            mac=int.from_bytes(mac_of_link(*link), "big"),
            ip=ip_of_link(*link),
            port=4793,
            is_request=bool(number % 3),
            psn=number,
            spdcid=number % 7,
            dpdcid=number % 5,
            syn=number % 2 == 0,
        )
        return encode(header, b"", int.from_bytes(mac_of_link(*own), "big"), ip_of_link(*own))


def any_source(rng, honest):
    """Addresses that datagrams may come from; never an honest one."""
    host = rng.choice(["127.0.0.1", "127.0.0.9", "127.255.255.255", "203.0.113.255", "255.255.255.255", "0.0.0.0"])
    link = host, rng.choice([0, 1, 53, FIRST_PORT, 65535, rng.randrange(1 << 16)])
    return any_source(rng, honest) if link in honest else link


def hostile(rng, source, honest, frames, epochs):
    """A datagram of honest parts, some of them another's, some damaged."""
    claimed = rng.choice([source, *honest])
    victim = rng.choice(honest)
    frame = bytearray(rng.choice([*frames, b""]))
    if frame and rng.random() < 0.7:
        frame[:12] = mac_of_link(*victim) + mac_of_link(*claimed)
        frame[26:34] = ip_of_link(*claimed).to_bytes(4, "big") + ip_of_link(*victim).to_bytes(4, "big")
    for _ in range(rng.choice([0, 0, 1, 4])):
        if frame:
            frame[rng.randrange(len(frame))] = rng.randrange(256)
    del frame[rng.choice([0, 1, 14, 30, 33, 34, 60, len(frame), len(frame), len(frame)]) :]
    header = DATAGRAM_HEADER.pack(
        magic=rng.choice([0x416D_6F65] * 9 + [0]),
        version=rng.choice([2] * 9 + [1]),
        kind=rng.choice([0, 0, 0, 1, 2, 3]),
        destination=int.from_bytes(mac_of_link(*rng.choice([source, *honest])), "big"),
        epoch=rng.choice([*epochs, rng.randrange(1 << 32)]),
    )
    return header[: rng.choice([16] * 9 + [rng.randrange(16)])] + frame


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_datagrams_neither_end_a_step_nor_stay_nor_change_honest_traffic(seed):
    rng = random.Random(seed)
    with contextlib.ExitStack() as opened:
        links = [Link(opened) for _ in range(2)]
        addresses = [link.network.address for link in links]
        epochs = [link.network.epoch for link in links]
        sent = [[], []]
        for number in range(300):
            for here, there in ((0, 1), (1, 0)):
                frame = links[here].request_to(links[there], number)
                links[here].device.send(frame)
                sent[here].append(frame)
            for _ in range(40):
                source = any_source(rng, addresses)
                datagram = hostile(rng, source, addresses, [frames[-1] for frames in sent], epochs)
                rng.choice(links).network._take(datagram, source)
            if number % 50 == 0:
                for link in links:
                    link.network._next_probe = 0
            for link in (*links, *links):
                link.network.step()
        for here, there in ((0, 1), (1, 0)):
            arrived = iter(links[there].device.frames)
            assert all(frame in arrived for frame in sent[here]), "honest frames arrive, in order"
            network = links[here].network
            assert len(network.processes) <= 2 * 4096
            assert network.processes.get(addresses[there]).epoch == epochs[there]
            assert network.strangers > 100
            assert network.malformed > 100
            assert network.processes.get(addresses[there]).awaited


# Words over TCP

ODD = [
    None,
    True,
    -1,
    0,
    1.5,
    1e999,
    1 << 63,
    1 << 64,
    1 << 4000,
    "",
    "\0",
    "\ud800",
    "é" * 50,
    "00",
    "0" * 81,
    [],
    [[]],
    {},
    {"a": 1},
]


def nested(depth):
    return b"[" * depth + b"]" * depth


def words(rng, honest):
    """A line like an honest one, with odd values in it, or bytes that are no line."""
    value = json.loads(json.dumps(honest))
    for _ in range(rng.choice([0, 1, 1, 2])):
        if isinstance(value, list) and value:
            value[rng.randrange(len(value))] = rng.choice(ODD)
    choice = rng.randrange(12)
    if choice == 0:
        value = value[: rng.randrange(len(value) + 1)] if isinstance(value, list) else value
    elif choice == 1:
        value = [value, value]
    elif choice == 2:
        return nested(rng.choice([1, 100, *range(900, 1001, 7), 100_000])) + b"\n"
    elif choice == 3:
        return rng.randbytes(rng.choice([1, 40, 3000])) + b"\n"
    elif choice == 4:
        return b"7" * 5000 + b"\n"
    line = json.dumps(value).encode() + b"\n"
    return line[: rng.randrange(len(line))] if choice == 5 else line * rng.choice([1, 1, 2])


def attackers(rng, opened, place, honest, count):
    """Connections that have said such words; of some the other end is closed already."""
    for _ in range(count):
        caller = socket.create_connection(place, 60)
        opened.callback(caller.close)
        with contextlib.suppress(OSError):
            for _ in range(rng.choice([1, 1, 3])):
                caller.sendall(words(rng, rng.choice(honest)))
        if rng.random() < 0.3:
            caller.close()


def until(done, *workers):
    for _ in range(20_000):
        if done():
            return
        for worker in workers:
            ucp.ucp_worker_progress(worker)
    raise AssertionError("nothing has come of it")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_words_to_a_listener_of_ucp_raise_out_of_progress(seed):
    rng = random.Random(seed)
    with open_adapters() as adapters, contextlib.ExitStack() as opened:
        features = ucp.UCP_FEATURE_STREAM | ucp.UCP_FEATURE_AM
        contexts = [ucp.ucp_init(ucp.ucp_params_t(features=features), adapter=adapter) for adapter in adapters]
        client, server = (ucp.ucp_worker_create(context, ucp.ucp_worker_params_t()) for context in contexts)
        requests = []
        handler = ucp.ucp_listener_conn_handler_t(lambda request, arg: requests.append(request))
        listener = ucp.ucp_listener_create(
            server, ucp.ucp_listener_params_t(sockaddr=("127.0.0.1", 0), conn_handler=handler)
        )
        place = ucp.ucp_listener_query(listener, ucp.ucp_listener_attr_t()).sockaddr
        address = ucp.ucp_worker_get_address(client)[0]
        numbers = itertools.count(1 << 23, 2)
        for _ in range(8):
            protocol = "amoeba-ucp-2"
            data = [struct.pack("<IQ", next(numbers), 5).hex() for _ in range(3)]
            honest = [[protocol, "request", bytes(address).hex(), each] for each in data]
            honest += [[protocol, "ready", "", ""], [protocol, "accept", bytes(address).hex(), ""]]
            attackers(rng, opened, place, honest, 12)
            for _ in range(200):
                ucp.ucp_worker_progress(server)
            for request in requests:
                if rng.random() < 0.5:
                    ucp.ucp_listener_reject(listener, request)
                else:
                    with contextlib.suppress(ucp.UcsError):
                        ucp.ucp_ep_create(server, ucp.ucp_ep_params_t(conn_request=request))
            requests.clear()
            for _ in range(200):
                ucp.ucp_worker_progress(server)
        flags = ucp.UCP_EP_PARAMS_FLAGS_CLIENT_SERVER
        ep = ucp.ucp_ep_create(client, ucp.ucp_ep_params_t(sockaddr=place, flags=flags))
        until(lambda: requests, client, server)
        ucp.ucp_ep_create(server, ucp.ucp_ep_params_t(conn_request=requests[-1]))
        until(lambda: ep.connected, client, server)
        assert ep.failure is None


@pytest.mark.parametrize("seed", SEEDS)
def test_no_words_to_a_passive_endpoint_raise_out_of_an_event_queue(seed):
    rng = random.Random(seed)
    message = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))
    with open_cluster() as fabric, contextlib.ExitStack() as opened:
        events = fabric.eq_open()
        passive = fabric.passive_ep(message)
        passive.bind(events)
        passive.listen()
        client = fabric.domain(0)
        queue = client.cq_open()
        unconnected = client.endpoint(cq=queue, av=client.av_open())
        address = unconnected.getname()
        kinds = "request", "accept", "ready"
        honest = [["amoeba-connection-1", kind, bytes(address).hex(), "00"] for kind in kinds]
        for _ in range(8):
            attackers(rng, opened, passive.getname(), honest, 12)
            for _ in range(50):
                found = events.read()
                if found is not None and found.event is EqEvent.FI_CONNREQ:
                    passive.reject(found.info.handle)
        calling = client.endpoint(message, cq=queue, eq=events)
        calling.connect(passive.getname())
        found = events.sread(60)
        assert found is not None
        assert found.event is EqEvent.FI_CONNREQ


@pytest.mark.parametrize("seed", SEEDS)
def test_no_words_keep_processes_from_meeting(seed):
    rng = random.Random(seed)
    places = []
    with contextlib.ExitStack() as opened, ThreadPoolExecutor(1) as pool:
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as reserved:
            place = reserved.getsockname()
        made = pool.submit(
            Rendezvous.listen, *place, 3, timeout=300, ready=lambda *address: places.append(address)
        )
        first = opened.enter_context(Rendezvous.connect(*place, timeout=300))
        # an honest request would be a process that joins
        honest = [["amoeba-rendezvous-3", kind, "", "5b312c20325d"] for kind in ("accept", "reject", "ready")]
        attackers(rng, opened, place, honest, 60)
        second = opened.enter_context(Rendezvous.connect(*place, timeout=300))
        zeroth = opened.enter_context(made.result(300))
        assert [member.rank for member in (zeroth, first, second)] == [0, 1, 2]
