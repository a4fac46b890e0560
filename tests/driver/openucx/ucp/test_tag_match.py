"""UCX's test_ucp_tag_match: which message meets which receive, and what has to wait.

Covers ``openucx/ucp/tags.py``.
"""

import contextlib
import itertools

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.status import UcsError

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.tagged import (
    ALL,
    BYTE,
    IN_PROGRESS,
    OK,
    PAYLOAD,
    arrive,
    couple_of,
    receive,
    send,
    settle,
)

NO_IMMEDIATE = ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL


@pytest.fixture
def couple(models):
    """(sender, receiver) on models."""
    return couple_of(models)


def test_send_recv_unexp(pair):
    sender, receiver = pair
    request = send(sender, 0x111337, b"12345678")
    wait_for(lambda: ucp.ucp_tag_probe_nb(receiver.worker, 0x1337, 0xFFFF, 0)[0], sender, receiver)
    buffer, info = bytearray(8), ucp.ucp_tag_recv_info_t()
    assert receive(receiver, buffer, 0x1337, 0xFFFF, recv_info=info) is None
    assert (buffer, info) == (b"12345678", ucp.ucp_tag_recv_info_t(0x111337, 8))
    assert finish(request, sender, receiver) == OK


def test_send_recv_exp(pair):
    sender, receiver = pair
    told = []
    buffer = bytearray(100)
    request = receive(receiver, buffer, 0x1337, 0xFFFF, cb=lambda *args: told.append(args), user_data="mine")
    assert request.code == IN_PROGRESS
    finish(send(sender, 0x111337, b"abcdefgh"), sender, receiver)
    assert finish(request, sender, receiver) == OK
    assert buffer[:9] == b"abcdefgh\0"
    assert told == [(request, OK, ucp.ucp_tag_recv_info_t(0x111337, 8), "mine")]
    assert ucp.ucp_tag_recv_request_test(request) == (OK, ucp.ucp_tag_recv_info_t(0x111337, 8))


