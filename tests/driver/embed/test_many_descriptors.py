"""Rests of processes whose descriptors have numbers that select() does not take."""

import os
import resource
import select
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from amoeba.embed import ProcessNic
from amoeba.libfabric.objects.constants import WaitObj
from amoeba.libfabric.provider.queues import Queues

HIGH = 1100


@pytest.fixture
def readable() -> Iterator[int]:
    """A descriptor above 1,024 that is readable, so that a rest on it ends at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * HIGH:
        pytest.skip("the system does not allow so many descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HIGH), hard))
    event = os.eventfd(1)
    os.dup2(event, HIGH)
    os.close(event)
    try:
        yield HIGH
    finally:
        os.close(HIGH)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_rests_on_a_device_with_a_high_descriptor(readable: int) -> None:
    looked: list[bool] = []
    nic = SimpleNamespace(network=SimpleNamespace(devices=()), device=readable, _look=lambda: looked.append(True))
    ProcessNic.rest(cast(Any, nic), 60)
    assert looked


@pytest.fixture
def awakened_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Descriptors that end the test's calls of ``select.poll().poll``."""
    found: list[int] = []
    make = select.poll

    class Poll:
        def __init__(self) -> None:
            self._poll = make()
            self.register = self._poll.register

        def poll(self, timeout: float) -> None:
            found.extend(descriptor for descriptor, _ in self._poll.poll(timeout))

    monkeypatch.setattr(select, "poll", Poll)
    return found


@pytest.mark.parametrize("which", ["queue", "network"])
def test_a_queue_is_waited_for_beside_a_network_with_high_descriptors(
    readable: int, awakened_by: list[int], which: str
) -> None:
    other = os.eventfd(0)
    outside, subject = (readable, other) if which == "network" else (other, readable)
    queues = SimpleNamespace(_process=SimpleNamespace(nic=SimpleNamespace(network=SimpleNamespace(outside=outside))))
    fid = SimpleNamespace(subject=subject, more=SimpleNamespace(wait_obj=WaitObj.FI_WAIT_FD))
    Queues._rest(cast(Any, queues), cast(Any, fid), None)
    os.close(other)
    assert awakened_by == [readable]
