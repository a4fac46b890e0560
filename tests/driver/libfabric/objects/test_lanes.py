"""Messages beside RMA and atomics: endpoints without an Info, or of one without an order between the two."""

import time

import numpy as np
import pytest
from amoeba import (
    INJECT_SIZE,
    BindFlags,
    CqFormat,
    EpAttr,
    EpType,
    Errno,
    ErrorAvailableError,
    FabricError,
    Info,
    MsgOrder,
    Op,
    OpFlags,
    Retransmission,
    RmaIov,
    RmaMsg,
    TriggeredContext,
    TxAttr,
    open_cluster,
)
from amoeba_model.descriptors import TX_DESCRIPTOR
from amoeba_model.impairments import Impairments
from amoeba_model.parameters import NicParameters

from tests.driver.endpoints import ALL_ACCESS, BOTH, Side, connect, entries, refused

ONE = np.uint64(1)
UNREAD = 70
"""More than the receiver's NIC keeps."""
BETWEEN = MsgOrder.FI_ORDER_SAR | MsgOrder.FI_ORDER_SAW | MsgOrder.FI_ORDER_RAS | MsgOrder.FI_ORDER_WAS
NAMES_NO_ORDER = Info(ep_attr=EpAttr(type=EpType.FI_EP_RDM))
BESIDE = MsgOrder.FI_ORDER_SAS | MsgOrder.FI_ORDER_ATOMIC_WAW
SOON = Retransmission(timeout=2000, limit=2)


def info_of(fabric, order=BESIDE, ep_type=EpType.FI_EP_RDM):
    return fabric.getinfo(Info(ep_attr=EpAttr(type=ep_type), tx_attr=TxAttr(msg_order=order)))[0]


def open_side(fabric, nic, info, **options):
    domain = fabric.domain(nic)
    queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED), domain.av_open()
    given = {} if info is None else {"ep_type": info}
    endpoint = domain.endpoint(cq=queue, av=peers, cq_flags=BOTH, tx_size=256, rx_size=256, **given, **options)
    return Side(domain, queue, peers, endpoint)


class Two:
    """A sender, a receiver that makes no progress of its own, and memory of it."""

    def __init__(self, fabric, info):
        self.fabric = fabric
        self.sender, self.receiver = open_side(fabric, 0, info), open_side(fabric, 1, info)
        connect(self.sender, self.receiver)
        self.memory = np.zeros(512, np.uint64)
        self.region = self.receiver.domain.mr_reg(self.memory, ALL_ACCESS)
        self.endpoint, self.queue, self.peer = self.sender.endpoint, self.sender.queue, self.sender.peer
        self.nic = self.sender.domain.nic

    @property
    def there(self):
        return self.peer, self.region.address, self.region.key

    def send_unread(self, count=UNREAD):
        for number in range(count):
            self.endpoint.send(bytes([number]), self.peer, context=number)

    def receive(self, count=UNREAD):
        """The entries of so many messages at the receiver, and all entries that the sender reads meanwhile."""
        buffers = [bytearray(1) for _ in range(count)]
        for buffer in buffers:
            self.receiver.endpoint.recv(buffer)
        got, heard, deadline = 0, [], time.monotonic() + 60
        while got < count:
            assert time.monotonic() < deadline, f"{got} of {count} messages came"
            got += len(self.receiver.queue.read(count))
            heard += self.queue.read(count)
        return [buffer[0] for buffer in buffers], heard

    def heard(self, reads=400):
        """Contexts of what the sender reads in some time, in which the receiver does nothing."""
        found = []
        for _ in range(reads):
            found += self.queue.read(256)
        return [entry.op_context for entry in found]

    def entries_in_use(self):
        return self.nic.parameters.peers - len(self.nic.peers.free)


@pytest.fixture(params=["model,model"])
def cluster(request, build_of):
    kinds = request.param.split(",")
    with open_cluster(kinds, build_of(kinds), rtl_options={"host_latency": 40}) as opened:
        yield opened


@pytest.fixture
def two(cluster, keep):
    return keep(Two(cluster, info_of(cluster)))


@pytest.fixture
def ordered(cluster, keep):
    return keep(Two(cluster, cluster.getinfo()[0]))


# What holds up what