def test_send_recv_exp_medium_and_long(pair):
    sender, receiver = pair
    for length in (PAYLOAD, PAYLOAD + 1, 50_000):
        data = bytes(range(256)) * (length // 256 + 1)
        buffer = bytearray(length)
        request = receive(receiver, buffer, length)
        sent = send(sender, length, data[:length])
        assert finish(request, sender, receiver) == OK
        assert finish(sent, sender, receiver) == OK
        assert buffer == data[:length]


def test_the_whole_of_64_bits_counts(couple):
    sender, receiver = couple
    arrive(sender, receiver, [(1 << 63, b"high"), (1, b"low.")])
    for tag, text in ((1, b"low."), (1 << 63, b"high")):
        buffer, info = bytearray(4), ucp.ucp_tag_recv_info_t()
        assert receive(receiver, buffer, tag, recv_info=info) is None
        assert (buffer, info.sender_tag) == (text, tag)


def test_bits_of_the_tag_outside_the_mask_are_ignored(couple):
    sender, receiver = couple
    arrive(sender, receiver, [(0xAA01, b"this")])
    buffer, info = bytearray(4), ucp.ucp_tag_recv_info_t()
    assert receive(receiver, buffer, 0xFF01, 0x00FF, recv_info=info) is None
    assert info.sender_tag == 0xAA01


def test_the_first_posted_wins_however_specific(couple):
    sender, receiver = couple
    buffers = [bytearray(1) for _ in range(3)]
    wanted = ((0, 0), (5, ALL), (0, 0))
    requests = [receive(receiver, buffer, *each) for buffer, each in zip(buffers, wanted, strict=True)]
    for data in (b"a", b"b", b"c"):
        send(sender, 5, data)
    for request in requests:
        finish(request, sender, receiver)
    assert buffers == [b"a", b"b", b"c"]


def test_send_recv_exp_unexp(couple):
    """The first message is received first, long or not."""
    sender, receiver = couple
    lengths = [8, 10_000, 8, 10_000, 0]
    arrive(sender, receiver, [(1, bytes([index]) * length) for index, length in enumerate(lengths)])
    for index, length in enumerate(lengths):
        buffer, info = bytearray(10_000), ucp.ucp_tag_recv_info_t()
        request = receive(receiver, buffer, 1, recv_info=info)
        finish(request, sender, receiver)
        info = info if request is None else request.info
        assert info.length == length
        assert buffer[:length] == bytes([index]) * length


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("length", [8, PAYLOAD, 20_000])
def test_send_recv_truncated(couple, length, expected):
    truncated(*couple, length, expected)


def test_send_recv_truncated_on_every_pair(pair):
    for length, expected in ((8, True), (8, False), (9000, True)):
        truncated(*pair, length, expected)


def truncated(sender, receiver, length, expected):
    """The buffer stays as it is, and the length is the message's."""
    buffer = bytearray(b"x" * (length - 1))
    request = receive(receiver, buffer, 1) if expected else None
    sent = send(sender, 1, bytes(length))
    info = ucp.ucp_tag_recv_info_t()
    if not expected:
        wait_for(lambda: ucp.ucp_tag_probe_nb(receiver.worker, 1, ALL, 0)[0], sender, receiver)
    if expected or length > PAYLOAD:
        request = request or receive(receiver, buffer, 1)
        assert finish(request, sender, receiver) == ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
        info = request.info
    else:
        with pytest.raises(UcsError) as refused:
            receive(receiver, buffer, 1, recv_info=info)
        assert refused.value.status == ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
    assert info == ucp.ucp_tag_recv_info_t(1, length)
    assert finish(sent, sender, receiver) == OK
    assert set(buffer) == {ord("x")}


def test_send_recv_nb_partial_exp_medium_and_short_exp(couple):
    sender, receiver = couple
    buffers = [bytearray(9000), bytearray(8)]
    requests = [receive(receiver, buffers[0], 1), receive(receiver, buffers[1], 2)]
    sent = [send(sender, 2, b"quickly!"), send(sender, 1, b"m" * 9000)]
    for request in requests + sent:
        assert finish(request, sender, receiver) == OK
    assert buffers == [b"m" * 9000, b"quickly!"]


@pytest.mark.parametrize("length", [0, 8, PAYLOAD, 20_000])
def test_sync_send_unexp(couple, length):
    unmatched(*couple, length)


def test_sync_send_unexp_on_every_pair(pair):
    unmatched(*pair, 8)


def unmatched(sender, receiver, length):
    """Over when a receive has met it, and not when it has been probed, nor taken."""
    sent = ucp.ucp_tag_send_sync_nb(sender.ep, bytes(length), length, BYTE, 3, None)
    wait_for(lambda: ucp.ucp_tag_probe_nb(receiver.worker, 3, ALL, 0)[0], sender, receiver)
    message, info = ucp.ucp_tag_probe_nb(receiver.worker, 3, ALL, 1)
    for _ in range(20):
        sender.progress()
        receiver.progress()
    assert (info.length, sent.code) == (length, IN_PROGRESS)
    buffer = bytearray(b"x" * length)
    finish(ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, length, message, None), sender, receiver)
    assert finish(sent, sender, receiver) == OK
    assert buffer == bytes(length)


