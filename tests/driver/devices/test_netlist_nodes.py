"""The node's netlist of an Artix-7's cells as a device: its memory, for every operation, and on a lossy link."""

from pathlib import Path

import pytest
from amoeba import open_cluster, open_device
from amoeba_model.atomic.vectors import check, load
from amoeba_model.impairments import Impairments
from amoeba_model.registers import Counter
from amoeba_tools.replay import EndpointExecutor

from tests.support.memory_nodes import HOST, NODE, pair_of, program

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

KIND = "netlist:node"
RECORDED = Path(__file__).parents[2] / "data" / "libfabric-1.17-sockets.npz"
LOSSY = Impairments(seed=3, loss=0.02, duplication=0.02, reordering=0.02, corruption=0.02)
SOAK = 3
"""Programs of a soak: each has every operation once, with a READ or a WRITE after each."""


@pytest.fixture(scope="module", autouse=True)
def _built():
    """The netlist is made before the first test: half an hour, if nobody has made it before."""
    open_device(KIND).close()


def test_every_operation_has_the_results_and_the_cycles_of_the_rtl():
    found = []
    for kind in (KIND, "rtl"):
        with pair_of(kind) as pair:
            results = program(pair, seed=7)
            found.append((results, pair.fabric.nics[1].device.cycles, pair.fabric.nics[1].counters()))
    assert found[0] == found[1]


def test_operations_on_a_lossy_link_have_the_results_of_the_specification():
    results = []
    for kind, impairments in (("model", Impairments()), (KIND, LOSSY)):
        with pair_of(kind, impairments) as pair:
            results.append([program(pair, seed) for seed in range(SOAK)])
            host, node = (nic.counters() for nic in pair.fabric.nics)
            faults = pair.fabric.nics[1].device.faults()
    assert results[0] == results[1]
    assert min(host[Counter.RETRANSMISSIONS], node[Counter.DUPLICATES]) > 0
    assert faults == []


def test_recorded_vectors_of_its_datatypes_agree():
    with open_cluster(("model", KIND), (HOST, NODE)) as fabric, EndpointExecutor(fabric) as executor:
        cells = set(NODE.cells())
        results = [check(recorded, executor) for recorded in load(RECORDED) if recorded.cell in cells]
    assert {result.cell for result in results} == cells
    assert [str(result.cell) for result in results if result.mismatches] == []
