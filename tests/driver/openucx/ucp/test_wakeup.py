"""Sleeping until there is something to do (UCX: test_ucp_wakeup).

Covers ``openucx/ucp/calls/wakeup.py``.
"""

import contextlib
import os
import select
import threading
import time

import amoeba.ucp as ucp
import pytest
from amoeba.nic.nic import Nic
from amoeba.openucx.ucp.adapter import Adapters, open_adapters
from amoeba.openucx.ucp.wakeup import Wakeup
from amoeba_model.network import Network

from tests.driver.openucx.ucp.entities import ALL_FEATURES, Entity, finish, wait_for
from tests.support.board import boards

FEATURES = ALL_FEATURES | ucp.UCP_FEATURE_WAKEUP


def armed(entity, limit=10000):
    """Make progress until the worker says that it may sleep."""
    for _ in range(limit):
        while entity.progress():
            pass
        with contextlib.suppress(ucp.UcsBusyError):
            ucp.ucp_worker_arm(entity.worker)
            return
    pytest.fail("always busy")


def readable(descriptor, seconds=0.0):
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def sleep_until(done, entity):
    """Wait as applications do, by the descriptor."""
    efd = ucp.ucp_worker_get_efd(entity.worker)
    deadline = time.monotonic() + 60
    while not done():
        if entity.progress():
            continue
        try:
            ucp.ucp_worker_arm(entity.worker)
        except ucp.UcsBusyError:
            continue
        assert readable(efd, 60)
        assert time.monotonic() < deadline


@contextlib.contextmanager
def two_boards(**params):
    """Entities on NICs that run by themselves."""
    with boards() as devices:
        opened = Adapters(devices, Network(), retransmission=None)
        for number, nic in enumerate(opened.nics, 1):
            assert isinstance(nic, Nic)
            nic.set_address(bytes([2, 0, 0, 0, 0, number]), 0x0A00_0000 | number)
        try:
            entities = [Entity(adapter, FEATURES, **params) for adapter in opened]
            for entity, other in zip(entities, entities[::-1], strict=True):
                entity.connect(other)
            yield entities
        finally:
            opened.close()


@pytest.fixture
def pair(models):
    sender, receiver = Entity(models[0], FEATURES), Entity(models[1], FEATURES)
    sender.connect(receiver)
    receiver.connect(sender)
    return sender, receiver


@pytest.mark.parametrize("call", ["get_efd", "arm", "wait", "signal"])
def test_without_the_feature_nobody_is_woken(models, call):
    entity = Entity(models[0])
    with pytest.raises(ucp.UcsInvalidParamError, match="WAKEUP"):
        getattr(ucp, f"ucp_worker_{call}")(entity.worker)
    with pytest.raises(ucp.UcsInvalidParamError, match="WAKEUP"):
        ucp.ucp_worker_wait_mem(entity.worker, bytearray(8))


def test_the_descriptor_tells_of_what_has_come_and_arming_is_busy_once_afterwards(adapters):
    # UCX: efd
    sender, receiver = (Entity(adapter, FEATURES) for adapter in adapters)
    sender.connect(receiver)
    receiver.connect(sender)
    efd = ucp.ucp_worker_get_efd(receiver.worker)
    place = bytearray(8)
    request, _ = ucp.ucp_stream_recv_nbx(receiver.ep, place, 8, None)
    armed(receiver)
    assert not readable(efd)
    ucp.ucp_stream_send_nbx(sender.ep, b"12345678", 8, None)
    for _ in range(50):
        sender.progress()
    assert readable(efd)
    with pytest.raises(ucp.UcsBusyError):
        ucp.ucp_worker_arm(receiver.worker)
    assert finish(request, receiver, sender) is ucp.UCS_OK
    armed(receiver)


