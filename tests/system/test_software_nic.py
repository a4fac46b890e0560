"""The software NIC: the model on bare UET, between processes and hosts, and with the independent endpoint."""

import contextlib
import json

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.link_addresses import ip_of_link, mac_of_link
from amoeba_model.nic import ModelDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS
from amoeba_model.registers import KeyFlags, PeerFlags
from amoeba_model.uet_network import UetNetwork

from tests.support.commands import AMOEBA, ended, process
from tests.support.datagram_station import DatagramStation
from tests.support.raw_driver import RawNic
from tests.support.two_hosts import on_two_hosts
from tests.support.uet_endpoint import Initiator, Target
from tests.support.uet_packets import Address

HOSTS = [f"127.0.0.{number}" for number in (31, 32, 33, 34)]
"""Addresses of this host: each has one UET port."""
PORT = 4793
KEY = 0x00AB_CDEF_0000_1234
SIZE = 1 << 14
JOB, PID = 0x0A0B0C, 0x123
STEPS = 4000
NETWORK = ["--network", "uet"]


# With the independent endpoint, datagram by datagram


class Bench:
    """A model NIC on bare UET, with a region, and an endpoint on a socket of its own as peer 0."""

    def __init__(self, opened):
        self.network = opened.enter_context(UetNetwork(HOSTS[0], idle_hz=1e9))
        device = opened.enter_context(contextlib.closing(ModelDevice(BUILDS["full"])))
        link = self.network.address
        self.network.attach(device, mac_of_link(*link))
        mac, ip = int.from_bytes(mac_of_link(*link), "big"), ip_of_link(*link)
        self.nic = RawNic(device, mac, ip, BUILDS["full"])
        self.station = opened.enter_context(contextlib.closing(DatagramStation(self.network, HOSTS[1])))
        self.context = self.nic.context(0, event_size=6, receive_size=3, job_id=JOB, pid_on_fep=PID)
        self.region, self.source = self.nic.buffer(SIZE), self.nic.buffer(SIZE)
        flags = KeyFlags.VALID | KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE
        self.nic.key(KEY, self.region.address, SIZE, flags=flags)
        peer = HOSTS[1], PORT
        peer_mac = int.from_bytes(mac_of_link(*peer), "big")
        self.nic.set(
            "peers", mac_low=peer_mac & 0xFFFF_FFFF, mac_high=peer_mac >> 32, ip=ip_of_link(*peer), job_id=0xE0E0E0,
            pid_on_fep=1, resource_index=2, initial_psn=0x4000_0000, entropy=0xC000, flags=PeerFlags.VALID, context=0,
            initiator=0,
        )  # fmt: skip
        self.nic.set("peers", store=0)
        self.nic.settle()
        self.to = Address(0, int.from_bytes(bytes(map(int, HOSTS[0].split("."))), "big"), JOB, PID, 0)


@pytest.fixture
def bench():
    with contextlib.ExitStack() as opened:
        yield Bench(opened)


def test_an_independent_endpoint_writes_reads_and_adds_over_udp(bench):
    peer = Initiator(bench.station, bench.to)
    peer.write(KEY, 0x10, b"over the kernel's UDP")
    assert bench.region[0x10:0x25] == b"over the kernel's UDP"
    assert peer.read(KEY, 0x10, 16) == b"over the kernel'"
    assert peer.fetch_add(KEY, 0x100, 5) == 0
    assert peer.fetch_add(KEY, 0x100, 7) == 5
    assert bench.region.integer(0x100) == 12
    peer.close()


