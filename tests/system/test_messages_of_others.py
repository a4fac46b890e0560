"""Messages of several packets from an independent endpoint, received by libfabric's and UCX's calls.

The NICs are the model and the smallest one in RTL, with packets of 1,024 bytes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import amoeba.ucp as ucp
import pytest
from amoeba import FI_ADDR_UNSPEC, Caps, CqFormat, Errno, Fabric, OpFlags, Retransmission, TaggedMsg, open_cluster
from amoeba.nic.address import EndpointAddress
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.network import Network
from amoeba_model.nic.core import IDLE_TIMEOUTS
from amoeba_model.nic.match_unit import STALLED_TURNS
from amoeba_model.parameters import BUILDS

from tests.driver.endpoints import BOTH, Side, aligned, make_counted_talker, make_talker
from tests.driver.openucx.ucp.entities import Entity, wait_for
from tests.driver.openucx.ucp.tagged import receive as receive_tagged
from tests.support import uet_packets as uet
from tests.support.uet_endpoint import Initiator
from tests.support.uet_packets import Address, Station

TINY = BUILDS["tiny"]
MTU = TINY.payload
LENGTH = 2 * MTU + 500
CONTENT = bytes(1 + number * 7 % 251 for number in range(LENGTH))
TAG = 0xFEED_0000_0000_0001
TAGGED, UNTAGGED = Caps.FI_TAGGED | Caps.FI_RECV, Caps.FI_MSG | Caps.FI_RECV
KINDS = ["model", "rtl"]
OWN_CONTEXT = 0xE0
"""The endpoint's, as its requests name it."""


@pytest.fixture(params=KINDS)
def fabric(request: pytest.FixtureRequest) -> Iterator[Fabric]:
    """One NIC, and space on its network."""
    with open_cluster([request.param], TINY, rtl_options={"host_latency": 40}) as opened:
        yield opened
        assert [fault for device in opened.devices for fault in device.faults()] == []


def network_of(device: Any) -> Network:
    network = device.network
    assert isinstance(network, Network)
    return network


def address_of(name: EndpointAddress) -> Address:
    mac = int.from_bytes(name.mac, "big")
    return Address(mac, name.ip, name.job_id, name.pid_on_fep, name.resource_index)


class Bench:
    """A side that receives, and an endpoint that sends to it."""

    def __init__(self, fabric: Fabric, side: Side, station: Station | None = None) -> None:
        self.side, self.endpoint, self.fabric = side, side.endpoint, fabric
        vars(fabric).setdefault("kept", []).append(side)  # until the fabric closes it
        self.station = station or Station(network_of(fabric.devices[0]))
        self.to = address_of(EndpointAddress.unpack(side.endpoint.getname()))
        self.peer = Initiator(self.station, self.to)

    def settle(self) -> None:
        """Let the NIC read what was posted."""
        for _ in range(Initiator.STEPS):
            self.station.step()

    def trecv(self, buffer: bytearray, context: Any = "mine", tag: int = TAG) -> None:
        self.endpoint.trecv(buffer, tag, context=context)
        self.settle()

    def parts(self, opcode: int = uet.TAGGED_SEND, content: bytes = CONTENT, **fields: Any) -> list[bytes]:
        return self.peer.parts(opcode, content, MTU, key=0 if opcode == uet.SEND else TAG, **fields)

    def codes(self, *parts: bytes) -> list[int]:
        return [self.peer.ask(part).code for part in parts]

    def stranger(self, number: int = 0xDD) -> Initiator:
        """Another endpoint, which sends to the same side."""
        return Initiator(Station(self.station.network, number), self.to)


@pytest.fixture
def bench(fabric: Fabric) -> Bench:
    return Bench(fabric, make_talker(fabric.domain(0)))


OK = [uet.RC_OK] * 3


# libfabric


