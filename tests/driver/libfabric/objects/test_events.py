"""Immediate data: what a peer's queue tells, from whom, in order; and fences."""

import numpy as np
import pytest
from amoeba import (
    FI_ADDR_NOTAVAIL,
    AtomicMsg,
    BindFlags,
    Caps,
    CqDataEntry,
    CqFormat,
    CqMsgEntry,
    CqTaggedEntry,
    Errno,
    FabricError,
    Op,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
)
from amoeba_model.registers import Counter

from tests.driver.endpoints import ALL_ACCESS, Side, connect, make_side

ONE = np.uint64(1)
DATA = OpFlags.FI_REMOTE_CQ_DATA
WRITTEN = Caps.FI_RMA | Caps.FI_REMOTE_WRITE | Caps.FI_REMOTE_CQ_DATA
READ = Caps.FI_RMA | Caps.FI_REMOTE_READ | Caps.FI_REMOTE_CQ_DATA
CHANGED = Caps.FI_ATOMIC | Caps.FI_REMOTE_WRITE | Caps.FI_REMOTE_CQ_DATA
BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV


def make_receiver(domain, *, rx_size=16, cq_format=CqFormat.FI_CQ_FORMAT_DATA):
    queue, peers = domain.cq_open(cq_format), domain.av_open()
    return Side(domain, queue, peers, domain.endpoint(rx_size=rx_size, cq=queue, av=peers, cq_flags=BOTH))


