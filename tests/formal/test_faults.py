# amaranth: UnusedElaboratable=no
"""The proofs of the memory engine's and the target's hazards notice what they are there to notice: each fault makes
one fail."""

import inspect
from types import ModuleType

import pytest
from amoeba_hw.memory import executor, line_store, line_table, write_back
from amoeba_hw.target import answer_history, answer_store, closing_order, event_rooms, sequence
from amoeba_sim.formal import ProofFailed, prove
from formal import memory, target

FAULTS = {
    "no bypass from the operation before": (
        executor,
        "Executor",
        "forward.eq(Mux(forwards, commit.strobe, 0))",
        "forward.eq(0)",
    ),
    "no bypass from the one before that": (
        executor,
        "Executor",
        "newer.eq(Mux(same, commit.strobe, 0))",
        "newer.eq(0)",
    ),
    "no bypass from the pipeline's end": (
        executor,
        "Executor",
        "forward_late.eq(Mux(forwards_late, soon.strobe, 0))",
        "forward_late.eq(0)",
    ),
    "bytes in the pipeline are not waited for": (
        executor,
        "Executor",
        "operation.touches & self._is_late(operation)",
        "operation.touches & 0",
    ),
    "an entry leaves under the feet of who joins it": (line_table, "LineTable", "& ~wanted[index]", ""),
    "a line twice in a row is taken for two": (
        line_table,
        "LineTable",
        "Mux(repeats, entry_before, matches & self._valid)",
        "matches & self._valid",
    ),
    "a read misses the commit of its cycle": (line_store, "LineStore", "transparent_for=(commit,)", ""),
    "a change while its line is taken is forgotten": (
        write_back,
        "WriteBack",
        "Mux(starts[index], 0, mask) | Mux(commits[index], self.commit.strobe, 0)",
        "Mux(starts[index], 0, mask | Mux(commits[index], self.commit.strobe, 0))",
    ),
    "psns are compared without a sign": (
        sequence,
        "SequenceRules",
        "with m.Elif(belongs & ahead[-1]):",
        "with m.Elif(belongs & (packet.psn < before.expected)):",
    ),
    "a closed PDC goes on": (
        sequence,
        "SequenceRules",
        "belongs & ~before.closed & (ahead == 0)",
        "belongs & (ahead == 0)",
    ),
    "an answer is given again before it was given": (answer_history, "AnswerHistory", "& (back != 0)", ""),
    "answers of an earlier opening count": (
        answer_history,
        "AnswerHistory",
        "& (asked.data.incarnation == ask.incarnation)",
        "",
    ),
    "a newer answer is taken for the older one": (
        answer_store,
        "AnswerStore",
        "(read.data.psn == self.ask.psn)",
        "1",
    ),
    "one entry of the margin is promised": (event_rooms, "EventRooms", "_MARGIN = 4", "_MARGIN = 3"),
    "an earlier generation gives back": (
        event_rooms,
        "EventRooms",
        "& (claim.generation == self.generations[index])",
        "",
    ),
    "the list does not close the gap": (closing_order, "ClosingOrder", "moves.eq(gone | ", "moves.eq("),
}
SPECIFICATIONS = {
    "Executor": (memory, "ForwardingSpec", "bmc", 10),
    "LineTable": (memory, "LineTableSpec", "bmc", 10),
    "LineStore": (memory, "LineStoreSpec", "bmc", 7),
    "WriteBack": (memory, "WriteBackSpec", "bmc", 10),
    "SequenceRules": (target, "SequenceSpec", "combinational", 1),
    "AnswerHistory": (target, "KeptAnswerSpec", "bmc", 9),
    "AnswerStore": (target, "KeptAnswerSpec", "bmc", 9),
    "EventRooms": (target, "EventRoomSpec", "bmc", 12),
    "ClosingOrder": (target, "ClosingOrderSpec", "bmc", 8),
}


def broken(module, name, right, wrong):
    """The class ``name`` of ``module`` with one expression replaced."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{module.__name__} has changed: {right!r} is not in it exactly once"
    changed = ModuleType(module.__name__)
    exec(compile(source.replace(right, wrong), module.__file__, "exec"), changed.__dict__)
    return getattr(changed, name)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_noticed(fault, monkeypatch, tmp_path):
    module, name, right, wrong = FAULTS[fault]
    faulty = broken(module, name, right, wrong)
    if name == "Executor":
        # The specification replaces the arithmetic by patching the module; do the same to this copy.
        faulty.__init__.__globals__["Arithmetic"] = memory._NaiveArithmetic
    specifications, specification, mode, depth = SPECIFICATIONS[name]
    monkeypatch.setattr(specifications, name, faulty)
    with pytest.raises(ProofFailed) as caught:
        prove(getattr(specifications, specification)(), "fault", mode=mode, depth=depth, build=tmp_path)
    where = specifications.__name__.replace(".", "/")
    assert all(f"hw/{where}.py" in place for place in caught.value.places)
