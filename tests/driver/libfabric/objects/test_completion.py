"""Completion queues: formats, errors, waiting, selective completion.

Covers ``libfabric/objects/queues/completion.py``, ``libfabric/objects/queues/completion_source.py``,
``libfabric/objects/queues/failures.py``, ``libfabric/objects/queues/gathering.py``,
``libfabric/objects/queues/kinds.py``, ``libfabric/objects/queues/owner.py`` and ``libfabric/objects/reporting.py``.
"""

import time

import numpy as np
import pytest
from amoeba import (
    BindFlags,
    Caps,
    CqDataEntry,
    CqEntry,
    CqFormat,
    CqMsgEntry,
    CqTaggedEntry,
    Errno,
    ErrorAvailableError,
    FabricError,
    Op,
    OpFlags,
)
from amoeba_model.registers import Counter

from tests.driver.endpoints import connect, make_side

WRITTEN = Caps.FI_RMA | Caps.FI_WRITE


def drain(queue, count):
    """``count`` entries, in the order of the queue."""
    entries = []
    while len(entries) < count:
        taken = queue.sread(count, timeout=30)
        assert taken
        entries += taken
    return entries


@pytest.mark.parametrize(
    ("cq_format", "expected"),
    [
        (CqFormat.FI_CQ_FORMAT_UNSPEC, CqEntry("mine")),
        (CqFormat.FI_CQ_FORMAT_CONTEXT, CqEntry("mine")),
        (CqFormat.FI_CQ_FORMAT_MSG, CqMsgEntry("mine", WRITTEN, 24)),
        (CqFormat.FI_CQ_FORMAT_DATA, CqDataEntry("mine", WRITTEN, 24, 0, 0)),
        (CqFormat.FI_CQ_FORMAT_TAGGED, CqTaggedEntry("mine", WRITTEN, 24, 0, 0, 0)),
    ],
)
def test_every_format_has_its_fields(pair, target, keep, cq_format, expected):
    _, region = target
    domain = pair[0].domain
    queue, peers = keep(domain.cq_open(cq_format)), keep(domain.av_open())
    endpoint = keep(domain.endpoint(cq=queue, av=peers))
    endpoint.write(bytes(24), peers.insert(pair[1].endpoint.getname()), region.address, region.key, context="mine")
    assert queue.sread(timeout=30) == [expected]


@pytest.mark.parametrize(
    ("operation", "flags"),
    [
        (lambda e, *to: e.write(bytes(8), *to), Caps.FI_RMA | Caps.FI_WRITE),
        (lambda e, *to: e.read(bytearray(8), *to), Caps.FI_RMA | Caps.FI_READ),
        (lambda e, *to: e.atomic(np.uint64(1), *to, Op.FI_SUM), Caps.FI_ATOMIC | Caps.FI_WRITE),
        (
            lambda e, *to: e.fetch_atomic(np.uint64(1), np.zeros(1, np.uint64), *to, Op.FI_SUM),
            Caps.FI_ATOMIC | Caps.FI_READ,
        ),
        (
            lambda e, *to: e.compare_atomic(np.uint64(1), np.uint64(0), np.zeros(1, np.uint64), *to, Op.FI_CSWAP),
            Caps.FI_ATOMIC | Caps.FI_READ,
        ),
    ],
    ids=["write", "read", "atomic", "fetch", "compare"],
)
def test_flags_name_the_kind_of_operation(pair, target, operation, flags):
    _, region = target
    operation(pair[0].endpoint, pair[0].peer, region.address, region.key)
    assert pair[0].finish() == CqMsgEntry(None, flags, 8)


def test_an_empty_queue_reads_as_an_empty_list(pair):
    assert pair[0].queue.read() == []
    assert pair[0].queue.readerr() is None


def test_reading_an_empty_queue_lets_time_pass(fabric, pair):
    before = fabric.devices[0].cycles
    # The clock of an RTL NIC is ahead of the network's by what the register reads of the set-up took.
    for _ in range(20):
        pair[0].queue.read()
    assert fabric.devices[0].cycles > before


def test_waiting_ends_with_its_time(pair):
    begin = time.monotonic()
    assert pair[0].queue.sread(timeout=0.05) == []
    assert 0.05 <= time.monotonic() - begin < 5


def test_waiting_sleeps_until_the_interrupt(fabric, pair, target):
    _, region = target
    for turn in range(1, 4):
        pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
        pair[0].finish()
        assert fabric.nics[0].counters()[Counter.INTERRUPTS] == turn


def test_completions_come_in_order_and_no_more_than_asked_for(pair, target):
    _, region = target
    for context in range(10):
        pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key, context=context)
    entries = []
    while len(entries) < 10:
        taken = pair[0].queue.read(3)
        assert len(taken) <= 3
        entries += taken
    assert [entry.op_context for entry in entries] == list(range(10))


def test_the_ring_can_be_passed_many_times(pair, target):
    memory, region = target
    laps = 5 * pair[0].endpoint.tx_size + 3
    for turn in range(laps):
        pair[0].endpoint.atomic(np.uint64(1), pair[0].peer, region.address, region.key, Op.FI_SUM, context=turn)
        assert pair[0].finish().op_context == turn
    assert memory[0] == laps


@pytest.mark.full_build
def test_the_smallest_ring_works(fabric, keep):
    client, server = keep(make_side(fabric.domain(0), tx_size=1)), keep(make_side(fabric.domain(1)))
    connect(client, server)
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, 0x3000))
    for _ in range(5):
        client.endpoint.atomic(np.uint64(2), client.peer, region.address, region.key, Op.FI_PROD)
        client.finish()
        client.endpoint.atomic(np.uint64(2), client.peer, region.address, region.key, Op.FI_SUM)
        client.finish()
    assert memory[0] == 2 + 4 + 8 + 16 + 32


