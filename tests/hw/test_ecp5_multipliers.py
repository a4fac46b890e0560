"""Registers that move into the ECP5's multipliers, in small netlists and in that of the multiplier array."""

import json
import math
import random
from collections import Counter

import pytest
from amaranth.back import rtlil
from amoeba_hw.atomic.multiply import SegmentedMultiplier
from amoeba_hw.ecp5_multipliers import move_registers
from amoeba_hw.synthesis import Harness, run_yosys

CLOCK, OTHER_CLOCK, ENABLE, RESET = range(2, 6)
FIRST_NET = 10
PLAIN = {"CEMUX": "1 ", "CLKMUX": "CLK", "GSR": "DISABLED", "LSRMUX": "LSR", "REGSET": "RESET"}


class Netlist:
    """A netlist that is made cell by cell, in Yosys' format."""

    def __init__(self):
        self.cells, self.ports, self._nets = {}, {}, FIRST_NET

    def nets(self, count):
        self._nets += count
        return list(range(self._nets - count, self._nets))

    def port(self, name, direction, nets):
        self.ports[name] = {"direction": direction, "bits": nets}
        return nets

    def register(self, source, clock=CLOCK, connections=None, **parameters):
        """Returns its output."""
        (output,) = self.nets(1)
        inputs = {"CLK": [clock], "DI": [source], "LSR": ["0"], **(connections or {})}
        self.cells[f"register_{output}"] = {
            "type": "TRELLIS_FF",
            "parameters": {**PLAIN, **parameters},
            "port_directions": {**dict.fromkeys(inputs, "input"), "Q": "output"},
            "connections": {**inputs, "Q": [output]},
        }
        return output

    def registers(self, sources, **how):
        return [self.register(source, **how) for source in sources]

    def multiplier(self, a, b):
        """Returns its 36 outputs; a and b are padded with zeros."""
        product = self.nets(36)
        factors = {
            f"{side}{bit}": [nets[bit] if bit < len(nets) else "0"]
            for side, nets in (("A", a), ("B", b))
            for bit in range(18)
        }
        self.cells[f"multiplier_{product[0]}"] = {
            "type": "MULT18X18D",
            "parameters": {},
            "port_directions": {
                **dict.fromkeys(factors, "input"),
                **{f"P{bit}": "output" for bit in range(36)},
            },
            "connections": {**factors, **{f"P{bit}": [net] for bit, net in enumerate(product)}},
        }
        return product

    def moved(self):
        """The cells afterwards; what was passed in is the same as before."""
        netlist = {"modules": {"top": {"ports": self.ports, "cells": self.cells}}}
        before = json.dumps(netlist)
        cells = move_registers(netlist)["modules"]["top"]["cells"]
        assert json.dumps(netlist) == before
        return cells


def multipliers(cells):
    return [cell for cell in cells.values() if cell["type"] == "MULT18X18D"]


def register_count(cells):
    return sum(cell["type"] == "TRELLIS_FF" for cell in cells.values())


def held(cell):
    """The registers of a block."""
    return {name.split("_")[1] for name, value in cell["parameters"].items() if value == "CLK0"}


def chain(a_bits=18, b_bits=18, a=None, b=None, product=None):
    """Registers, a multiplier and registers; the inputs, the registers behind the factors, and the product."""
    netlist = Netlist()
    inputs = netlist.port("i", "input", netlist.nets(a_bits + b_bits))
    left = netlist.registers(inputs[:a_bits], **(a or {}))
    right = netlist.registers(inputs[a_bits:], **(b or {}))
    raw = netlist.multiplier(left, right)
    netlist.port("o", "output", netlist.registers(raw, **(product or {})))
    return netlist, inputs, left + right, raw


def test_registers_on_all_sides_move_into_the_block():
    netlist, inputs, _, _ = chain()
    cells = netlist.moved()
    (block,) = multipliers(cells)
    assert len(cells) == 1
    assert held(block) == {"INPUTA", "INPUTB", "OUTPUT"}
    connections = block["connections"]
    assert [connections[f"A{bit}"] for bit in range(18)] == [[net] for net in inputs[:18]]
    assert [connections[f"B{bit}"] for bit in range(18)] == [[net] for net in inputs[18:]]
    assert [connections[f"P{bit}"] for bit in range(36)] == [[net] for net in netlist.ports["o"]["bits"]]


def test_the_block_s_registers_load_in_every_cycle_and_have_no_reset():
    (block,) = multipliers(chain()[0].moved())
    assert {name: block["connections"][name] for name in ("CLK0", "CE0", "RST0")} == {
        "CLK0": [CLOCK],
        "CE0": ["1"],
        "RST0": ["0"],
    }
    assert all(block["port_directions"][name] == "input" for name in ("CLK0", "CE0", "RST0"))
    assert block["parameters"]["GSR"] == "DISABLED"


