"""Active messages and streams.

Covers ``openucx/ucxx/active_messages.py``, ``openucx/ucxx/buffers.py``, ``openucx/ucxx/context.py``,
``openucx/ucxx/endpoint.py`` and ``openucx/ucxx/frames.py``.
"""

import amoeba.ucx as ucxx
import numpy as np
import pytest

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE, SIZES, pattern


def test_active_messages_of_every_size_arrive_in_order(parties):
    sends = [parties.ab.am_send(pattern(size, size)) for size in SIZES]
    for size in SIZES:
        received = parties.ba.am_recv().result(PATIENCE)
        assert received.nbytes == size
        assert bytes(received) == bytes(pattern(size, size))
    for each in sends:
        each.result(PATIENCE)


def test_receives_posted_first_get_messages_in_their_order(parties):
    receives = [parties.ba.am_recv() for _ in SIZES]
    for size in reversed(SIZES):
        parties.ab.am_send(pattern(size, size))
    for size, receive in zip(reversed(SIZES), receives, strict=True):
        assert bytes(receive.result(PATIENCE)) == bytes(pattern(size, size))


def test_active_messages_go_both_ways_on_every_pair_of_devices(everywhere):
    for size in (0, 16, 1 << 13):
        everywhere.ab.am_send(pattern(size, 1))
        everywhere.ba.am_send(pattern(size, 2))
        assert bytes(everywhere.ba.am_recv().result(PATIENCE)) == bytes(pattern(size, 1))
        assert bytes(everywhere.ab.am_recv().result(PATIENCE)) == bytes(pattern(size, 2))


def test_a_probe_tells_whether_a_message_waits(parties):
    assert not parties.ba.am_probe()
    parties.ab.am_send(b"one").result(PATIENCE)
    while not parties.ba.am_probe():
        parties.b.progress()
    assert bytes(parties.ba.am_recv().result(PATIENCE)) == b"one"
    assert not parties.ba.am_probe()


def test_messages_are_told_apart_by_endpoint(parties):
    second_there = ucxx.Endpoint.create_from_worker_address(parties.a, parties.b.address)
    second_back = ucxx.Endpoint.create_from_worker_address(parties.b, parties.a.address)
    parties.ab.am_send(b"first")
    second_there.am_send(b"second")
    assert bytes(second_back.am_recv().result(PATIENCE)) == b"second"
    assert bytes(parties.ba.am_recv().result(PATIENCE)) == b"first"


def test_a_receive_that_is_taken_back_gets_no_message(parties):
    first, second = parties.ba.am_recv(), parties.ba.am_recv()
    first.cancel()
    with pytest.raises(ucxx.UCXCanceledError):
        first.result(PATIENCE)
    parties.ab.am_send(b"data")
    assert bytes(second.result(PATIENCE)) == b"data"


def test_an_allocator_makes_the_buffers(parties):
    parties.b.active_messages.allocator = bytearray
    for size in (5, 2**18):
        parties.ab.am_send(pattern(size))
        received = parties.ba.am_recv().result(PATIENCE)
        assert type(received) is bytearray
        assert received == bytes(pattern(size))


def test_a_stream_is_bytes_in_order_however_they_are_cut(everywhere):
    data = pattern(9000)
    for start, end in ((0, 1), (1, 17), (17, 17), (17, 5000), (5000, 9000)):
        everywhere.ab.stream_send(data[start:end])
    received = np.zeros(9000, np.uint8)
    for start, end in ((0, 100), (100, 100), (100, 8999), (8999, 9000)):
        part = received[start:end]
        assert everywhere.ba.stream_recv(part).result(PATIENCE) is part
    assert (received == data).all()


def test_a_long_stream_waits_for_its_reader(parties):
    data = pattern(2**20)
    send = parties.ab.stream_send(data)
    received = np.zeros(2**20, np.uint8)
    assert parties.ba.stream_recv(received).result(PATIENCE) is received
    send.result(PATIENCE)
    assert (received == data).all()


def test_a_worker_without_the_feature_refuses(models):
    with (
        ucxx.Context(feature_flags=(ucxx.Feature.TAG,), adapter=models[0]) as context,
        ucxx.Worker(context) as worker,
    ):
        endpoint = ucxx.Endpoint.create_from_worker_address(worker, worker.address)
        for call in (
            endpoint.am_recv,
            lambda: endpoint.am_send(b"x"),
            lambda: endpoint.stream_send(b"x"),
            lambda: endpoint.stream_recv(bytearray(1)),
            worker.arm,
            worker.start_progress_thread,
        ):
            with pytest.raises(ucxx.UCXInvalidParamError):
                call()
        receive = endpoint.tag_recv(bytearray(4), 1)
        endpoint.tag_send(b"self", 1)
        assert receive.result(PATIENCE) == b"self"