def test_an_error_waits_its_turn_and_blocks_the_queue_until_it_is_read(pair, target):
    _, region = target
    client = pair[0]
    for context, key in enumerate((region.key, region.key ^ 1, region.key)):
        client.endpoint.write(bytes(16), client.peer, region.address, key, context=context)
    assert [entry.op_context for entry in drain(client.queue, 1)] == [0]
    for _ in range(2):
        with pytest.raises(ErrorAvailableError) as caught:
            client.queue.sread(timeout=30)
        assert caught.value.errno == Errno.FI_EAVAIL
    failure = client.queue.readerr()
    assert failure == (1, WRITTEN, 16, 0, 0, 0, 0, Errno.FI_ENOKEY, 0x1C, b"")
    assert str(failure.error()) == "FI_ENOKEY: write of 16 bytes to peer 0 failed: Key not available (BAD_MKEY)"
    assert [entry.op_context for entry in drain(client.queue, 1)] == [2]


def test_two_endpoints_share_a_queue(fabric, pair, target, keep):
    memory, region = target
    first = pair[0]
    second = keep(first.domain.endpoint(cq=first.queue, av=first.peers))
    for turn in range(8):
        for name, endpoint in (("first", first.endpoint), ("second", second)):
            endpoint.atomic(np.uint64(1), first.peer, region.address, region.key, Op.FI_SUM, context=(name, turn))
    contexts = [entry.op_context for entry in drain(first.queue, 16)]
    for name in ("first", "second"):
        assert [turn for who, turn in contexts if who == name] == list(range(8))
    assert memory[0] == 16


@pytest.fixture
def selective(pair, keep):
    """(endpoint, queue, peer): only operations with FI_COMPLETION report success."""
    domain = pair[0].domain
    queue, peers = keep(domain.cq_open()), keep(domain.av_open())
    endpoint = keep(domain.endpoint(tx_size=4))
    endpoint.bind(queue, BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION)
    endpoint.bind(peers)
    endpoint.enable()
    return endpoint, queue, peers.insert(pair[1].endpoint.getname())


def test_selective_completion_reports_what_asks_for_it(selective, target):
    memory, region = target
    endpoint, queue, peer = selective
    to = (peer, region.address, region.key, Op.FI_SUM)
    endpoint.atomic(np.uint64(1), *to, context="silent")
    endpoint.atomic(np.uint64(1), *to, context="loud", flags=OpFlags.FI_COMPLETION)
    assert queue.sread(4, timeout=30) == [CqEntry("loud")]
    assert memory[0] == 2


def test_silent_operations_still_fail_aloud(selective, target):
    _, region = target
    endpoint, queue, peer = selective
    endpoint.write(bytes(8), peer, region.address, region.key ^ 1, context="silent")
    with pytest.raises(ErrorAvailableError):
        queue.sread(timeout=30)
    assert queue.readerr().op_context == "silent"


def test_injected_operations_are_silent_and_free_their_ring_entries(pair, target):
    memory, region = target
    client = pair[0]
    done = 0
    while done < 4 * client.endpoint.tx_size:
        try:
            client.endpoint.inject_atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM)
            done += 1
        except BlockingIOError:
            assert client.queue.read() == []
    assert client.queue.sread(timeout=0.1) == []
    client.endpoint.inject_write(b"\x07", client.peer, region.address + 8, region.key)
    client.endpoint.read(bytearray(8), client.peer, region.address, region.key, context="last")
    assert client.finish().op_context == "last"
    assert (memory[0], memory[1]) == (done, 7)


def test_a_queue_of_another_domain_cannot_be_bound(fabric, pair, keep):
    other = keep(fabric.domain(0))
    endpoint = keep(other.endpoint())
    with pytest.raises(FabricError, match=r"^FI_EINVAL: .*another domain"):
        endpoint.bind(pair[0].queue)


def test_binding_twice_or_to_nothing_is_refused(pair, keep):
    endpoint = keep(pair[0].domain.endpoint())
    endpoint.bind(pair[0].queue)
    endpoint.bind(pair[0].peers)
    for again in (pair[0].queue, pair[0].peers):
        with pytest.raises(FabricError, match=r"^FI_EINVAL: .*bound already"):
            endpoint.bind(again)
    with pytest.raises(FabricError, match=r"^FI_EBADFLAGS"):
        endpoint.bind(pair[0].queue, BindFlags(0))


def test_enable_says_what_is_missing(pair, keep):
    endpoint = keep(pair[0].domain.endpoint())
    with pytest.raises(FabricError, match=r"^FI_ENOCQ"):
        endpoint.enable()
    endpoint.bind(pair[0].queue)
    with pytest.raises(FabricError, match=r"^FI_ENOAV"):
        endpoint.enable()
    endpoint.bind(pair[0].peers)
    for use in (endpoint.getname, lambda: endpoint.write(b"x", 0, 0, 0)):
        with pytest.raises(FabricError, match=r"^FI_EOPBADSTATE"):
            use()
    endpoint.enable()
    for use in (endpoint.enable, lambda: endpoint.bind(pair[0].peers)):
        with pytest.raises(FabricError, match=r"^FI_EOPBADSTATE"):
            use()


def test_a_queue_for_receiving_only_does_not_make_an_endpoint_send(pair, keep):
    endpoint = keep(pair[0].domain.endpoint())
    endpoint.bind(pair[0].queue, BindFlags.FI_RECV)
    endpoint.bind(pair[0].peers)
    with pytest.raises(FabricError, match=r"^FI_ENOCQ"):
        endpoint.enable()