def test_a_tagged_receive_takes_a_message_of_three_packets(bench: Bench) -> None:
    other, buffer = bytearray(8), bytearray(LENGTH + 1)
    bench.trecv(other, "other", TAG + 1)
    bench.trecv(buffer)
    assert bench.codes(*bench.parts()) == OK
    entry = bench.side.finish()
    assert (entry.op_context, entry.flags, entry.len, entry.tag) == ("mine", TAGGED, LENGTH, TAG)
    assert buffer == CONTENT + b"\0"


def test_a_scattered_receive_takes_it_with_immediate_data(bench: Bench) -> None:
    pieces = [bytearray(700), bytearray(1), bytearray(LENGTH - 701)]
    bench.endpoint.recvv(pieces, context="mine")
    bench.settle()
    assert bench.codes(*bench.parts(uet.SEND, immediate=0xDA7A)) == OK
    entry = bench.side.finish()
    assert (entry.flags, entry.len, entry.data) == (UNTAGGED | Caps.FI_REMOTE_CQ_DATA, LENGTH, 0xDA7A)
    assert b"".join(pieces) == CONTENT


def test_a_multi_receive_is_used_up_by_it(bench: Bench) -> None:
    memory = aligned(4 * LENGTH)
    bench.endpoint.recv(memory, context="pool", flags=OpFlags.FI_MULTI_RECV)
    bench.settle()
    bench.peer.send(b"first")
    assert bench.codes(*bench.parts(uet.SEND)) == OK
    first, second = bench.side.finish(), bench.side.finish()
    assert (first.flags, second.flags) == (UNTAGGED, UNTAGGED | Caps.FI_MULTI_RECV)
    assert (first.len, second.len, second.buf - first.buf) == (5, LENGTH, 64)
    assert memory[64 : 64 + LENGTH] == CONTENT


def test_a_directed_receive_takes_it_of_its_source_alone(fabric: Fabric) -> None:
    directed = Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_RECV | Caps.FI_DIRECTED_RECV
    bench = Bench(fabric, make_talker(fabric.domain(0), caps=directed))
    stranger = bench.stranger()
    station = stranger.station
    name = EndpointAddress(station.mac.to_bytes(6, "big"), station.ip, 1, 1, OWN_CONTEXT)
    wanted = bench.side.peers.insert(name.pack())
    buffer = bytearray(LENGTH)
    bench.endpoint.trecv(buffer, TAG, src_addr=wanted, context="mine")
    bench.settle()
    assert bench.codes(bench.parts()[0]) == [uet.NO_MATCH]
    parts = stranger.parts(uet.TAGGED_SEND, CONTENT, MTU, key=TAG)
    assert [stranger.ask(part).code for part in parts] == OK
    assert bench.side.finish().len == LENGTH
    assert buffer == CONTENT


def test_one_that_meets_no_receive_is_sent_again(bench: Bench) -> None:
    assert bench.codes(*bench.parts()) == [uet.NO_MATCH] * 3
    bench.endpoint.trecvmsg(TaggedMsg([], FI_ADDR_UNSPEC, TAG, context="found"), OpFlags.FI_PEEK)
    assert bench.side.failure().err == Errno.FI_ENOMSG
    buffer = bytearray(LENGTH)
    bench.trecv(buffer)
    assert bench.codes(*bench.parts()) == OK
    assert bench.side.finish().op_context == "mine"
    assert buffer == CONTENT


@pytest.mark.parametrize("space", [0, 100, MTU, LENGTH - 1])
def test_one_that_does_not_fit_is_cut(bench: Bench, space: int) -> None:
    buffer = bytearray(space)
    bench.trecv(buffer)
    assert bench.codes(*bench.parts()) == OK
    failure = bench.side.failure()
    assert (failure.err, failure.len, failure.olen) == (Errno.FI_ETRUNC, space, LENGTH - space)
    assert buffer == CONTENT[:space]


