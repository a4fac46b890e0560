"""cocotb benches on Amaranth components: what passes, what fails, and what a failure says.

Covers ``payload.py``.
"""

import enum

import pytest
from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_hw.stream import Queue, RegisteredQueue, RegisterSlice, SkidBuffer
from amoeba_sim import cocotb_runner
from amoeba_sim.cocotb_runner import BenchFailure, run_bench
from amoeba_sim.payload import pack, unpack

BEAT = data.StructLayout({"data": 128, "last": 1})


@pytest.fixture(autouse=True)
def runs(monkeypatch, tmp_path):
    """Files of failed runs go away with the test."""
    monkeypatch.setattr(cocotb_runner, "_runs_directory", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("make", "most"),
    [
        pytest.param(lambda: Queue(BEAT, 5), 5, id="queue"),
        pytest.param(lambda: RegisteredQueue(BEAT, 5), 7, id="registered queue"),
        pytest.param(lambda: RegisterSlice(BEAT), 1, id="register slice"),
        pytest.param(lambda: SkidBuffer(BEAT), 1, id="skid buffer"),
    ],
)
def test_the_stream_buffers_pass_their_bench(make, most, runs):
    run_bench(make(), "tests.hw.bench_stream_buffer", parameters={"most": most})
    assert list(runs.iterdir()) == []


def test_a_run_with_waves_leaves_them(runs):
    run_bench(SkidBuffer(BEAT), "tests.hw.bench_stream_buffer", parameters={"most": 1}, waves=True)
    (wave,) = runs.glob("*/dump.vcd")
    assert "o__payload" in wave.read_text()


class Impatient(wiring.Component):
    """Breaks the stream contract: a beat refused once is replaced by the next."""

    i: In(stream.Signature(BEAT))
    o: Out(stream.Signature(BEAT))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


def test_a_failure_names_the_test_the_reason_and_the_seed(monkeypatch):
    monkeypatch.delenv("AMOEBA_SEED", raising=False)
    with pytest.raises(BenchFailure) as failure:
        run_bench(Impatient(), "tests.hw.bench_stream_buffer", seed=77, parameters={"most": 1})
    text = str(failure.value)
    assert text.startswith("tests.hw.bench_stream_buffer on Impatient: ")
    assert "reset_in_mid_traffic_empties_it" in text
    assert "stream o: " in text
    assert "before the transfer" in text
    assert "AMOEBA_SEED=77 pytest 'tests/sim/test_cocotb_runner.py::test_a_failure_names" in text


def test_the_environment_overrides_the_seed(monkeypatch):
    monkeypatch.setenv("AMOEBA_SEED", "5")
    with pytest.raises(BenchFailure, match="AMOEBA_SEED=5 "):
        run_bench(Impatient(), "tests.hw.bench_stream_buffer", parameters={"most": 1})


def test_a_bench_that_does_not_end_is_stopped():
    with pytest.raises(BenchFailure, match=r"no end after 3 seconds"):
        run_bench(Queue(BEAT, 5), "tests.sim.endless_bench", timeout=3)


def test_a_missing_bench_is_a_failure():
    with pytest.raises(BenchFailure, match=r"(?s)stream_nothing.*AMOEBA_SEED"):
        run_bench(Queue(BEAT, 5), "stream_nothing")


class Kind(enum.Enum):
    NONE = 0
    SOME = 2


def test_payloads_are_packed_from_the_least_significant_bit():
    shape = data.StructLayout({"first": unsigned(4), "pair": data.ArrayLayout(4, 2), "kind": Kind})
    value = {"first": 0xA, "pair": [0xB, 0xC], "kind": Kind.SOME}
    assert pack(shape, value) == 0x2CBA
    assert unpack(shape, 0x2CBA) == value
    assert pack(shape, {"pair": [0, 1]}) == 0x100
    assert pack(shape, 0x2CBA) == 0x2CBA


def test_signed_payloads_keep_their_sign():
    shape = data.StructLayout({"low": 4, "delta": range(-4, 4)})
    assert pack(shape, {"delta": -3}) == 0b101_0000
    assert unpack(shape, 0b101_0000) == {"low": 0, "delta": -3}


@pytest.mark.parametrize(("shape", "value"), [(4, 16), (4, -1), (range(-4, 4), 4), (data.ArrayLayout(4, 2), 256)])
def test_a_value_that_does_not_fit_is_refused(shape, value):
    with pytest.raises(ValueError, match="Expected a value that fits"):
        pack(shape, value)
