"""UCX's test_ucp_tag_cancel: receives that are taken back."""

import amoeba.ucp as ucp
import pytest

from tests.driver.openucx.ucp.entities import finish, wait_for
from tests.driver.openucx.ucp.tagged import BYTE, OK, couple_of, receive, send, settle

CANCELED = ucp.UcsStatus.UCS_ERR_CANCELED


@pytest.fixture
def couple(models):
    """(sender, receiver) on models."""
    return couple_of(models)


def test_cancel_exp(pair):
    """The receive is over when the call returns: its callback was called once, and the buffer stays as it is."""
    sender, receiver = pair
    told = []
    buffer = bytearray(b"keep")
    request = receive(receiver, buffer, 1, cb=lambda *args: told.append(args[:2]))
    ucp.ucp_request_cancel(receiver.worker, request)
    assert request.code == CANCELED
    assert told == [(request, CANCELED)]
    send(sender, 1, b"next")
    later = bytearray(4)
    assert finish(receive(receiver, later, 1), sender, receiver) == OK
    assert (buffer, later, len(told)) == (b"keep", b"next", 1)


def test_cancel_of_what_is_held(couple):
    """More than the NIC keeps: each is taken back, and the others are met."""
    sender, receiver = couple
    buffers = [bytearray(1) for _ in range(150)]
    requests = [receive(receiver, buffer, tag) for tag, buffer in enumerate(buffers)]
    for tag in range(0, 150, 3):
        ucp.ucp_request_cancel(receiver.worker, requests[tag])
        assert requests[tag].code == CANCELED
    for tag in range(150):
        send(sender, tag, b"!")
    for tag in range(150):
        if tag % 3:
            assert finish(requests[tag], sender, receiver) == OK
    assert [bytes(buffer) for buffer in buffers] == [b"!" if tag % 3 else b"\0" for tag in range(150)]


def test_cancel_of_what_was_met(couple):
    """Too late: it has its message."""
    sender, receiver = couple
    buffer = bytearray(4)
    request = receive(receiver, buffer, 1)
    send(sender, 1, b"here")
    for _ in range(50):
        sender.progress()  # it lies there, and the receiver does not know it yet
    ucp.ucp_request_cancel(receiver.worker, request)
    assert finish(request, sender, receiver) == OK
    assert buffer == b"here"
    ucp.ucp_request_cancel(receiver.worker, request)
    assert request.code == OK


def test_cancel_of_a_long_message_in_flight(couple):
    sender, receiver = couple
    buffer = bytearray(200_000)
    request = receive(receiver, buffer, 1)
    sent = send(sender, 1, b"l" * 200_000)
    for _ in range(50):
        sender.progress()
    receiver.worker.dispatch.progress()
    ucp.ucp_request_cancel(receiver.worker, request)
    assert finish(request, sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert buffer == b"l" * 200_000


def test_cancel_inside_a_callback(couple):
    sender, receiver = couple
    others = [receive(receiver, bytearray(4), 2) for _ in range(3)]

    def first(request, status, info, user_data):
        for other in others:
            ucp.ucp_request_cancel(receiver.worker, other)

    request = receive(receiver, bytearray(4), 1, cb=first)
    send(sender, 1, b"stop")
    assert finish(request, sender, receiver) == OK
    assert [other.code for other in others] == [CANCELED] * 3


def test_cancel_of_a_send_does_nothing(couple):
    sender, receiver = couple
    sent = send(sender, 1, bytes(9000))
    ucp.ucp_request_cancel(sender.worker, sent)
    buffer = bytearray(b"x" * 9000)
    assert finish(receive(receiver, buffer, 1), sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert buffer == bytes(9000)


def test_a_worker_that_is_destroyed_cancels_its_receives(couple):
    _, receiver = couple
    told = []
    requests = [receive(receiver, bytearray(8), tag, cb=lambda *args: told.append(args[1])) for tag in range(100)]
    ucp.ucp_worker_destroy(receiver.worker)
    assert {request.code for request in requests} == {CANCELED}
    assert told == [CANCELED] * 100


def test_a_generic_datatype_is_finished_once_when_its_receive_is_cancelled(couple):
    _, receiver = couple
    finished = []
    datatype = ucp.ucp_dt_create_generic(
        ucp.ucp_generic_dt_ops_t(
            start_pack=lambda context, buffer, count: buffer,
            start_unpack=lambda context, buffer, count: buffer,
            packed_size=lambda state: 8,
            pack=lambda state, offset, dest, space: 0,
            unpack=lambda state, offset, src, length: None,
            finish=finished.append,
        )
    )
    request = receive(receiver, "state", 1, datatype=datatype)
    ucp.ucp_request_cancel(receiver.worker, request)
    assert (request.code, finished) == (CANCELED, ["state"])
    receive(receiver, "other", 1, datatype=datatype)
    ucp.ucp_worker_destroy(receiver.worker)
    assert finished == ["state", "other"]


def test_a_sender_hears_nothing_of_receives_that_were_cancelled(couple):
    sender, receiver = couple
    request = receive(receiver, bytearray(8), 1)
    ucp.ucp_request_cancel(receiver.worker, request)
    sent = ucp.ucp_tag_send_sync_nb(sender.ep, b"matched?", 8, BYTE, 1, None)
    settle(sender, receiver)
    assert not sent.done
    buffer = bytearray(8)
    finish(receive(receiver, buffer, 1), sender, receiver)
    wait_for(lambda: sent.done, sender, receiver)
    assert (sent.code, buffer) == (OK, b"matched?")