def test_a_receive_is_cancelled_in_the_middle_of_its_message(bench: Bench) -> None:
    buffer = bytearray(LENGTH)
    bench.trecv(buffer)
    parts = bench.parts()
    assert bench.codes(parts[0]) == [uet.RC_OK]
    bench.endpoint.cancel("mine")
    assert bench.side.failure().err == Errno.FI_ECANCELED
    assert bench.codes(*parts[1:]) == [uet.NO_MATCH] * 2
    assert buffer == CONTENT[:MTU] + bytes(LENGTH - MTU)


def test_a_counter_counts_it_once(fabric: Fabric) -> None:
    endpoint, queue, peers, receives, _ = make_counted_talker(fabric.domain(0), lambda thing: thing)
    bench = Bench(fabric, Side(fabric.domain(0), queue, peers, endpoint))
    for space in (LENGTH, LENGTH - 1):
        bench.trecv(bytearray(space))
        assert bench.codes(*bench.parts()) == OK
    assert bench.side.finish().len == LENGTH
    assert bench.side.failure().err == Errno.FI_ETRUNC
    receives.wait(1, timeout=30)
    assert (receives.read(), receives.readerr()) == (1, 1)


def test_receives_that_are_shared_take_it(fabric: Fabric) -> None:
    domain = fabric.domain(0)
    shared, peers = domain.srx_context(8), domain.av_open()
    queue = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED)
    endpoint = domain.endpoint(tx_size=8)
    for target in (shared, peers):
        endpoint.bind(target)
    endpoint.bind(queue, BOTH)
    endpoint.enable()
    bench = Bench(fabric, Side(domain, queue, peers, endpoint))
    buffer = bytearray(LENGTH)
    shared.trecv(buffer, TAG, context="shared")
    bench.settle()
    assert bench.codes(*bench.parts()) == OK
    entry = bench.side.finish()
    assert (entry.op_context, entry.len, buffer == CONTENT) == ("shared", LENGTH, True)


def test_two_endpoints_are_sent_to_by_two_at_once(bench: Bench) -> None:
    other = Bench(bench.fabric, make_talker(bench.fabric.domain(0)), bench.station)
    other.peer = Initiator(bench.station, other.to, spdcid=8)
    stranger = bench.stranger()
    buffers = [bytearray(LENGTH) for _ in range(3)]
    bench.trecv(buffers[0], 0)
    other.trecv(buffers[1], 1)
    bench.trecv(buffers[2], 2)
    senders = [bench.peer, other.peer, stranger]
    messages = [sender.parts(uet.TAGGED_SEND, CONTENT, MTU, key=TAG) for sender in senders]
    for parts in zip(*messages, strict=True):
        assert [sender.ask(part).code for sender, part in zip(senders, parts, strict=True)] == OK
    assert [side.finish().op_context for side in (bench.side, bench.side, other.side)] == [0, 2, 1]
    assert buffers == [CONTENT] * 3


def test_messages_that_arrive_meanwhile_wait_for_other_receives(bench: Bench) -> None:
    """The driver would else keep them for the receive that the long message has."""
    buffer, others = bytearray(LENGTH), [bytearray(8) for _ in range(4)]
    bench.trecv(buffer)
    parts = bench.parts()
    assert bench.codes(parts[0]) == [uet.RC_OK]
    stranger = bench.stranger()
    for number in range(len(others)):
        stranger.send(bytes([number] * 8), TAG)
    assert bench.side.queue.read() == []
    for number, other in enumerate(others):
        bench.endpoint.trecv(other, TAG, context=number)
    bench.settle()
    assert [bench.side.finish().op_context for _ in others] == [0, 1, 2, 3]
    assert others == [bytes([number] * 8) for number in range(4)]
    assert bench.codes(*parts[1:]) == OK[1:]
    assert (bench.side.finish().op_context, buffer == CONTENT) == ("mine", True)


def test_it_comes_whole_whichever_frame_is_lost(bench: Bench) -> None:
    """Three requests and three answers; each is lost once, and one more of a message that loses none."""
    for lost in range(7):
        buffer = bytearray(LENGTH)
        bench.trecv(buffer, lost)
        bench.station.lost = {bench.station.frames + lost}
        answers = bench.peer.ask_at_once(bench.parts())
        assert [answer.code for answer in answers] == OK
        assert (bench.side.finish().op_context, buffer == CONTENT) == (lost, True)


