"""Fabrics with automatic progress, and how to watch them without any call to the driver."""

import contextlib
import select
import threading
import time
from collections.abc import Iterator

from amoeba import BindFlags, Fabric, Progress, WaitObj, open_cluster
from amoeba_model.parameters import NicParameters

AUTO = Progress.FI_PROGRESS_AUTO
LONG = 60
"""Seconds in which anything ends."""


@contextlib.contextmanager
def automatic_cluster(kind: str, parameters: NicParameters | None) -> Iterator[Fabric]:
    """Two NICs of this kind. Afterwards there is no thread, nor did they reach for what they may not."""
    with open_cluster([kind] * 2, parameters, rtl_options={"host_latency": 40}, progress=AUTO) as opened:
        yield opened
        with contextlib.nullcontext() if opened.closed else opened.frozen():
            faults = [] if opened.closed else [fault for device in opened.devices for fault in device.faults()]
    assert faults == []
    assert threads_of_progress() == []


def eventually(so, what="it"):
    """Wait, without any call to the driver, until something is so."""
    deadline = time.monotonic() + LONG
    while not so():
        assert time.monotonic() < deadline, f"{what} did not come about in {LONG} s"
        time.sleep(0.001)


def is_readable(thing):
    return bool(select.select([thing], [], [], 0)[0])


def asleep(fabric):
    """Wait until the fabric's thread sleeps; returns how many rounds there were."""
    eventually(lambda: fabric._auto._asleep, "rest")
    return fabric._auto.rounds


def all_threads_of_progress():
    return [thread for thread in threading.enumerate() if thread.name == "amoeba progress"]


def threads_of_progress():
    """The threads of this test; pairs that whole sessions share have their own."""
    return [thread for thread in all_threads_of_progress() if thread not in threads_of_others]


threads_of_others = []
"""Threads from before the test."""


def make_counted(side, keep):
    """(endpoint to the same peers, counter of what it writes)."""
    counter, queue = keep(side.domain.cntr_open(WaitObj.FI_WAIT_FD)), keep(side.domain.cq_open())
    endpoint = keep(side.domain.endpoint(tx_size=16))
    endpoint.bind(queue)
    endpoint.bind(side.peers)
    endpoint.bind(counter, BindFlags.FI_WRITE)
    endpoint.enable()
    return endpoint, counter