@pytest.mark.parametrize("info", [None, NAMES_NO_ORDER, info_of], ids=["default", "empty", "asked"])
@pytest.mark.parametrize("cluster", ["model,model", "model,rtl", "rtl,model"], indirect=True)
def test_b9_messages_that_nobody_reads_stop_no_write_and_no_atomic(cluster, keep, info):
    """Found B9: endpoints have two lanes unless their Info asks for an order between messages and the rest."""
    two = keep(Two(cluster, info(cluster) if callable(info) else info))
    found = np.zeros(1, np.uint64)
    two.send_unread()
    two.endpoint.write(np.uint64(7), *two.there, context="write")
    two.endpoint.fetch_atomic(ONE, found, *two.there, Op.FI_SUM, context="atomic")
    came = []
    while not {"write", "atomic"} <= set(came):
        came += [entry.op_context for entry in entries(two.sender.queue, 1)]
    assert (two.memory[0], found[0]) == (8, 7)
    assert len(came) < UNREAD + 2
    numbers, _ = two.receive()
    assert numbers == list(range(UNREAD))


def test_unread_messages_stop_a_write_where_an_order_was_guaranteed(ordered):
    ordered.send_unread()
    ordered.endpoint.write(np.uint64(7), *ordered.there, context="write")
    contexts = ordered.heard()
    assert "write" not in contexts
    assert ordered.memory[0] == 0
    numbers, heard = ordered.receive()
    assert numbers == list(range(UNREAD))
    contexts += [entry.op_context for entry in heard]
    while "write" not in contexts:
        contexts += [entry.op_context for entry in ordered.queue.read(64)]
    assert contexts == [*range(UNREAD), "write"]
    assert ordered.memory[0] == 7


def test_batches_vectors_and_remote_arrays_are_not_stopped_either(two):
    two.send_unread()
    values = np.arange(1, 9, dtype=np.uint64)
    two.endpoint.writemsg(
        RmaMsg([values[:3], values[3:]], two.peer, [RmaIov(two.region.address, 64, two.region.key)], context="vector")
    )
    assert "vector" in two.heard()
    array = two.endpoint.array(two.peer, two.region, np.uint64, 512)
    assert array[:8].tolist() == values.tolist()
    array[100:200] = np.full(100, 5, np.uint64)
    assert two.memory[100:200].tolist() == [5] * 100


def test_a_triggered_write_passes_a_triggered_send_that_nobody_reads(two, keep):
    counter = keep(two.sender.domain.cntr_open())
    late, put = TriggeredContext(counter, 1), TriggeredContext(counter, 1)
    two.send_unread()
    two.endpoint.send(b"?", two.peer, context=late, flags=OpFlags.FI_TRIGGER)
    two.endpoint.write(np.uint64(3), *two.there, context=put, flags=OpFlags.FI_TRIGGER)
    counter.add(1)
    came = two.heard()
    assert put in came
    assert late not in came
    assert two.memory[0] == 3


@pytest.mark.parametrize("length", [1, 5000])
def test_both_kinds_of_messages_keep_their_own_order(two, length):
    """Untagged and tagged, long and short, with writes among them."""
    buffers = [bytearray(length) for _ in range(40)]
    for number, buffer in enumerate(buffers):
        two.receiver.endpoint.recv(buffer) if number % 2 else two.receiver.endpoint.trecv(buffer, 7)
    for number in range(40):
        data = bytes([number]) * length
        two.endpoint.write(np.uint64(number), *two.there)
        two.endpoint.send(data, two.peer) if number % 2 else two.endpoint.tsend(data, two.peer, 7)
    got, sent, deadline = [], [], time.monotonic() + 60
    while len(got) < 40 or len(sent) < 80:
        assert time.monotonic() < deadline
        got += two.receiver.queue.read(64)
        sent += two.queue.read(64)
    assert [buffer[0] for buffer in buffers] == list(range(40))
    assert all(buffer == bytes([buffer[0]]) * length for buffer in buffers)
    assert two.memory[0] == 39


@pytest.mark.parametrize("info", [None, info_of], ids=["default", "asked"])
def test_a_transmit_context_of_a_scalable_endpoint_has_two_lanes(cluster, keep, info):
    receiver = keep(open_side(cluster, 1, None))
    region = keep(receiver.domain.mr_reg(memory := np.zeros(8, np.uint64), ALL_ACCESS))
    domain = keep(cluster.domain(0))
    queue, peers = keep(domain.cq_open()), keep(domain.av_open())
    scalable = keep(domain.scalable_endpoint(info and info(cluster), tx_contexts=1, rx_contexts=1, tx_size=256))
    scalable.bind(peers)
    context = keep(scalable.tx_context(0))
    context.bind(queue, BindFlags.FI_TRANSMIT)
    context.enable()
    peer = peers.insert(receiver.endpoint.getname())
    for _ in range(UNREAD):
        context.send(b"?", peer)
    context.write(np.uint64(7), peer, region.address, region.key, context="write")
    came = []
    for _ in range(400):
        came += [entry.op_context for entry in queue.read(256)]
    assert "write" in came
    assert memory[0] == 7


