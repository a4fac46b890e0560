"""Objects close what was made from them, say so when they are used afterwards, and warn when they leak.

Covers ``core/process_memory.py``, ``nic/dma.py``, ``libfabric/objects/domain.py``,
``libfabric/objects/domain_base.py`` and ``libfabric/objects/memory_region.py``.
"""

import gc
import itertools
import os
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest
from amoeba import (
    AddressVector,
    ClosedError,
    CompletionQueue,
    ConnectedEndpoint,
    Counter,
    Domain,
    Endpoint,
    EndpointAddress,
    EndpointAlias,
    EpAttr,
    EpType,
    Errno,
    EventQueue,
    Fabric,
    FabricError,
    Info,
    MemoryRegion,
    MrAccess,
    Op,
    PassiveEndpoint,
    PollSet,
    Progress,
    ReceiveContext,
    Retransmission,
    ScalableEndpoint,
    SharedReceiveContext,
    SharedTransmitContext,
    TransmitContext,
    UnclosedRegionWarning,
    WaitObj,
    WaitSet,
    open_cluster,
)
from amoeba.aio import AsyncCompletionQueue
from amoeba.core.lifetime import FabricObject
from amoeba.core.locking import guarded
from amoeba.nic.dma import DmaMap, OfDomain
from amoeba_model.device import DeviceClosedError
from amoeba_model.nic.device import ModelDevice
from amoeba_model.trace import NO_CONTEXT

from tests.driver.endpoints import ALL_ACCESS, ON_MODEL, make_side


def test_closing_the_fabric_closes_everything_youngest_first(fabric, keep):
    side = keep(make_side(fabric.domain(0)))
    region = keep(side.domain.mr_reg(bytearray(8), ALL_ACCESS))
    fabric.close()
    assert all(o.closed for o in (side.domain, side.queue, side.peers, side.endpoint, region, fabric))


def test_close_is_idempotent(pair):
    for side in pair:
        for thing in (side.endpoint, side.queue, side.peers, side.domain):
            thing.close()
            thing.close()
            assert thing.closed


@pytest.mark.parametrize("resource", ["queue", "peers"])
def test_closing_what_an_endpoint_is_bound_to_closes_the_endpoint(pair, resource):
    getattr(pair[0], resource).close()
    assert pair[0].endpoint.closed
    assert not pair[0].domain.closed


def test_a_closed_endpoint_returns_its_context(fabric, keep):
    domain = keep(fabric.domain(0))
    for _ in range(3 * fabric.nics[0].parameters.contexts):
        keep(make_side(domain)).endpoint.close()


def test_operations_in_flight_finish_before_an_endpoint_is_closed(pair, target):
    memory, region = target
    for _ in range(10):
        pair[0].endpoint.atomic(np.uint64(1), 0, region.address, region.key, Op.FI_SUM)
    pair[0].endpoint.close()
    assert memory[0] == 10


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda side: side.endpoint.write(b"x", 0, 0, 0), id="write"),
        pytest.param(lambda side: side.endpoint.read(bytearray(1), 0, 0, 0), id="read"),
        pytest.param(lambda side: side.endpoint.atomic(np.uint64(1), 0, 0, 0, Op.FI_SUM), id="atomic"),
        pytest.param(lambda side: side.endpoint.getname(), id="getname"),
        pytest.param(lambda side: side.endpoint.enable(), id="enable"),
        pytest.param(lambda side: side.endpoint.bind(side.queue), id="bind"),
        pytest.param(lambda side: side.endpoint.__enter__(), id="with"),
        pytest.param(lambda side: side.queue.read(), id="cq.read"),
        pytest.param(lambda side: side.queue.sread(timeout=0), id="cq.sread"),
        pytest.param(lambda side: side.queue.readerr(), id="cq.readerr"),
        pytest.param(lambda side: side.peers.insert(bytes(18)), id="av.insert"),
        pytest.param(lambda side: side.peers.lookup(0), id="av.lookup"),
        pytest.param(lambda side: side.peers.remove(0), id="av.remove"),
        pytest.param(lambda side: side.domain.mr_reg(bytearray(8), MrAccess.FI_READ), id="mr_reg"),
        pytest.param(lambda side: side.domain.cq_open(), id="cq_open"),
        pytest.param(lambda side: side.domain.av_open(), id="av_open"),
        pytest.param(lambda side: side.domain.endpoint(), id="endpoint"),
        pytest.param(lambda side: side.domain.query_atomic(7, Op.FI_SUM), id="query_atomic"),
    ],
)
def test_use_after_close_says_so(pair, use):
    pair[0].domain.close()
    with pytest.raises(ClosedError) as caught:
        use(pair[0])
    assert caught.value.errno == Errno.FI_EBADF
    assert "closed" in str(caught.value)


