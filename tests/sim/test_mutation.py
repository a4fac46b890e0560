# amaranth: UnusedElaboratable=no
"""The mutation run on a design small enough to know every answer: killed, survived and equivalent."""

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_sim.mutation import Mutants, Verdict

pytestmark = pytest.mark.long


class Choice(wiring.Component):
    """a + b or a & b; and the same again where nobody can see it."""

    def __init__(self):
        super().__init__({"a": In(4), "b": In(4), "add": In(1), "o": Out(4), "hidden": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.o.eq(Mux(self.add, self.a + self.b, self.a & self.b)),
            self.hidden.eq(Mux(self.add, self.a | self.b, self.a ^ self.b)),
        ]
        return m


class Visible(wiring.Component):
    """Shows ``o`` as it is, and of ``hidden`` only whether it is below zero: never."""

    def __init__(self):
        super().__init__({"a": In(4), "b": In(4), "add": In(1), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.choice = choice = Choice()
        m.d.comb += [
            choice.a.eq(self.a),
            choice.b.eq(self.b),
            choice.add.eq(self.add),
            # Bits meet their own complement, so this ends in zero, whatever the gates of `hidden` do.
            self.o.eq(choice.o ^ (choice.hidden & (choice.hidden ^ 0xF) & choice.a)),
        ]
        return m


class Counting(wiring.Component):
    """How many ones came so far, up to 3, and whether the last one is more than two cycles ago."""

    def __init__(self):
        super().__init__({"i": In(1), "count": Out(2), "idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.counter = counter = Module()
        past = Signal(2)
        counter.d.sync += past.eq(Cat(self.i, past))
        counter.d.comb += self.idle.eq(~past.any())
        with counter.If(self.i & (self.count != 3)):
            counter.d.sync += self.count.eq(self.count + 1)
        return m


@pytest.fixture(scope="module")
def verdicts():
    mutants = Mutants(Visible, "mutation_smoke", within=["choice"], count=24, seed=1)
    numbers = np.arange(512)
    a, b, add = numbers % 16, numbers // 16 % 16, numbers // 256
    expected = np.where(add, (a + b) % 16, a & b)
    with mutants.bench() as bench:

        def passes(rows):
            def run(mutant):
                shown = bench.run(a=a[rows], b=b[rows], add=add[rows], mutant=mutant)
                return bool((shown["o"] == expected[rows]).all())

            return run

        full = mutants.judge(passes(slice(None)))
        # Without a single sum among the operands.
        poor = mutants.judge(passes(slice(0, 256)))
    return full, poor


def test_every_input_kills_every_mutant_that_can_be_killed(verdicts):
    full, _ = verdicts
    assert len(full) == 24
    assert set(full.values()) == {Verdict.KILLED, Verdict.EQUIVALENT}


def test_fewer_inputs_let_mutants_survive(verdicts):
    full, poor = verdicts
    survivors = [mutant for mutant, verdict in poor.items() if verdict is Verdict.SURVIVED]
    assert survivors
    assert all(full[mutant] is Verdict.KILLED for mutant in survivors)
    assert {m for m, v in poor.items() if v is Verdict.EQUIVALENT} == {
        m for m, v in full.items() if v is Verdict.EQUIVALENT
    }


@pytest.fixture(scope="module")
def counting():
    """Verdicts of no tests at all, by the cycles to compare; mutants; what each of them shows after its inputs."""
    judged = {}
    for cycles in (0, 5):
        mutants = Mutants(Counting, "mutation_counting", within=["counter"], count=24, seed=1, cycles=cycles)
        judged[cycles] = mutants.judge(lambda _: True)
    return judged, mutants


def test_registers_hide_a_mutant_for_some_cycles_only(counting):
    judged, _ = counting
    at_once, later = (list(judged[cycles].values()) for cycles in (0, 5))
    assert set(at_once) == set(later) == {Verdict.EQUIVALENT, Verdict.SURVIVED}
    assert at_once.count(Verdict.EQUIVALENT) > later.count(Verdict.EQUIVALENT)


def test_the_inputs_that_tell_a_mutant_from_the_original_do(counting):
    judged, mutants = counting
    with mutants.bench() as bench:
        for mutant, verdict in judged[5].items():
            inputs = mutants.telling_inputs(mutant, timeout=60)
            assert (inputs is None) == (verdict is Verdict.EQUIVALENT)
            if inputs:
                shown = []
                for number in (0, mutant.number):
                    bench.reset()
                    shown.append(bench.run(i=[row["i"] for row in inputs], mutant=number))
                assert any(shown[0][port][-1] != shown[1][port][-1] for port in ("count", "idle")), mutant


def test_a_mutant_says_where_it_is(verdicts):
    for mutant in verdicts[0]:
        assert mutant.kind in {"inv", "const0", "const1", "cnot0", "cnot1"}
        assert "test_mutation.py:" in mutant.place


def test_tests_that_fail_on_the_original_are_refused():
    mutants = Mutants(Visible, "mutation_smoke", within=["choice"], count=1, seed=1)
    with pytest.raises(ValueError, match="unchanged"):
        mutants.judge(lambda _: False)
