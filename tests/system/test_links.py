"""Impaired links between whole NICs: what they must bear already, alike on model and RTL."""

import contextlib

import numpy as np
import pytest
from amoeba import MrAccess, Op, open_cluster
from amoeba_model.impairments import Impairments
from amoeba_model.wire.codec import DecodedFrame, Drop, decode
from amoeba_tools.random_access import run_gups

from tests.support.pairs import PAIRS

RIGHTS = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE


class Counter:
    """A counter in the memory behind NIC 0, and an endpoint of NIC 1 that adds to it. A context manager."""

    def __init__(self, fabric):
        self.exits = contextlib.ExitStack()
        hold = self.exits.enter_context
        self.value, self.found = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
        target, source = hold(fabric.domain(0)), hold(fabric.domain(1))
        self.region = hold(target.mr_reg(self.value, RIGHTS))
        served = hold(target.endpoint(cq=hold(target.cq_open()), av=hold(target.av_open())))
        self.queue, peers = hold(source.cq_open()), hold(source.av_open())
        self.endpoint = hold(source.endpoint(cq=self.queue, av=peers))
        self.peer = peers.insert(served.getname())

    def post(self):
        """Begin to add 1."""
        self.endpoint.fetch_atomic(
            np.uint64(1), self.found, self.peer, self.region.address, self.region.key, Op.FI_SUM
        )

    def add(self):
        """Add 1; what was found before."""
        self.post()
        assert self.queue.sread(timeout=60)
        return int(self.found[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.exits.close()


@pytest.mark.parametrize("kinds", PAIRS)
def test_delay_costs_time_and_nothing_else(kinds):
    cycles = []
    for delay in (0, 1000):
        with open_cluster(kinds.split(","), impairments=Impairments(delay=delay)) as fabric:
            result = run_gups(fabric, table_bits=6, window=16)
            traffic = fabric.network.traffic
        assert result.passed
        # a request and an answer for each update, and for each of the two ranks' two delivery contexts at its end
        assert traffic.delivered == traffic.sent == 2 * (256 + 4)
        assert (traffic.delayed > 0.9 * traffic.sent) == bool(delay)
        cycles.append(result.cycles)
    assert cycles[1] > 1.5 * cycles[0]


def test_equal_traffic_meets_an_equal_fate_on_model_and_rtl():
    fates = []
    for kinds in PAIRS:
        links = Impairments(seed=5, delay=300)
        with open_cluster(kinds.split(","), impairments=links) as fabric, Counter(fabric) as counter:
            fabric.network.recording = True
            assert [counter.add() for _ in range(20)] == list(range(20))
            log = list(fabric.network.log)
        fates.append([[frame.remark for sender, frame in log if sender == nic] for nic in (0, 1)])
    assert len(fates[0][0]) == len(fates[0][1]) == 20
    assert len(set(fates[0][0])) > 10
    assert fates[0] == fates[1] == fates[2] == fates[3]


@pytest.mark.parametrize("kinds", PAIRS)
def test_a_paused_link_holds_up_an_operation_until_it_is_resumed(kinds):
    with open_cluster(kinds.split(",")) as fabric, Counter(fabric) as counter:
        network, target = fabric.network, fabric.devices[0]
        network.pause(target)
        counter.post()
        for _ in range(50):
            assert counter.queue.read() == []
        assert (counter.value[0], network.in_flight) == (0, 1)
        network.resume(target)
        assert counter.queue.sread(timeout=60)
        assert counter.value[0] == 1


def test_what_corruption_makes_of_a_frame_is_never_taken_for_what_was_sent():
    """Bits that UET's CRC covers: the headers before them, ports and addresses, have at most IPv4's checksum."""
    with open_cluster(["model", "model"]) as fabric, Counter(fabric) as counter:
        fabric.network.recording = True
        counter.add()
        (sent, _), links = (frame.data for _, frame in fabric.network.log), Impairments(corruption=1)
    whole = decode(sent)
    assert isinstance(whole, DecodedFrame)
    drops = 0
    for number in range(2000):
        (copy,) = links.fate("link", number, sent)
        told = decode(copy.data)
        if isinstance(told, Drop):
            drops += 1
        else:
            assert copy.data[42:] == sent[42:], "only Ethernet, IPv4 and UDP may differ"
    assert drops > 1000
