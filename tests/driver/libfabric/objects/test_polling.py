"""Poll sets, wait sets and wait conditions: fi_poll(3), fi_cq(3).

Covers ``libfabric/objects/queues/poll_set.py`` and ``libfabric/objects/queues/wait_set.py``.
"""

import re
import select
import threading
import time
from pathlib import Path

import amoeba
import numpy as np
import pytest
from amoeba import (
    BindFlags,
    ClosedError,
    CqEntry,
    CqMsgEntry,
    CqWaitCond,
    EqFlags,
    Errno,
    ErrorAvailableError,
    WaitObj,
    open_cluster,
)

from tests.driver.endpoints import BOTH, ON_MODEL, make_talkers, refused

SET = WaitObj.FI_WAIT_SET
THRESHOLD = CqWaitCond.FI_CQ_COND_THRESHOLD


@pytest.fixture
def to(pair, target):
    """(dest_addr, addr, key) of the target's first word."""
    return pair[0].peer, target[1].address, target[1].key


@pytest.fixture
def endpoint_of(pair, keep):
    """A function that opens an endpoint of the client's, connected under number 0."""

    def make(queue, *, flags=BindFlags.FI_TRANSMIT, counter=None):
        domain, peers = pair[0].domain, keep(pair[0].domain.av_open())
        endpoint = keep(domain.endpoint(tx_size=16))
        endpoint.bind(queue, flags)
        endpoint.bind(peers)
        if counter is not None:
            endpoint.bind(counter, BindFlags.FI_WRITE)
        endpoint.enable()
        peers.insert(pair[1].endpoint.getname())
        return endpoint

    return make


# Poll sets


@pytest.fixture
def polled(pair, keep):
    return keep(pair[0].domain.poll_open())