def test_registers_that_gsr_resets_move_into_a_block_that_it_resets():
    enabled = {"GSR": "ENABLED"}
    (block,) = multipliers(chain(a=enabled, b=enabled, product=enabled)[0].moved())
    assert held(block) == {"INPUTA", "INPUTB", "OUTPUT"}
    assert block["parameters"]["GSR"] == "ENABLED"


def test_bits_that_are_zero_need_no_register():
    cells = chain(a_bits=16, b_bits=3)[0].moved()
    assert register_count(cells) == 0
    (block,) = multipliers(cells)
    assert held(block) == {"INPUTA", "INPUTB", "OUTPUT"}
    assert block["connections"]["A16"] == block["connections"]["B3"] == ["0"]


def test_a_bit_that_is_one_stays_outside():
    """In the block's register it would be zero in the first cycle."""
    netlist = Netlist()
    inputs = netlist.port("i", "input", netlist.nets(4))
    netlist.multiplier([*netlist.registers(inputs[:2]), "1"], netlist.registers(inputs[2:]))
    cells = netlist.moved()
    assert register_count(cells) == 4
    assert held(*multipliers(cells)) == set()


NOT_PLAIN = {
    "enable": {"CEMUX": "CE", "connections": {"CE": [ENABLE]}},
    "enable, inverted": {"CEMUX": "INV", "connections": {"CE": [ENABLE]}},
    "reset": {"connections": {"LSR": [RESET]}},
    "begins as one": {"REGSET": "SET"},
    "other edge": {"CLKMUX": "INV"},
    "global reset, unlike the others": {"GSR": "ENABLED"},
    "reset inverted": {"LSRMUX": "INV"},
}


@pytest.mark.parametrize("how", NOT_PLAIN.values(), ids=NOT_PLAIN)
@pytest.mark.parametrize("side", ["a", "b"])
def test_factors_stay_outside_if_one_has_no_plain_register(side, how):
    cells = chain(**{side: how})[0].moved()
    assert held(*multipliers(cells)) == {"OUTPUT"}
    assert register_count(cells) == 36


