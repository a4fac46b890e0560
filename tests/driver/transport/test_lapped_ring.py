"""Peers answer out of order: requests to a silent one are lapped by later ones to others, and still end once.

Covers ``transport/rings.py`` and ``transport/transmit_rings.py``.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba import Errno, ErrorAvailableError, Fabric, Op
from amoeba.devices.addresses import ip_of, mac_of
from amoeba.devices.devices import DEVICE_KINDS, attach, open_device
from amoeba.nic.nic import Nic
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba.openucx.ucp.batches import put_batch
from amoeba.transport.batches import BATCH_FAILURE
from amoeba_model.network import Network

from tests.driver.endpoints import ALL_ACCESS, Side, make_side

LAPS = 3
ENTRIES = 16
KINDS = ("one", "chain", "batch", "batch to both")


@dataclass
class Trio:
    """A client whose ring has 16 entries, a peer that never answers, and one that does."""

    network: Network
    client: Side
    silent: int
    fast: int
    there: tuple[int, int]
    """Address and key of the silent one's memory."""
    here: tuple[int, int]
    """Of the fast one's."""
    memory: np.ndarray

    def post(self, kind: str) -> None:
        """Begin an operation that does not end: of one descriptor, of several, or of many."""
        endpoint, (address, key) = self.client.endpoint, self.there
        offsets = address + np.arange(4, dtype=np.uint64) * 8
        if kind == "one":
            endpoint.write(self.memory[:8], self.silent, address, key, context=kind)
        elif kind == "chain":
            pieces = [self.memory[:1], self.memory[2:4], self.memory[5:6]]
            endpoint.writev(pieces, self.silent, address, key, context=kind)
        elif kind == "batch":
            endpoint.atomic_batch(np.ones(4, np.uint64), self.silent, offsets, key, Op.FI_SUM, context=kind)
        else:
            peers = np.array([self.silent, self.fast] * 2)
            keys = np.array([key, self.here[1]] * 2, np.uint64)
            places = np.array([address, self.here[0]] * 2, np.uint64)
            endpoint.atomic_batch(np.ones(4, np.uint64), peers, places, keys, Op.FI_SUM, context=kind)

    def lap(self) -> None:
        """Write to the fast peer until the ring has gone round several times."""
        for number in range(LAPS * ENTRIES):
            self.client.endpoint.write(self.memory[:8], self.fast, *self.here, context=number)
            assert self.client.finish().op_context == number


@pytest.fixture(params=DEVICE_KINDS)
def devices(request: pytest.FixtureRequest, build_of) -> Iterator[list]:
    options = {"host_latency": 40}
    with ExitStack() as stack:
        kinds = (request.param, "model", "model")
        builds = [build_of(kind) for kind in kinds]
        opened = [open_device(kind, build, rtl_options=options) for kind, build in zip(kinds, builds, strict=True)]
        yield [stack.enter_context(device) for device in opened]


@pytest.fixture
def trio(devices, keep) -> Iterator[Trio]:
    network = Network()
    for number, device in enumerate(devices):
        attach(device, network, mac_of(number))
    nics = [Nic(device) for device in devices]
    for number, nic in enumerate(nics):
        nic.set_address(mac_of(number), ip_of(number))
    with Fabric(nics) as fabric:
        client, silent, fast = (make_side(keep(fabric.domain(number)), tx_size=ENTRIES) for number in range(3))
        keep((client, silent, fast))
        silent_number = client.peers.insert(silent.endpoint.getname())
        fast_number = client.peers.insert(fast.endpoint.getname())
        memory = np.zeros(64, np.uint64)
        regions = [keep(side.domain.mr_reg(np.zeros(64, np.uint64), ALL_ACCESS)) for side in (silent, fast)]
        there, here = ((region.address, region.key) for region in regions)
        network.cut(devices[1])
        yield Trio(network, client, silent_number, fast_number, there, here, memory)


