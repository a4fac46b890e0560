"""No block of the NIC hands a ready signal on in the same cycle, except where ready_chains.toml lists it.

Covers ``analysis/design.py`` and ``analysis/ready_chains.py``.
"""

import tomllib
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.analysis.design import ElaboratedDesign
from amoeba_hw.analysis.ready_chains import ReadyDependency, blocks, longest_chain, ready_dependencies
from amoeba_hw.blocks import PCIE_BLOCKS
from amoeba_hw.nic import Nic
from amoeba_hw.stream import Demux, Queue, RegisteredArbiter, RegisterSlice, RoundRobinArbiter, SkidBuffer
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS, NicParameters

EXCEPTIONS = Path(__file__).with_name("ready_chains.toml")
SMALL = NicParameters(
    data_width=128, contexts=2, keys=16, peers=2, target_pdcs=2, window=16, payload=256, lines=16, receives=2,
    unexpected=2, event_counters=2, datatypes=(Datatype.FI_UINT64,), ops=(Op.FI_BOR,), single_cycle_products=False,
)  # fmt: skip
MAX_COMPONENTS = 2
"""Components in a combinational chain inside a block."""


class Chain(wiring.Component):
    """Streams through components in a row."""

    i: In(stream.Signature(8))
    o: Out(stream.Signature(8))

    def __init__(self, *parts):
        self._parts = parts
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        before = wiring.flipped(self.i)
        for number, part in enumerate(self._parts):
            m.submodules[f"part_{number}"] = part
            wiring.connect(m, before, part.i)
            before = part.o
        wiring.connect(m, before, wiring.flipped(self.o))
        return m


def causes(component):
    return {f"{found.ready} <- {found.cause}" for found in ready_dependencies(ElaboratedDesign(component), ())}


def test_a_register_for_ready_breaks_a_chain_and_one_for_valid_does_not():
    assert causes(SkidBuffer(8)) == set()
    assert causes(Queue(8, 2)) == set()
    assert causes(RegisterSlice(8)) == {"i.ready <- o.ready"}


def test_a_ready_that_depends_on_valid_or_on_other_inputs_is_found():
    arbiter = {"i.*.ready <- i.*.valid", "i.*.ready <- o.ready"}
    assert causes(RoundRobinArbiter(8, 3)) == arbiter
    assert causes(RegisteredArbiter(8, 3)) == {"i.*.ready <- o.ready"}
    assert causes(Demux(8, 2)) == {"i.ready <- o.*.ready", "i.ready <- select"}


def test_a_dependency_through_submodules_is_one_of_the_block():
    assert causes(Chain(RegisterSlice(8), RegisterSlice(8))) == {"i.ready <- o.ready"}
    assert causes(Chain(RegisterSlice(8), SkidBuffer(8), RegisterSlice(8))) == set()


def test_a_signal_that_enters_beside_the_ports_is_named():
    class Inner(wiring.Component):
        i: In(stream.Signature(8))

        def __init__(self, outer):
            super().__init__()
            self._outer = outer

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.i.ready.eq(self._outer)
            return m

    class Outer(wiring.Component):
        i: In(stream.Signature(8))

        def elaborate(self, platform):
            m = Module()
            toggles = Signal()
            m.d.sync += toggles.eq(~toggles)
            m.submodules.inner = inner = Inner(toggles)
            wiring.connect(m, wiring.flipped(self.i), inner.i)
            return m

    found = ready_dependencies(ElaboratedDesign(Outer()), ("inner",))
    assert {str(each) for each in found} == {"inner.i.ready <- (toggles)"}


@pytest.mark.parametrize(
    ("parts", "chain"),
    [
        ([SkidBuffer], ["part_0.i"]),
        ([RegisterSlice] * 3, ["part_0.i", "part_1.i", "part_2.i"]),
        ([RegisterSlice, RegisterSlice, SkidBuffer, RegisterSlice], ["part_0.i", "part_1.i", "part_2.i"]),
    ],
)
def test_the_longest_chain_ends_where_ready_comes_from_a_register(parts, chain):
    assert longest_chain(ElaboratedDesign(Chain(*(part(8) for part in parts))), ()) == chain


# The NIC ----------------------------------------------------------------------------------------------------


def expected(section):
    """Return what the list of exceptions has, a line for each."""
    listed = tomllib.loads(EXCEPTIONS.read_text())[section]
    return {f"{ready} <- {cause}" for ready, causes in listed.items() for cause in causes}


def assert_listed(found, listed):
    assert not found - listed, "a ready signal has to leave a block from a register (SkidBuffer, credits)"
    assert not listed - found, f"these chains are gone: remove them from {EXCEPTIONS.name}"


@pytest.fixture(scope="module")
def nic():
    return ElaboratedDesign(Nic(SMALL))


def test_ready_leaves_every_block_of_the_nic_from_a_register_but_the_listed_ones(nic):
    found = {str(each) for path in blocks(nic) for each in ready_dependencies(nic, path)}
    assert_listed(found, expected("nic"))


@pytest.mark.long
def test_the_full_build_has_no_other_chains():
    design = ElaboratedDesign(Nic(BUILDS["full"]))
    found = {str(each) for path in blocks(design) for each in ready_dependencies(design, path)}
    assert found == expected("nic")


@pytest.mark.parametrize("name", PCIE_BLOCKS)
def test_ready_leaves_every_block_of_the_pcie_endpoint_from_a_register_but_the_listed_ones(name):
    design = ElaboratedDesign(PCIE_BLOCKS[name][1](NicParameters(data_width=512)))
    listed = {line for line in expected("pcie") if line.startswith(f"{name}.")}
    found = {str(ReadyDependency(name, each.ready, each.cause)) for each in ready_dependencies(design, ())}
    assert_listed(found, listed)


def test_chains_inside_a_block_pass_two_components_but_the_listed_ones(nic):
    listed = tomllib.loads(EXCEPTIONS.read_text())["components"]
    chains = {".".join(path): longest_chain(nic, path) for path in blocks(nic)}
    too_long = {block: len(chain) for block, chain in chains.items() if len(chain) > MAX_COMPONENTS}
    shown = {block: " <- ".join(chains[block]) for block in too_long}
    assert too_long == listed, f"the longest chains are {shown}; lengths in {EXCEPTIONS.name} may only fall"


def test_every_folder_of_the_hardware_is_in_a_block_that_is_tried(nic):
    kinds = {type(component).__module__.split(".")[1] for component in blocks(nic).values()}
    assert {"initiator", "target", "memory", "wire", "host"} <= kinds
