"""Event queues as fi_eq(3) describes them, and what is reported there.

Covers ``libfabric/objects/queues/event_queue.py``.
"""

import select
import threading
import time

import pytest
from amoeba import (
    AvFlags,
    DomainFlags,
    EqEntry,
    EqErrEntry,
    EqEvent,
    EqFlags,
    Errno,
    ErrorAvailableError,
    WaitObj,
    open_cluster,
)

from tests.driver.endpoints import ALL_ACCESS, refused

pytestmark = pytest.mark.parametrize("fabric", ["model"], indirect=True)


@pytest.fixture
def queue(fabric, keep):
    """One that the application may write to."""
    return keep(fabric.eq_open(flags=EqFlags.FI_WRITE))


def test_an_empty_queue_has_neither_events_nor_errors(queue):
    assert (queue.read(), queue.readerr(), queue.sread(timeout=0)) == (None, None, None)


def test_events_are_read_in_the_order_written(queue, fabric):
    queue.write(EqEvent.FI_NOTIFY, fid=fabric, context="mine", data=7)
    queue.write(4711)
    assert queue.read() == EqEntry(EqEvent.FI_NOTIFY, fabric, "mine", 7)
    assert queue.read() == EqEntry(4711, None, None, 0)
    assert queue.read() is None


def test_peeking_leaves_the_event(queue):
    queue.write(1, data=5)
    assert queue.read(EqFlags.FI_PEEK).data == 5
    assert queue.sread(0, EqFlags.FI_PEEK).data == 5
    assert queue.read().data == 5
    assert queue.read(EqFlags.FI_PEEK) is None


def test_only_a_queue_opened_for_it_is_written(fabric, keep, queue):
    with refused(Errno.FI_ENOSYS):
        keep(fabric.eq_open()).write(1)
    for event in (-1, 1 << 32):
        with refused(Errno.FI_EINVAL):
            queue.write(event)


def test_a_wait_ends_with_its_time(queue):
    begin = time.monotonic()
    assert queue.sread(timeout=0.05) is None
    assert 0.05 <= time.monotonic() - begin < 5


def test_a_wait_ends_with_the_event_of_another_thread(queue):
    writer = threading.Timer(0.05, lambda: queue.write(1, context="at last"))
    writer.start()
    assert queue.sread(timeout=30).context == "at last"
    writer.join()


def test_a_queue_nobody_waits_for_cannot_be_waited_for(fabric, keep):
    queue = keep(fabric.eq_open(wait_obj=WaitObj.FI_WAIT_NONE))
    with refused(Errno.FI_ENOSYS):
        queue.sread(timeout=0)
    with refused(Errno.FI_ENOSYS):
        queue.fileno()


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ({"wait_obj": WaitObj.FI_WAIT_MUTEX_COND}, Errno.FI_ENOSYS),
        ({"wait_obj": WaitObj.FI_WAIT_SET}, Errno.FI_EINVAL),
        ({"flags": EqFlags.FI_PEEK}, Errno.FI_EBADFLAGS),
        ({"size": -1}, Errno.FI_EINVAL),
    ],
)
def test_queues_of_other_kinds_are_refused(fabric, arguments, number):
    with refused(number):
        fabric.eq_open(**arguments)


def test_the_descriptor_is_readable_while_there_are_events(fabric, keep):
    queue = keep(fabric.eq_open(flags=EqFlags.FI_WRITE, wait_obj=WaitObj.FI_WAIT_FD))

    def readable():
        return bool(select.select([queue], [], [], 0)[0])

    assert not readable()
    assert fabric.trywait(queue)
    queue.write(1)
    queue.write(2)
    assert readable()
    assert not fabric.trywait(queue)
    queue.read()
    assert readable()
    queue.read()
    assert not readable()
    queue.close()
    with refused(Errno.FI_EBADF):
        queue.fileno()


def test_writing_to_a_full_queue_is_to_be_repeated(fabric, keep):
    queue = keep(fabric.eq_open(2, EqFlags.FI_WRITE))
    queue.write(1)
    queue.write(2)
    with refused(Errno.FI_EAGAIN):
        queue.write(3)
    queue.read()
    queue.write(3)
    assert [queue.read().event, queue.read().event] == [2, 3]


def test_an_overrun_queue_gives_what_it_has_then_says_so(fabric, pair, keep):
    queue = keep(fabric.eq_open(1))
    domain = keep(fabric.domain(0))
    domain.bind(queue, DomainFlags.FI_REG_MR)
    for context in "kept", "lost":
        keep(domain.mr_reg(bytearray(8), ALL_ACCESS, context=context))
    assert queue.read().context == "kept"
    for _ in range(2):
        with refused(Errno.FI_EOVERRUN):
            queue.read()


