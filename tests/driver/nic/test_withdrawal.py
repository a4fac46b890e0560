"""Memory is free when its region, its endpoint or its mapping is closed, also in the middle of a peer's operation.

The device keeps a grant of the memory, so that an access that comes too late changes it.

Covers ``transport/context.py``.
"""

from collections.abc import Callable

import numpy as np
import pytest
from amoeba import Errno, Fabric, Op, OpFlags
from amoeba_model.device import DeviceError

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, Side, refused
from tests.support.draining import Busy
from tests.support.pages import Pages

LENGTH = 1 << 17
MULTI = OpFlags.FI_MULTI_RECV
DATA, GUARD, POISON = 0x11, 0x22, 0xEE
ROUNDS = pytest.mark.parametrize("rounds", [5, 11, 14, 20])
"""Network latencies before the memory is closed. On RTL the operation is then in flight."""


def poison(pages: Pages, advance: Callable[[], object]) -> None:
    """Change the memory, and see that the NIC writes it no more."""
    pages.bytes[:] = POISON
    for _ in range(60):
        advance()
    assert (pages.bytes == POISON).all()


@ROUNDS
@pytest.mark.parametrize("kind", ["write", "atomic"])
def test_a_peer_that_changes_a_region_changes_it_no_more_once_it_is_closed(fabric, pair, kind, rounds):
    client, server = pair
    pages, data = Pages(LENGTH, GUARD), np.full(LENGTH, DATA, np.uint8)
    region = server.domain.mr_reg(pages.bytes, ALL_ACCESS)
    fabric.devices[1].grant(pages.address, LENGTH)
    there = client.peer, region.address, region.key
    if kind == "write":
        client.endpoint.write(data, *there)
    else:
        client.endpoint.atomic(data.view(np.uint64), *there, Op.FI_SUM)
    for _ in range(rounds):
        fabric.advance()
    region.close()
    poison(pages, fabric.advance)
    fabric.devices[1].revoke(pages.address, LENGTH)
    assert client.failure().err is Errno.FI_ENOKEY


@ROUNDS
def test_a_peer_that_reads_a_region_reads_it_no_more_once_it_is_closed(fabric, pair, rounds):
    client, server = pair
    region = server.domain.mr_reg(np.full(LENGTH, DATA, np.uint8), ALL_ACCESS)
    client.endpoint.read(np.zeros(LENGTH, np.uint8), client.peer, region.address, region.key)
    for _ in range(rounds):
        fabric.advance()
    region.close()
    for _ in range(60):
        fabric.advance()
    assert fabric.devices[1].faults() == []


@ROUNDS
@pytest.mark.parametrize("kind", ["one message", "several messages", "a buffer of several messages"])
def test_receives_are_free_once_their_endpoint_is_closed(fabric, talkers, kind, rounds):
    one, other = talkers
    pages, data = Pages(LENGTH, GUARD), np.full(LENGTH, DATA, np.uint8)
    count = 1 if kind == "one message" else 16
    fabric.devices[1].grant(pages.address, LENGTH)
    if kind == "a buffer of several messages":
        other.endpoint.recv(pages.bytes, flags=MULTI)
    else:
        for place in np.split(pages.bytes, count):
            other.endpoint.recv(place)
    for part in np.split(data, count):
        one.endpoint.send(part, one.peer)
    for _ in range(rounds):
        fabric.advance()
    other.endpoint.close()
    poison(pages, fabric.advance)
    fabric.devices[1].revoke(pages.address, LENGTH)
    assert fabric.devices[1].faults() == []


@pytest.fixture
def busy(fabric: Fabric, pair: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> Busy:
    return Busy(pair[1].domain.nic, monkeypatch)


@ON_MODEL
def test_a_region_whose_requests_do_not_end_stays_open_without_its_key(pair, busy):
    client, server = pair
    memory = np.zeros(8, np.uint64)
    region = server.domain.mr_reg(memory, ALL_ACCESS)
    with refused(Errno.FI_ETIMEDOUT, "close again"):
        region.close()
    assert not region.closed
    assert len(busy.nic.keys) == 0
    client.endpoint.write(np.ones(1, np.uint64), client.peer, region.address, region.key)
    client.failure()
    again = server.domain.mr_reg(memory, ALL_ACCESS)  # the number of the key is free, and stays the other's
    busy.busy = False
    region.close()
    assert region.closed
    assert len(busy.nic.keys) == 1
    again.close()


@ON_MODEL
def test_ctrl_c_while_a_region_is_closed_loses_nothing(pair, busy, monkeypatch):
    region = pair[1].domain.mr_reg(np.zeros(8, np.uint64), ALL_ACCESS)

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(busy.nic, "advance", interrupt)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            region.close()
        assert not region.closed
    busy.busy = False
    region.close()
    assert region.closed
    assert len(busy.nic.keys) == 0


@ON_MODEL
def test_an_endpoint_whose_requests_do_not_end_keeps_its_context(pair, busy):
    contexts = busy.nic.contexts
    free = len(contexts.free)
    with refused(Errno.FI_ETIMEDOUT):
        pair[1].endpoint.close()
    assert pair[1].endpoint.closed
    contexts.reclaim()
    assert (len(contexts.free), len(contexts.retired)) == (free, 1)
    busy.busy = False
    contexts.reclaim()
    assert (len(contexts.free), len(contexts.retired)) == (free + 1, 0)


@ON_MODEL
@pytest.mark.parametrize("enabled", [False, True])
def test_a_nic_that_is_gone_uses_no_memory(fabric, pair, enabled, monkeypatch):
    server = pair[1]
    region = server.domain.mr_reg(np.zeros(8, np.uint64), ALL_ACCESS)
    if not enabled:
        server.endpoint.close()

    def gone(offset: int) -> int:
        raise DeviceError("it is gone")

    monkeypatch.setattr(fabric.devices[1], "read", gone)
    region.close()
    assert region.closed
    assert server.domain.nic.lost


@ON_MODEL
def test_a_nic_that_was_reset_has_ended_everything(fabric, pair):
    region = pair[1].domain.mr_reg(np.zeros(8, np.uint64), ALL_ACCESS)
    fabric.devices[1].function_reset()
    region.close()
    assert region.closed
