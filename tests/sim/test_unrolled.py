"""And-graphs, their comparison by ABC, and a clocked design as a function of its inputs since reset."""

from itertools import product

import pytest
from amoeba_sim.unrolled import AndGraph, Design, Unrolling, counterexample

# Whether a one ever came: one input, one register that starts with zero, one gate.
EVER = "aag 3 1 1 1 1\n2\n4 7\n4\n6 5 3\ni0 one\nl0 came\no0 ever\n"


def exclusive(graph, first, second):
    return graph.both(graph.both(first, second) ^ 1, graph.both(first ^ 1, second ^ 1) ^ 1)


def total(graph, first, second):
    bits, carry = [], 0
    for a, b in zip(first, second, strict=True):
        differ = exclusive(graph, a, b)
        bits.append(exclusive(graph, differ, carry))
        carry = graph.both(graph.both(a, b) ^ 1, graph.both(differ, carry) ^ 1) ^ 1
    return bits


def multiple(graph, first, second):
    result = [0] * len(first)
    for place, bit in enumerate(second):
        result = total(graph, result, [0] * place + [graph.both(bit, other) for other in first[: len(first) - place]])
    return result


@pytest.mark.parametrize("constants", list(product((0, 1), repeat=2)))
def test_constants_and_repetitions_make_no_gate(constants):
    graph = AndGraph()
    variable = graph.variable()
    assert graph.both(*constants) == constants[0] & constants[1]
    assert graph.both(variable, 1) == graph.both(variable, variable) == variable
    assert graph.both(variable, 0) == graph.both(variable ^ 1, variable) == 0


def test_the_same_conjunction_is_stored_once():
    graph = AndGraph()
    first, second = graph.variable(), graph.variable()
    assert graph.both(first, second) == graph.both(second, first) != graph.both(first ^ 1, second)


def test_sums_in_either_order_are_the_same(tmp_path):
    graph = AndGraph()
    a, b = ([graph.variable() for _ in range(100)] for _ in range(2))
    assert counterexample(tmp_path, graph, a + b, total(graph, a, b), total(graph, b, a), timeout=60) is None


def test_a_counterexample_makes_the_difference(tmp_path):
    graph = AndGraph()
    a, b = ([graph.variable() for _ in range(8)] for _ in range(2))
    right = total(graph, a, b)
    # Wrong for one pair of numbers only.
    condition = 1
    for literal, bit in zip(a + b, [int(bit) for bit in f"{0xA7C4:016b}"], strict=True):
        condition = graph.both(condition, literal ^ bit ^ 1)
    wrong = [*right[:3], exclusive(graph, right[3], condition), *right[4:]]
    values = counterexample(tmp_path, graph, a + b, right, wrong, timeout=60)
    assert "".join(str(values[variable]) for variable in a + b) == f"{0xA7C4:016b}"


def test_no_answer_in_time_is_said(tmp_path):
    graph = AndGraph()
    a, b = ([graph.variable() for _ in range(40)] for _ in range(2))
    with pytest.raises(TimeoutError):
        counterexample(tmp_path, graph, a + b, multiple(graph, a, b), multiple(graph, b, a), timeout=1)


@pytest.mark.parametrize("ones", list(product((0, 1), repeat=4)))
def test_the_outputs_follow_from_the_inputs_since_reset(ones):
    shown = Unrolling(Design.parse(EVER), 3).outputs(AndGraph(), lambda name, cycle: {"one": ones[cycle]}[name])
    assert shown == {"ever": int(any(ones[:3]))}


def test_inputs_that_do_not_matter_are_not_asked_for():
    asked = set()
    Unrolling(Design.parse(EVER), 2).outputs(AndGraph(), lambda name, cycle: asked.add((name, cycle)) or 0)
    assert asked == {("one", 0), ("one", 1)}


def test_a_register_that_is_cut_is_an_input_and_an_output():
    design = Design.parse(EVER).cut("^came$")
    for one, came in product((0, 1), repeat=2):
        given = {"one": one, "came": came}
        shown = Unrolling(design, 0).outputs(AndGraph(), lambda name, cycle, given=given: given[name])
        assert shown == {"ever": came, "next came": one | came}


def test_registers_of_other_names_stay():
    assert Design.parse(EVER).cut("^goes$") == Design.parse(EVER)
