"""The SystemRDL compiler reads the register map as the model declares it, and as a NIC of the model behaves.

Covers ``generate/system_rdl.py``.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from amoeba_model.generate import generated_files
from amoeba_model.layout import Access, Register
from amoeba_model.nic import ModelDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    ContextControl,
    KeyFlags,
    bar_blocks,
)
from systemrdl import RDLCompiler
from systemrdl.messages import MessagePrinter
from systemrdl.node import AddrmapNode, RegNode
from systemrdl.rdltypes import AccessType

PARAMETERS = NicParameters()
ACCESS = {AccessType.r: Access.R, AccessType.rw: Access.RW, AccessType.w: Access.W}


class Strict(MessagePrinter):
    """Makes warnings errors."""

    def print_message(self, severity, text, src_ref):
        raise AssertionError(f"{severity.name}: {text}")


@pytest.fixture(scope="module")
def bar(tmp_path_factory) -> AddrmapNode:
    path: Path = tmp_path_factory.mktemp("rdl") / "amoeba.rdl"
    path.write_text(generated_files()["amoeba.rdl"])
    compiler = RDLCompiler(message_printer=Strict())
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def registers(bar: AddrmapNode) -> dict[int, RegNode]:
    """All registers, each element by itself, by BAR offset."""
    found = [node for node in bar.descendants(unroll=True) if isinstance(node, RegNode)]
    by_address = {node.absolute_address: node for node in found}
    assert len(by_address) == len(found)
    return by_address


def declared() -> Iterator[tuple[int, str, Register]]:
    """BAR offset and block of each element of each register, but those of the blocks' headers."""
    for placed in bar_blocks(PARAMETERS):
        for register in placed.block.registers:
            for index in range(register.count):
                yield placed.address(register.name, index), placed.block.name, register
    for context in range(PARAMETERS.contexts):
        for register in DOORBELL_REGISTERS:
            yield DOORBELL_PAGE + context * DOORBELL_PAGE_SIZE + register.offset, "doorbells", register


def test_the_compiler_finds_each_declared_register_at_its_place(bar: AddrmapNode) -> None:
    expected = {address: (block, register.name) for address, block, register in declared()}
    for placed in bar_blocks(PARAMETERS):
        for offset, name in enumerate(("type", "version", "length", "next")):
            expected[placed.offset + 4 * offset] = (placed.block.name, name)
    found = {
        address: (node.get_path_segments()[1].partition("[")[0], node.inst_name)
        for address, node in registers(bar).items()
    }
    assert found == expected
    assert max(found) < BAR_SIZE
    for node in registers(bar).values():
        assert (node.get_property("regwidth"), node.get_property("accesswidth")) == (32, 32), node.get_path()


def test_each_register_has_the_access_the_bits_and_the_words_of_its_declaration(bar: AddrmapNode) -> None:
    found = registers(bar)
    for address, block, register in declared():
        node = found[address]
        where = f"{block}.{register.name}"
        assert {ACCESS[field.get_property("sw")] for field in node.fields()} == {register.access}, where
        assert node.get_property("desc") == register.doc, where
        bits = sum((1 << field.width) - 1 << field.low for field in node.fields())
        expected = 0xFFFF_FFFF if register.flags is None else sum(register.flags)
        assert bits == register.kept(expected), where
        if register.access is Access.RW:
            assert sum(field.get_property("reset") << field.low for field in node.fields()) == register.reset, where


def test_flags_are_fields_with_their_names(bar: AddrmapNode) -> None:
    control = bar.find_by_path("contexts.element[3].control")
    assert {field.inst_name: 1 << field.low for field in control.fields()} == dict(ContextControl.__members__)
    flags = bar.find_by_path("keys.flags")
    assert {field.inst_name: 1 << field.low for field in flags.fields()} == dict(KeyFlags.__members__)
    virtual = bar.find_by_path("keys.flags.VIRTUAL")
    assert virtual.get_property("desc").startswith("Remote addresses are virtual addresses")


def test_a_nic_begins_with_the_reset_values(bar: AddrmapNode) -> None:
    with ModelDevice(PARAMETERS) as nic:
        for address, node in registers(bar).items():
            if not node.has_sw_readable:
                continue
            resets = [(field.get_property("reset"), field.low) for field in node.fields()]
            if None not in [value for value, _ in resets]:
                assert nic.read(address) == sum(value << low for value, low in resets), node.get_path()