def test_sync_send_exp(couple):
    sender, receiver = couple
    buffer = bytearray(8)
    request = receive(receiver, buffer, 3)
    sent = ucp.ucp_tag_send_sync_nbx(sender.ep, b"matched!", 8, 3, None)
    assert finish(request, sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert buffer == b"matched!"


@pytest.mark.parametrize("length", [0, 8, 100_000])
def test_a_sync_send_to_oneself_is_not_over_before_its_receive(models, length):
    """Programs that have waited for the send ask once for the receive."""
    alone = Entity(models[0])
    alone.connect(alone)
    for _ in range(3):
        buffer = bytearray(length)
        request = ucp.ucp_tag_recv_nbx(alone.worker, buffer, length, 3, ALL, None)
        sent = ucp.ucp_tag_send_sync_nbx(alone.ep, b"x" * length, length, 3, None)
        assert finish(sent, alone) == OK
        assert request.code == OK
        assert buffer == b"x" * length


def test_messages_that_nobody_receives_stop_nothing_else(models):
    """Neither other senders' receives, nor puts, streams and active messages."""
    sender, receiver, other = Entity(models[0]), Entity(models[1]), Entity(models[0])
    for each in (sender, other):
        each.connect(receiver)
    arrive(sender, receiver, [(1, b"unwanted") for _ in range(200)])
    late = [send(sender, 1, b"unwanted") for _ in range(200)]
    for _ in range(50):
        sender.progress()  # the receiver does nothing: its slots fill
    memory = bytearray(8)
    memh = ucp.ucp_mem_map(receiver.context, ucp.ucp_mem_map_params_t(address=memory, length=8))
    rkey = ucp.ucp_ep_rkey_unpack(sender.ep, ucp.ucp_rkey_pack(receiver.context, memh)[0])
    attr = ucp.ucp_mem_query(memh, ucp.ucp_mem_attr_t())
    put = ucp.ucp_put_nbx(sender.ep, b"put here", 8, attr.address, rkey, None)
    wait_for(lambda: memory == b"put here", sender)
    finish(put, sender)
    buffer = bytearray(8)
    request = receive(receiver, buffer, 2)
    send(other, 2, b"wanted!!")
    assert finish(request, other, receiver) == OK
    stream = bytearray(8)
    received = ucp.ucp_stream_recv_nbx(
        receiver.connect(sender), stream, 8, ucp.ucp_request_param_t(flags=ucp.UCP_STREAM_RECV_FLAG_WAITALL)
    )[0]
    finish(ucp.ucp_stream_send_nbx(sender.ep, b"streamed", 8, None), sender, receiver)
    assert finish(received, sender, receiver) == OK
    assert (buffer, stream) == (b"wanted!!", b"streamed")
    taken = 0
    while taken < 400:
        taken += finish(receive(receiver, bytearray(8), 1), sender, receiver) == OK
    for request in late:
        assert finish(request, sender, receiver) == OK


@pytest.mark.parametrize("length", [8, 6000])
def test_a_hundred_messages_are_received_from_the_last_to_the_first(couple, length):
    sender, receiver = couple
    requests = arrive(sender, receiver, [(tag, bytes([tag]) * length) for tag in range(100)])
    for tag in range(99, -1, -1):
        buffer = bytearray(length)
        assert finish(receive(receiver, buffer, tag), sender, receiver) == OK
        assert buffer == bytes([tag]) * length
    for request in requests:
        assert finish(request, sender, receiver) == OK


def test_more_than_the_nic_keeps_on_every_pair(pair):
    """Messages that come too early, and receives that wait, from the last to the first."""
    sender, receiver = pair
    count = receiver.worker.nic.parameters.receives + 8
    for tag in range(count):
        send(sender, tag, bytes([tag]))
    wait_for(lambda: ucp.ucp_tag_probe_nb(receiver.worker, count - 1, ALL, 0)[0], sender, receiver)
    for tag in range(count - 1, -1, -1):
        buffer = bytearray(1)
        assert receive(receiver, buffer, tag) is None
        assert buffer[0] == tag
    buffers = [bytearray(1) for _ in range(count)]
    requests = [receive(receiver, buffer, tag) for tag, buffer in enumerate(buffers)]
    for tag in range(count - 1, -1, -1):
        send(sender, tag, bytes([tag]))
    for request in requests:
        assert finish(request, sender, receiver) == OK
    assert b"".join(buffers) == bytes(range(count))


def test_a_thousand_receives_wait_and_the_last_is_met_first(couple):
    sender, receiver = couple
    buffers = [bytearray(2) for _ in range(1000)]
    requests = [receive(receiver, buffer, tag) for tag, buffer in enumerate(buffers)]
    for tag in range(999, -1, -1):
        finish(send(sender, tag, tag.to_bytes(2, "big")), sender, receiver)
        assert finish(requests[tag], sender, receiver) == OK
    assert [int.from_bytes(buffer, "big") for buffer in buffers] == list(range(1000))


def test_a_freed_request_receives_and_tells_nobody(couple):
    sender, receiver = couple
    told = []
    buffer = bytearray(4)
    request = receive(receiver, buffer, 1, cb=lambda *args: told.append(args))
    ucp.ucp_request_free(request)
    send(sender, 1, b"here")
    wait_for(lambda: buffer == b"here", sender, receiver)
    wait_for(lambda: request.done, sender, receiver)
    assert told == []


def test_a_receive_that_must_be_over_at_once_takes_nothing_if_it_cannot(couple):
    sender, receiver = couple
    forced = ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
    for tag, length in ((1, 8), (2, 10_000)):
        buffer = bytearray(length)
        with pytest.raises(UcsError) as refused:
            receive(receiver, buffer, tag, op_attr_mask=forced)
        assert refused.value.status == ucp.UcsStatus.UCS_ERR_NO_RESOURCE
        sent = arrive(sender, receiver, [(tag, bytes([tag]) * length)])
        if length > PAYLOAD:
            with pytest.raises(UcsError) as refused:
                receive(receiver, buffer, tag, op_attr_mask=forced)
            assert refused.value.status == ucp.UcsStatus.UCS_ERR_NO_RESOURCE
            finish(receive(receiver, buffer, tag), sender, receiver)
        else:
            assert receive(receiver, buffer, tag, op_attr_mask=forced) is None
        finish(sent[0], sender, receiver)
        assert buffer == bytes([tag]) * length


def test_a_send_that_must_be_over_at_once_sends_nothing_if_it_cannot(couple):
    sender, receiver = couple
    forced = ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
    with pytest.raises(UcsError) as refused:
        send(sender, 1, bytes(10_000), op_attr_mask=forced)
    assert refused.value.status == ucp.UcsStatus.UCS_ERR_NO_RESOURCE
    sent = 0
    with contextlib.suppress(ucp.UcsNoResourceError):
        while sent < 1000:
            assert send(sender, 1, b"short", op_attr_mask=forced) is None
            sent += 1
    settle(sender, receiver)
    got = 0
    while ucp.ucp_tag_probe_nb(receiver.worker, 1, ALL, 0)[0]:
        assert receive(receiver, bytearray(5), 1) is None
        got += 1
        settle(sender, receiver)
    assert got == sent
    assert 0 < sent < 1000


def test_without_immediate_completion_callbacks_run_once_each(couple):
    sender, receiver = couple
    told = []
    flag = ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL | ucp.UCP_OP_ATTR_FIELD_CALLBACK
    sent = send(sender, 1, b"data", op_attr_mask=flag, cb=lambda *args: told.append(args))
    assert sent is not None
    finish(sent, sender, receiver)
    settle(sender, receiver)
    buffer = bytearray(4)
    request = receive(receiver, buffer, 1, op_attr_mask=flag, cb=lambda *args: told.append(args))
    assert request is not None
    finish(request, sender, receiver)
    settle(sender, receiver)
    assert told == [(sent, OK, None), (request, OK, ucp.ucp_tag_recv_info_t(1, 4), None)]
    old = ucp.ucp_tag_recv_nb(receiver.worker, buffer, 4, BYTE, 1, ALL, lambda *args: told.append(args))
    assert old.code == IN_PROGRESS
    send(sender, 1, b"more")
    finish(old, sender, receiver)
    assert told[2:] == [(old, OK, ucp.ucp_tag_recv_info_t(1, 4))]


def test_requests_of_ones_own_are_polled(couple):
    sender, receiver = couple
    own = ucp.ucp_request_alloc(receiver.worker)
    buffer = bytearray(4)
    assert ucp.ucp_tag_recv_nbr(receiver.worker, buffer, 4, BYTE, 7, ALL, own) == IN_PROGRESS
    assert ucp.ucp_tag_recv_request_test(own)[0] == IN_PROGRESS
    assert ucp.ucp_tag_send_nbr(sender.ep, b"here", 4, BYTE, 7, ucp.ucp_request_alloc(sender.worker)) == OK
    wait_for(lambda: ucp.ucp_request_check_status(own) == OK, sender, receiver)
    assert ucp.ucp_tag_recv_request_test(own) == (OK, ucp.ucp_tag_recv_info_t(7, 4))
    assert ucp.ucp_request_test(own) == (OK, ucp.ucp_tag_recv_info_t(7, 4))
    own = ucp.ucp_request_alloc(sender.worker)
    assert ucp.ucp_tag_send_nbr(sender.ep, bytes(9000), 9000, BYTE, 7, own) == IN_PROGRESS
    finish(receive(receiver, bytearray(9000), 7), sender, receiver)
    wait_for(lambda: ucp.ucp_request_check_status(own) == OK, sender, receiver)


WRONG = [
    lambda s, r: ucp.ucp_tag_send_nbx(s.worker, b"", 0, 0, None),
    lambda s, r: ucp.ucp_tag_send_nbx(s.ep, b"", 1, 0, None),
    lambda s, r: ucp.ucp_tag_send_nbx(s.ep, b"", 0, 1 << 64, None),
    lambda s, r: ucp.ucp_tag_send_nbx(s.ep, b"", 0, -1, None),
    lambda s, r: ucp.ucp_tag_send_nbx(s.ep, b"", 0, 1.0, None),
    lambda s, r: ucp.ucp_tag_send_nbx(s.ep, b"", 0, 0, "param"),
    lambda s, r: ucp.ucp_tag_send_nb(s.ep, b"", 0, 8, 0, "callback"),
    lambda s, r: ucp.ucp_tag_recv_nbx(r.ep, bytearray(1), 1, 0, 0, None),
    lambda s, r: ucp.ucp_tag_recv_nbx(r.worker, b"readonly", 8, 0, 0, None),
    lambda s, r: ucp.ucp_tag_recv_nbx(r.worker, bytearray(1), 2, 0, 0, None),
    lambda s, r: ucp.ucp_tag_recv_nbx(r.worker, bytearray(1), 1, 1 << 64, 0, None),
    lambda s, r: ucp.ucp_tag_recv_nbx(r.worker, bytearray(1), 1, 0, 1 << 64, None),
    lambda s, r: ucp.ucp_tag_probe_nb(r.worker, 0, -1, 0),
    lambda s, r: ucp.ucp_tag_msg_recv_nbx(r.worker, bytearray(1), 1, None, None),
    lambda s, r: ucp.ucp_tag_recv_request_test(None),
]


@pytest.mark.parametrize("call", WRONG)
def test_wrong_arguments_are_refused_and_nothing_is_sent_nor_received(couple, call):
    sender, receiver = couple
    with pytest.raises(UcsError) as refused:
        call(sender, receiver)
    assert refused.value.status == ucp.UcsStatus.UCS_ERR_INVALID_PARAM
    settle(sender, receiver)
    assert ucp.ucp_tag_probe_nb(receiver.worker, 0, 0, 0) == (None, None)
    assert receiver.worker.receives.posted == 0


def test_without_the_feature_every_call_is_refused(models):
    sender = Entity(models[0], ucp.UCP_FEATURE_RMA)
    receiver = Entity(models[1])
    sender.connect(receiver)
    for call in (
        lambda: send(sender, 1, b"x"),
        lambda: receive(sender, bytearray(1), 1),
        lambda: ucp.ucp_tag_probe_nb(sender.worker, 1, 1, 0),
    ):
        with pytest.raises(UcsError) as refused:
            call()
        assert refused.value.status == ucp.UcsStatus.UCS_ERR_INVALID_PARAM


def test_shorter_messages_are_read_if_the_threshold_says_so(models):
    config = ucp.ucp_config_read(None, None)
    ucp.ucp_config_modify(config, "RNDV_THRESH", "100")
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_TAG), config, adapter=models[0])
    sender.worker = ucp.ucp_worker_create(sender.context, ucp.ucp_worker_params_t())
    sender.connect(receiver)
    assert send(sender, 1, bytes(99)) is None
    sent = send(sender, 1, b"l" * 100)
    settle(sender, receiver)
    assert sent.code == IN_PROGRESS
    buffers = [bytearray(100), bytearray(100)]
    for buffer in buffers:
        assert finish(receive(receiver, buffer, 1), sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert buffers == [bytes(100), b"l" * 100]


@pytest.mark.parametrize("length", range(10))
def test_a_few_bytes_are_sent_as_they_are(couple, length):
    """Without a structure, which is the shortest way; also fewer than the buffer has."""
    sender, receiver = couple
    for buffer in (b"0123456789", bytearray(b"0123456789"), memoryview(b"0123456789")):
        finish(send(sender, 1, b"opens the lane"), sender, receiver)
        assert ucp.ucp_tag_send_nbx(sender.ep, buffer, length, 2, None) is None
        got, info = bytearray(10), ucp.ucp_tag_recv_info_t()
        finish(receive(receiver, bytearray(14), 1), sender, receiver)
        wait_for(lambda: ucp.ucp_tag_probe_nb(receiver.worker, 2, ALL, 0)[0], sender, receiver)
        assert receive(receiver, got, 2, recv_info=info) is None
        assert (got[:length], info.length) == (b"0123456789"[:length], length)


@pytest.mark.parametrize("threshold", ["auto", "0"])
def test_length0(models, threshold):
    """No bytes need no buffer, and whatever is there is not looked at."""
    config = ucp.ucp_config_read(None, None)
    ucp.ucp_config_modify(config, "RNDV_THRESH", threshold)
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_TAG), config, adapter=models[0])
    sender.worker = ucp.ucp_worker_create(sender.context, ucp.ucp_worker_params_t())
    sender.connect(receiver)
    for expected, garbage in itertools.product((True, False), (None, object())):
        request = ucp.ucp_tag_recv_nb(receiver.worker, garbage, 0, BYTE, 1, ALL, None) if expected else None
        sent = ucp.ucp_tag_send_nbx(sender.ep, garbage, 0, 1, None)
        if request is None:
            settle(sender, receiver)
            request = ucp.ucp_tag_recv_nb(receiver.worker, garbage, 0, BYTE, 1, ALL, None)
        assert finish(request, sender, receiver) == OK
        assert finish(sent, sender, receiver) == OK
        assert request.info == ucp.ucp_tag_recv_info_t(1, 0)