def test_a_closed_fabric_opens_no_domain(fabric):
    fabric.close()
    with pytest.raises(ClosedError):
        fabric.domain(0)


def test_a_closed_region_cannot_be_a_desc(pair, target):
    _, region = target
    local = pair[0].domain.mr_reg(bytearray(16), ALL_ACCESS)
    local.close()
    with pytest.raises(ClosedError):
        pair[0].endpoint.write(bytes(16), pair[0].peer, region.address, region.key, desc=local)


def test_an_object_that_is_dropped_open_warns_and_is_closed(fabric, keep):
    domain = keep(fabric.domain(0))
    contexts = fabric.nics[0].parameters.contexts
    for _ in range(contexts + 1):  # one more than there are: each must have been released
        side = make_side(domain)
        for thing in ("endpoint", "queue", "peers"):
            with pytest.warns(ResourceWarning, match="unclosed <"):
                setattr(side, thing, None)


EVERY_OBJECT = {
    Domain: lambda fabric, domain: fabric.domain(1),
    MemoryRegion: lambda fabric, domain: domain.mr_reg(bytearray(8), ALL_ACCESS),
    AddressVector: lambda fabric, domain: domain.av_open(),
    CompletionQueue: lambda fabric, domain: domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD),
    Counter: lambda fabric, domain: domain.cntr_open(WaitObj.FI_WAIT_FD),
    PollSet: lambda fabric, domain: domain.poll_open(),
    WaitSet: lambda fabric, domain: fabric.wait_open(WaitObj.FI_WAIT_FD),
    EventQueue: lambda fabric, domain: fabric.eq_open(wait_obj=WaitObj.FI_WAIT_FD),
    Endpoint: lambda fabric, domain: domain.endpoint(),
    ConnectedEndpoint: lambda fabric, domain: domain.endpoint(EpType.FI_EP_MSG),
    PassiveEndpoint: lambda fabric, domain: fabric.passive_ep(Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))),
    EndpointAlias: lambda fabric, domain: make_side(domain).endpoint.alias(),
    SharedTransmitContext: lambda fabric, domain: domain.stx_context(),
    SharedReceiveContext: lambda fabric, domain: domain.srx_context(),
    ScalableEndpoint: lambda fabric, domain: domain.scalable_endpoint(),
    TransmitContext: lambda fabric, domain: domain.scalable_endpoint().tx_context(0),
    ReceiveContext: lambda fabric, domain: domain.scalable_endpoint().rx_context(0),
    AsyncCompletionQueue: lambda fabric, domain: AsyncCompletionQueue(domain.cq_open(wait_obj=WaitObj.FI_WAIT_FD)),
}
"""How to open each of them. The fabric itself is not opened by anything."""


def _kinds(base):
    """All classes that objects of libfabric's API are made of, as long as progress is manual."""
    kinds = [kind for kind in base.__subclasses__() if kind is not guarded(kind.__mro__[1])]
    for kind in kinds:
        yield from _kinds(kind)
    if (
        base.__module__.startswith("amoeba.")
        and not base.__module__.startswith("amoeba.openucx.")
        and (base is Endpoint or not kinds)
    ):
        yield base


def test_every_kind_of_object_is_tested_here():
    assert set(_kinds(FabricObject)) == {Fabric, *EVERY_OBJECT}


@ON_MODEL
@pytest.mark.parametrize("kind", EVERY_OBJECT, ids=lambda kind: kind.__name__)
def test_every_object_is_readable_and_closes_with_the_fabric(fabric, keep, kind):
    thing = keep(EVERY_OBJECT[kind](fabric, keep(fabric.domain(0))))
    assert type(thing) is kind
    name = repr(thing)
    assert name.startswith(f"<{kind.__name__} ")
    assert "object at" not in name
    assert "closed" not in name
    fabric.close()
    assert thing.closed
    assert "closed" in repr(thing)
    thing.close()


@pytest.mark.parametrize("kind", EVERY_OBJECT, ids=lambda kind: kind.__name__)
def test_every_object_does_the_same_with_automatic_progress(keep, kind):
    with open_cluster(progress=Progress.FI_PROGRESS_AUTO) as fabric:
        thing = keep(EVERY_OBJECT[kind](fabric, keep(fabric.domain(0))))
        assert type(thing) is guarded(kind)
        assert repr(thing).startswith(f"<{kind.__name__} ")
        assert "closed" not in repr(thing)
    assert thing.closed
    assert "closed" in repr(thing)
    thing.close()
    with pytest.raises(ClosedError):
        thing._check_open()


