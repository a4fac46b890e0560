"""Automatic progress: what happens though nobody reads, and when nothing does. fi_domain(3)."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from amoeba import (
    ClosedError,
    DeferredWork,
    DeviceFailureError,
    DomainAttr,
    EqEvent,
    Errno,
    ErrorAvailableError,
    FabricError,
    Info,
    MrAccess,
    Op,
    OpFlags,
    OpRma,
    Progress,
    RmaIov,
    RmaMsg,
    Threading,
    TimedOutError,
    TriggeredContext,
    TriggerOp,
    WaitObj,
    getinfo,
    open_cluster,
    open_fabric,
)
from amoeba.devices.devices import DEVICE_KINDS
from amoeba_model.device import DeviceClosedError

from tests.driver.automatic import (
    AUTO,
    LONG,
    asleep,
    automatic_cluster,
    eventually,
    is_readable,
    make_counted,
    threads_of_progress,
)
from tests.driver.connections import Party, connect, listen
from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, make_side, make_talkers
from tests.driver.endpoints import connect as connect_sides

ONE = np.uint64(1)


@pytest.fixture(params=DEVICE_KINDS)
def fabric(request, build_of):
    with automatic_cluster(request.param, build_of(request.param)) as opened:
        yield opened


# What is asked for


def test_progress_is_manual_by_default():
    for hints in (None, Info(), Info(domain_attr=DomainAttr(data_progress=Progress.FI_PROGRESS_MANUAL))):
        attr = getinfo(hints)[0].domain_attr
        assert attr.control_progress is attr.data_progress is Progress.FI_PROGRESS_MANUAL
        assert attr.threading is Threading.FI_THREAD_DOMAIN


@pytest.mark.parametrize(
    "wanted",
    [
        DomainAttr(data_progress=AUTO),
        DomainAttr(control_progress=AUTO),
        DomainAttr(control_progress=AUTO, data_progress=Progress.FI_PROGRESS_MANUAL),
        DomainAttr(threading=Threading.FI_THREAD_SAFE),
        DomainAttr(threading=Threading.FI_THREAD_FID),
        DomainAttr(threading=Threading.FI_THREAD_COMPLETION),
        DomainAttr(data_progress=AUTO, threading=Threading.FI_THREAD_DOMAIN),
    ],
    ids=lambda attr: "-".join(value.name for value in (attr.control_progress, attr.data_progress, attr.threading)),
)
def test_progress_and_safety_for_threads_are_answered_together(wanted, keep):
    found = getinfo(Info(domain_attr=wanted))
    assert len(found) == len(getinfo())
    for info in found:
        attr = info.domain_attr
        assert (attr.control_progress, attr.data_progress, attr.threading) == (AUTO, AUTO, Threading.FI_THREAD_SAFE)
    with open_fabric(found[0].fabric_attr) as fabric:
        assert fabric.progress is Progress.FI_PROGRESS_MANUAL
        keep(fabric.domain(found[0]))
        assert fabric.progress is AUTO
        (answer, *_) = fabric.getinfo()
        assert (answer.domain_attr.data_progress, answer.domain_attr.threading) == (AUTO, Threading.FI_THREAD_SAFE)
        keep(fabric.domain(1))
    assert threads_of_progress() == []


def test_a_fabric_has_one_progress_model():
    automatic = Info(domain_attr=DomainAttr(data_progress=AUTO))
    with open_cluster() as fabric:
        (info, *_) = fabric.getinfo(automatic)
        domain = fabric.domain(0)
        with pytest.raises(FabricError, match=r"^FI_ENODATA: .*DomainAttr.control_progress|DomainAttr.data_progress"):
            fabric.getinfo(automatic)
        for become in (fabric.automate, lambda: fabric.domain(info)):
            with pytest.raises(FabricError, match=r"^FI_EBUSY: "):
                become()
        domain.close()
        fabric.automate()
        fabric.automate()
        assert len(threads_of_progress()) == 1
        assert fabric.getinfo(Info(domain_attr=DomainAttr(data_progress=Progress.FI_PROGRESS_MANUAL)))


# What happens though nobody reads


def test_operations_are_done_though_nobody_reads(fabric, pair, target):
    memory, region = target
    for _ in range(40):  # more than the ring has space for, so that completions are taken as well
        while True:
            try:
                pair[0].endpoint.inject_atomic(ONE, pair[0].peer, region.address, region.key, Op.FI_SUM)
                break
            except BlockingIOError:
                time.sleep(0.001)
    eventually(lambda: memory[0] == 40)
    asleep(fabric)
    assert pair[0].endpoint.tx_size_left == 16


@pytest.mark.full_build
@pytest.mark.parametrize("shared", [False, True], ids=["rings of its own", "shared rings"])
def test_what_is_said_to_be_followed_is_done_though_nothing_follows(fabric, pair, target, keep, shared):
    memory, region = target
    side = pair[0]
    endpoint = side.endpoint
    if shared:
        endpoint = keep(side.domain.endpoint())
        endpoint.bind(keep(side.domain.stx_context(16)))
        endpoint.bind(side.queue)
        endpoint.bind(side.peers)
        endpoint.enable()
    asleep(fabric)
    endpoint.write(np.full(1, 7, np.uint64), side.peer, region.address, region.key, flags=OpFlags.FI_MORE)
    eventually(lambda: memory[0] == 7)
    asleep(fabric)
    endpoint.writev([bytes(range(1, 9)), bytes(8)], side.peer, region.address + 8, region.key, flags=OpFlags.FI_MORE)
    eventually(lambda: memory[1] == 0x0807060504030201 and memory[2] == 0)
    side.finish()
    side.finish()
    asleep(fabric)
    to = region.address + 32 + 8 * np.arange(4)
    endpoint.write_batch(np.full((4, 1), 9, np.uint64), side.peer, to, region.key, flags=OpFlags.FI_MORE)
    eventually(lambda: list(memory[4:8]) == [9] * 4)


def test_a_receive_said_to_be_followed_takes_a_message_though_nothing_follows(fabric, keep):
    one, other = keep(make_talkers(fabric))
    inbox = bytearray(8)
    asleep(fabric)
    other.endpoint.recv(inbox, flags=OpFlags.FI_MORE)
    asleep(fabric)
    one.endpoint.send(b"a letter", one.peer)
    eventually(lambda: inbox == b"a letter")
    assert other.finish().len == 8


def test_an_idle_program_sleeps(fabric, pair, target):
    memory, region = target
    for turn in range(1, 4):
        rounds = asleep(fabric)
        time.sleep(0.1)
        assert fabric._auto.rounds == rounds
        pair[0].endpoint.atomic(ONE, pair[0].peer, region.address, region.key, Op.FI_SUM)
        eventually(lambda turn=turn: memory[0] == turn)


@ON_MODEL
def test_waiting_for_a_message_costs_nothing(fabric, keep):
    """Neither the receive, nor a long message that nobody receives yet."""
    one, other = keep(make_talkers(fabric))
    one.endpoint.recv(bytearray(8), context="received")
    other.endpoint.send(bytes(10_000), other.peer, context="sent")
    eventually(lambda: one.endpoint._receiver.receives.posted == 0)  # it is met and is being read
    other.finish()
    one.failure()
    other.endpoint.send(bytes(10_000), other.peer, context="nobody wants it")
    rounds = asleep(fabric)
    time.sleep(0.1)
    assert fabric._auto.rounds == rounds
    one.endpoint.recv(bytearray(10_000), context="late")
    assert one.finish().op_context == "late"
    assert other.finish().op_context == "nobody wants it"


def test_long_messages_go_on_though_neither_side_reads(fabric, keep):
    one, other = keep(make_talkers(fabric))
    inbox, text = bytearray(20_000), bytes(range(250)) * 80
    other.endpoint.recv(inbox)
    one.endpoint.send(text, one.peer)
    eventually(lambda: inbox == text)
    assert one.finish().len == other.finish().len == 20_000


def test_deferred_work_fires_though_nobody_reads(fabric, pair, target, keep):
    memory, region = target
    domain = pair[0].domain
    done = keep(domain.cntr_open())
    endpoint, counter = make_counted(pair[0], keep)
    to = (pair[0].peer, region.address, region.key)
    msg = RmaMsg([np.full(1, 77, np.uint64)], pair[0].peer, [RmaIov(region.address + 16, 8, region.key)])
    work = DeferredWork(3, counter, TriggerOp.FI_OP_WRITE, OpRma(endpoint, msg), done)
    domain.queue_work(work)
    triggered = TriggeredContext(counter, 2)
    endpoint.atomic(ONE, to[0], to[1] + 8, to[2], Op.FI_SUM, flags=OpFlags.FI_TRIGGER, context=triggered)
    for _ in range(2):
        endpoint.atomic(ONE, *to, Op.FI_SUM)
    eventually(lambda: memory[2] == 77)
    assert (memory[0], memory[1]) == (2, 2)
    done.wait(1, LONG)


@ON_MODEL
def test_connections_are_made_and_end_though_one_side_does_not_read(fabric, keep):
    parties = []
    for nic in range(2):
        domain = fabric.domain(nic)
        parties.append(keep(Party(domain, fabric.eq_open(wait_obj=WaitObj.FI_WAIT_FD), domain.cq_open())))
    client, server = parties
    passive = listen(fabric, keep, server)
    calling = client.endpoint()
    calling.connect(passive.getname())
    eventually(lambda: is_readable(server.events), "the request")
    answering = server.endpoint(server.event(EqEvent.FI_CONNREQ).info)
    assert not is_readable(server.events)
    answering.accept()
    eventually(lambda: is_readable(server.events), "the connection")
    server.event(EqEvent.FI_CONNECTED)
    calling.close()
    eventually(lambda: is_readable(server.events), "the end")
    server.event(EqEvent.FI_SHUTDOWN)
    late = client.endpoint()
    late.connect(passive.getname(), timeout=0.05)  # nobody answers
    assert client.error().err is Errno.FI_ETIMEDOUT


def test_queues_of_events_made_before_are_served_too(keep):
    with open_cluster() as fabric:
        early = fabric.eq_open(wait_obj=WaitObj.FI_WAIT_FD)
        fabric.automate()
        domains = fabric.domain(0), fabric.domain(1)
        client = keep(Party(domains[0], fabric.eq_open(), domains[0].cq_open()))
        server = keep(Party(domains[1], early, domains[1].cq_open()))
        ends = connect(client, server, listen(fabric, keep, server))
        assert not is_readable(early)
        ends[0].shutdown()
        eventually(lambda: is_readable(early))
        server.event(EqEvent.FI_SHUTDOWN)


def test_a_wait_for_a_counter_tells_of_what_failed_before_it_began_once(fabric, pair, target, keep):
    region = target[1]
    endpoint, counter = make_counted(pair[0], keep)
    endpoint.write(bytes(8), pair[0].peer, region.address, region.key ^ 1)
    eventually(lambda: repr(counter) == "<Counter 0 done, 1 failed>")
    with pytest.raises(ErrorAvailableError):
        counter.wait(1, LONG)
    counter.adderr(3)
    with pytest.raises(TimedOutError):
        counter.wait(1, 0.01)
    endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
    counter.wait(1, LONG)


# What goes wrong


@ON_MODEL
def test_what_ends_the_thread_is_raised_by_all_calls_from_then_on(fabric, pair, target):
    side, region = pair[0], target[1]
    with fabric.frozen():
        side.endpoint.write(bytes(8), side.peer, region.address, region.key)
        side.endpoint._rings._pending = [None] * 16
    for call in (lambda: side.queue.sread(timeout=LONG), side.queue.read, pair[1].domain.cq_open, fabric.getinfo):
        with pytest.raises(DeviceFailureError, match="never posted"):
            call()
    for thread in threads_of_progress():
        thread.join(LONG)
    assert threads_of_progress() == []
    side.endpoint._rings._free = list(range(16))  # nothing to wait for at close
    fabric.close()
    assert side.queue.closed


@ON_MODEL
def test_a_device_that_was_closed_is_noticed_by_who_reads(fabric, pair, target):
    region = target[1]
    with fabric.frozen():
        pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
        for device in fabric.devices:
            device.close()
    with pytest.raises(DeviceClosedError):
        pair[0].queue.sread(timeout=LONG)
    asleep(fabric)
    with pytest.raises(DeviceClosedError):
        pair[1].queue.read()
    fabric.close()


# The end


@ON_MODEL
@pytest.mark.parametrize("raised", [None, ValueError])
def test_closing_ends_the_thread(fabric, pair, raised):
    assert len(threads_of_progress()) == 1
    try:
        with fabric:
            if raised is not None:
                raise raised
    except ValueError:
        pass
    assert threads_of_progress() == []
    with pytest.raises(ClosedError):
        pair[0].queue.read()


def test_a_fabric_that_nobody_closed_is_closed_with_a_warning():
    opened = [open_cluster(progress=AUTO)]
    assert len(threads_of_progress()) == 1
    with pytest.warns(ResourceWarning, match="unclosed <Fabric"):
        opened.clear()
    assert threads_of_progress() == []


def test_what_is_dropped_in_the_midst_of_a_call_is_closed_soon(keep):
    with open_cluster(progress=AUTO) as fabric, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        domain = fabric.domain(0)
        before = len(domain.nic.contexts.free)
        with fabric.frozen():
            make_side(domain)
            gc.collect()
            assert len(domain.nic.contexts.free) == before - 1
        eventually(lambda: len(domain.nic.contexts.free) == before)


class Collecting:
    """A lock of a guard; the garbage is collected after it was taken, or before it is released."""

    def __init__(self, lock, *, taking):
        self.lock = lock
        self.taking = taking

    def acquire(self, blocking=True):
        taken = self.lock.acquire(blocking)
        if self.taking:
            gc.collect()
        return taken

    def release(self):
        if not self.taking:
            gc.collect()
        self.lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


@pytest.mark.parametrize("taken", [False, True], ids=["free", "another thread has it"])
@pytest.mark.parametrize("taking", [True, False], ids=["taking", "giving back"])
@pytest.mark.parametrize("lock", ["_gate", "_lock"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_is_dropped_while_the_lock_is_taken_or_released_is_closed_and_nobody_hangs(
    monkeypatch, keep, lock, taking, taken
):
    """The garbage collector comes when it likes, from Python 3.12 on after any call of a function in C."""
    with open_cluster(progress=AUTO) as fabric:
        domain, guard = keep(fabric.domain(0)), fabric._auto.guard
        free = domain.nic.contexts.free
        before = len(free)
        gc.disable()
        try:
            side = make_side(domain)
            side.peer = side  # garbage that only the collector finds
            del side
            asleep(fabric)
            monkeypatch.setattr(guard, lock, Collecting(getattr(guard, lock), taking=taking))
            calling = threading.Thread(target=lambda: domain.cq_open().close(), daemon=True)
            with guard if taken else contextlib.nullcontext():
                calling.start()
                time.sleep(0.02 if taken else 0)
            calling.join(LONG)
            assert not calling.is_alive()
            eventually(lambda: len(free) == before)
        finally:
            gc.enable()
            monkeypatch.undo()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_two_fabrics_whose_objects_are_dropped_in_calls_of_the_other_do_not_wait_for_each_other(keep):
    """Each of two threads has the lock of one fabric, and meets garbage of the other."""
    with open_cluster(progress=AUTO) as one, open_cluster(progress=AUTO) as other:
        fabrics, met = (one, other), threading.Barrier(2)
        domains = [keep(fabric.domain(0)) for fabric in fabrics]
        free = [len(domain.nic.contexts.free) for domain in domains]
        sides = [make_side(domain) for domain in domains]

        def drop(number):
            with fabrics[number].frozen():
                met.wait(LONG)
                sides[1 - number] = None
                met.wait(LONG)

        threads = [threading.Thread(target=drop, args=(number,), daemon=True) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()
        eventually(lambda: [len(domain.nic.contexts.free) for domain in domains] == free)


def test_an_interpreter_that_ends_with_everything_open_does_not_hang():
    program = """