@pytest.mark.parametrize("let_go", [ucp.ucp_request_free, ucp.ucp_request_release])
def test_send_recv_cb_release(couple, let_go):
    """A request may be given up in its own callback."""
    sender, receiver = couple
    told = []

    def over(request, *args):
        let_go(request)
        told.append(args[0])

    for length in (8, 9000):
        receive(receiver, bytearray(length), 1, cb=over)
        send(sender, 1, bytes(length), cb=over, op_attr_mask=ucp.UCP_OP_ATTR_FIELD_CALLBACK | NO_IMMEDIATE)
    wait_for(lambda: len(told) == 4, sender, receiver)
    assert told == [OK] * 4


def test_external_request_free(couple):
    """Requests of the application's own, which their callbacks free."""
    sender, receiver = couple
    told = []

    def over(request, *args):
        told.append(request)
        ucp.ucp_request_free(request)

    mask = ucp.UCP_OP_ATTR_FIELD_REQUEST | ucp.UCP_OP_ATTR_FIELD_CALLBACK | NO_IMMEDIATE
    own = [ucp.ucp_request_alloc(entity.worker) for entity in couple]
    buffer = bytearray(9000)
    assert receive(receiver, buffer, 1, request=own[1], cb=over, op_attr_mask=mask) is own[1]
    assert send(sender, 1, b"e" * 9000, request=own[0], cb=over, op_attr_mask=mask) is own[0]
    wait_for(lambda: len(told) == 2, sender, receiver)
    assert sorted(map(id, told)) == sorted(map(id, own))
    assert buffer == b"e" * 9000