def test_an_overrun_queue_takes_no_more_events(fabric, pair, keep):
    queue = keep(fabric.eq_open(1, EqFlags.FI_WRITE))
    domain = keep(fabric.domain(0))
    domain.bind(queue, DomainFlags.FI_REG_MR)
    for context in "kept", "lost":
        keep(domain.mr_reg(bytearray(8), ALL_ACCESS, context=context))
    with refused(Errno.FI_EOVERRUN):
        queue.write(1)
    assert queue.read().context == "kept"
    keep(domain.mr_reg(bytearray(8), ALL_ACCESS, context="lost, although there is room"))
    for refuse in queue.read, lambda: queue.write(1):
        with refused(Errno.FI_EOVERRUN):
            refuse()


# Memory regions


def test_registrations_of_a_domain_bound_for_it_report_their_end(fabric, keep, queue):
    domain = keep(fabric.domain(0))
    domain.bind(queue, DomainFlags.FI_REG_MR)
    region = keep(domain.mr_reg(bytearray(8), ALL_ACCESS, context="mine"))
    assert queue.read() == EqEntry(EqEvent.FI_MR_COMPLETE, region, "mine", 0)


def test_other_registrations_are_silent(fabric, keep, queue):
    domain = keep(fabric.domain(0))
    domain.bind(queue)
    keep(domain.mr_reg(bytearray(8), ALL_ACCESS))
    assert queue.read() is None


def test_a_domain_is_bound_once_to_a_queue_of_its_fabric(fabric, keep, queue):
    domain = keep(fabric.domain(0))
    with open_cluster(["model"]) as other, other.eq_open() as foreign, refused(Errno.FI_EINVAL):
        domain.bind(foreign)
    with refused(Errno.FI_EBADFLAGS):
        domain.bind(queue, DomainFlags(1))
    domain.bind(queue)
    with refused(Errno.FI_EINVAL):
        domain.bind(queue)
    queue.close()
    assert domain.closed


# Address vectors


@pytest.fixture
def vector(pair, keep, queue):
    """One whose insertions are reported on the queue."""
    opened = keep(pair[0].domain.av_open(flags=AvFlags.FI_EVENT))
    opened.bind(queue)
    return opened


def test_errors_of_an_insertion_precede_its_one_completion(pair, vector, queue):
    good = pair[1].endpoint.getname()
    inserted = vector.insert_all([good, b"bad", good, b""], context="mine")
    assert inserted.count == 0
    for index in (1, 3):
        with pytest.raises(ErrorAvailableError):
            queue.read()
        assert queue.readerr(EqFlags.FI_PEEK).data == index
        error = queue.readerr()
        assert error == EqErrEntry(vector, "mine", index, Errno.FI_EINVAL, Errno.FI_EINVAL, b"")
        assert queue.strerror(error.prov_errno) == "einval"
    assert queue.readerr() is None
    assert queue.read() == EqEntry(EqEvent.FI_AV_COMPLETE, vector, "mine", 2)
    assert [vector.lookup(number) for number in inserted.fi_addr[::2]] == [good, good]


def test_an_error_ends_a_wait(vector, queue):
    vector.insert_all([b"bad"])
    with pytest.raises(ErrorAvailableError):
        queue.sread(timeout=30)


def test_an_insertion_before_the_queue_is_bound_is_refused(pair, keep):
    vector = keep(pair[0].domain.av_open(flags=AvFlags.FI_EVENT))
    with refused(Errno.FI_ENOEQ):
        vector.insert_all([pair[1].endpoint.getname()])
    assert len(vector) == 0


def test_errors_are_either_events_or_returned(vector):
    with refused(Errno.FI_EBADFLAGS):
        vector.insert_all([b"bad"], flags=AvFlags.FI_SYNC_ERR)


def test_a_queue_is_bound_once_to_a_vector_that_reports(pair, keep, vector, queue):
    for other in (vector, keep(pair[0].domain.av_open())):
        with refused(Errno.FI_EINVAL):
            other.bind(queue)
    queue.close()
    assert vector.closed


def test_a_closed_queue_says_so(queue):
    queue.close()
    for use in (queue.read, queue.readerr, lambda: queue.sread(0), lambda: queue.write(1)):
        with refused(Errno.FI_EBADF):
            use()
