"""The permutation of bytes between host memory and the wire."""

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator
from amoeba_hw.byte_order import SWAP_BITS, decode_swap, number_swap, pair_swap, swap_bytes
from amoeba_model.opcodes import Datatype
from amoeba_model.wire.uet import ATOMIC_DATATYPES

SIZES = {"FI_FLOAT_COMPLEX": 4, "FI_DOUBLE_COMPLEX": 8, "FI_LONG_DOUBLE_COMPLEX": 16}
"""Bytes of one number where an element is two of them."""
BEAT = 32


def network_order(content, size):
    return b"".join(content[at : at + size][::-1] for at in range(0, len(content), size))


def evaluate(make, **inputs):
    """Return the value of ``make(m, **signals)``, as bytes or a number, for each set of inputs."""
    signals = {name: Signal(width, name=name) for name, (width, _) in inputs.items()}
    m = Module()
    value = make(m, **signals)
    output = Signal(len(value))
    m.d.comb += output.eq(value)
    found = []

    async def bench(ctx):
        for values in zip(*(values for _, values in inputs.values()), strict=True):
            for signal, number in zip(signals.values(), values, strict=True):
                ctx.set(signal, number)
            found.append(ctx.get(output))

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("datatype", Datatype)
def test_each_number_of_a_beat_is_reversed_and_reversed_again(datatype):
    plain = bytes(range(BEAT))
    swapped = network_order(plain, SIZES.get(datatype.name, datatype.size))
    inputs = [int.from_bytes(content, "little") for content in (plain, swapped)]
    found = evaluate(
        lambda m, value, swap: swap_bytes(m, "test", value, swap),
        value=(8 * BEAT, inputs),
        swap=(SWAP_BITS, [number_swap(datatype)] * 2),
    )
    assert [number.to_bytes(BEAT, "little") for number in found] == [swapped, plain]


@pytest.mark.parametrize("datatype", [datatype for datatype in Datatype if datatype.size <= 16])
def test_values_of_the_compare_and_swap_extension_move_to_the_end_of_16_bytes(datatype):
    element = bytes(range(1, datatype.size + 1))
    plain = element.ljust(16, b"\0")
    sent = network_order(element, SIZES.get(datatype.name, datatype.size)).rjust(16, b"\0")
    found = evaluate(
        lambda m, value, swap: swap_bytes(m, "test", value, swap),
        value=(128, [int.from_bytes(content, "little") for content in (plain, sent)]),
        swap=(SWAP_BITS, [pair_swap(datatype)] * 2),
    )
    assert [number.to_bytes(16, "little") for number in found] == [sent, plain]


def test_a_datatype_of_another_build_is_not_swapped():
    built = (Datatype.FI_UINT64, Datatype.FI_FLOAT_COMPLEX, Datatype.FI_UINT8)
    codes = [ATOMIC_DATATYPES[datatype].value for datatype in Datatype]
    found = evaluate(lambda m, code: decode_swap(code, number_swap, built), code=(8, codes))
    expected = {Datatype.FI_UINT64: 7, Datatype.FI_FLOAT_COMPLEX: 3}
    assert found == [expected.get(datatype, 0) for datatype in Datatype]