def test_on_a_nic_that_runs_by_itself_a_worker_sleeps_until_its_own_operation_is_over_and_others_come():
    with two_boards() as (sender, receiver):
        place = bytearray(8)
        receive, _ = ucp.ucp_stream_recv_nbx(receiver.ep, place, 8, None)
        armed(receiver)
        ucp.ucp_stream_send_nbx(sender.ep, bytearray(b"12345678"), 8, None)
        sleep_until(lambda: receive.done, receiver)
        assert place == b"12345678"
        big = bytearray(4000)
        sent = ucp.ucp_stream_send_nbx(sender.ep, big, len(big), None)
        sleep_until(lambda: sent.done, sender)


def test_two_workers_on_one_nic_are_both_woken(models):
    sender = Entity(models[0], FEATURES)
    receivers = [Entity(models[1], FEATURES) for _ in range(2)]
    for receiver in receivers:
        sender.connect(receiver)
        receiver.connect(sender)
        armed(receiver)
    eps = [sender.worker.endpoints[receiver.worker.address.identity, 0] for receiver in receivers]
    for ep in eps:
        ucp.ucp_stream_send_nbx(ep, b"12345678", 8, None)
    for _ in range(50):
        sender.progress()
    for receiver in receivers:  # the first takes notice of the interrupt that both have
        assert readable(ucp.ucp_worker_get_efd(receiver.worker))
        with pytest.raises(ucp.UcsBusyError):
            ucp.ucp_worker_arm(receiver.worker)


@pytest.mark.parametrize("size", [8, 20000])
def test_a_tagged_message_that_nobody_has_asked_for_wakes(pair, size):
    sender, receiver = pair
    efd = ucp.ucp_worker_get_efd(receiver.worker)
    armed(receiver)
    assert not readable(efd)
    data = bytearray(size)
    ucp.ucp_tag_send_nbx(sender.ep, data, size, 5, None)
    for _ in range(50):
        sender.progress()
    assert readable(efd)
    wait_for(lambda: ucp.ucp_tag_probe_nb(receiver.worker, 5, (1 << 64) - 1, 0)[0], receiver)


def test_waiting_ends_when_an_operation_does(pair):
    # UCX: tx_wait
    sender, receiver = pair
    sent = ucp.ucp_stream_send_nbx(sender.ep, bytearray(4000), 4000, None)
    deadline = time.monotonic() + 60
    while not sent.done:
        ucp.ucp_worker_wait(sender.worker)
        sender.progress()
        receiver.progress()
        assert time.monotonic() < deadline


def test_signals_wake_and_two_of_them_count_as_one(pair):
    # UCX: signal
    _, receiver = pair
    efd = ucp.ucp_worker_get_efd(receiver.worker)
    armed(receiver)
    assert not readable(efd)
    ucp.ucp_worker_signal(receiver.worker)
    ucp.ucp_worker_signal(receiver.worker)
    assert readable(efd)
    with pytest.raises(ucp.UcsBusyError):
        ucp.ucp_worker_arm(receiver.worker)
    ucp.ucp_worker_arm(receiver.worker)
    assert not readable(efd)


def test_another_thread_ends_a_wait(monkeypatch):
    """On NICs that run by themselves: waits for simulated NICs end by themselves, too."""
    asleep, signals = threading.Semaphore(0), []

    def signal():
        assert asleep.acquire(timeout=60)
        signals.append("a wait ends")
        ucp.ucp_worker_signal(receiver.worker)

    def sleep(self, sleep=Wakeup.sleep):
        asleep.release()
        sleep(self)

    monkeypatch.setattr(Wakeup, "sleep", sleep)
    with two_boards() as (_, receiver):
        for turn in range(1, 21):
            armed(receiver)
            thread = threading.Thread(target=signal)
            thread.start()
            ucp.ucp_worker_wait(receiver.worker)
            assert len(signals) == turn
            thread.join()