# Hostile senders


def second_start(bench: Bench, parts: list[bytes]) -> None:
    assert bench.codes(parts[0]) == [uet.NO_MATCH]


def wrong_offset(bench: Bench, parts: list[bytes]) -> None:
    assert bench.codes(parts[2]) == [uet.OP_VIOLATION]


def wrong_length(bench: Bench, parts: list[bytes]) -> None:
    longer = bench.peer.parts(uet.TAGGED_SEND, CONTENT + b"x", MTU, key=TAG)
    assert bench.codes(longer[1]) == [uet.OP_VIOLATION]


def other_tag(bench: Bench, parts: list[bytes]) -> None:
    other = bench.peer.parts(uet.TAGGED_SEND, CONTENT, MTU, key=TAG + 1, message=FIRST_MESSAGE)
    assert bench.codes(other[1]) == [PERM_VIOLATION]


def close(bench: Bench, parts: list[bytes]) -> None:
    bench.peer.close()


FIRST_MESSAGE = 100
"""The message_id of an endpoint's first message."""
PERM_VIOLATION = 0x17


@pytest.mark.parametrize("end", [second_start, wrong_offset, wrong_length, other_tag, close])
def test_what_breaks_a_message_ends_its_receive_and_no_other(
    bench: Bench, end: Callable[[Bench, list[bytes]], None]
) -> None:
    buffer, other = bytearray(LENGTH), bytearray(LENGTH)
    bench.trecv(buffer)
    parts = bench.parts()
    assert bench.codes(parts[0]) == [uet.RC_OK]
    end(bench, parts)
    failure = bench.side.failure()
    assert (failure.op_context, failure.err, failure.len) == ("mine", Errno.FI_EIO, 0)
    assert buffer == CONTENT[:MTU] + bytes(LENGTH - MTU)
    bench.trecv(other, "other")
    assert bench.codes(*bench.parts()) == OK
    assert (bench.side.finish().op_context, other == CONTENT) == ("other", True)