@pytest.mark.parametrize("how", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_a_product_stays_outside_if_it_has_no_plain_register(how):
    cells = chain(product=how)[0].moved()
    assert held(*multipliers(cells)) == {"INPUTA", "INPUTB"}
    assert register_count(cells) == 36


def test_factors_of_two_clocks_stay_outside():
    cells = chain(b={"clock": OTHER_CLOCK})[0].moved()
    assert held(*multipliers(cells)) == {"OUTPUT"}


def test_a_product_of_another_clock_than_the_factors_stays_outside():
    cells = chain(product={"clock": OTHER_CLOCK})[0].moved()
    assert held(*multipliers(cells)) == {"INPUTA", "INPUTB"}


@pytest.mark.parametrize("side", [0, 1])
def test_factors_stay_outside_if_one_comes_from_elsewhere(side):
    netlist = Netlist()
    inputs = netlist.port("i", "input", netlist.nets(4))
    factors = [netlist.registers(inputs[:2]), netlist.registers(inputs[2:])]
    factors[side][1] = inputs[0]
    netlist.multiplier(*factors)
    assert held(*multipliers(netlist.moved())) == set()


def test_a_factor_that_is_all_zero_leaves_the_other_outside():
    cells = chain(b_bits=0)[0].moved()
    assert held(*multipliers(cells)) == {"OUTPUT"}


def test_a_factor_s_register_stays_for_what_else_reads_it():
    netlist, inputs, factors, _ = chain()
    netlist.port("also", "output", [factors[0]])
    cells = netlist.moved()
    (block,) = multipliers(cells)
    assert held(block) == {"INPUTA", "INPUTB", "OUTPUT"}
    assert block["connections"]["A0"] == [inputs[0]]
    assert [name for name in cells if "register" in name] == [f"register_{factors[0]}"]


def test_multipliers_that_share_a_factor_s_registers_each_take_them():
    netlist = Netlist()
    inputs = netlist.port("i", "input", netlist.nets(18))
    factor = netlist.registers(inputs)
    netlist.multiplier(factor, factor)
    netlist.multiplier(factor, factor)
    cells = netlist.moved()
    assert register_count(cells) == 0
    assert [held(block) for block in multipliers(cells)] == [{"INPUTA", "INPUTB"}] * 2


def test_a_product_that_something_else_reads_stays_outside():
    netlist, _, _, raw = chain()
    netlist.port("also", "output", [raw[35]])
    assert held(*multipliers(netlist.moved())) == {"INPUTA", "INPUTB"}


def test_a_product_that_is_an_enable_stays_outside():
    netlist, _, _, raw = chain()
    del netlist.cells[f"register_{netlist.ports['o']['bits'].pop()}"]
    netlist.register(netlist.ports["i"]["bits"][0], CEMUX="CE", connections={"CE": [raw[35]]})
    assert held(*multipliers(netlist.moved())) == {"INPUTA", "INPUTB"}


def test_a_register_between_two_multipliers_moves_once():
    netlist, _, _, _ = chain()
    first = netlist.ports.pop("o")["bits"]
    other = netlist.registers(netlist.port("j", "input", netlist.nets(18)))
    netlist.port("o", "output", netlist.multiplier(first[:18], other))
    before, after = multipliers(netlist.moved())
    assert (held(before), held(after)) == ({"INPUTA", "INPUTB", "OUTPUT"}, set())


def simulate(ports, cells, cycles, seed):
    """The outputs in every cycle, of random inputs."""
    draw = random.Random(seed)
    registers = [cell for cell in cells.values() if cell["type"] == "TRELLIS_FF"]
    blocks = multipliers(cells)
    state = [0] * len(registers)
    factors, products = [(0, 0)] * len(blocks), [0] * len(blocks)
    seen = []
    for _ in range(cycles):
        values = {"0": 0, ENABLE: draw.getrandbits(1)} | {net: draw.getrandbits(1) for net in ports["i"]["bits"]}
        values |= {cell["connections"]["Q"][0]: bit for cell, bit in zip(registers, state, strict=True)}

        def read(block, values=values):
            nets = block["connections"]
            return tuple(sum(values[nets[f"{side}{bit}"][0]] << bit for bit in range(18)) for side in "AB")

        # Blocks with registers know their product; of the others, each reads none but those made before it.
        for index in sorted(range(len(blocks)), key=lambda index: not held(blocks[index])):
            block = blocks[index]
            if "OUTPUT" in held(block):
                product = products[index]
            else:
                product = math.prod(factors[index] if "INPUTA" in held(block) else read(block))
            values |= {block["connections"][f"P{bit}"][0]: product >> bit & 1 for bit in range(36)}
        seen.append([values[net] for net in ports["o"]["bits"]])
        state = [
            values[cell["connections"]["DI"][0]] if cell["parameters"]["CEMUX"] == "1 " or values[ENABLE] else bit
            for cell, bit in zip(registers, state, strict=True)
        ]
        read_now = [read(block) for block in blocks]
        products = [
            math.prod(before if "INPUTA" in held(block) else now)
            for block, before, now in zip(blocks, factors, read_now, strict=True)
        ]
        factors = read_now
    return seen


def random_netlist(seed):
    """Multipliers with registers and without, some with an enable, some read by others too."""
    draw = random.Random(seed)
    netlist = Netlist()
    available = netlist.port("i", "input", netlist.nets(6))[:]
    kinds = [{}, {}, {}, None, {"CEMUX": "CE", "connections": {"CE": [ENABLE]}}]
    for _ in range(3):
        factors = []
        for _ in range(2):
            factor, how = draw.sample(available, 4), draw.choice(kinds)
            factors.append(factor if how is None else netlist.registers(factor, **how))
        product, how = netlist.multiplier(*factors)[:8], draw.choice(kinds)
        available += product if how is None else netlist.registers(product, **how)
        available += draw.choice([[], factors[0], product])
    netlist.port("o", "output", available[6:])
    return netlist


def test_no_cycle_is_different():
    moves = Counter()
    for seed in range(200):
        netlist = random_netlist(seed)
        cells = netlist.moved()
        moves.update(register for block in multipliers(cells) for register in held(block))
        before, after = (simulate(netlist.ports, some, 30, seed) for some in (netlist.cells, cells))
        assert before == after, f"random_netlist({seed})"
    assert min(moves["INPUTA"], moves["OUTPUT"]) > 50


@pytest.mark.parametrize("global_reset", [False, True])
def test_the_multiplier_array_has_all_registers_of_its_tiles_in_the_blocks(tmp_path, global_reset):
    top = Harness(SegmentedMultiplier(), global_reset=global_reset)
    (tmp_path / "top.il").write_text(rtlil.convert(top, emit_src=False))
    run_yosys(tmp_path, "read_rtlil top.il; synth_ecp5 -top top -json top.json")
    netlist = json.loads((tmp_path / "top.json").read_text())
    before, after = (some["modules"]["top"]["cells"] for some in (netlist, move_registers(netlist)))
    assert [held(block) for block in multipliers(after)] == [{"INPUTA", "INPUTB", "OUTPUT"}] * 16
    # Tiles share the registers of factors that are the same, and of all products 32 bits count.
    assert register_count(before) - register_count(after) > 16 * 32 + 4 * 2 * 16
