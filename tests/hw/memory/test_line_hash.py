# amaranth: UnusedElaboratable=no
"""The hash that chooses a line's set in the line table."""

import pytest
from amaranth.sim import Simulator
from amoeba_hw.memory.line_hash import LineHash

WIDTH = 59


def keys(width, bits, cycles):
    """The key after each of so many cycles, as its columns."""
    dut, found = LineHash(width, bits), []

    async def testbench(ctx):
        for _ in range(cycles):
            await ctx.tick()
            found.append([ctx.get(column) for column in dut.columns])

    simulator = Simulator(dut)
    simulator.add_clock(4e-9)
    simulator.add_testbench(testbench)
    simulator.run()
    return found


def rank(rows):
    """Of numbers as vectors of bits."""
    basis = []
    for row in rows:
        for other in basis:
            row = min(row, row ^ other)
        if row:
            basis.append(row)
    return len(basis)


@pytest.mark.parametrize("bits", [1, 3, 6, 7])
def test_whatever_the_key_is_lines_a_power_of_two_apart_fill_all_sets(bits):
    for columns in keys(WIDTH, bits, 300):
        for low in range(WIDTH - bits + 1):
            assert rank(columns[low : low + bits]) == bits, f"columns {low} on of {columns}"


def test_no_key_comes_twice_and_lines_that_meet_under_one_part_under_others():
    found = keys(WIDTH, 6, 1000)
    assert len(set(map(tuple, found))) == len(found)
    # Line numbers that all are in one set of the first key.
    meeting = [part | part << 6 for part in range(64)]
    for columns in found[60::97]:
        sets = set()
        for line in meeting:
            number = 0
            for place, column in enumerate(columns):
                number ^= column if line >> place & 1 else 0
            sets.add(number)
        assert len(sets) >= 8, f"{len(sets)} sets under {columns}"


def test_a_key_that_is_held_stays_and_says_the_set():
    dut = LineHash(12, 3)

    async def testbench(ctx):
        await ctx.tick().repeat(40)
        ctx.set(dut.hold, 1)
        await ctx.tick()
        columns = [ctx.get(column) for column in dut.columns]
        for line in (0, 1, 0b1010_0000_0110, 0xFFF):
            ctx.set(dut.line, line)
            await ctx.tick()
            expected = 0
            for place, column in enumerate(columns):
                expected ^= column if line >> place & 1 else 0
            assert ctx.get(dut.set) == expected
        assert [ctx.get(column) for column in dut.columns] == columns

    simulator = Simulator(dut)
    simulator.add_clock(4e-9)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("bits", [0, 6])
def test_a_set_has_some_bits_and_not_all_of_them(bits):
    with pytest.raises(ValueError, match="less than 6"):
        LineHash(6, bits)