def test_an_independent_endpoint_is_written_and_added_to_over_udp(bench):
    target = Target(bench.station, bytearray(SIZE))
    bench.source[0] = b"to the endpoint"

    def execute(opcode, **fields):
        bench.context.post(opcode=opcode, remote_key=KEY, result=bench.source.address + 64, **fields)
        for _ in range(STEPS):
            target.serve()
            if entry := bench.context.poll():
                return entry["status"]
        raise AssertionError("the request did not complete")

    assert execute(DescriptorOpcode.WRITE, length=15, local=bench.source.address, remote_address=8) == 1
    assert target.memory[8:23] == b"to the endpoint"
    adding = {
        "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "length": 8, "remote_address": 0x40,
        "flags": DescriptorFlags.COMPLETION | DescriptorFlags.INLINE,
    }  # fmt: skip
    assert execute(DescriptorOpcode.FETCH_ATOMIC, local=9, **adding) == 1
    assert target.memory[0x40:0x48] == (9).to_bytes(8, "little")


# Between two processes of one host


@contextlib.contextmanager
def pair(monkeypatch, *arguments, others=()):
    """Two processes at different addresses of this host; the second knows where the first listens."""
    monkeypatch.setenv("AMOEBA_HOST", HOSTS[2])
    with process(*arguments, *others, *NETWORK, "--listen", "127.0.0.1:0") as first:
        line = first.stderr.readline()
        assert line.startswith("waiting at "), line
        monkeypatch.setenv("AMOEBA_HOST", HOSTS[3])
        with process(*arguments, *NETWORK, "--connect", line.split()[-1]) as second:
            yield first, second


@pytest.mark.parametrize("kind", ["model", "rtl"])
def test_random_access_verifies(monkeypatch, kind):
    options = ["gups", "--device", kind, "--build", "tiny", "--table-size", 7, "--window", 16, "--json"]
    with pair(monkeypatch, *options) as both:
        results = [ended(started) for started in both]
    assert [status for status, _, _ in results] == [0, 0], results
    for _, output, _ in results:
        facts = json.loads(output)
        assert (facts["passed"], facts["errors"], facts["updates"]) == (True, 0, 512)


def test_soak_with_loss_verifies(monkeypatch):
    with pair(monkeypatch, "soak", "--loss", 0.02, "--operations", 300, "--json") as both:
        results = [ended(started) for started in both]
    assert [status for status, _, _ in results] == [0, 0], results


@pytest.mark.parametrize("page", ["fi_rma", "fi_atomic"])
def test_conformance_s_checks_pass(monkeypatch, page):
    with pair(monkeypatch, "conformance", others=("--page", page, "--json")) as (first, second):
        status, output, errors = ended(first)
        assert status == 0, errors
        ended(second)
    results = json.loads(output)
    assert results, output


def test_a_taken_port_is_one_line(monkeypatch):
    monkeypatch.setenv("AMOEBA_HOST", HOSTS[2])
    with UetNetwork(HOSTS[2]), process("gups", *NETWORK, "--listen", "127.0.0.1:0") as first:
        address = first.stderr.readline().split()[-1]
        with process("gups", *NETWORK, "--connect", address) as second:
            status, _, errors = ended(first)
            ended(second)
    assert status == 1
    assert f"cannot listen at UDP address {HOSTS[2]}:4793" in errors
    assert "AMOEBA_HOST" in errors
    assert "Traceback" not in errors


# Between two hosts


BOTH = """
"$@" --listen 10.9.0.1:7000 & first=$!
nsenter -t $OTHER -n -- "$@" --connect 10.9.0.1:7000
wait $first
"""


def test_random_access_verifies_on_two_hosts():
    found = on_two_hosts(BOTH, *AMOEBA, "gups", "--table-size", 7, "--json")
    assert (found.stdout.count('"passed": true'), found.stdout.count('"errors": 0,')) == (2, 2), found.stdout


def test_a_message_longer_than_an_ethernet_frame_arrives_on_two_hosts():
    client = """
"$@" & first=$!
nsenter -t $OTHER -n -- "$@" 10.9.0.1 --timeout 60 -t tag_lat -t ucp_put_bw -s 100000 -n 5 -w 1 --json
wait $first
"""
    found = on_two_hosts(client, *AMOEBA, "perf", "--bind", "10.9.0.1")
    results = json.loads(found.stdout)
    assert [(one["test"], one["verified"]) for one in results] == [("tag_lat", True), ("ucp_put_bw", True)]