def test_fallback(couple):
    """A mask of 0: bytes, also from memory that cannot be written."""
    sender, receiver = couple
    data = bytes(index * 7 % 251 for index in range(1 << 20))
    buffer = bytearray(len(data))
    request = receive(receiver, buffer, 1, op_attr_mask=0)
    sent = send(sender, 1, data, op_attr_mask=0, datatype=3)
    assert finish(request, sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert buffer == data


def test_bidir_multi_exp_post(couple):
    sizes = [0, 8, 100, PAYLOAD, PAYLOAD + 1, 30_000]
    buffers = [[bytearray(size) for size in sizes] for _ in couple]
    requests = [
        receive(entity, buffer, tag)
        for entity, own in zip(couple, buffers, strict=True)
        for tag, buffer in enumerate(own)
    ]
    for entity in couple:
        requests += [send(entity, tag, bytes([tag]) * size) for tag, size in enumerate(sizes)]
    for request in requests:
        assert finish(request, *couple) == OK
    for own in buffers:
        assert own == [bytes([tag]) * size for tag, size in enumerate(sizes)]


def test_send2_nb_recv_medium_wildcard(models):
    """Two senders at once: each receive gets one message, whole."""
    receiver = Entity(models[1])
    senders = [Entity(models[0]) for _ in range(2)]
    for sender in senders:
        sender.connect(receiver)
    for expected in (True, False):
        buffers = [bytearray(50_000) for _ in senders]
        requests = [receive(receiver, buffer, 0, 0) for buffer in buffers] if expected else []
        sent = [send(sender, tag + 1, bytes([tag + 1]) * 50_000) for tag, sender in enumerate(senders)]
        settle(receiver, *senders)
        requests = requests or [receive(receiver, buffer, 0, 0) for buffer in buffers]
        for request in requests + sent:
            assert finish(request, receiver, *senders) == OK
        assert sorted((min(buffer), max(buffer)) for buffer in buffers) == [(1, 1), (2, 2)]