@ON_MODEL
@pytest.mark.parametrize("kind", EVERY_OBJECT, ids=lambda kind: kind.__name__)
def test_every_object_that_is_dropped_open_says_so_once_and_is_closed(fabric, kind):
    domain = fabric.domain(0)
    thing = EVERY_OBJECT[kind](fabric, domain)
    name, gone = repr(thing), weakref.ref(thing)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del thing
        gc.collect()
        messages = [str(warning.message) for warning in caught]
        caught.clear()  # a warning keeps what it is about
    assert messages.count(f"unclosed {name}{kind._consequence}") == 1
    assert gone() is None
    domain.close()


@ON_MODEL
@pytest.mark.parametrize("kind", EVERY_OBJECT, ids=lambda kind: kind.__name__)
def test_every_object_can_be_used_in_a_with_block(fabric, keep, kind):
    with EVERY_OBJECT[kind](fabric, keep(fabric.domain(0))) as thing:
        assert not thing.closed
        parent = keep(thing._parent)
    assert thing.closed
    assert not parent.closed
    with pytest.raises(ClosedError, match=f"{kind.__name__} is closed"):
        thing.__enter__()


@ON_MODEL
def test_a_long_life_of_opening_and_closing_leaves_nothing_behind(fabric, keep, monkeypatch):
    """Neither descriptors of the process, nor entries of the NIC's tables, nor access to memory."""
    nic, device = fabric.nics[0], fabric.devices[0]
    granted, left = [], []
    grant, revoke = device.grant, device.revoke
    monkeypatch.setattr(device, "grant", lambda a, n, **options: (granted.append((a, n)), grant(a, n, **options))[1])
    monkeypatch.setattr(device, "revoke", lambda a, n, **kw: (granted.remove((a, n)), revoke(a, n, **kw))[1])
    for _ in range(2):  # the first time, what the NIC keeps for good is made
        for make in EVERY_OBJECT.values():
            domain = fabric.domain(0)
            thing = keep(make(fabric, domain))
            domain.close()
            thing.close()
        tables = sorted(nic.contexts.free), sorted(nic.peers.free), sorted(nic.domains.free), len(nic.keys)
        left.append((tables, len(os.listdir("/proc/self/fd")), len(granted)))
    assert left[0] == left[1]


def test_a_dropped_region_stops_serving(pair, target):
    memory, region = target
    address, key = region.address, region.key
    extra = pair[1].domain.mr_reg(memory, ALL_ACCESS)
    other_key = extra.key
    with pytest.warns(UnclosedRegionWarning, match="unclosed <MemoryRegion .*: peers that use its key are refused"):
        del extra
    pair[0].endpoint.write(bytes(8), pair[0].peer, address, other_key)
    assert pair[0].failure().err == Errno.FI_ENOKEY
    pair[0].endpoint.write(bytes(8), pair[0].peer, address, key)
    pair[0].finish()


def test_closing_properly_does_not_warn(recwarn):
    with open_cluster(["model"]) as fabric, fabric.domain(0) as domain:
        side = make_side(domain)
        assert not side.endpoint.closed
    del side, domain, fabric
    gc.collect()
    assert [w for w in recwarn if w.category is ResourceWarning] == []


def test_buffers_live_until_their_operation_completes(pair, target):
    _, region = target
    result = np.zeros(64, np.uint64)
    gone = weakref.ref(result)
    pair[0].endpoint.read(result, pair[0].peer, region.address, region.key)
    del result
    gc.collect()
    assert gone() is not None
    pair[0].finish()
    gc.collect()
    assert gone() is None


def test_device_access_to_a_buffer_ends_with_its_operation(fabric, pair, target, monkeypatch):
    _, region = target
    granted = []
    device = fabric.devices[0]
    grant, revoke = device.grant, device.revoke
    monkeypatch.setattr(device, "grant", lambda a, n, **options: (granted.append((a, n)), grant(a, n, **options))[1])
    monkeypatch.setattr(device, "revoke", lambda a, n, **kw: (granted.remove((a, n)), revoke(a, n, **kw))[1])
    result = np.zeros(64, np.uint64)
    pair[0].endpoint.read(result, pair[0].peer, region.address, region.key)
    assert granted == [(result.ctypes.data, 512)]
    pair[0].finish()
    assert granted == []


def test_an_operation_on_a_registered_buffer_does_not_end_the_registration(fabric, pair, target, keep):
    client, server = pair
    memory, region = target
    buffer = np.arange(100, 164, dtype=np.uint64)
    own = keep(client.domain.mr_reg(buffer, ALL_ACCESS))
    client.endpoint.write(buffer, client.peer, region.address, region.key)  # without desc: an access of its own
    client.finish()
    assert memory.tolist() == buffer.tolist()
    server.endpoint.write(np.zeros(64, np.uint64), server.peer, own.address, own.key)
    server.finish()
    assert not buffer.any()