def test_another_source_does_not_continue_a_message(bench: Bench) -> None:
    buffer = bytearray(LENGTH)
    bench.trecv(buffer)
    parts = bench.parts()
    assert bench.codes(parts[0]) == [uet.RC_OK]
    stranger = bench.stranger()
    assert stranger.ask(parts[1]).code == uet.OP_VIOLATION
    assert bench.codes(*parts[1:]) == OK[1:]
    assert (bench.side.finish().len, buffer == CONTENT) == (LENGTH, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_whose_end_never_comes_gives_its_receive_back(kind: str) -> None:
    brief = Retransmission(timeout=2, limit=0)
    time = STALLED_TURNS * IDLE_TIMEOUTS * brief.timeout
    with open_cluster([kind], TINY, retransmission=brief, rtl_options={"host_latency": 40}) as fabric:
        bench = Bench(fabric, make_talker(fabric.domain(0)))
        nic, buffer, other = fabric.devices[0], bytearray(LENGTH), bytearray(LENGTH)
        bench.trecv(buffer)
        begun = nic.cycles
        parts = bench.parts()
        assert bench.codes(parts[0]) == [uet.RC_OK]
        while nic.cycles < begun + time - 1000:
            bench.station.step()
        assert bench.side.queue.read() == []
        assert bench.codes(parts[1]) == [uet.RC_OK]
        while nic.cycles < begun + 3 * time:
            bench.station.step()
        failure = bench.side.failure()
        assert (failure.op_context, failure.err, failure.len) == ("mine", Errno.FI_EIO, 0)
        assert bench.codes(parts[2]) == [uet.NO_MATCH]
        assert buffer == CONTENT[: 2 * MTU] + bytes(500)
        bench.trecv(other, "other")
        assert bench.codes(*bench.parts()) == OK
        assert (bench.side.finish().op_context, other == CONTENT) == ("other", True)


# UCX


class UcxBench:
    """A worker that receives, and an endpoint that sends to it."""

    def __init__(self, adapters: Any) -> None:
        self.entity = Entity(adapters[0])
        self.station = Station(network_of(adapters.nics[0].device))
        self.peer = Initiator(self.station, address_of(self.entity.worker.address.main))

    def receive(self, buffer: Any, **param: Any) -> Any:
        if param:
            count = len(buffer)
            request = ucp.ucp_tag_recv_nbx(
                self.entity.worker, buffer, count, TAG, 2**64 - 1, ucp.ucp_request_param_t(**param)
            )
        else:
            request = receive_tagged(self.entity, buffer, TAG)
        for _ in range(Initiator.STEPS):
            self.station.step()
        return request

    def codes(self, content: bytes = CONTENT) -> list[int]:
        parts = self.peer.parts(uet.TAGGED_SEND, content, MTU, key=TAG)
        return [self.peer.ask(part).code for part in parts]

    def finish(self, request: Any) -> Any:
        wait_for(lambda: request.done, self.entity)
        return request.code


@pytest.fixture(params=KINDS)
def ucx(request: pytest.FixtureRequest) -> Iterator[UcxBench]:
    with open_adapters([request.param], TINY, rtl_options={"host_latency": 40}) as opened:
        yield UcxBench(opened)


def test_a_receive_of_a_worker_takes_it(ucx: UcxBench) -> None:
    assert ucx.codes() == [uet.NO_MATCH] * 3
    buffer = bytearray(LENGTH + 9)
    request = ucx.receive(buffer)
    assert ucx.codes() == OK
    assert ucx.finish(request) == ucp.UcsStatus.UCS_OK
    assert (request.info.sender_tag, request.info.length) == (TAG, LENGTH)
    assert buffer == CONTENT + bytes(9)


def test_a_scattered_receive_of_a_worker_takes_it(ucx: UcxBench) -> None:
    pieces = [bytearray(900), bytearray(LENGTH - 900)]
    request = ucx.receive([ucp.ucp_dt_iov_t(piece) for piece in pieces], datatype=ucp.ucp_dt_make_iov())
    assert ucx.codes() == OK
    assert ucx.finish(request) == ucp.UcsStatus.UCS_OK
    assert b"".join(pieces) == CONTENT


@pytest.mark.parametrize("space", [10, MTU, LENGTH - 1])
def test_one_that_does_not_fit_the_receive_of_a_worker_is_cut(ucx: UcxBench, space: int) -> None:
    request = ucx.receive(bytearray(space))
    assert ucx.codes() == OK
    assert ucx.finish(request) == ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
    assert request.info.length == LENGTH


def test_a_receive_of_a_worker_is_cancelled_in_the_middle_of_its_message(ucx: UcxBench) -> None:
    buffer = bytearray(LENGTH)
    request = ucx.receive(buffer)
    parts = ucx.peer.parts(uet.TAGGED_SEND, CONTENT, MTU, key=TAG)
    assert ucx.peer.ask(parts[0]).code == uet.RC_OK
    ucp.ucp_request_cancel(ucx.entity.worker, request)
    assert ucx.finish(request) == ucp.UcsStatus.UCS_ERR_CANCELED
    assert ucx.peer.ask(parts[1]).code == uet.NO_MATCH


def test_a_long_message_between_drivers_is_dropped(ucx: UcxBench) -> None:
    """Amoeba's drivers send none of several packets."""
    worker = ucx.entity.worker
    messages = worker.address.messages
    assert messages is not None
    peer = Initiator(ucx.station, address_of(messages), spdcid=9)
    parts = peer.parts(uet.SEND, CONTENT, MTU, immediate=3)
    assert [peer.ask(part).code for part in parts] == OK
    wait_for(lambda: worker.inbox.malformed, ucx.entity)
    assert worker.inbox.malformed == 1