from amoeba import *
fabric = open_cluster(progress=Progress.FI_PROGRESS_AUTO)
domain = fabric.domain(0)
queue, peers, memory = domain.cq_open(), domain.av_open(), bytearray(8)
endpoint = domain.endpoint(cq=queue, av=peers)
region = domain.mr_reg(memory, MrAccess.FI_REMOTE_WRITE)
me = peers.insert(endpoint.getname())
endpoint.write(b"12345678", me, region.address, region.key)
print(len(queue.sread()), flush=True)
for _ in range(16):
    endpoint.write(b"12345678", me, region.address, region.key)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG)
    assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr


def call_and_end(fabric):
    """Run a child of the process; never return. A signal ends it if it hangs, whatever the tests' runner made
    of that."""
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONG)
        with pytest.raises(ClosedError):
            fabric.domain(0)
        fabric.close()
        fabric._auto.stop()
        status = 0
    finally:
        os._exit(status)


@ON_MODEL
def test_a_child_of_the_process_can_go_on_and_end(fabric, pair, target):
    """The process forks again and again while the thread holds the lock most of the time."""
    memory, region = target
    for turn in range(20):
        pair[0].endpoint.atomic(ONE, pair[0].peer, region.address, region.key, Op.FI_SUM)
        child = os.fork()
        if not child:
            call_and_end(fabric)
        assert os.waitpid(child, 0)[1] == 0
        pair[0].finish()
        assert memory[0] == turn + 1