# Which Info has them


@pytest.mark.parametrize(
    ("order", "granted"),
    [
        (MsgOrder.FI_ORDER_NONE, True),
        (MsgOrder.FI_ORDER_SAW, True),
        (MsgOrder.FI_ORDER_SAR | MsgOrder.FI_ORDER_WAW, True),
        (MsgOrder.FI_ORDER_SAS, False),
        (MsgOrder.FI_ORDER_RMA_WAW | MsgOrder.FI_ORDER_ATOMIC_RAR, False),
    ],
)
def test_hints_that_name_orders_but_none_between_the_kinds_get_none(cluster, keep, order, granted):
    info = info_of(cluster, order)
    assert bool(info.tx_attr.msg_order & BETWEEN) is granted
    assert info.tx_attr.msg_order & MsgOrder.FI_ORDER_SAS
    assert info.tx_attr.msg_order & MsgOrder.FI_ORDER_RAW
    assert cluster.getinfo(info) == [info]
    two = keep(Two(cluster, info))
    two.endpoint.write(ONE, *two.there)
    two.sender.finish()
    before = two.entries_in_use()
    two.endpoint.inject(b"m", two.peer)
    assert two.entries_in_use() == before + (not granted)
    two.receive(1)


def test_without_hints_the_order_is_guaranteed(cluster):
    for info in cluster.getinfo():
        assert info.tx_attr.msg_order & BETWEEN == MsgOrder.FI_ORDER_SAR | MsgOrder.FI_ORDER_SAW


def test_datagrams_have_one_entry(cluster, keep):
    side = keep(open_side(cluster, 0, info_of(cluster, ep_type=EpType.FI_EP_DGRAM)))
    assert side.endpoint._open_for_messages is side.endpoint._open_peers


# Entries of the peer table


@pytest.mark.parametrize("messages_first", [False, True])
def test_a_peer_has_a_second_entry_from_the_moment_that_both_kinds_are_used(two, messages_first):
    uses = [
        lambda: two.endpoint.write(ONE, *two.there),
        lambda: two.endpoint.inject(b"m", two.peer),
    ]
    if messages_first:
        uses.reverse()
    assert two.entries_in_use() == 1
    for _ in range(3):
        uses[0]()
    assert two.entries_in_use() == 1
    for _ in range(3):
        uses[1]()
        uses[0]()
    assert two.entries_in_use() == 2
    two.receive(3 if not messages_first else 6)


def test_where_entries_are_scarce_one_serves_both(keep):
    """Half of them may be second ones; addresses can always be inserted."""
    with open_cluster(["model"] * 2, parameters=NicParameters(peers=4)) as fabric:
        two = keep(Two(fabric, info_of(fabric)))
        extra = [two.sender.peers.insert(two.receiver.endpoint.getname()) for _ in range(2)]
        two.endpoint.write(ONE, *two.there)
        two.endpoint.inject(b"m", two.peer)
        assert two.entries_in_use() == 3
        two.endpoint.write(ONE, extra[0], two.region.address, two.region.key)
        two.endpoint.inject(b"n", extra[0])
        assert two.entries_in_use() == 3
        numbers, _ = two.receive(2)
        assert sorted(numbers) == sorted(b"mn")
        assert two.memory[0] == 1
        two.heard(50)
        two.sender.peers.remove(two.peer, *extra)
        assert two.entries_in_use() == 0
        two.sender.peers.insert(two.receiver.endpoint.getname())


def test_removing_a_peer_closes_both_entries(two):
    two.endpoint.write(ONE, *two.there, context="write")
    two.send_unread(1)
    two.heard(50)
    assert two.entries_in_use() == 2
    two.send_unread()
    with refused(Errno.FI_EBUSY):
        two.sender.peers.remove(two.peer)
    two.receive(UNREAD + 1)
    two.heard(50)
    two.sender.peers.remove(two.peer)
    assert two.entries_in_use() == 0
    assert not two.endpoint._open_for_messages
    assert not two.endpoint._open_peers
    two.peer = two.sender.peers.insert(two.receiver.endpoint.getname())
    two.endpoint.write(np.uint64(9), *two.there)
    two.sender.finish()
    assert two.memory[0] == 9


