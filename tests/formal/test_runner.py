"""The proof runner itself: what it says of true, false, undecided and broken specifications.

Covers ``amoeba_sim/formal.py`` and ``amoeba_sim/bitwuzla_command.py``.
"""

import functools
import importlib.util
import inspect

import pytest
from amaranth.hdl import Assert, Assume, Cover, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amoeba_sim import formal
from amoeba_sim.formal import SOLVERS, ProofBroken, ProofFailed, ProofUndecided


class Counter(wiring.Component):
    """Counts to 9 and starts again; claims that it stays below ``limit``."""

    enable: In(1)

    def __init__(self, limit, reset_less=False):
        super().__init__()
        self._limit = limit
        self._count = Signal(4, reset_less=reset_less)
        self.past_reset = Signal(reset_less=True)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.past_reset.eq(1)
        m.d.comb += Assume(ResetSignal() == ~self.past_reset)
        with m.If(self.enable):
            m.d.sync += self._count.eq(self._count + 1)
            with m.If(self._count == 9):
                m.d.sync += self._count.eq(0)
        with m.If(self.past_reset):
            m.d.comb += [Assert(self._count < self._limit), Cover(self._count == self._limit)]
        return m


class Adder(wiring.Component):
    a: In(6)
    b: In(6)

    def __init__(self, right):
        super().__init__()
        self._right = right

    def elaborate(self, platform):
        m = Module()
        other = (self.a ^ self.b) + 2 * (self.a & self.b) if self._right else self.a | self.b
        m.d.comb += [Assume(self.a != 0), Assert(self.a + self.b == other)]
        return m


@pytest.fixture(params=SOLVERS)
def prove(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"no {SOLVERS[request.param]} here")
    return functools.partial(formal.prove, solver=request.param)


def line_of(component, text):
    lines, first = inspect.getsourcelines(component)
    return first + next(index for index, line in enumerate(lines) if text in line)


def test_a_true_claim_is_proven_once_and_then_remembered(prove, tmp_path):
    first = prove(Counter(10), "counter", depth=2, build=tmp_path)
    again = prove(Counter(10), "counter", depth=2, build=tmp_path)
    assert (first.cached, again.cached) == (False, True)
    assert again.seconds == first.seconds
    assert not prove(Counter(10), "counter", depth=3, build=tmp_path).cached
    assert not prove(Counter(16), "counter", depth=3, build=tmp_path).cached


def test_a_false_claim_names_its_line_and_leaves_a_waveform(prove, tmp_path):
    with pytest.raises(ProofFailed) as caught:
        prove(Counter(6), "counter", mode="bmc", depth=9, build=tmp_path)
    assert caught.value.places == [f"{__file__}:{line_of(Counter, 'Assert(')}"]
    assert list(tmp_path.glob("counter/run/engine_0/*.vcd"))
    # Seven cycles are too few to count to six after one of reset.
    prove(Counter(6), "counter", mode="bmc", depth=6, build=tmp_path)


def test_a_true_claim_that_is_not_inductive_is_undecided(prove, tmp_path):
    # Counting from 12, which never happens, leads to 13.
    with pytest.raises(ProofUndecided, match="induction found no proof"):
        prove(Counter(13), "counter", depth=2, build=tmp_path)


def test_a_situation_is_reached_or_not(prove, tmp_path):
    prove(Counter(5), "counter", mode="cover", depth=8, build=tmp_path)
    with pytest.raises(ProofFailed) as caught:
        prove(Counter(12), "counter", mode="cover", depth=20, build=tmp_path)
    assert caught.value.places


def test_a_register_without_reset_is_found_out(prove, tmp_path):
    claim = {"mode": "bmc", "depth": 4, "any_power_up": True, "build": tmp_path}
    prove(Counter(10), "counter", **claim)
    with pytest.raises(ProofFailed):
        prove(Counter(10, reset_less=True), "counter", **claim)


def test_combinational_claims(prove, tmp_path):
    prove(Adder(True), "adder", mode="combinational", build=tmp_path)
    with pytest.raises(ProofFailed) as caught:
        prove(Adder(False), "adder", mode="combinational", build=tmp_path)
    assert caught.value.places == [f"{__file__}:{line_of(Adder, 'Assert(')}"]


def test_tools_that_fail_are_not_taken_for_a_verdict(prove, tmp_path, monkeypatch):
    monkeypatch.setattr("amoeba_sim.formal._script", lambda *_: "[options]\nmode nonsense\n")
    with pytest.raises(ProofBroken, match="nonsense"):
        prove(Counter(10), "counter", build=tmp_path)


def test_a_design_with_registers_has_no_combinational_proof(prove, tmp_path):
    with pytest.raises(ProofBroken):
        prove(Counter(10), "counter", mode="combinational", build=tmp_path)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="'guess'"):
        formal.prove(None, "counter", mode="guess")