@pytest.mark.parametrize("whose", [None, 3, OfDomain(9)], ids=str)
@pytest.mark.parametrize("uses", list(itertools.product([False, True], repeat=3)), ids=str)
def test_a_range_is_accessible_as_long_as_somebody_uses_it(uses, whose):
    with ModelDevice() as device:
        dma = DmaMap(device)
        dma.join(3, 9)

        def allows(address, length, write):
            others = [device.memory.allows(address, length, write, context) for context in (0, 4)]
            assert not any(others) or whose is None
            return device.memory.allows(address, length, write, 3)

        for count, writable in enumerate(uses, 1):
            dma.grant(4096, 64, writable=writable, whose=whose)
            assert allows(4096, 64, False)
            assert allows(4096, 64, True) == any(uses[:count])
        for left in (2, 1, 0):
            dma.revoke(4096, 64, whose)
            assert allows(4096, 64, False) == bool(left)
            assert allows(4096, 64, True) == (any(uses) and bool(left))


def test_who_joins_a_domain_reaches_its_regions_until_it_leaves_it():
    with ModelDevice() as device:
        dma = DmaMap(device)

        def reach():
            return [context for context in (0, 1, 2, NO_CONTEXT) if device.memory.allows(4096, 64, True, context)]

        dma.join(0, 9)
        dma.grant(4096, 64, writable=True, whose=OfDomain(9))
        assert reach() == [0, NO_CONTEXT]
        dma.join(1, 9)
        dma.join(2, 8)
        assert reach() == [0, 1, NO_CONTEXT]
        dma.grant(4096, 64, writable=True, whose=1)
        dma.leave(1)
        assert reach() == [0, 1, NO_CONTEXT]  # by its own
        dma.revoke(4096, 64, 1)
        dma.join(0, 8)
        assert reach() == [NO_CONTEXT]
        dma.join(0, 9)
        dma.revoke(4096, 64, OfDomain(9))
        assert reach() == []
        assert not dma._users
        dma.leave(0)


def test_where_contexts_are_not_told_apart_all_share_a_grant():
    with ModelDevice() as device, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(device), "isolates_contexts", False)
        dma = DmaMap(device)
        for whose in (0, NO_CONTEXT, OfDomain(9)):
            dma.grant(4096, 64, writable=True, whose=whose)
        dma.join(1, 9)
        assert len(list(device.memory)) == 1
        assert device.memory.allows(4096, 64, True, 5)
        for whose in (0, NO_CONTEXT, OfDomain(9)):
            dma.revoke(4096, 64, whose)
        assert not list(device.memory)


def test_what_the_peer_never_answers_does_not_hold_up_close_for_long(fabric, pair, target, keep):
    memory, region = target
    client = pair[0]
    fabric.nics[0].retransmission = Retransmission(timeout=1 << 28)  # whatever the host's speed, it has not given up
    fabric.network.detach(fabric.devices[1])
    client.endpoint.atomic(np.uint64(1), client.peer, region.address, region.key, Op.FI_SUM)
    client.endpoint.close()
    assert memory[0] == 0
    # its context might still get an answer, so the next endpoint has another one
    following = keep(make_side(client.domain))
    assert EndpointAddress.unpack(following.endpoint.getname()).resource_index == 1


def test_objects_can_be_closed_after_their_device(fabric, pair, target):
    for device in fabric.devices:
        device.close()
    with pytest.raises(DeviceClosedError):
        pair[0].queue.read()
    fabric.close()
    assert target[1].closed
    assert pair[0].endpoint.closed


def test_a_fabric_needs_a_nic():
    with pytest.raises(FabricError, match=r"^FI_EINVAL"):
        Fabric([])


def test_a_region_that_is_dropped_is_told_of_without_any_option():
    """Python hides other ResourceWarnings; one that the program closes says nothing."""
    program = """
import amoeba
with amoeba.open_cluster(["model"]) as fabric:
    domain = fabric.domain(0)
    domain.mr_reg(bytearray(8), amoeba.MrAccess.FI_REMOTE_READ)
    domain.mr_reg(bytearray(8), amoeba.MrAccess.FI_REMOTE_READ).close()
    kept = domain.mr_reg(bytearray(8), amoeba.MrAccess.FI_REMOTE_READ)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert ended.stderr.count("UnclosedRegionWarning: unclosed <MemoryRegion 8 bytes") == 1
