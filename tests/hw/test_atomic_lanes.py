"""FastLanes and DecodeOperation against the golden model: every cell, every byte."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.atomic.decode import DecodeOperation
from amoeba_hw.atomic.lanes import FastLanes
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import is_float
from amoeba_model.atomic.matrix import COMPARE_OPS, is_valid
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_sim.vector_bench import VectorBench
from atomic_operands import operands

BEATS = 600


class DecodedLanes(wiring.Component):
    """FastLanes under the operation and datatype themselves."""

    def __init__(self, data_width, datatypes):
        self._decode = DecodeOperation(datatypes)
        self._lanes = FastLanes(data_width, datatypes)
        super().__init__(
            {
                "op": In(5),
                "datatype": In(5),
                "cswap_by_bits": In(1),
                "target": In(data_width),
                "operand": In(data_width),
                "compare": In(data_width),
                "result": Out(data_width),
                "supported": Out(1),
                "pipelined": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = self._decode
        m.submodules.lanes = lanes = self._lanes
        m.d.comb += [
            decode.op.eq(self.op),
            decode.datatype.eq(self.datatype),
            decode.cswap_by_bits.eq(self.cswap_by_bits),
            lanes.control.eq(decode.control),
            lanes.target.eq(self.target),
            lanes.operand.eq(self.operand),
            lanes.compare.eq(self.compare),
            self.result.eq(lanes.result),
            self.supported.eq(decode.control.supported),
            self.pipelined.eq(decode.control.pipelined),
        ]
        return m


def is_pipelined(op, datatype):
    return op is Op.FI_PROD or (is_float(datatype) and op in (Op.FI_SUM, Op.FI_DIFF))


def in_matrix(op, datatype):
    return any(is_valid(op, datatype, form) for form in Form)


@pytest.fixture(scope="module", params=[128, 256, 512])
def lanes(request):
    datatypes = [datatype for datatype in Datatype if 8 * datatype.size <= request.param]
    with VectorBench(DecodedLanes(request.param, datatypes), f"lanes{request.param}") as bench:
        bench.data_width = request.param
        bench.datatypes = datatypes
        yield bench


@pytest.mark.parametrize("datatype", Datatype, ids=lambda datatype: datatype.name)
def test_every_fast_cell_is_the_models(lanes, datatype):
    if datatype not in lanes.datatypes:
        pytest.skip("wider than a beat")
    for op in Op:
        if not in_matrix(op, datatype) or is_pipelined(op, datatype):
            continue
        for by_bits in (False, True) if op is Op.FI_CSWAP else (False,):
            seed = 1000 * op + datatype + 500 * by_bits
            rng = np.random.default_rng(seed)
            count = BEATS * lanes.data_width // 8 // datatype.size
            target, operand, compare = operands(datatype, count, rng, 3)
            expected = execute(
                op, datatype, target, operand, compare if op in COMPARE_OPS else None, cswap_by_bits=by_bits
            )
            shown = lanes.run(
                op=op,
                datatype=datatype,
                cswap_by_bits=by_bits,
                target=target.reshape(BEATS, -1),
                operand=operand.reshape(BEATS, -1),
                compare=compare.reshape(BEATS, -1),
            )
            assert shown["supported"].all()
            assert not shown["pipelined"].any()
            wrong = np.flatnonzero((shown["result"].reshape(count, -1) != expected).any(axis=1))
            assert not len(wrong), (
                f"{op.name} {datatype.name} by_bits={by_bits} seed={seed}: {len(wrong)} of {count} differ, first: "
                + " ".join(
                    f"{name}={array.reshape(count, -1)[wrong[0]][::-1].tobytes().hex()}"
                    for name, array in [
                        ("target", target),
                        ("operand", operand),
                        ("compare", compare),
                        ("expected", expected),
                        ("result", shown["result"]),
                    ]
                )
            )


def test_decode_knows_exactly_the_matrix(lanes):
    numbers = np.arange(1024)
    shown = lanes.run(op=numbers % 32, datatype=numbers // 32)
    ops, datatypes = {int(op): op for op in Op}, {int(datatype): datatype for datatype in lanes.datatypes}
    for number in numbers:
        op, datatype = ops.get(number % 32), datatypes.get(number // 32)
        known = op is not None and datatype is not None and in_matrix(op, datatype)
        assert shown["supported"][number] == known, (op, datatype)
        if known:
            assert shown["pipelined"][number] == is_pipelined(op, datatype), (op, datatype)


def test_a_datatype_wider_than_a_beat_is_refused():
    with pytest.raises(ValueError, match="FI_LONG_DOUBLE_COMPLEX takes 256 bits"):
        FastLanes(128)


@pytest.mark.parametrize("data_width", [64, 192, 1024])
def test_an_unknown_beat_width_is_refused(data_width):
    with pytest.raises(ValueError, match="data_width must be"):
        FastLanes(data_width, [Datatype.FI_INT64])
