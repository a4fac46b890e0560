"""RTLIL and Verilog have the same text, whoever writes them.

Covers ``blocks.py`` and ``rtlil.py``.
"""

import shutil

import pytest
from amaranth.back import rtlil
from amaranth.back.verilog import YosysError
from amaranth.hdl import Module, Signal, signed
from amaranth.hdl._ir import DriverConflict
from amaranth.hdl._nir import CombinationalCycle, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amoeba_hw import yosys
from amoeba_hw.blocks import BLOCKS
from amoeba_hw.rtlil import generate_rtlil
from amoeba_hw.stream import Queue
from amoeba_hw.synthesis import harness_rtlil
from amoeba_hw.verilog import generate_verilog
from amoeba_model.parameters import NicParameters


class Rows(wiring.Component):
    """A memory of any shape that both ports use."""

    def __init__(self, shape, depth, init):
        self._memory = Memory(shape=shape, depth=depth, init=init)
        super().__init__({"row": In(8), "data": In(shape), "o": Out(shape)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = self._memory
        read, write = rows.read_port(), rows.write_port()
        m.d.comb += [
            read.addr.eq(self.row), self.o.eq(read.data),
            write.addr.eq(self.row), write.data.eq(self.data), write.en.eq(1),
        ]  # fmt: skip
        return m


COMPONENTS = {
    "a memory of zeros": lambda: Rows(16, 33, []),
    "a memory of rows": lambda: Rows(9, 5, [0x1FF, 0, 3, 0x100, 1]),
    "a memory of negative rows": lambda: Rows(signed(7), 4, [-1, -64, 63, 0]),
    "a memory of one bit": lambda: Rows(1, 1, [1]),
    "a memory without rows": lambda: Rows(8, 0, []),
    "a memory without columns": lambda: Rows(0, 4, []),
    "a queue": lambda: Queue(8, 3),
    "a block of the NIC": lambda: BLOCKS["RegisterBank"][1](NicParameters(data_width=128, contexts=1)),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_rtlil_is_the_text_that_amaranth_writes(name):
    expected = rtlil.convert(COMPONENTS[name](), name="top", emit_src=False)
    assert generate_rtlil(COMPONENTS[name]()) == expected


@pytest.mark.parametrize("write", [generate_rtlil, harness_rtlil], ids=["alone", "in a harness"])
def test_amaranth_checks_the_nets_of_values_again_once_rtlil_is_written(write):
    write(COMPONENTS["a queue"]())
    with pytest.raises(AssertionError):
        Value([1])


def test_amaranth_checks_the_nets_of_values_again_after_a_design_that_it_refuses():
    class Driven(Rows):
        def elaborate(self, platform):
            m = super().elaborate(platform)
            m.submodules.other = other = Module()
            other.d.comb += self.o.eq(0)
            return m

    with pytest.raises(DriverConflict):
        generate_rtlil(Driven(8, 4, []))
    with pytest.raises(AssertionError):
        Value([1])


class Feedback(wiring.Component):
    """A value of four bits that depends on an input, and on itself as ``path`` says."""

    i: In(4)
    o: Out(4)

    def __init__(self, path):
        self._path = path
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        value = Signal(4)
        self._path(m, value, self.i)
        m.d.comb += self.o.eq(value)
        return m


def straight(m, value, i):
    m.d.comb += value.eq(~value ^ i)


def by_two_signals(m, value, i):
    other = Signal(4)
    m.d.comb += [other.eq(value & i), value.eq(other)]


def by_a_sum(m, value, i):
    m.d.comb += [value[:2].eq(i), value[2:].eq((value + i)[:2])]


def by_a_choice(m, value, i):
    m.d.comb += value.eq(i.bit_select(value[:2], 2))


def by_a_condition(m, value, i):
    with m.If(value == 3):
        m.d.comb += value.eq(i)


@pytest.mark.parametrize("path", [straight, by_two_signals, by_a_sum, by_a_choice, by_a_condition])
def test_a_value_that_depends_on_itself_is_refused_in_amaranth_s_words(path):
    with pytest.raises(CombinationalCycle) as expected:
        rtlil.convert(Feedback(path), name="top", emit_src=False)
    with pytest.raises(CombinationalCycle) as told:
        generate_rtlil(Feedback(path))
    assert str(told.value) == str(expected.value)


def bit_after_bit(m, value, i):
    m.d.comb += [value[0].eq(i[0]), *(value[bit].eq(value[bit - 1] ^ i[bit]) for bit in range(1, 4))]


def by_a_register(m, value, i):
    m.d.sync += value.eq(value + i)


@pytest.mark.parametrize("path", [bit_after_bit, by_a_register])
def test_a_bit_may_depend_on_other_bits_of_its_value_and_a_register_on_itself(path):
    expected = rtlil.convert(Feedback(path), name="top", emit_src=False)
    assert generate_rtlil(Feedback(path)) == expected


@pytest.mark.parametrize("name", ["a memory of zeros", "a memory of rows", "a block of the NIC"])
def test_both_wheels_write_the_same_verilog(name, monkeypatch):
    native = generate_verilog(COMPONENTS[name]())
    monkeypatch.setattr(yosys, "native_yosys", lambda: False)
    assert generate_verilog(COMPONENTS[name]()) == native
    assert native.startswith("/* Generated by Yosys 0.70 (git sha1 ")


def test_a_yosys_that_fails_says_why(monkeypatch):
    with pytest.raises(YosysError, match="Unexpected token: modul"):
        yosys.write_verilog("modul \\top\nend\n")
    monkeypatch.setenv("YOSYS", shutil.which("false"))
    with pytest.raises(YosysError, match="exit status 1"):
        generate_verilog(Queue(8, 3))


def test_a_machine_without_yosys_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(yosys, "native_yosys", lambda: False)
    monkeypatch.setattr(yosys.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(YosysError, match=r"in a checkout of Amoeba, run pip install '\.\[hw\]'"):
        generate_verilog(Queue(8, 3))
