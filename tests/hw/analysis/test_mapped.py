"""Levels and area of netlists: of cells put together by hand, and of a design that Yosys maps."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.analysis.mapped import MappedNetlist, mark_modules
from amoeba_hw.synthesis import count_ecp5, harness_rtlil, map_ecp5_rtlil

OUTPUTS = {"Z", "Q", "S0", "S1", "COUT", "DO", "P"}


def cell(kind, module="top.block", parameters=None, **ports):
    """Make a cell as Yosys writes it; a port with one bit may be that bit."""
    connections = {port: bits if isinstance(bits, list) else [bits] for port, bits in ports.items()}
    return {
        "type": kind,
        "parameters": parameters or {},
        "attributes": {"src": f"{module}|/share/cells_map.v:1.1-2.2"},
        "port_directions": {port: "output" if port in OUTPUTS else "input" for port in connections},
        "connections": connections,
    }


def mapped(cells, names=None):
    netnames = {name: {"bits": [bit]} for name, bit in (names or {}).items()}
    scopes = {name: {"type": "$scopeinfo"} for name in ("block", "block.deep", "block.deep.rows")}
    return MappedNetlist({"modules": {"top": {"cells": {**cells, **scopes}, "netnames": netnames}}})


def register(d, q, module="top.block"):
    return cell("TRELLIS_FF", module, CLK=1, DI=d, Q=q)


def test_a_path_goes_from_a_register_to_a_register_and_names_what_it_passes():
    found = mapped(
        {
            "from": register("0", 10),
            "first": cell("LUT4", A=10, B="1", C="1", D="1", Z=11),
            "second": cell("LUT4", A=11, B=10, C="1", D="1", Z=12),
            "third": cell("LUT4", A=12, B=10, C="1", D="1", Z=13),
            "to": register(13, 14),
        },
        {"block.deep.count": 10, "block.sum": 12, "block.result": 14, "first_Z": 11},
    ).longest_paths(1)
    assert found[""].levels == 3
    assert str(found[""]) == "deep.count -> (top) -> sum -> result"


@pytest.mark.parametrize("length", [1, 5])
def test_a_carry_chain_is_one_level_however_long(length):
    links = {
        f"link_{i}": cell("CCU2C", A0=10, B0=10, C0="1", D0="1", CIN=20 + i, S0=40 + i, COUT=21 + i)
        for i in range(length)
    }
    found = mapped({"from": register("0", 10), **links, "to": register(40 + length - 1, 60)})
    assert found.longest_paths(1)[""].levels == 1


def test_a_table_of_lut_ram_is_read_in_a_level_and_written_at_the_end_of_a_path():
    cells = {
        "from": register("0", 10),
        "logic": cell("LUT4", A=10, Z=11),
        "rows": cell("TRELLIS_DPR16X4", RAD=[11], DO=[12], WAD=[15], DI=[16], WRE=10, WCK=1),
        "to": register(12, 13),
    }
    assert mapped(cells).longest_paths(1)[""].levels == 2
    more = {f"logic_{i}": cell("LUT4", A=11 if i == 0 else 20 + i, Z=21 + i) for i in range(3)}
    cells["rows"]["connections"]["DI"] = [23]
    assert mapped({**cells, **more}).longest_paths(1)[""].levels == 4


@pytest.mark.parametrize(("clock", "levels"), [("NONE", 2), ("CLK0", 1)])
def test_a_multiplier_is_a_level_unless_it_has_registers(clock, levels):
    product = cell("MULT18X18D", A=[10], B=[10], P=[11], parameters={"REG_OUTPUT_CLK": clock})
    cells = {"from": register("0", 10), "product": product, "lut": cell("LUT4", A=11, Z=12), "to": register(12, 13)}
    assert mapped(cells).longest_paths(1)[""].levels == levels


def test_registers_count_for_their_module_and_luts_for_the_module_that_they_serve():
    found = mapped(
        {
            "from": register("0", 10),
            "shared": cell("LUT4", "/share/cells.v:1", A=10, Z=11),
            "own": cell("LUT4", "/share/cells.v:1", A=11, Z=12),
            "to": register(12, 13, "top.block.deep"),
            "also": register(11, 14, "top.block.deep"),
            "other": register(11, 15),
            "block.deep.rows.0.0": {**cell("TRELLIS_DPR16X4", RAD=[10], DO=[16]), "attributes": {}},
            "harness": register(16, 17, "top"),
        }
    ).area(2)
    assert found["deep"] == {"LUT4": 2, "TRELLIS_FF": 2}
    assert found["deep.rows"] == {"LUT4": 4, "TRELLIS_DPR16X4": 1}
    assert found[""] == {"LUT4": 0, "TRELLIS_FF": 2}
    assert found["(harness)"] == {"LUT4": 0, "TRELLIS_FF": 1}


def test_a_cell_of_another_family_is_refused():
    with pytest.raises(ValueError, match=r"expected cells of CCU2C, .*, got CARRY4"):
        mapped({"sum": cell("CARRY4", CI=1, O=2)})


class Part(wiring.Component):
    """The exclusive-or of 16 registers, in a register."""

    i: In(16)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        held = Signal(16, reset_less=True)
        m.d.sync += [held.eq(self.i), self.o.eq(held.xor())]
        return m


class Parts(wiring.Component):
    """A part, and the exclusive-or of it with 64 registers."""

    i: In(16)
    wide: In(64)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.part = part = Part()
        wide = Signal(64, reset_less=True)
        m.d.comb += part.i.eq(self.i & self.wide[40:56])
        m.d.sync += [wide.eq(self.wide), self.o.eq(wide.xor() ^ part.o)]
        return m


@pytest.fixture(scope="module")
def parts():
    return map_ecp5_rtlil(harness_rtlil(Parts(), global_reset=True))


def test_yosys_maps_an_exclusive_or_of_16_to_two_levels_of_five_luts(parts):
    part = parts.longest_paths(1)["part"]
    assert part.levels == 2
    assert (part.start, part.end) == ("part.held", "part.o")
    assert parts.area(1)["part"] == {"LUT4": 16 + 5, "TRELLIS_FF": 17}, "its inputs pass a LUT each"


def test_a_longer_path_is_the_one_of_the_block_around(parts):
    around = parts.longest_paths(1)[""]
    assert around.levels == 4, "65 bits take four levels of LUT4"
    assert around.end == "o"
    assert parts.longest_paths(0)[""] == around


def test_area_by_hierarchy_adds_up_to_the_count_of_the_whole(parts):
    counted = count_ecp5(Parts())
    total = sum(parts.area(1).values(), start=type(parts.area(1)["part"])())
    assert (total["LUT4"], total["TRELLIS_FF"]) == (counted.luts, counted.registers)


def test_marks_name_the_module_of_each_cell_and_change_nothing_else():
    text = harness_rtlil(Parts(), global_reset=True)
    marked = mark_modules(text)
    assert 'attribute \\src "top.block.part"' in marked
    assert [line for line in marked.splitlines() if "attribute \\src" not in line] == text.splitlines()