def failures_of(side: Side, count: int) -> list:
    """Error entries, of which there must be so many and no more."""
    found = []
    deadline = time.monotonic() + 60
    quiet = 0
    while quiet < 50 and time.monotonic() < deadline:
        try:
            assert side.queue.read(ENTRIES) == []
            quiet += len(found) == count
        except ErrorAvailableError:
            found.append(side.queue.readerr())
    assert len(found) == count
    assert {each.err for each in found} == {Errno.FI_ENODEV}
    return found


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), ("chain", "one", "batch")], ids=" ".join)
def test_a10_what_was_lapped_ends_once_when_the_nic_is_reset(trio, devices, kinds):
    for kind in kinds:
        trio.post(kind)
    trio.lap()
    devices[0].function_reset()
    failures = failures_of(trio.client, len(kinds))
    assert [each.op_context for each in failures] == list(kinds)
    for failure in failures:
        if failure.op_context == "batch":
            assert np.frombuffer(failure.err_data, BATCH_FAILURE)["index"].tolist() == [0, 1, 2, 3]
        if failure.op_context == "batch to both":
            assert np.frombuffer(failure.err_data, BATCH_FAILURE)["index"].tolist() == [0, 2]


@pytest.mark.parametrize("kind", ["put", "chain", "batch"])
@pytest.mark.parametrize("end", ["force", "reset", "destroy"])
def test_a10_what_was_lapped_ends_once_when_its_endpoint_is_closed_by_force(kind, end):
    with open_adapters(("model",) * 3) as adapters:
        contexts = [ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_RMA), adapter=each) for each in adapters]
        workers = [ucp.ucp_worker_create(each, ucp.ucp_worker_params_t()) for each in contexts]
        eps, keys, places = [], [], []
        for context, worker in zip(contexts[1:], workers[1:], strict=True):
            params = ucp.ucp_ep_params_t(
                address=ucp.ucp_worker_get_address(worker)[0], err_mode=ucp.UCP_ERR_HANDLING_MODE_PEER
            )
            eps.append(ucp.ucp_ep_create(workers[0], params))
            place = np.zeros(4096, np.uint8)
            memory = ucp.ucp_mem_map(context, ucp.ucp_mem_map_params_t(address=place, length=4096))
            keys.append(ucp.ucp_ep_rkey_unpack(eps[-1], ucp.ucp_rkey_pack(context, memory)[0]))
            places.append(place)
        adapters.network.cut(adapters.nics[1].device)
        heard = []
        param = ucp.ucp_request_param_t(cb=lambda request, status, *told: heard.append(status))
        source, there = np.ones(4096, np.uint8), places[0].ctypes.data
        if kind == "put":
            ucp.ucp_put_nbx(eps[0], source, 4096, there, keys[0], param)
        elif kind == "chain":
            pieces = [ucp.ucp_dt_iov_t(source[:100], 100), ucp.ucp_dt_iov_t(source[200:300], 100)]
            param.datatype = ucp.UCP_DATATYPE_IOV
            ucp.ucp_put_nbx(eps[0], pieces, 2, there, keys[0], param)
        else:
            batch = put_batch(keys[0], source.reshape(-1, 512), there + 512 * np.arange(8))
            batch.callback = param.cb
        entries = workers[0].rings.entries
        done = 0
        while done < entries + 100:
            sent = [ucp.ucp_put_nbx(eps[1], source, 128, places[1].ctypes.data, keys[1], None) for _ in range(64)]
            while not all(each.done for each in sent):
                workers[0].progress()
            done += len(sent)
        assert heard == []
        if end == "force":
            ucp.ucp_ep_close_nbx(eps[0], ucp.ucp_request_param_t(flags=ucp.UCP_EP_CLOSE_FLAG_FORCE))
            assert heard == [ucp.UCS_ERR_CANCELED]
        elif end == "destroy":
            ucp.ucp_worker_destroy(workers[0])
            assert heard == [ucp.UCS_ERR_CANCELED]
        else:
            adapters.nics[0].device.function_reset()
            for _ in range(200):
                workers[0].progress()
            assert heard == [ucp.UCS_ERR_NO_DEVICE]
        if end == "force":
            for _ in range(100):
                workers[0].progress()
        assert len(heard) == 1
