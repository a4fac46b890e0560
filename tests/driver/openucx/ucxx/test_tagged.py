"""Tagged messages: single ones, several buffers as one, probes, and receives that are taken back.

Covers ``openucx/ucxx/worker.py``.
"""

import amoeba.ucx as ucxx
import numpy as np
import pytest

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE, SIZES, pattern


def test_messages_of_every_size_arrive_whole(parties):
    for size in SIZES:
        sent, received = pattern(size, size), np.zeros(size, np.uint8)
        receive = parties.ba.tag_recv(received, 7)
        send = parties.ab.tag_send(sent, 7)
        assert send.result(PATIENCE) is None
        assert receive.result(PATIENCE) is received
        assert (received == sent).all()
        assert (receive.info.sender_tag, receive.info.length) == (7, size)


def test_messages_go_both_ways_on_every_pair_of_devices(everywhere):
    for size in (0, 16, 1 << 13):
        there, back = bytearray(size), bytearray(size)
        requests = [everywhere.ba.tag_recv(there, 1), everywhere.ab.tag_recv(back, 2)]
        requests += [everywhere.ab.tag_send(pattern(size, 1), 1), everywhere.ba.tag_send(pattern(size, 2), 2)]
        for request in requests:
            request.result(PATIENCE)
        assert there == bytes(pattern(size, 1))
        assert back == bytes(pattern(size, 2))


def test_a_receive_takes_the_message_whose_tag_matches_its_mask(parties):
    low, high = bytearray(4), bytearray(4)
    any_high = parties.b.tag_recv(high, ucxx.Tag(0xAB00), ucxx.TagMask(0xFF00))
    exact = parties.b.tag_recv(low, ucxx.Tag(0x00CD), ucxx.TagMaskFull)
    parties.ab.tag_send(b"low ", 0x00CD)
    parties.ab.tag_send(b"high", 0xAB12)
    assert any_high.result(PATIENCE) == b"high"
    assert any_high.info.sender_tag == 0xAB12
    assert exact.result(PATIENCE) == b"low "


def test_a_message_that_does_not_fit_ends_its_receive_with_its_status(parties):
    receive = parties.ba.tag_recv(bytearray(10), 3)
    parties.ab.tag_send(bytes(11), 3).result(PATIENCE)
    with pytest.raises(ucxx.UCXMessageTruncatedError) as raised:
        receive.result(PATIENCE)
    assert raised.value.status is ucxx.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
    assert receive.completed
    assert receive.is_completed()
    with pytest.raises(ucxx.UCXMessageTruncatedError):
        receive.check_error()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 40])
def test_several_buffers_arrive_as_one_whatever_their_sizes(parties, count):
    frames = [pattern(number * 37 % 5000, number) for number in range(count)]
    send = parties.ab.tag_send_multi(frames, 9)
    receive = parties.ba.tag_recv_multi(9)
    received = receive.result(PATIENCE)
    send.result(PATIENCE)
    assert [bytes(each) for each in received] == [bytes(each) for each in frames]
    assert receive.all_completed
    assert receive.is_completed()
    assert [bytes(each) for each in receive.py_buffers] == [bytes(each) for each in receive.get_py_buffers()]
    assert [each.py_buffer.nbytes for each in receive.get_requests()] == [each.nbytes for each in frames]


def test_receives_of_several_buffers_with_one_tag_alternate(parties):
    receives = [parties.ba.tag_recv_multi(9) for _ in range(3)]
    for number in range(3):
        parties.ab.tag_send_multi([bytes([number]) * size for size in (1, 3000)], 9)
    for number, receive in enumerate(receives):
        assert [bytes(each) for each in receive.result(PATIENCE)] == [bytes([number]), bytes([number]) * 3000]


def test_a_receive_of_several_buffers_can_be_taken_back_before_anything_came(parties):
    first, second = parties.ba.tag_recv_multi(9), parties.ba.tag_recv_multi(9)
    first.cancel()
    second.cancel()
    for each in (first, second):
        with pytest.raises(ucxx.UCXCanceledError):
            each.result(PATIENCE)
    parties.ab.tag_send_multi([b"later"], 9)
    assert [bytes(each) for each in parties.ba.tag_recv_multi(9).result(PATIENCE)] == [b"later"]


def test_what_claims_to_be_several_buffers_and_is_not_fails_that_receive_alone(parties):
    receive = parties.ba.tag_recv_multi(9)
    parties.ab.tag_send(b"short", 9)
    with pytest.raises(ucxx.UCXMessageTruncatedError):
        receive.result(PATIENCE)
    huge = np.zeros(8, np.uint64)
    huge[0] = 1 << 40
    receive = parties.ba.tag_recv_multi(9)
    parties.ab.tag_send(huge, 9)
    with pytest.raises(ucxx.UCXMessageTruncatedError):
        receive.result(PATIENCE)
    parties.ab.tag_send_multi([b"good"], 9)
    assert [bytes(each) for each in parties.ba.tag_recv_multi(9).result(PATIENCE)] == [b"good"]


