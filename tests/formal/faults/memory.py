"""Faults of the memory engine."""

from amoeba_hw.memory import admission, entry_records, executor, line_store, line_table, line_use, write_back

from tests.formal import admission as admission_proof
from tests.formal import lines, memory

__all__ = ["FAULTS", "SPECIFICATIONS"]

FAULTS = {
    "a line is written as it is taken": (
        write_back,
        "WriteBack",
        "ordered.eq(self.line_writes_ordered)",
        "ordered.eq(taken)",
    ),
    "no bypass from the operation before": (
        executor,
        "Executor",
        "self._forwarded.eq(asked_of(ends, ends.touches))",
        "self._forwarded.eq(0)",
    ),
    "no bypass from the one before that": (
        executor,
        "Executor",
        "self._newer.eq(asked_of(self._ends, self._ends.touches))",
        "self._newer.eq(0)",
    ),
    "no bypass from the pipeline's end": (
        executor,
        "Executor",
        "self._forwarded_late.eq(asked_of(later, later.valid))",
        "self._forwarded_late.eq(0)",
    ),
    "what has been calculated is not passed on": (
        executor,
        "Executor",
        "merge(forwards_calculated, arithmetic.calculated, if_raised)",
        "if_raised",
    ),
    "what has been calculated takes the place of what leaves the pipeline": (
        executor,
        "Executor",
        "arithmetic.calculates & ~ends_late.valid",
        "arithmetic.calculates",
    ),
    "bytes in the pipeline are not waited for": (
        executor,
        "Executor",
        "operation.touches & self._will_be_late(operation)",
        "operation.touches & 0",
    ),
    "an operation does not wait for its line": (executor, "Executor", "operation.fetches & ~present[index],", ""),
    "the line of another entry is taken for its own": (
        executor,
        "Executor",
        "self.filled & (self.filled_entry == operation.entry)",
        "self.filled",
    ),
    "an operation is issued without room for its result": (executor, "Executor", "~self.space,", ""),
    "what has just entered the pipeline is not waited for": (
        executor,
        "Executor",
        "(overlaps & (decoded.latency != 0))",
        "(overlaps & 0)",
    ),
    "an operation that would commit with another is issued": (
        admission,
        "Admission",
        "self._any(index, cycles, {cycle}) & taken[cycle + 1]",
        "self._any(index, cycles, {cycle}) & taken[cycle]",
    ),
    "what is issued in this cycle is in nobody's way": (
        admission,
        "Admission",
        "self.hinders.eq(Cat(hinders).any())",
        "self.hinders.eq(0)",
    ),
    "an operation leaves without room": (line_table, "LineTable", "self._present & self.space &", "self._present &"),
    "an entry in use takes another line": (line_table, "LineTable", "free & -free", "-1"),
    "a line twice in a row is taken for two": (
        line_table,
        "LineTable",
        "Mux(self._taken_tag_is_same, overtaken, 0)",
        "Mux(self._taken_tag_is_same, 0, 0)",
    ),
    "a line is found in the entry that another takes": (
        line_table,
        "LineTable",
        "(self._same_tag & ~overtaken)",
        "self._same_tag",
    ),
    "a line of another context is joined": (
        line_table,
        "LineTable",
        "& ~(others & self._use.in_use).any()",
        "",
    ),
    "an entry out of use is joined": (line_table, "LineTable", "self._matches & self._use.in_use", "self._matches"),
    "an entry is out of use before it is written": (
        line_use,
        "LineUse",
        "(joins[way] != retirements[way]) | (queued[way] != writes[way])",
        "joins[way] != retirements[way]",
    ),
    "who joins is overlooked by who comes next": (line_use, "LineUse", "came | Mux(same_set, joined, 0)", "came"),
    "a record that is written while it is forgotten is lost": (
        entry_records,
        "EntryRecords",
        "Mux(renewed, begin.data, current.data)",
        "current.data",
    ),
    "a read misses which bytes the commit of its cycle wrote": (
        line_store,
        "LineStore",
        "found.eq(writes.records[2] | self.commit.strobe)",
        "found.eq(writes.records[2])",
    ),
    "a read misses the commit of its cycle": (line_store, "LineStore", "transparent_for=(commit,)", ""),
    "a change while its line is taken is not queued": (
        line_store,
        "LineStore",
        "with m.If(self.copy & (self.copy_entry == self.commit.entry)):",
        "with m.If(0):",
    ),
    "what the host has got stays dirty": (
        line_store,
        "LineStore",
        "changes.forget.eq(self.copy)",
        "changes.forget.eq(0)",
    ),
}
SPECIFICATIONS = {
    "WriteBack": (memory, "WriteBackSpec", "bmc", 9),
    "Admission": (admission_proof, "AdmissionSpec", "bmc", 10),
    "Executor": (memory, "ForwardingSpec", "bmc", 10),
    "LineTable": (lines, "LineTableSpec", "bmc", 8),
    "LineUse": (lines, "LineUseSpec", "bmc", 9),
    "EntryRecords": (lines, "EntryRecordsSpec", "bmc", 8),
    "LineStore": (memory, "LineStoreSpec", "bmc", 7),
}