@pytest.fixture
def listening(fabric, keep):
    """(client, server, memory, (dest_addr, addr, key)): the server is notified of immediate data."""
    client, server = keep(make_side(fabric.domain(0), tx_size=64)), keep(make_receiver(fabric.domain(1)))
    connect(client, server)
    memory = np.arange(64, dtype=np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    return client, server, memory, (client.peer, region.address, region.key)


CALLS = {
    "writedata": (lambda e, to: e.writedata(bytes(16), 0xDA7A, *to), WRITTEN, 16),
    "writedata, inline": (lambda e, to: e.writedata(b"x", 0xDA7A, *to, flags=DATA), WRITTEN, 1),
    "writedata, nothing": (lambda e, to: e.writedata(b"", 0xDA7A, *to), WRITTEN, 0),
    "inject_writedata": (lambda e, to: e.inject_writedata(bytes(40), 0xDA7A, *to), WRITTEN, 40),
    "writemsg": (
        lambda e, to: e.writemsg(RmaMsg([bytes(8), bytes(24)], to[0], [RmaIov(to[1], 32, to[2])], data=0xDA7A), DATA),
        WRITTEN,
        24,
    ),
    "readmsg": (
        lambda e, to: e.readmsg(RmaMsg([bytearray(8)], to[0], [RmaIov(to[1], 8, to[2])], data=0xDA7A), DATA),
        READ,
        8,
    ),
    "atomicmsg": (
        lambda e, to: e.atomicmsg(
            AtomicMsg([ONE, ONE], to[0], [RmaIoc(to[1], 2, to[2])], Op.FI_SUM, data=0xDA7A), DATA
        ),
        CHANGED,
        8,
    ),
    "fetch_atomicmsg": (
        lambda e, to: e.fetch_atomicmsg(
            AtomicMsg([ONE], to[0], [RmaIoc(to[1], 1, to[2])], Op.FI_SUM, data=0xDA7A),
            [np.zeros(1, np.uint64)],
            flags=DATA,
        ),
        CHANGED,
        8,
    ),
    "compare_atomicmsg": (
        lambda e, to: e.compare_atomicmsg(
            AtomicMsg([ONE], to[0], [RmaIoc(to[1], 1, to[2])], Op.FI_CSWAP, data=0xDA7A),
            [np.uint64(0)],
            [np.zeros(1, np.uint64)],
            flags=DATA,
        ),
        WRITTEN,
        0,
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_data_arrives_with_what_was_done_and_by_whom(listening, call):
    client, server, _, to = listening
    post, flags, length = CALLS[call]
    post(client.endpoint, to)
    assert server.queue.sreadfrom(timeout=30) == [(CqDataEntry(None, flags, length, 0, 0xDA7A), server.peer)]
    assert server.queue.sread(timeout=0.01) == []
    if call != "inject_writedata":
        client.finish()
    assert client.queue.sread(timeout=0.01) == []


@pytest.mark.parametrize("call", ["writemsg", "readmsg", "atomicmsg", "fetch_atomicmsg", "compare_atomicmsg"])
def test_without_the_flag_a_message_says_nothing(listening, monkeypatch, call):
    client, server, _, to = listening
    name = call
    original = getattr(client.endpoint, name)
    arguments = {}

    def without_flag(msg, *others, **options):
        others = tuple(other for other in others if other is not DATA)
        options.pop("flags", None)
        arguments["called"] = True
        original(msg, *others, **options)

    monkeypatch.setattr(client.endpoint, name, without_flag)
    CALLS[call][0](client.endpoint, to)
    assert arguments
    client.finish()
    assert server.queue.sread(timeout=0.02) == []


def test_the_data_is_there_when_its_entry_is(listening):
    client, server, memory, to = listening
    for turn in range(40):
        client.endpoint.writedata(np.uint64(turn), turn, *to)
        ((entry, _),) = server.queue.sreadfrom(timeout=30)
        assert (entry.data, memory[0]) == (turn, turn)
        client.finish()


def test_entries_come_in_order_and_the_ring_can_be_passed_many_times(fabric, listening):
    client, server, _, to = listening
    entries, posted = [], 0
    while len(entries) < 300:
        while posted < 300:
            try:
                client.endpoint.inject_writedata(b"x", posted, *to)
            except BlockingIOError:
                assert client.queue.read() == []
                break
            posted += 1
        entries += server.queue.read(7)
    assert [entry.data for entry in entries] == list(range(300))
    assert fabric.nics[1].counters()[Counter.EVENTS] == 300


def test_peers_wait_while_nobody_reads_and_lose_nothing(fabric, keep):
    client, server = keep(make_side(fabric.domain(0), tx_size=64)), keep(make_receiver(fabric.domain(1), rx_size=4))
    connect(client, server)
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS))
    for turn in range(20):
        client.endpoint.writedata(np.uint64(turn), turn, client.peer, region.address, region.key)
    for _ in range(300):
        client.queue.read()
    assert memory[0] == 3  # what the smallest ring has space for
    assert fabric.nics[1].counters()[Counter.NACKS_SENT] > 0
    told = []
    while len(told) < 20:
        told += [entry.data for entry in server.queue.sread(4, timeout=30)]
    assert told == list(range(20))


@pytest.mark.parametrize(
    ("cq_format", "expected"),
    [
        (CqFormat.FI_CQ_FORMAT_MSG, CqMsgEntry(None, WRITTEN, 24)),
        (CqFormat.FI_CQ_FORMAT_DATA, CqDataEntry(None, WRITTEN, 24, 0, 77)),
        (CqFormat.FI_CQ_FORMAT_TAGGED, CqTaggedEntry(None, WRITTEN, 24, 0, 77, 0)),
    ],
)
def test_every_format_has_its_fields(fabric, keep, cq_format, expected):
    client = keep(make_side(fabric.domain(0)))
    server = keep(make_receiver(fabric.domain(1), cq_format=cq_format))
    connect(client, server)
    region = keep(server.domain.mr_reg(bytearray(24), ALL_ACCESS))
    client.endpoint.writedata(bytes(24), 77, client.peer, region.address, region.key)
    assert server.queue.sread(timeout=30) == [expected]


def test_strangers_have_no_number_and_own_operations_none_either(listening):
    client, server, _, to = listening
    server.peers.remove(server.peer)
    client.endpoint.writedata(b"x", 1, *to)
    ((_, source),) = server.queue.sreadfrom(timeout=30)
    assert source == FI_ADDR_NOTAVAIL
    assert client.queue.sreadfrom(timeout=30) == [
        (CqMsgEntry(None, Caps.FI_RMA | Caps.FI_WRITE, 1), FI_ADDR_NOTAVAIL)
    ]


def test_a_peer_with_several_numbers_is_the_first_of_them(listening):
    client, server, _, to = listening
    name = client.endpoint.getname()
    first, second = server.peer, server.peers.insert(name)
    for expected in (first, second):
        client.endpoint.writedata(b"x", 1, *to)
        ((_, source),) = server.queue.sreadfrom(timeout=30)
        assert source == expected
        server.peers.remove(expected)
        client.finish()


def test_entries_can_go_to_a_queue_of_their_own(fabric, keep):
    client, domain = keep(make_side(fabric.domain(0))), keep(fabric.domain(1))
    own, told, peers = (
        keep(domain.cq_open()),
        keep(domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA)),
        keep(domain.av_open()),
    )
    endpoint = keep(domain.endpoint())
    endpoint.bind(own, BindFlags.FI_TRANSMIT)
    endpoint.bind(told, BindFlags.FI_RECV)
    with pytest.raises(FabricError, match=r"^FI_EINVAL: .*bound already"):
        endpoint.bind(own, BindFlags.FI_RECV)
    endpoint.bind(peers)
    endpoint.enable()
    peer = client.peers.insert(endpoint.getname())
    region = keep(domain.mr_reg(bytearray(8), ALL_ACCESS))
    client.endpoint.writedata(b"x", 5, peer, region.address, region.key)
    assert [entry.data for entry in told.sread(timeout=30)] == [5]
    assert own.read() == []
    endpoint.close()
    assert told.read() == []