def test_closing_the_endpoint_gives_both_back(two):
    two.endpoint.write(ONE, *two.there)
    two.endpoint.inject(b"m", two.peer)
    two.heard(50)
    assert two.entries_in_use() == 2
    two.endpoint.close()
    assert two.entries_in_use() == 0


def test_closing_it_with_messages_unread_gives_both_back_when_they_have_ended(two):
    two.send_unread()
    two.endpoint.write(ONE, *two.there)
    two.endpoint.close()
    assert two.entries_in_use() > 0
    two.receiver.endpoint.close()
    deadline = time.monotonic() + 60
    while two.entries_in_use():
        assert time.monotonic() < deadline
        two.nic.device.advance()
        two.nic.contexts.reclaim()


# Failure


def errors(side, count):
    found, deadline = [], time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} errors came"
        try:
            assert side.queue.read(8) == []
        except ErrorAvailableError:
            found.append(side.queue.readerr())
    return found


def test_a_peer_that_fails_fails_both_and_is_opened_anew_when_all_has_ended(cluster, two):
    for nic in cluster.nics:
        nic.retransmission = SOON
    two.endpoint.write(ONE, *two.there)
    two.endpoint.inject(b"m", two.peer)
    two.heard(50)
    for turn in range(3):
        cluster.network.cut(cluster.devices[1])
        for number in range(3):
            two.endpoint.write(ONE, *two.there, context=("write", number))
            two.endpoint.send(b"x", two.peer, context=("send", number))
        failed = errors(two.sender, 1)
        cluster.network.restore(cluster.devices[1])
        for call in (lambda: two.endpoint.write(ONE, *two.there), lambda: two.endpoint.inject(b"y", two.peer)):
            with pytest.raises(FabricError, match=r"^FI_EAGAIN: .*was given up"):
                call()
        failed += errors(two.sender, 5)
        assert {failure.err for failure in failed} == {Errno.FI_ECONNRESET}
        assert len({failure.op_context for failure in failed}) == 6
        two.endpoint.write(np.uint64(turn), *two.there, context="again")
        two.endpoint.send(bytes([turn]), two.peer, context="again")
        assert {entry.op_context for entry in entries(two.queue, 2)} == {"again"}
        assert two.memory[0] == turn
        assert two.entries_in_use() == 2
    numbers, _ = two.receive(4)
    assert numbers == [*b"m", 0, 1, 2]


@pytest.mark.parametrize("failing", ["memory", "messages"])
def test_where_one_entry_alone_fails_the_other_fails_too(two, failing):
    """Messages wait for a receiver that lives but never reads."""
    two.endpoint.write(ONE, *two.there)
    two.sender.finish()
    two.send_unread()
    assert len(two.heard()) == 64
    opened = two.endpoint._open_peers if failing == "memory" else two.endpoint._open_for_messages
    two.nic.peers.fail(opened[two.peer])
    two.endpoint.write(ONE, *two.there, context="write")
    failed = errors(two.sender, 1)
    for call in (lambda: two.endpoint.write(ONE, *two.there), lambda: two.endpoint.inject(b"y", two.peer)):
        with pytest.raises(FabricError, match=r"^FI_EAGAIN: .*was given up"):
            call()
    expected = set(range(64, UNREAD)) | {"write"}
    came, deadline = [], time.monotonic() + 30
    while len(failed) + len(came) < len(expected):
        assert time.monotonic() < deadline, f"{len(failed)} of {len(expected)} errors came"
        try:
            came += two.queue.read(8)
        except ErrorAvailableError:
            failed.append(two.queue.readerr())
    assert {failure.op_context for failure in failed} | {entry.op_context for entry in came} == expected
    assert {failure.err for failure in failed} == {Errno.FI_ECONNRESET}
    # the write may have been answered before the messages were given up
    assert len(came) <= (failing == "messages")
    two.endpoint.write(np.uint64(5), *two.there, context="again")
    assert two.sender.finish().op_context == "again"
    assert two.memory[0] == 5


# Fences


