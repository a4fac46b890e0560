"""UCX's test_ucp_tag_probe: messages that have come and that no receive has met.

Covers ``openucx/ucp/calls/tags.py``.
"""

import amoeba.ucp as ucp
import pytest

from tests.driver.openucx.ucp.entities import finish, wait_for
from tests.driver.openucx.ucp.tagged import BYTE, IN_PROGRESS, OK, PAYLOAD, arrive, couple_of, probe, receive, send

LENGTHS = [8, PAYLOAD, 60_000]


@pytest.fixture
def couple(models):
    """(sender, receiver) on models."""
    return couple_of(models)


def test_send_probe(pair):
    """A probe does not take; with remove it does."""
    sender, receiver = pair
    send(sender, 0x111337, b"12345678")
    wait_for(lambda: probe(receiver, 0x1337, 0xFFFF)[0], sender, receiver)
    for _ in range(2):
        message, info = probe(receiver, 0x1337, 0xFFFF)
        assert (message is not None, info) == (True, ucp.ucp_tag_recv_info_t(0x111337, 8))
    assert probe(receiver, 0x1338, 0xFFFF) == (None, None)
    message, info = probe(receiver, 0x1337, 0xFFFF, remove=True)
    assert info == ucp.ucp_tag_recv_info_t(0x111337, 8)
    assert probe(receiver, 0, 0) == (None, None)
    buffer = bytearray(8)
    told = []
    request = ucp.ucp_tag_msg_recv_nb(receiver.worker, buffer, 8, BYTE, message, lambda *args: told.append(args))
    assert finish(request, sender, receiver) == OK
    assert (buffer, told) == (b"12345678", [(request, OK, info)])


@pytest.mark.parametrize("length", LENGTHS)
def test_send_medium_msg_probe(pair, length):
    sender, receiver = pair
    data = bytes(index * 7 % 251 for index in range(length))
    sent = send(sender, 5, data)
    wait_for(lambda: probe(receiver, 5)[0], sender, receiver)
    message, info = probe(receiver, 5, remove=True)
    assert info == ucp.ucp_tag_recv_info_t(5, length)
    buffer = bytearray(length)
    assert finish(ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, length, message, None), sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert buffer == data


@pytest.mark.parametrize("length", LENGTHS)
def test_send_medium_msg_probe_truncated(couple, length):
    sender, receiver = couple
    arrive(sender, receiver, [(5, bytes(length))])
    message, _ = probe(receiver, 5, remove=True)
    buffer = bytearray(b"x" * (length - 1))
    flag = ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
    param = ucp.ucp_request_param_t(op_attr_mask=flag)
    request = ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, length - 1, message, param)
    assert finish(request, sender, receiver) == ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
    assert ucp.ucp_tag_recv_request_test(request)[1] == ucp.ucp_tag_recv_info_t(5, length)
    assert set(buffer) == {ord("x")}


def test_send_2_msg_probe(couple):
    """Messages that were removed are received in any order, and receives go past them."""
    sender, receiver = couple
    arrive(sender, receiver, [(1, b"one!"), (1, b"two!"), (1, bytes(9000)), (1, b"last")])
    messages = [probe(receiver, 1, remove=True)[0] for _ in range(3)]
    buffer = bytearray(4)
    assert receive(receiver, buffer, 1) is None
    assert buffer == b"last"
    for message, data in ((messages[1], b"two!"), (messages[2], bytes(9000)), (messages[0], b"one!")):
        buffer = bytearray(len(data))
        finish(ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, len(data), message, None), sender, receiver)
        assert buffer == data


def test_limited_probe_size(couple):
    """One call of progress does not take all that is to come, and a probe takes nothing more."""
    sender, receiver = couple
    requests = [send(sender, 1, b"unexpected") for _ in range(1000)]
    for _ in range(300):
        sender.progress()
    assert probe(receiver, 1) == (None, None)
    receiver.progress()
    found = 0
    while probe(receiver, 1, remove=True)[0]:
        found += 1
    assert 0 < found <= 128
    for _ in range(1000 - found):
        assert finish(receive(receiver, bytearray(10), 1), sender, receiver) == OK
    for request in requests:
        assert finish(request, sender, receiver) == OK
    assert probe(receiver, 1) == (None, None)


def test_a_message_is_received_once(couple):
    sender, receiver = couple
    arrive(sender, receiver, [(1, b"once")])
    flag, _ = probe(receiver, 1)
    message, _ = probe(receiver, 1, remove=True)
    finish(ucp.ucp_tag_msg_recv_nbx(receiver.worker, bytearray(4), 4, message, None), sender, receiver)
    for used in (message, flag):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_tag_msg_recv_nbx(receiver.worker, bytearray(4), 4, used, None)


def test_a_message_of_another_worker_is_refused_and_kept(couple):
    sender, receiver = couple
    arrive(sender, receiver, [(1, b"mine")])
    message, _ = probe(receiver, 1, remove=True)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_tag_msg_recv_nbx(sender.worker, bytearray(4), 4, message, None)
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_tag_msg_recv_nbx(receiver.worker, b"read", 4, message, None)
    buffer = bytearray(4)
    assert ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, 4, message, None) is None
    assert buffer == b"mine"


def test_a_long_message_that_must_be_over_at_once_can_be_received_later(couple):
    sender, receiver = couple
    arrive(sender, receiver, [(1, b"l" * 9000)])
    message, _ = probe(receiver, 1, remove=True)
    buffer = bytearray(9000)
    param = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
    with pytest.raises(ucp.UcsNoResourceError):
        ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, 9000, message, param)
    finish(ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, 9000, message, None), sender, receiver)
    assert buffer == b"l" * 9000


def test_what_was_taken_over_is_probed_in_order(couple):
    sender, receiver = couple
    arrive(sender, receiver, [(index % 2, bytes([index])) for index in range(150)])
    for index in range(0, 150, 2):
        message, info = probe(receiver, 0, remove=True)
        assert info == ucp.ucp_tag_recv_info_t(0, 1)
        buffer = bytearray(1)
        assert ucp.ucp_tag_msg_recv_nbx(receiver.worker, buffer, 1, message, None) is None
        assert buffer[0] == index
    buffer = bytearray(1)
    assert receive(receiver, buffer, 0, 0) is None
    assert buffer[0] == 1


def test_a_removed_message_that_nobody_receives_ends_at_its_sender(couple):
    """The receiver is destroyed: nobody will read it."""
    sender, receiver = couple
    (sent,) = arrive(sender, receiver, [(1, bytes(9000))])
    probe(receiver, 1, remove=True)
    assert sent.code == IN_PROGRESS
    ucp.ucp_worker_destroy(receiver.worker)
    assert finish(sent, sender) != OK