@pytest.mark.parametrize("user_data", [77, None, "text"])
def test_an_epoll_of_the_applications_reports_the_events_with_its_data(models, user_data):
    # UCX: epoll_wait
    with contextlib.closing(select.epoll()) as epoll:
        entity = Entity(models[0], FEATURES, event_fd=epoll.fileno(), user_data=user_data)
        with pytest.raises(ucp.UcsUnsupportedError):
            ucp.ucp_worker_get_efd(entity.worker)
        armed(entity)
        assert epoll.poll(0) == []
        ucp.ucp_worker_signal(entity.worker)
        ((data, events),) = epoll.poll(1)
        assert events == select.EPOLLIN
        assert user_data != 77 or data == 77


def test_a_descriptor_that_is_no_epolls_is_refused(models):
    read, write = os.pipe()
    try:
        with pytest.raises(ucp.UcsInvalidParamError, match="epoll"):
            Entity(models[0], FEATURES, event_fd=read)
    finally:
        os.close(read)
        os.close(write)


def test_with_edge_nobody_has_to_arm_again(models):
    with contextlib.closing(select.epoll()) as epoll:
        sender = Entity(models[0], FEATURES)
        events = ucp.UCP_WAKEUP_RX | ucp.UCP_WAKEUP_EDGE
        receiver = Entity(models[1], FEATURES, event_fd=epoll.fileno(), events=events)
        sender.connect(receiver)
        receiver.connect(sender)
        armed(receiver)
        for number in range(3):
            data = b"round %d." % number
            place = bytearray(8)
            receive, _ = ucp.ucp_stream_recv_nbx(receiver.ep, place, 8, None)
            while receiver.progress():
                pass
            epoll.poll(0)
            ucp.ucp_stream_send_nbx(sender.ep, data, 8, None)
            for _ in range(50):
                sender.progress()
            assert epoll.poll(1)
            assert finish(receive, receiver) is ucp.UCS_OK
            assert place == data


def test_memory_is_waited_for(models):
    sender, receiver = Entity(models[0], FEATURES), Entity(models[1], FEATURES)
    ep = sender.connect(receiver)
    memory = bytearray(64)
    mapped = ucp.ucp_mem_map(receiver.context, ucp.ucp_mem_map_params_t(address=memory, length=64))
    start = ucp.ucp_mem_query(mapped, ucp.ucp_mem_attr_t()).address
    key = ucp.ucp_ep_rkey_unpack(ep, ucp.ucp_rkey_pack(receiver.context, mapped)[0])
    ucp.ucp_put_nbi(ep, b"12345678", 8, start, key)
    deadline = time.monotonic() + 60
    while not memory[0]:
        ucp.ucp_worker_wait_mem(receiver.worker, memoryview(memory)[:8])
        assert time.monotonic() < deadline
    assert memory[:8] == b"12345678"
    ucp.ucp_rkey_destroy(key)
    ucp.ucp_mem_unmap(receiver.context, mapped)
    for wrong in (None, b"", 5, bytearray(5000)):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_worker_wait_mem(receiver.worker, wrong)


def test_a_closed_worker_wakes_who_sleeps_for_it(models):
    entity = Entity(models[0], FEATURES)
    duplicate = os.dup(ucp.ucp_worker_get_efd(entity.worker))
    try:
        armed(entity)
        assert not readable(duplicate)
        ucp.ucp_worker_destroy(entity.worker)
        assert readable(duplicate)
    finally:
        os.close(duplicate)


def test_sleeping_leaves_the_processor_alone_where_nics_run_by_themselves():
    with two_boards() as (_, receiver):
        armed(receiver)
        before = time.thread_time()
        assert not readable(ucp.ucp_worker_get_efd(receiver.worker), 0.3)
        assert time.thread_time() - before < 0.05


def test_opened_descriptors_are_closed_again():
    before = len(os.listdir("/proc/self/fd"))
    with open_adapters() as models:
        for _ in range(3):
            Entity(models[0], FEATURES).context.close()
    assert len(os.listdir("/proc/self/fd")) == before