@ON_MODEL
def test_a_child_does_not_wait_for_a_thread_that_was_next(fabric, pair):
    """The process forks while the thread waits at the gate of the lock, which nobody opens in the child."""
    guard = fabric._auto.guard
    with guard:
        fabric._auto.wake()
        eventually(guard._gate.locked, "the thread at the gate")
        child = os.fork()
    if not child:
        call_and_end(fabric)
    assert os.waitpid(child, 0)[1] == 0
    with pair[0].domain.cq_open() as queue:
        assert not queue.closed


@ON_MODEL
def test_threads_can_fork_at_once(fabric, pair):
    """None of them releases the lock that another one holds for its own fork."""

    def fork():
        for _ in range(10):
            child = os.fork()
            if not child:
                call_and_end(fabric)
            ended.append(os.waitpid(child, 0)[1])

    ended = []
    threads = [threading.Thread(target=fork, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert ended == [0] * 40
    with pair[0].domain.cq_open() as queue:
        assert not queue.closed


@ON_MODEL
def test_devices_can_be_used_while_the_clock_stands(fabric, pair, target):
    region = target[1]
    with fabric.frozen():
        pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
        rounds, cycles = fabric._auto.rounds, fabric.devices[0].cycles
        time.sleep(0.02)
        assert (fabric._auto.rounds, fabric.devices[0].cycles) == (rounds, cycles)
        fabric.network.step()
    assert pair[0].finish()


def test_a_pair_is_connected_as_otherwise(fabric, keep):
    """With regions of its own, so that nothing here depends on the fixtures."""
    client, server = keep(make_side(fabric.domain(0))), keep(make_side(fabric.domain(1)))
    connect_sides(client, server)
    memory = np.zeros(1, np.uint64)
    region = keep(server.domain.mr_reg(memory, ALL_ACCESS | MrAccess.FI_SEND))
    client.endpoint.write(ONE, client.peer, region.address, region.key)
    client.finish()
    assert memory[0] == 1