def fenced(two, how):
    """A fenced operation that writes 1, 2, 3, ... somewhere; how many of them."""
    values = np.arange(1, 9, dtype=np.uint64)
    fence = OpFlags.FI_FENCE
    match how:
        case "write of 8 bytes":
            two.endpoint.write(values[:1], *two.there, context="fenced", flags=fence)
            return 1
        case "write":
            two.endpoint.write(values, *two.there, context="fenced", flags=fence)
        case "injected":
            two.endpoint.write(values, *two.there, context="fenced", flags=fence | OpFlags.FI_INJECT)
        case "injected atomic":
            two.endpoint.atomic(values, *two.there, Op.FI_SUM, context="fenced", flags=fence | OpFlags.FI_INJECT)
        case "committed":
            two.endpoint.write(values, *two.there, context="fenced", flags=fence | OpFlags.FI_COMMIT_COMPLETE)
        case "vector":
            two.endpoint.writemsg(
                RmaMsg(
                    [values[:3], values[3:]],
                    two.peer,
                    [
                        RmaIov(two.region.address, 40, two.region.key),
                        RmaIov(two.region.address + 40, 24, two.region.key),
                    ],
                    context="fenced",
                ),
                fence,
            )
        case "batch":
            two.endpoint.write_batch(values, *two.there, index=np.arange(8), context="fenced", flags=fence)
    return 8


@pytest.mark.parametrize(
    "how", ["write of 8 bytes", "write", "injected", "injected atomic", "committed", "vector", "batch"]
)
def test_a_fenced_operation_waits_for_messages_to_its_peer(two, how):
    two.endpoint.write(np.uint64(0), *two.there)
    two.sender.finish()
    two.send_unread()
    count = fenced(two, how)
    assert "fenced" not in two.heard()
    assert not two.memory.any()
    _, heard = two.receive()
    contexts = [entry.op_context for entry in heard]
    while "fenced" not in contexts:
        contexts += [entry.op_context for entry in two.queue.read(64)]
    assert contexts[-1] == "fenced"
    assert two.memory[:8].tolist() == [*range(1, count + 1), *[0] * (8 - count)]
    assert two.endpoint.tx_size_left == two.endpoint.tx_size


@pytest.mark.parametrize("length", [1, 64, 5000])
def test_a_fenced_message_comes_when_what_was_written_before_is_there(length, keep):
    """On a network that loses a tenth of the frames, so that without fences it would not be so."""
    impairments = Impairments(loss=0.1, seed=3)
    early = {True: 0, False: 0}
    with open_cluster(["model"] * 2, impairments=impairments) as fabric:
        for nic in fabric.nics:
            nic.retransmission = Retransmission(timeout=2000, limit=12)
        two = keep(Two(fabric, info_of(fabric)))
        for turn in range(1, 81):
            fence = turn % 2 == 0
            buffer = bytearray(length)
            two.receiver.endpoint.recv(buffer)
            two.endpoint.write(np.full(512, turn, np.uint64), *two.there)
            two.endpoint.send(bytes([turn]) * length, two.peer, flags=OpFlags.FI_FENCE if fence else OpFlags(0))
            came, sent = [], []
            while not came:
                sent += two.queue.read(4)
                came += two.receiver.queue.read(1)
            early[fence] += bool((two.memory != turn).any())
            assert buffer == bytes([turn]) * length
            while len(sent) < 2:
                sent += two.queue.read(4)
    assert early[True] == 0
    if length == 1:
        assert early[False] > 0


def test_what_a_fenced_operation_injects_lies_at_its_own_place_in_the_ring(two):
    """The next operation, posted while this one is sent again, takes another place."""
    two.endpoint.inject(b"m", two.peer)
    for length in (16, 64):
        operands = np.arange(length, dtype=np.uint8)
        two.endpoint.write(np.uint64(0), *two.there)
        two.endpoint.write(operands, *two.there, flags=OpFlags.FI_FENCE | OpFlags.FI_INJECT)
        rings = two.endpoint._rings
        at = (rings._tail - 1 & rings._mask) * TX_DESCRIPTOR.size
        descriptor = TX_DESCRIPTOR.unpack(memoryview(rings._transmit)[at : at + TX_DESCRIPTOR.size])
        place = rings._bounce_base + descriptor["context"] * (2 * INJECT_SIZE)
        assert descriptor["local"] == place
        two.heard(50)
        assert two.memory.view(np.uint8)[:length].tolist() == operands.tolist()


def test_a_fenced_operation_without_space_is_refused_and_leaves_nothing(cluster, keep):
    info = info_of(cluster)
    two = keep(Two(cluster, info))
    two.endpoint.write(ONE, *two.there)
    two.sender.finish()
    while two.endpoint.tx_size_left > 1:
        two.endpoint.send(b"?", two.peer)
    two.endpoint.write(ONE, *two.there, flags=OpFlags.FI_FENCE)
    assert two.endpoint.tx_size_left == 0
    with refused(Errno.FI_EAGAIN):
        two.endpoint.write(ONE, *two.there, flags=OpFlags.FI_FENCE)
    assert two.endpoint.tx_size_left == 0