def test_without_a_queue_for_it_data_is_refused_and_nothing_is_written(pair, target):
    memory, region = target
    client = pair[0]
    client.endpoint.writedata(b"\xff" * 8, 1, client.peer, region.address, region.key)
    failure = client.failure()
    assert (failure.err, client.queue.strerror(failure.prov_errno)) == (Errno.FI_ESHUTDOWN, "disabled")
    assert memory[0] == 0


def test_a_refused_request_leaves_no_entry(listening):
    client, server, _, to = listening
    client.endpoint.writedata(bytes(8), 1, to[0], to[1], to[2] ^ 1)
    assert client.failure().err == Errno.FI_ENOKEY
    msg = AtomicMsg([ONE], to[0], [RmaIoc(to[1] + 505, 1, to[2])], Op.FI_CSWAP, data=2)  # its last byte is outside
    client.endpoint.compare_atomicmsg(msg, [ONE], [np.zeros(1, np.uint64)], flags=DATA)
    assert client.failure().err == Errno.FI_EINVAL
    assert server.queue.sread(timeout=0.02) == []


@pytest.mark.parametrize("data", [-1, 1 << 64])
def test_data_has_64_bits(listening, data):
    client, _, _, to = listening
    for call in (client.endpoint.writedata, client.endpoint.inject_writedata):
        with pytest.raises(FabricError, match=r"^FI_EINVAL: data: expected a number of 64 bits"):
            call(b"x", data, *to)


@pytest.mark.parametrize("rx_size", [0, -1, 2**15])
def test_senseless_space_for_entries_is_refused(pair, rx_size):
    with pytest.raises(FabricError, match=r"^FI_EINVAL: rx_size"):
        pair[0].domain.endpoint(rx_size=rx_size)


# Fences


def test_a_fenced_operation_waits_for_all_before_it(fabric, pair, target):
    """Told by time: without a fence two reads cost hardly more than one, with it twice as much."""
    _, region = target
    client = pair[0]
    cycles = []
    for flags in (OpFlags(0), OpFlags.FI_FENCE):
        fabric.settle()
        begin = fabric.devices[0].cycles
        for turn in range(8):
            last = OpFlags.FI_MORE if turn < 7 else OpFlags(0)
            client.endpoint.read(bytearray(8), client.peer, region.address, region.key, flags=flags | last)
        done = 0
        while done < 8:
            done += len(client.queue.read(8))
        cycles.append(fabric.devices[0].cycles - begin)
    assert cycles[1] > 3 * cycles[0]


def test_vectors_can_be_fenced(pair, target):
    memory, region = target
    client = pair[0]
    remote = [RmaIov(region.address, 8, region.key), RmaIov(region.address + 64, 8, region.key)]
    client.endpoint.write(bytes(8), client.peer, region.address, region.key)
    client.endpoint.writemsg(RmaMsg([b"x" * 16], client.peer, remote), OpFlags.FI_FENCE)
    done = 0
    while done < 2:
        done += len(client.queue.sread(2, timeout=30))
    assert memory[0] == memory[8] == int.from_bytes(b"x" * 8, "little")
