# amaranth: UnusedElaboratable=no
"""The mutation run on a design small enough to know every answer: killed, survived and equivalent."""

import numpy as np
import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_sim.mutation import Mutants, Verdict


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


class Delayed(wiring.Component):
    """What Visible shows, a cycle later: with ``keeps_hidden``, also of ``hidden`` only then."""

    def __init__(self, keeps_hidden):
        self._keeps_hidden = keeps_hidden
        super().__init__({"a": In(4), "b": In(4), "add": In(1), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.choice = choice = Choice()
        hidden = Signal(4)
        m.d.comb += [choice.a.eq(self.a), choice.b.eq(self.b), choice.add.eq(self.add)]
        # In hardware two registers, each of which drives a part of the wire.
        domain = m.d["sync" if self._keeps_hidden else "comb"]
        domain += hidden[:3].eq(choice.hidden)
        with m.If(self.add):
            domain += hidden[3].eq(choice.hidden[3])
        m.d.sync += self.o.eq(choice.o ^ (hidden & (hidden ^ 0xF) & choice.a))
        return m


@pytest.fixture(scope="module")
def verdicts():
    mutants = Mutants(Visible, "mutation_smoke", within="choice", count=24, seed=1)
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


@pytest.mark.parametrize("keeps_hidden", [False, True])
def test_a_mutant_before_a_register_is_equivalent_only_if_the_register_is(keeps_hidden):
    numbers = np.arange(512)
    a, b, add = numbers % 16, numbers // 16 % 16, numbers // 256
    expected = np.where(add, (a + b) % 16, a & b)
    mutants = Mutants(lambda: Delayed(keeps_hidden), "mutation_registers", within="choice", count=24, seed=1)
    with mutants.bench() as bench:
        judged = mutants.judge(
            lambda mutant: bool((bench.run(a=a, b=b, add=add, mutant=mutant)["o"][1:] == expected[:-1]).all())
        )
    assert set(judged.values()) == {Verdict.KILLED, Verdict.SURVIVED if keeps_hidden else Verdict.EQUIVALENT}


def test_a_mutant_says_where_it_is(verdicts):
    for mutant in verdicts[0]:
        assert mutant.kind in {"inv", "const0", "const1", "cnot0", "cnot1"}
        assert "test_mutation.py:" in mutant.place


def test_tests_that_fail_on_the_original_are_refused():
    mutants = Mutants(Visible, "mutation_smoke", within="choice", count=1, seed=1)
    with pytest.raises(ValueError, match="unchanged"):
        mutants.judge(lambda _: False)