def poll(polled):
    """The queues and counters that have something to read, within seconds."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if ready := polled.poll():
            return ready
    raise AssertionError("nothing in 30 s")


def test_a_poll_set_names_the_queue_that_has_an_entry_until_it_is_read(pair, to, polled, keep):
    client, idle = pair[0], keep(pair[0].domain.cq_open())
    polled.add(client.queue)
    polled.add(idle)
    assert polled.poll() == []
    client.endpoint.write(bytes(8), *to, context="mine")
    assert poll(polled) == [client.queue]
    assert polled.poll() == [client.queue]
    assert client.queue.read()[0].op_context == "mine"
    assert polled.poll() == []


@ON_MODEL
def test_an_error_is_something_to_be_read(pair, to, polled):
    client = pair[0]
    polled.add(client.queue)
    client.endpoint.write(bytes(8), to[0], to[1], to[2] ^ 1)
    assert poll(polled) == [client.queue]
    with pytest.raises(ErrorAvailableError):
        client.queue.read()
    client.queue.readerr()
    assert polled.poll() == []


@ON_MODEL
def test_a_counter_is_named_when_it_has_changed_since_it_was_named_last(pair, to, polled, endpoint_of, keep):
    counter, queue = keep(pair[0].domain.cntr_open()), keep(pair[0].domain.cq_open())
    endpoint = endpoint_of(queue, flags=BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION, counter=counter)
    counter.add(5)
    polled.add(counter)
    assert polled.poll() == []
    endpoint.write(bytes(8), 0, *to[1:])
    assert poll(polled) == [counter]
    assert polled.poll() == []
    endpoint.write(bytes(8), 0, to[1], to[2] ^ 1)
    assert poll(polled) == [counter]
    assert (counter.read(), counter.readerr()) == (6, 1)


@ON_MODEL
def test_an_answer_has_as_many_as_asked_for_and_the_others_come_later(pair, polled, keep):
    counters = [keep(pair[0].domain.cntr_open()) for _ in range(3)]
    for counter in counters:
        polled.add(counter)
        counter.add(1)
    assert polled.poll(2) == counters[:2]
    assert polled.poll(2) == counters[2:]
    assert polled.poll(2) == []


@ON_MODEL
def test_members_come_and_go(fabric, pair, polled, keep):
    counter, closed = keep(pair[0].domain.cntr_open()), pair[0].domain.cq_open()
    for member in (counter, pair[0].queue, closed):
        polled.add(member)
        with refused(Errno.FI_EALREADY):
            polled.add(member)
    assert repr(polled) == "<PollSet of 2 queues, 1 counters>"
    polled.remove(pair[0].queue)
    with refused(Errno.FI_EINVAL, "not in the poll set"):
        polled.remove(pair[0].queue)
    closed.close()
    counter.add(1)
    assert polled.poll() == [counter]
    polled.remove(counter)
    assert polled.poll() == []
    with refused(Errno.FI_EINVAL, "another domain"):
        polled.add(pair[1].queue)
    with pytest.raises(ClosedError):
        polled.add(closed)
    polled.add(counter)
    polled.close()
    assert not counter.closed
    with pytest.raises(ClosedError):
        polled.poll()


# Wait sets


@pytest.fixture
def waiting(fabric, keep):
    return keep(fabric.wait_open())


@pytest.mark.full_build
def test_a_wait_set_returns_when_one_of_its_queues_has_an_entry(pair, to, waiting, endpoint_of, keep):
    domain = pair[0].domain
    queues = [keep(domain.cq_open(wait_obj=SET, wait_set=waiting)) for _ in range(2)]
    endpoints = [endpoint_of(queue) for queue in queues]
    with refused(Errno.FI_ETIMEDOUT):
        waiting.wait(0.01)
    for queue, endpoint in zip(queues, endpoints, strict=True):
        endpoint.write(bytes(8), 0, *to[1:], context="mine")
        waiting.wait(30)
        assert [each.read() for each in queues] == [[CqEntry("mine")] if each is queue else [] for each in queues]


@ON_MODEL
def test_a_wait_set_waits_for_counters_and_events_too(fabric, pair, to, waiting, endpoint_of, keep):
    counter = keep(pair[0].domain.cntr_open(SET, waiting))
    events = keep(fabric.eq_open(0, EqFlags.FI_WRITE, SET, waiting))
    endpoint = endpoint_of(
        keep(pair[0].domain.cq_open()),
        flags=BindFlags.FI_TRANSMIT | BindFlags.FI_SELECTIVE_COMPLETION,
        counter=counter,
    )
    endpoint.write(bytes(8), 0, *to[1:])
    waiting.wait(30)
    assert counter.read() == 1
    events.write(7)
    waiting.wait(30)
    assert events.read().event == 7
    with refused(Errno.FI_ETIMEDOUT):
        waiting.wait(0)
    assert repr(waiting) == "<WaitSet of 2>"


@ON_MODEL
def test_a_set_of_nothing_waits_until_its_time_is_over(waiting):
    with refused(Errno.FI_ETIMEDOUT):
        waiting.wait(0.01)


@ON_MODEL
def test_a_member_reads_by_waiting_as_others_do(pair, to, waiting, endpoint_of, keep):
    queue = keep(pair[0].domain.cq_open(wait_obj=SET, wait_set=waiting))
    counter = keep(pair[0].domain.cntr_open(SET, waiting))
    endpoint_of(queue, counter=counter).write(bytes(8), 0, *to[1:], context="mine")
    assert queue.sread(timeout=30) == [CqEntry("mine")]
    counter.wait(1, 30)


@ON_MODEL
def test_an_event_of_another_thread_ends_the_wait(fabric, waiting, keep):
    events = keep(fabric.eq_open(0, EqFlags.FI_WRITE, SET, waiting))
    writer = threading.Timer(0.05, events.write, [3])
    writer.start()
    waiting.wait(30)
    writer.join()
    assert events.read().event == 3


@ON_MODEL
@pytest.mark.parametrize("native", [select.poll, select.epoll])
def test_a_descriptor_says_what_those_of_all_members_say(fabric, pair, to, endpoint_of, keep, native):
    waiting = keep(fabric.wait_open(WaitObj.FI_WAIT_FD))
    queue = keep(pair[0].domain.cq_open(wait_obj=SET, wait_set=waiting))
    counter = keep(pair[0].domain.cntr_open(SET, waiting))
    events = keep(fabric.eq_open(0, EqFlags.FI_WRITE, SET, waiting))
    endpoint, poller = endpoint_of(queue), native()
    poller.register(waiting, select.POLLIN)
    assert fabric.trywait(waiting)
    assert poller.poll(0) == []
    endpoint.write(bytes(8), 0, *to[1:], context="mine")
    found = []
    while not found:
        if fabric.trywait(waiting):
            assert poller.poll(30)
        found = queue.read()
    assert found == [CqEntry("mine")]
    assert poller.poll(0) == []
    counter.add(1)
    assert not fabric.trywait(waiting)
    assert poller.poll(0)
    counter.read()
    assert poller.poll(0) == []
    events.write(1)
    assert poller.poll(0)
    events.close()
    assert poller.poll(0) == []


@ON_MODEL
def test_closing_a_wait_set_closes_its_members_first(fabric, pair, waiting, keep):
    queue = keep(pair[0].domain.cq_open(wait_obj=SET, wait_set=waiting))
    events = keep(fabric.eq_open(wait_obj=SET, wait_set=waiting))
    keep(pair[0].domain.cq_open(wait_obj=SET, wait_set=waiting)).close()
    with refused(Errno.FI_ETIMEDOUT):
        waiting.wait(0)
    waiting.close()
    assert queue.closed
    assert events.closed
    with pytest.raises(ClosedError):
        waiting.wait(0)


@ON_MODEL
def test_what_cannot_be_waited_for_is_refused(fabric, pair, waiting, keep):
    for wait_obj in (WaitObj.FI_WAIT_NONE, SET, WaitObj.FI_WAIT_MUTEX_COND, WaitObj.FI_WAIT_POLLFD):
        with refused(Errno.FI_ENOSYS):
            fabric.wait_open(wait_obj)
    with refused(Errno.FI_ENOSYS):
        waiting.fileno()
    with open_cluster(["model"]) as elsewhere:
        foreign = keep(elsewhere.wait_open())
        for wait_set in (None, foreign):
            for call in (
                lambda: pair[0].domain.cq_open(wait_obj=SET, wait_set=wait_set),  # noqa: B023
                lambda: pair[0].domain.cntr_open(SET, wait_set),  # noqa: B023
                lambda: fabric.eq_open(wait_obj=SET, wait_set=wait_set),  # noqa: B023
            ):
                with refused(Errno.FI_EINVAL):
                    call()
        # which is ignored where nobody waits by a set
        assert keep(pair[0].domain.cq_open(wait_set=foreign)).wait_obj is WaitObj.FI_WAIT_UNSPEC


@ON_MODEL
def test_a_queue_may_yield(pair, to, endpoint_of, keep):
    queue = keep(pair[0].domain.cq_open(wait_obj=WaitObj.FI_WAIT_YIELD))
    endpoint_of(queue).write(bytes(8), 0, *to[1:], context="mine")
    assert queue.sread(timeout=30) == [CqEntry("mine")]


# Wait conditions


@pytest.fixture
def patient(pair, keep):
    return keep(pair[0].domain.cq_open(wait_cond=THRESHOLD))


def test_a_read_waits_for_as_many_entries_as_it_says(to, patient, endpoint_of):
    endpoint = endpoint_of(patient)
    for context in range(3):
        endpoint.write(bytes(8), 0, *to[1:], context=context)
    assert patient.sread(8, 30, 3) == [CqEntry(0), CqEntry(1), CqEntry(2)]


@ON_MODEL
def test_more_may_be_waited_for_than_are_read(to, patient, endpoint_of):
    endpoint = endpoint_of(patient)
    for context in range(5):
        endpoint.write(bytes(8), 0, *to[1:], context=context)
    assert patient.sread(1, 30, 4) == [CqEntry(0)]
    assert [entry.op_context for entry, _ in patient.sreadfrom(2, 30, 2)] == [1, 2]
    assert [entry.op_context for entry in patient.sread(9, 30, 2)] == [3, 4]


@ON_MODEL
def test_when_the_time_is_over_what_is_there_is_read(to, patient, endpoint_of):
    endpoint_of(patient).write(bytes(8), 0, *to[1:], context="only")
    assert patient.sread(4, 0.2, 2) == [CqEntry("only")]
    assert patient.sread(4, 0.01, 2) == []


@ON_MODEL
def test_an_error_ends_the_wait_for_more(to, patient, endpoint_of):
    endpoint = endpoint_of(patient)
    endpoint.write(bytes(8), 0, *to[1:], context="well")
    endpoint.write(bytes(8), 0, to[1], to[2] ^ 1, context="wrong")
    assert patient.sread(4, 30, 3) == [CqEntry("well")]
    with pytest.raises(ErrorAvailableError):
        patient.sread(4, 30, 3)
    assert patient.readerr().op_context == "wrong"


@ON_MODEL
def test_a_signal_ends_the_wait_for_more_after_what_is_there(fabric, to, patient, endpoint_of):
    endpoint_of(patient).write(bytes(8), 0, *to[1:], context="only")
    while fabric.trywait(patient):
        fabric.devices[0].advance()
    patient.signal()
    assert patient.sread(4, 30, 2) == [CqEntry("only")]
    patient.signal()
    with refused(Errno.FI_ECANCELED):
        patient.sread(4, 30, 2)


@ON_MODEL
def test_what_peers_tell_counts_as_an_entry(fabric, keep):
    one, other = keep(make_talkers(fabric))
    queue = keep(other.domain.cq_open(wait_cond=THRESHOLD))
    peers = keep(other.domain.av_open())
    endpoint = keep(other.domain.endpoint(cq=queue, av=peers, cq_flags=BOTH))
    number = one.peers.insert(endpoint.getname())
    buffers = [np.zeros(1, np.uint8) for _ in range(3)]
    for buffer in buffers:
        endpoint.recv(buffer, context="in")
    for _ in buffers:
        one.endpoint.inject(b"x", number)
    assert queue.sread(1, 30, 3) == [CqEntry("in")]
    assert queue.sread(8, 30, 2) == [CqEntry("in")] * 2


@ON_MODEL
def test_conditions_are_for_queues_that_were_opened_for_them(pair, to, patient):
    with refused(Errno.FI_EINVAL, "FI_CQ_COND_NONE"):
        pair[0].queue.sread(1, 0, 2)
    with refused(Errno.FI_EINVAL, "-1"):
        patient.sread(1, 0, -1)
    pair[0].endpoint.write(bytes(8), *to)
    assert isinstance(pair[0].queue.sread(timeout=30)[0], CqMsgEntry)


@ON_MODEL
def test_a_queue_has_space_for_any_number_of_entries(pair, keep):
    assert keep(pair[0].domain.cq_open(size=10**9)).read() == []
    with refused(Errno.FI_EINVAL):
        pair[0].domain.cq_open(size=-1)


@ON_MODEL
def test_the_example_in_the_documentation_runs(fabric, pair, keep):
    page = (Path(__file__).parents[4] / "docs" / "libfabric.md").read_text()
    (example,) = re.findall(r"```python\n([^`]*fabric\.wait_open\(\).*?)```", page, re.DOTALL)
    names = {name: getattr(amoeba, name) for name in amoeba.__all__} | {"fabric": fabric, "domain": pair[0].domain}
    begun = re.search(r"^cntr\.add\(1\).*\n", example, re.MULTILINE)[0]
    with refused(Errno.FI_ETIMEDOUT):
        exec(example.replace(begun, "").replace("timeout=1", "timeout=0.01"), names)
    exec(begun, names)
    exec(example[example.index("waiting.wait") :], names)
    assert names["ready"] is names["cntr"]
    for name in ("cq", "cntr", "polled", "waiting"):
        names[name].close()
