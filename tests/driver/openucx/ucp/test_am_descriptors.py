"""Descriptors of active messages: kept, received, released, and used once.

Covers ``openucx/ucp/active_messages.py``.
"""

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.am_sends import MAX_EAGER

from tests.driver.openucx.ucp.am_messages import EAGER, ID, IN_PROGRESS, IS_RNDV, OK, RNDV, Messages, keep, send
from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_streams import bytes_of_seed

# Descriptors


def test_what_a_handler_says_of_a_rendezvous_reaches_the_sender(two):
    sender, receiver = two
    ended = []
    came = Messages(receiver, lambda came: ucp.UcsStatus.UCS_ERR_REJECTED)
    request = send(sender.ep, bytes(200), flags=RNDV, cb=lambda *given: ended.append(given), user_data="mine")
    assert finish(request, *two) == ucp.UcsStatus.UCS_ERR_REJECTED
    assert ended == [(request, ucp.UcsStatus.UCS_ERR_REJECTED, "mine")]
    came.verdict = lambda came: OK
    assert finish(send(sender.ep, bytes(200), flags=RNDV), *two) == OK
    with pytest.raises(ucp.UcsInvalidParamError):
        came.receive()
    came.verdict = lambda came: None
    assert finish(send(sender.ep, bytes(200), flags=RNDV), *two) == OK


def test_a_descriptor_is_used_once(two):
    """invalid_recv_desc: also where the receive fails; within the handler or later."""
    sender, receiver = two
    received = []

    def at_once(came):
        received.append(came.receive())
        return IN_PROGRESS

    came = Messages(receiver, at_once)
    request = send(sender.ep, bytes_of_seed(1, 500), flags=RNDV)
    assert finish(request, *two) == OK
    [(got, buffer)] = received
    assert finish(got, *two) == OK
    assert buffer == bytes_of_seed(1, 500)
    came.verdict = keep
    came.came.clear()
    request = send(sender.ep, bytes(500), flags=RNDV)
    wait_for(lambda: came.came, *two)
    with pytest.raises(ucp.UcsMessageTruncatedError):
        came.receive(499)
    assert finish(request, *two) == OK
    for again in (came.receive, lambda: ucp.ucp_am_data_release(receiver.worker, came.data)):
        with pytest.raises(ucp.UcsInvalidParamError):
            again()
    for wrong in (None, 5, b"x", object()):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_am_recv_data_nbx(receiver.worker, wrong, bytearray(1), 1, None)


def test_a_count_of_0_gives_the_data_up(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    request = send(sender.ep, bytes(500), flags=RNDV)
    wait_for(lambda: came.came, *two)
    assert ucp.ucp_am_recv_data_nbx(receiver.worker, came.data, None, 0, None) is None
    assert finish(request, *two) == OK


def test_kept_data_can_be_received_and_tells_its_length(two):
    sender, receiver = two
    came = Messages(receiver, keep, flags=ucp.UCP_AM_FLAG_PERSISTENT_DATA)
    send(sender.ep, b"12345678")
    wait_for(lambda: came.came, *two)
    info = ucp.ucp_tag_recv_info_t()
    request, buffer = came.receive(20, recv_info=info)
    assert request is None
    assert info.length == 8
    assert buffer[:8] == b"12345678"


def test_the_callback_of_a_receive_is_told_the_length(two):
    sender, receiver = two
    came, told = Messages(receiver, keep), []
    send(sender.ep, bytes(700), flags=RNDV)
    wait_for(lambda: came.came, *two)
    request, _ = came.receive(1000, cb=lambda *given: told.append(given), user_data="mine")
    finish(request, *two)
    assert told == [(request, OK, 700, "mine")]


def test_forced_calls_that_cannot_be_over_at_once_do_nothing(two):
    sender, receiver = two
    forced = {"op_attr_mask": ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL}
    with pytest.raises(ucp.UcsNoResourceError):
        send(sender.ep, bytes(5000), **forced)
    assert send(sender.ep, bytes(4000), **forced) is None
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    request = send(sender.ep, bytes_of_seed(1, 300), flags=RNDV)
    wait_for(lambda: came.came and came.attr == IS_RNDV, *two)
    with pytest.raises(ucp.UcsNoResourceError):
        came.receive(**forced)
    received, buffer = came.receive()
    assert finish(received, *two) == finish(request, *two) == OK
    assert buffer == bytes_of_seed(1, 300)


def test_data_that_was_not_given_to_keep_cannot_be_kept(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    send(sender.ep, b"short")
    with pytest.raises(ucp.UcsInvalidParamError, match="keep"):
        wait_for(lambda: len(came.came) == 2, *two)
    came.verdict = lambda came: OK
    send(sender.ep, b"next")
    wait_for(lambda: len(came.came) == 2, *two)


def test_a_handler_that_raises_leaves_everything_usable(two):
    sender, receiver = two

    def raising(came):
        raise KeyError("mine")

    came = Messages(receiver, raising)
    for flags in (EAGER, RNDV):
        request = send(sender.ep, bytes(100), flags=flags)
        with pytest.raises(KeyError, match="mine"):
            wait_for(lambda: False, *two)
        assert finish(request, *two) == OK
    came.verdict = lambda came: OK
    send(sender.ep, b"next")
    wait_for(lambda: came.came, *two)


def test_calls_check_before_they_act(two):
    sender, receiver = two
    for call in (
        lambda: send(sender.ep, b"x", number=65536),
        lambda: send(sender.ep, b"x", number=-1),
        lambda: ucp.ucp_am_send_nbx(sender.ep, ID, b"h", 2, b"x", 1, None),
        lambda: ucp.ucp_am_send_nbx(sender.ep, ID, None, 0, b"x", 2, None),
        lambda: ucp.ucp_am_send_nbx(receiver.worker, ID, None, 0, b"x", 1, None),
        lambda: ucp.ucp_worker_set_am_handler(receiver.worker, ID, None, None, 1 << 31),
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            call()
    with pytest.raises(ucp.UcsExceedsLimitError):
        send(sender.ep, bytes(MAX_EAGER + 1), flags=EAGER)
    other = Entity(receiver.adapter, ucp.UCP_FEATURE_STREAM)
    ep = other.connect(sender)
    with pytest.raises(ucp.UcsInvalidParamError, match="AM"):
        send(ep, b"x")
    assert sender.worker.rings.outstanding == 0
    assert not sender.ep.wired
