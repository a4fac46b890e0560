"""Streams, under the names that UCX's gtest test_ucp_stream.cc has for them, and what else is guaranteed of them.

Covers ``openucx/ucp/calls/streams.py``.
"""

import itertools
import random

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.impairments import Impairments
from amoeba_model.ucp import STREAM_OVERHEAD, STREAM_WINDOW, MessageKind

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for

OK, CANCELED = ucp.UcsStatus.UCS_OK, ucp.UcsStatus.UCS_ERR_CANCELED
WAITALL = ucp.UCP_STREAM_RECV_FLAG_WAITALL
IMPAIRED = Impairments(seed=5, loss=0.02, duplication=0.02, corruption=0.02, reordering=0.02)


def param(**fields):
    return ucp.ucp_request_param_t(**fields)


def bytes_of_seed(seed, length):
    return random.Random(seed).randbytes(length)


def send(ep, data, **fields):
    return ucp.ucp_stream_send_nbx(ep, data, len(data), param(**fields) if fields else None)


def receive(ep, size, **fields):
    """(request, bytes received at once, buffer)"""
    buffer = bytearray(size)
    request, length = ucp.ucp_stream_recv_nbx(ep, buffer, size, param(**fields) if fields else None)
    return request, length, buffer


def receive_all(ep, size, *entities):
    request, length, buffer = receive(ep, size, flags=WAITALL)
    assert finish(request, *entities) == OK
    assert request is None or ucp.ucp_stream_recv_request_test(request) == (OK, size)
    assert request is not None or length == size
    return bytes(buffer)


def take_data(ep, size, *entities):
    """By reference, until there are so many bytes."""
    taken = []

    def enough():
        while (data := ucp.ucp_stream_recv_data_nb(ep)) is not None:
            taken.append(bytes(data))
            ucp.ucp_stream_data_release(ep, data)
        return sum(map(len, taken)) >= size

    wait_for(enough, *entities)
    return b"".join(taken)


# UCX's tests


def test_send_recv_data(pair):
    """On every pair of devices: small and long, by reference and into buffers, in order."""
    sender, receiver = pair
    data = bytes_of_seed(1, 21000)
    cuts = [0, 8, 9, 9, 300, 5000, 16000, 21000]
    requests = [send(sender.ep, data[a:b]) for a, b in itertools.pairwise(cuts)]
    first = receive_all(receiver.ep, 6000, *pair)
    assert first + take_data(receiver.ep, 15000, *pair) == data
    assert all(finish(request, *pair) == OK for request in requests)


def test_send_recv_no_ep(models):
    """Data from before the receiver's endpoint is kept, and not reported before."""
    sender, receiver = Entity(models[0]), Entity(models[1])
    ep = sender.connect(receiver)
    send(ep, b"early bird")
    wait_for(lambda: any(each.stream for each in receiver.worker.endpoints.values()), sender, receiver)
    assert ucp.ucp_stream_worker_poll(receiver.worker, 8, 0) == []
    mine = receiver.connect(sender)
    assert [each.ep for each in ucp.ucp_stream_worker_poll(receiver.worker, 8, 0)] == [mine]
    assert receive_all(mine, 10, sender, receiver) == b"early bird"