def _probed(worker, tag, remove=False):
    for _ in range(10_000):
        worker.progress()
        found = worker.tag_probe(tag, remove=remove)
        if found.matched:
            return found
    raise AssertionError("no message has come")


@pytest.mark.parametrize("size", [0, 100, 2**18])
def test_a_probe_tells_of_a_message_and_keeps_it_for_its_handle(parties, size):
    assert parties.b.tag_probe(5) == (False, 0, 0, None)
    send = parties.ab.tag_send(pattern(size), 5)
    for _ in range(3):
        parties.a.progress()
    found = _probed(parties.b, 5)
    assert (found.sender_tag, found.length, found.handle) == (5, size, None)
    taken = _probed(parties.b, 5, remove=True)
    assert not parties.b.tag_probe(5).matched
    receive = parties.ba.tag_recv_with_handle(bytearray(size), taken)
    assert receive.result(PATIENCE) == bytes(pattern(size))
    send.result(PATIENCE)


def test_a_handle_of_a_probe_that_removed_nothing_is_refused(parties):
    parties.ab.tag_send(b"here", 5)
    with pytest.raises(ucxx.UCXInvalidParamError, match="remove=True"):
        parties.b.tag_recv_with_handle(bytearray(4), _probed(parties.b, 5))


def test_receives_that_met_nothing_are_taken_back_and_what_comes_later_is_for_others(parties):
    buffers = [bytearray(4) for _ in range(3)]
    receives = [parties.ba.tag_recv(each, 5) for each in buffers]
    assert parties.b.cancel_inflight_requests() == 3
    for each in receives:
        with pytest.raises(ucxx.UCXCanceledError):
            each.result(PATIENCE)
    assert parties.b.cancel_inflight_requests() == 0
    parties.ab.tag_send(b"data", 5)
    assert parties.ba.tag_recv(bytearray(4), 5).result(PATIENCE) == b"data"
    assert buffers == [bytes(4)] * 3


def test_buffers_that_cannot_serve_are_refused_and_nothing_is_sent(parties):
    for buffer in (np.zeros((4, 4))[:, ::2], "text", None, 5, [1, 2]):
        with pytest.raises(ucxx.UCXInvalidParamError):
            parties.ab.tag_send(buffer, 1)
    for buffer in (b"read only", np.zeros(8)[::2]):
        with pytest.raises(ucxx.UCXInvalidParamError):
            parties.ba.tag_recv(buffer, 1)
    parties.ab.tag_send(b"sent", 1)
    receive = parties.ba.tag_recv(bytearray(4), 1)
    assert receive.result(PATIENCE) == b"sent"


def test_objects_with_an_array_interface_alone_are_sent_in_place(parties):
    class Vector:
        def __init__(self, array):
            self.array = array

        @property
        def __array_interface__(self):
            return self.array.__array_interface__

    class Device:
        __cuda_array_interface__ = {}

    values, received = np.arange(100.0), np.zeros(100)
    parties.ab.tag_send(Vector(values), 1)
    assert (parties.ba.tag_recv(ucxx.Array(received), 1).result(PATIENCE).obj == values).all()
    assert (received == values).all()
    with pytest.raises(ucxx.UCXInvalidParamError, match="GPU"):
        parties.ab.tag_send(Device(), 1)


def test_a_buffer_lives_until_its_message_is_delivered(parties):
    import gc
    import weakref

    class Kept(np.ndarray):
        pass

    buffer = np.full(2**18, 7, np.uint8).view(Kept)
    known = weakref.ref(buffer)
    send = parties.ab.tag_send(buffer, 1)
    del buffer
    gc.collect()
    assert known() is not None
    assert parties.ba.tag_recv(bytearray(2**18), 1).result(PATIENCE) == bytes([7]) * 2**18
    send.result(PATIENCE)


def test_waiting_has_an_end_and_the_operation_goes_on(parties):
    receive = parties.ba.tag_recv(bytearray(4), 5)
    with pytest.raises(ucxx.UCXTimedOutError):
        receive.result(0.05)
    assert not receive.completed
    assert receive.status is ucxx.UcsStatus.UCS_INPROGRESS
    parties.ab.tag_send(b"late", 5)
    assert receive.result(PATIENCE) == b"late"


def test_two_workers_of_one_context_have_messages_of_their_own(models):
    with ucxx.Context(adapter=models[0]) as context, ucxx.Context(adapter=models[1]) as other:
        first, second, sender = ucxx.Worker(context), ucxx.Worker(context), ucxx.Worker(other)
        receives = [worker.tag_recv(bytearray(6), 1) for worker in (first, second)]
        for worker, text in ((second, b"second"), (first, b"first ")):
            ucxx.Endpoint.create_from_worker_address(sender, worker.address).tag_send(text, 1)
        assert [each.result(PATIENCE) for each in receives] == [b"first ", b"second"]
        for worker in (first, second, sender):
            worker.close()