@pytest.mark.parametrize("posted_first", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_send_recv_n(two, size, posted_first):
    """Received is a multiple of the element: send_recv_8 to _64, send_exp_recv_8 to _64."""
    sender, receiver = two
    data = bytes_of_seed(size, 24 * size)
    elements = param(datatype=ucp.ucp_dt_make_contig(size))

    def push():
        for start in range(0, len(data), 3):
            send(sender.ep, data[start : start + 3])

    got = bytearray()
    if not posted_first:
        push()
        wait_for(lambda: receiver.ep.stream and receiver.ep.stream.unread_bytes == len(data), *two)
    while len(got) < len(data):
        buffer = bytearray(5 * size)
        request, length = ucp.ucp_stream_recv_nbx(receiver.ep, buffer, 5, elements)
        if posted_first and not got:
            assert request is not None
            push()
        if request is not None:
            assert finish(request, *two) == OK
            _, length = ucp.ucp_stream_recv_request_test(request)
        assert length
        assert length % size == 0
        got += buffer[:length]
    assert got == data


def test_a_receive_waits_until_whole_elements_are_there(two):
    sender, receiver = two
    send(sender.ep, b"sixsix")
    wait_for(lambda: receiver.ep.stream and receiver.ep.stream.unread_bytes == 6, *two)
    four = param(datatype=ucp.ucp_dt_make_contig(4))
    buffer = bytearray(16)
    request, _ = ucp.ucp_stream_recv_nbx(receiver.ep, buffer, 4, four)
    for _ in range(20):
        receiver.progress()
    assert not request.done
    assert ucp.ucp_stream_recv_request_test(request) == (ucp.UcsStatus.UCS_INPROGRESS, 0)
    send(sender.ep, b"78")
    assert finish(request, *two) == OK
    assert ucp.ucp_stream_recv_request_test(request) == (OK, 8)
    assert buffer[:8] == b"sixsix78"


def test_send_exp_recv_waitall(two):
    """One completion, of the full length."""
    sender, receiver = two
    told = []
    request, _, buffer = receive(
        receiver.ep, 30, flags=WAITALL, cb=lambda *given: told.append(given), user_data="mine"
    )
    for part in (b"a" * 10, b"b" * 10, b"c" * 10):
        assert not told
        send(sender.ep, part)
        for _ in range(20):
            sender.progress(), receiver.progress()
    assert finish(request, *two) == OK
    assert told == [(request, OK, 30, "mine")]
    assert buffer == b"a" * 10 + b"b" * 10 + b"c" * 10


def test_send_iov_recv_data_and_zero_ending_iov(two):
    sender, receiver = two
    entries = [ucp.ucp_dt_iov_t(bytes_of_seed(n, 100 * n)) for n in (1, 0, 50, 2)] + [ucp.ucp_dt_iov_t(None, 0)]
    iov = param(datatype=ucp.ucp_dt_make_iov())
    request = ucp.ucp_stream_send_nbx(sender.ep, entries, 5, iov)
    expected = b"".join(bytes(each.buffer or b"") for each in entries)
    assert take_data(receiver.ep, len(expected), *two) == expected
    assert finish(request, *two) == OK


def test_recv_iov(two):
    sender, receiver = two
    data = bytes_of_seed(3, 9000)
    send(sender.ep, data)
    parts = [bytearray(1000), bytearray(), bytearray(8000)]
    request, _ = ucp.ucp_stream_recv_nbx(
        receiver.ep,
        [ucp.ucp_dt_iov_t(each) for each in parts],
        3,
        param(datatype=ucp.ucp_dt_make_iov(), flags=WAITALL),
    )
    assert finish(request, *two) == OK
    assert b"".join(parts) == data


class Copying:
    """A generic datatype of plain bytes that counts."""

    def __init__(self, status=0):
        self.started = self.finished = 0
        ops = ucp.ucp_generic_dt_ops_t(
            start_pack=self.start, start_unpack=self.start, packed_size=lambda state: len(state),
            pack=self.pack, unpack=lambda state, offset, src, length: status or self.unpack(state, offset, src),
            finish=self.finish,
        )  # fmt: skip
        self.datatype = ucp.ucp_dt_create_generic(ops)

    def start(self, context, buffer, count):
        self.started += 1
        return memoryview(buffer)[:count]

    @staticmethod
    def pack(state, offset, dest, most):
        size = min(most, 1000)
        dest[:size] = state[offset : offset + size]
        return size

    @staticmethod
    def unpack(state, offset, src):
        state[offset : offset + len(src)] = src

    def finish(self, state):
        self.finished += 1


def test_send_generic_recv_generic(two):
    """Begun and finished once each."""
    sender, receiver = two
    kind = Copying()
    data, buffer = bytes_of_seed(4, 10000), bytearray(10000)
    request = ucp.ucp_stream_send_nbx(sender.ep, data, len(data), param(datatype=kind.datatype))
    received, _ = ucp.ucp_stream_recv_nbx(receiver.ep, buffer, 10000, param(datatype=kind.datatype, flags=WAITALL))
    assert finish(received, *two) == finish(request, *two) == OK
    assert buffer == data
    assert (kind.started, kind.finished) == (2, 2)


def test_what_unpacking_says_is_the_status_of_the_receive(two):
    sender, receiver = two
    kind = Copying(status=ucp.UcsStatus.UCS_ERR_NO_MEMORY)
    send(sender.ep, b"12345678")
    request, _ = ucp.ucp_stream_recv_nbx(receiver.ep, bytearray(8), 8, param(datatype=kind.datatype, flags=WAITALL))
    assert finish(request, *two) == ucp.UcsStatus.UCS_ERR_NO_MEMORY
    assert (kind.started, kind.finished) == (1, 1)


def test_send_recv_data_recv(two):
    """Both ways on one stream: a message received in part is given without what was received."""
    sender, receiver = two
    send(sender.ep, b"0123456789" * 100)
    wait_for(lambda: receiver.ep.stream and receiver.ep.stream.unread_bytes, *two)
    request, length, buffer = receive(receiver.ep, 15)
    assert (request, length, buffer[:15]) == (None, 15, b"012345678901234")
    data = ucp.ucp_stream_recv_data_nb(receiver.ep)
    assert bytes(data[:5]) == b"56789"
    assert data.nbytes == 985
    ucp.ucp_stream_data_release(receiver.ep, data)


@pytest.mark.parametrize("connected", [False, True])
def test_recv_ep_cleanup(two, connected):
    """recv_not_connected_ep_cleanup, recv_connected_ep_cleanup: posted receives end with CANCELED."""
    sender, receiver = two
    if connected:
        send(receiver.ep, b"x" * 8)
        receive_all(sender.ep, 8, *two)
    told = []
    request, _, _ = receive(receiver.ep, 8, flags=WAITALL, cb=lambda *given: told.append(given[1]))
    finish(ucp.ucp_ep_close_nbx(receiver.ep, None), *two)
    wait_for(lambda: request.done, receiver)
    assert request.code == CANCELED
    assert told == [CANCELED]


def test_drop_data(two):
    """Unread data is dropped when the endpoint is closed, and the inbox has its buffers back."""
    sender, receiver = two
    request = send(sender.ep, bytes(100_000))
    assert finish(request, *two) == OK
    wait_for(lambda: receiver.ep.stream.unread_bytes == 100_000, *two)
    finish(ucp.ucp_ep_close_nbx(receiver.ep, None), *two)
    assert all(not buffer.held for buffer in {*receiver.worker.inbox._spare})
    assert receiver.worker.inbox._out == 0
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_stream_recv_data_nb(receiver.ep)


def test_what_was_given_stays_as_it_is_when_the_endpoint_is_closed(two):
    sender, receiver = two
    data = bytes_of_seed(2, 3000)
    send(sender.ep, data)
    wait_for(lambda: receiver.ep.stream and receiver.ep.stream.unread_bytes, *two)
    given = ucp.ucp_stream_recv_data_nb(receiver.ep)
    second = sender.connect(receiver)
    mine = receiver.connect(sender)
    finish(ucp.ucp_ep_close_nbx(receiver.ep, None), *two)
    much = bytes(1 << 21)
    send(second, much)
    assert receive_all(mine, len(much), *two) == much
    assert given == data
    assert receiver.worker.inbox._out == 0


def test_send_worker_poll(models):
    """Every ready endpoint once, with its user_data, until more comes."""
    receiver = Entity(models[1])
    senders = [Entity(models[0]) for _ in range(3)]
    everybody = (*senders, receiver)
    eps = []
    for number, sender in enumerate(senders):
        sender.connect(receiver)
        eps.append(receiver.connect(sender, user_data=number))
        send(sender.ep, b"%d" % number * 8)
    wait_for(lambda: all(ep.stream and ep.stream.unread_bytes for ep in eps), *everybody)
    assert len(ucp.ucp_stream_worker_poll(receiver.worker, 2, 0)) == 2
    [last] = ucp.ucp_stream_worker_poll(receiver.worker, 8, 0)
    assert last.user_data == eps.index(last.ep)
    assert ucp.ucp_stream_worker_poll(receiver.worker, 8, 0) == []
    send(senders[1].ep, b"more")
    wait_for(lambda: eps[1].stream.unread_bytes == 12, *everybody)
    assert [each.ep for each in ucp.ucp_stream_worker_poll(receiver.worker, 8, 0)] == [eps[1]]
    for number, ep in enumerate(eps):
        assert receive_all(ep, 8, *everybody) == b"%d" % number * 8
    assert ucp.ucp_stream_worker_poll(receiver.worker, 8, 0) == []


def test_send_recv_nb(two):
    """The older calls, many of them posted first."""
    sender, receiver = two
    told, buffers = [], [bytearray(8) for _ in range(20)]
    for buffer in buffers:
        request, _ = ucp.ucp_stream_recv_nb(
            receiver.ep, buffer, 8, ucp.ucp_dt_make_contig(1), lambda *given: told.append(given[1:]), WAITALL
        )
        assert request is not None
    for number in range(20):
        ucp.ucp_stream_send_nb(sender.ep, b"%08d" % number, 8, ucp.ucp_dt_make_contig(1), None, 0)
    wait_for(lambda: len(told) == 20, *two)
    assert told == [(OK, 8)] * 20
    assert [int(buffer) for buffer in buffers] == list(range(20))


# What else is guaranteed


def test_data_survives_a_bad_link():
    with open_adapters(impairments=IMPAIRED) as adapters:
        sender, receiver = Entity(adapters[0]), Entity(adapters[1])
        sender.connect(receiver)
        receiver.connect(sender)
        data = bytes_of_seed(6, 300_000)
        cuts = sorted(random.Random(7).sample(range(len(data)), 60))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            send(sender.ep, data[start:end])
        assert receive_all(receiver.ep, len(data), sender, receiver) == data


def test_zero_bytes_are_over_at_once_and_nothing_comes(two):
    sender, receiver = two
    assert ucp.ucp_stream_send_nbx(sender.ep, None, 0, None) is None
    told = []
    request = send(
        sender.ep, b"", op_attr_mask=ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL, cb=lambda *given: told.append(given)
    )
    assert told == [(request, OK, None)]
    send(sender.ep, b"x")
    assert receive_all(receiver.ep, 1, *two) == b"x"
    assert receiver.worker.wireup.malformed == 0


def test_a_stream_that_nobody_reads_holds_back_its_sender_and_nobody_else(models):
    """The receiver keeps at most a window; other endpoints, and active messages of the same one, go on."""
    unread, other, receiver = Entity(models[0]), Entity(models[0]), Entity(models[1])
    everybody = (unread, other, receiver)
    for sender in (unread, other):
        sender.connect(receiver)
    mine = [receiver.connect(sender) for sender in (unread, other)]
    data = bytes_of_seed(8, 4 * STREAM_WINDOW)
    held = send(unread.ep, data)
    called = []
    ucp.ucp_worker_set_am_recv_handler(
        receiver.worker, ucp.ucp_am_handler_param_t(id=1, cb=lambda *given: called.append(given[4]))
    )
    ucp.ucp_am_send_nbx(unread.ep, 1, None, 0, b"12345678", 8, None)
    through = bytes_of_seed(9, STREAM_WINDOW)
    send(other.ep, through)
    assert receive_all(mine[1], len(through), *everybody) == through
    wait_for(lambda: called, *everybody)
    for _ in range(50):
        for each in everybody:
            each.progress()
    assert not held.done
    assert mine[0].stream.unread_bytes <= STREAM_WINDOW
    assert receive_all(mine[0], len(data), *everybody) == data
    assert finish(held, *everybody) == OK


def test_forced_calls_that_cannot_be_over_at_once_do_nothing(two):
    sender, receiver = two
    forced = ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
    with pytest.raises(ucp.UcsNoResourceError):
        send(sender.ep, bytes(100_000), op_attr_mask=forced)
    with pytest.raises(ucp.UcsNoResourceError):
        receive(receiver.ep, 8, op_attr_mask=forced)
    assert send(sender.ep, bytes_of_seed(1, 4000), op_attr_mask=forced) is None
    wait_for(lambda: receiver.ep.stream and receiver.ep.stream.unread_bytes, *two)
    with pytest.raises(ucp.UcsNoResourceError):
        receive(receiver.ep, 5000, op_attr_mask=forced | ucp.UCP_OP_ATTR_FIELD_FLAGS, flags=WAITALL)
    request, length, buffer = receive(receiver.ep, 5000, op_attr_mask=forced)
    assert (request, length, buffer[:4000]) == (None, 4000, bytes_of_seed(1, 4000))


def test_a_chunk_is_released_once_and_at_its_endpoint(two):
    sender, receiver = two
    send(sender.ep, bytes(2000))
    wait_for(lambda: receiver.ep.stream and receiver.ep.stream.unread_bytes, *two)
    data = ucp.ucp_stream_recv_data_nb(receiver.ep)
    for ep, wrong in ((sender.ep, data), (receiver.ep, data[:]), (receiver.ep, b"x")):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_stream_data_release(ep, wrong)
    ucp.ucp_stream_data_release(receiver.ep, data)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_stream_data_release(receiver.ep, data)


def test_a_callback_that_raises_leaves_everything_usable(two):
    sender, receiver = two

    def raising(*given):
        raise KeyError("mine")

    first, _, _ = receive(receiver.ep, 4, flags=WAITALL, cb=raising)
    second, _, buffer = receive(receiver.ep, 4, flags=WAITALL)
    send(sender.ep, b"12345678")
    with pytest.raises(KeyError, match="mine"):
        finish(second, *two)
    assert first.code == OK
    assert finish(second, *two) == OK
    assert buffer == b"5678"


def test_calls_without_the_feature_are_refused(models):
    entity, other = Entity(models[0], ucp.UCP_FEATURE_AM), Entity(models[1])
    ep = entity.connect(other)
    for call in (
        lambda: ucp.ucp_stream_send_nbx(ep, b"x", 1, None),
        lambda: ucp.ucp_stream_recv_nbx(ep, bytearray(1), 1, None),
        lambda: ucp.ucp_stream_recv_data_nb(ep),
        lambda: ucp.ucp_stream_worker_poll(entity.worker, 1, 0),
    ):
        with pytest.raises(ucp.UcsInvalidParamError, match="STREAM"):
            call()


def test_what_a_peer_sends_beyond_its_window_is_dropped_and_counted(two):
    sender, receiver = two
    cost = 4096 + STREAM_OVERHEAD
    fit = STREAM_WINDOW // cost
    for _ in range(fit + 5):
        sender.ep.send_message(MessageKind.STREAM, memoryview(bytes(4096)))
    wait_for(lambda: receiver.worker.wireup.malformed == 5, *two)
    assert receiver.ep.stream.unread_bytes == fit * 4096


def test_credit_that_makes_no_sense_is_dropped_and_counted(two):
    sender, receiver = two
    sender.ep.send_message(MessageKind.STREAM, memoryview(b"x"))
    for wrong in (b"", b"1234567", (1).to_bytes(8, "little"), b"\xff" * 8):
        sender.ep.send_message(MessageKind.STREAM_CREDIT, memoryview(wrong))
    wait_for(lambda: receiver.worker.wireup.malformed == 4, *two)
    assert receiver.ep.stream.allowed == STREAM_WINDOW
