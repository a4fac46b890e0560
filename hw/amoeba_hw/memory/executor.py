"""Executes the operations of the queue, one per cycle, from the newest value of their lines."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.opcodes import Datatype
from amoeba_model.parameters import NicParameters

from amoeba_hw.atomic.control import Control
from amoeba_hw.interfaces import TRACE_SLOT
from amoeba_hw.memory.admission import Admission
from amoeba_hw.memory.arithmetic import ISSUE_TO_COMPUTE, Arithmetic
from amoeba_hw.memory.element_buffer import ElementBuffer
from amoeba_hw.memory.finish_line import FinishLine
from amoeba_hw.memory.operations import (
    LINE_ANSWER,
    commit_of,
    entries,
    line_operands,
    line_result,
    merge,
    queued_operation,
)
from amoeba_hw.memory.wide_arithmetic import WideArithmetic

__all__ = ["Executor"]

COMMITTED = 4
"""Age at which an operation that is not pipelined has been committed."""

STEP_SETTLES = 3
"""Cycles after a step of a misaligned element in which one that has to settle may not be issued."""


class Executor(wiring.Component):
    """Takes operations from the queue in order and executes them, never out of order on a byte.

    ::

        age          0           1           2            3
        +------+  +-------+  +-------+  +---------+  +--------+
        |decode|--| issue |--| line  |--| compute |--| commit |---+--> store
        +------+  +-------+  +-------+  +---------+  +--------+   |
          |           |         ^ ^          ^ ^--------bypass----+
      look ahead  store.read ---+ +----------|--------------------+
                                             +----> pipeline --> commit

    Nothing stops once it is issued. An operation is issued when

    - its line is there,
    - no byte that it touches will still be in the pipeline when it computes,
    - the pipeline can take it, and nothing else will commit when it will (Admission): there is one commit per cycle,
    - the steps of misaligned elements before it have had their effect, if it has to ``settle``,
    - and its result will fit.

    Bytes of the operation before come from what it commits as age 2 begins, those of the one before that from the
    commit register at age 1; older ones come from the store. A pipelined operation also takes bytes that leave the
    pipeline just when it computes. So operations on one line follow each other at one per cycle, and a chain of
    pipelined ones takes their latency each. All that is looked up a cycle ahead, for the operation that might be
    issued and for the one behind it, so that registers say what is issued: everything moves with that.

    Elements of two beats come as two operations, one for each half. Both deliver their old value as all others
    do; the new one is computed when the second has brought its half (WideArithmetic), and committed in two
    consecutive cycles. Like pipelined operations, they wait for bytes that are on their way, and are waited for.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : stream of queued_operation
    operands : stream of line_operands
        One for each operation, in the same order: there from the cycle after the operation was accepted.
    answer : in, LINE_ANSWER
        Answer of the host, before this cycle, to the read of the line of the operation on ``i``.
    filled, filled_entry, filled_refused : in, pulse
        The host answered in the cycle before; the line is there, unless it was refused.
    read, read_entry, read_data : to LineStore
    commit : out, commit_of
        Every operation on a line ends with one.
    result, result_valid : out, line_result
        At age 3; never waits.
    room : in
        ``result`` will be taken in the next cycle and in the four cycles after it.
    finished, finished_writes : out
        Pulse, in the order of requests: all commits of a request have been made before this cycle; whether it
        is one that writes.
    trace_executed : TRACE_SLOT
    count_atomic_beats : out, pulse
    """

    def __init__(self, parameters: NicParameters):
        self._parameters = parameters
        entry = range(entries(parameters))
        super().__init__(
            {
                "i": In(stream.Signature(queued_operation(parameters))),
                "operands": In(stream.Signature(line_operands(parameters))),
                "answer": In(LINE_ANSWER),
                "filled": In(1),
                "filled_entry": In(entry),
                "filled_refused": In(1),
                "read": Out(1),
                "read_entry": Out(entry),
                "read_data": In(parameters.data_width),
                "commit": Out(commit_of(parameters)),
                "result": Out(line_result(parameters)),
                "result_valid": Out(1),
                "space": In(1),
                "finished": Out(1),
                "finished_writes": Out(1),
                "trace_executed": Out(TRACE_SLOT),
                "count_atomic_beats": Out(1),
            }
        )
        fitting = [datatype for datatype in parameters.datatypes if datatype.size <= parameters.beat_bytes]
        # Elements wider than a beat, if they do not fall into parts, have an arithmetic of their own.
        self._wide = None
        if any(datatype.size > parameters.beat_bytes for datatype in parameters.datatypes):
            self._wide = WideArithmetic(parameters.data_width, parameters.ops)
            fitting.append(Datatype.FI_LONG_DOUBLE)
        self._arithmetic = Arithmetic(
            parameters.data_width,
            fitting,
            parameters.ops,
            parameters.single_cycle_products,
            wide_products=self._wide is not None and self._wide.multiplies,
        )
        # By what it takes from issue to the second half of the result.
        self._wide_uses = {latency + 1: uses for latency, uses in self._wide.uses.items()} if self._wide else {}
        self._elements = ElementBuffer(parameters, halves=2 if self._wide else 1)
        operation = queued_operation(parameters)
        # Steps of this cycle: the operation is issued; it is, or none is there; the next one of the queue is taken.
        self._issues = Signal()
        self._moves = Signal(init=1)
        self._takes = Signal(init=1)
        # Answers of the host for the operation that might be issued, and for the one behind it.
        self._answers = [Signal(LINE_ANSWER, name=f"answer_{index}") for index in range(2)]
        # By age; age 0 is the one that might be issued.
        self._operations = [Signal(operation, name=f"operation_{age}") for age in range(4)]
        self._operands = [Signal(line_operands(parameters), name=f"operands_{age}") for age in range(2)]
        self._valid = [self._issues, *(Signal(name=f"valid_{age}") for age in range(1, 4))]
        self._errors = [Signal(name=f"error_{age}") for age in range(4)]
        # Admission's kind is one-hot; pipelined is what takes the pipeline of elements that fit a beat.
        self._admission = Admission(self._uses())
        decoded = data.StructLayout(
            {"control": Control, "kind": self._admission.kinds[0].shape(), "pipelined": 1, "wide": 1, "latency": 5}
        )
        self._decoded = [Signal(decoded, name=f"decoded_{age}") for age in range(2)]
        # The operation behind it, as it came from the queue, decoded.
        self._coming = Signal(operation)
        self._coming_valid = Signal()
        self._coming_decoded = Signal(decoded)
        # Operations in the pipeline, and on their way to it, by the cycles that are left until their result.
        late = data.StructLayout(
            {
                "valid": 1,
                "compute": 1,
                "touches": 1,
                "wide": 1,  # comes from WideArithmetic, and is this half of its result
                "half": 1,
                "entry": entry,
                "strobe": parameters.beat_bytes,  # none of one that touches no line
            }
        )
        longest = max(1, *(cycle for uses in self._uses().values() for cycle in uses.get("result", ())))
        self._late = [Signal(late, name=f"late_in_{cycles}") for cycles in range(ISSUE_TO_COMPUTE + longest)]
        self._longest = longest
        # The operation that ends at age 2: one from the pipeline, or else one that has taken one cycle.
        self._ends = Signal(
            data.StructLayout({"touches": 1, "stores_element": 1, "entry": entry, "strobe": parameters.beat_bytes})
        )
        # Bytes of the operation of age 1 that are committed in this cycle; that were in the one before; and that come
        # from the pipeline in the next one.
        self._forwarded = Signal(parameters.beat_bytes)
        self._newer = Signal(parameters.beat_bytes)
        self._forwarded_late = Signal(parameters.beat_bytes)
        # Bytes of the target of age 2 that come from the pipeline in this cycle.
        self._arriving_late = Signal(parameters.beat_bytes)
        self._first_entry = Signal(entry)
        self._old = Signal(parameters.data_width)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arithmetic = self._arithmetic
        m.submodules.elements = self._elements
        m.submodules.admission = self._admission
        self._decode(m)
        present = self._follow_answers(m)
        self._look_ahead(m, present)
        self._issue(m)
        self._pass_on(m)
        self._look_for_ends(m)
        fetched = self._fetch_line(m)
        self._compute(m, fetched)
        self._deliver(m)
        if self._wide:
            self._compute_wide(m)
        return m

    def _is_wide(self, operation):
        """Whether the operation computes half of an element wider than a beat."""
        return operation.datatype.matches(*WideArithmetic.DATATYPES) if self._wide else Const(0)

    def _uses(self):
        """Return the uses of each kind of operation, for Admission."""
        uses = {"at_once": {"result": {0}}} | self._arithmetic.uses
        if self._wide:
            uses["wide_first"] = {"halves": {0}}
        for latency, wide in self._wide_uses.items():
            # The first half of the result comes a cycle before the second's.
            uses[f"wide_{latency}"] = wide | {"result": {latency - 1, latency}}
        return uses

    def _decode(self, m):
        """Decode the queue's next operation, which is then behind the one that might be issued."""
        arithmetic, admission = self._arithmetic, self._admission
        arriving, coming = self.i.p, self._coming
        now, next_one = self._decoded[0], self._coming_decoded
        operands = self.operands.p
        m.d.comb += [
            arithmetic.op.eq(arriving.op),
            arithmetic.datatype.eq(arriving.datatype),
            arithmetic.cswap_by_bits.eq(arriving.cswap_by_bits),
            arithmetic.control.eq(now.control),
            arithmetic.compared.eq(self._operands[0].compare),
            self.i.ready.eq(self._takes),
            self.operands.ready.eq(self._coming_valid & self._moves),
            admission.kinds[0].eq(now.kind),
            admission.kinds[1].eq(next_one.kind),
            admission.issue.eq(self._issues),
        ]
        with m.If(self._takes):
            m.d.sync += [self._coming_valid.eq(self.i.valid), coming.eq(arriving)]
            self._decode_arriving(m)
        with m.If(self._moves):
            m.d.sync += [
                self._operations[0].eq(coming),
                now.eq(next_one),
                self._operands[0].operand.eq(operands.operand),
                self._operands[0].compare.eq(Mux(next_one.control.use_compare, operands.compare, operands.operand)),
            ]

    def _decode_arriving(self, m):
        arithmetic = self._arithmetic
        arriving, decoded = self.i.p, self._coming_decoded
        is_wide = self._is_wide(arriving)
        is_pipelined = arithmetic.kind.as_value().any()
        m.d.sync += [
            decoded.control.eq(arithmetic.decoded),
            decoded.pipelined.eq(is_pipelined),
            decoded.wide.eq(is_wide),
            decoded.latency.eq(arithmetic.latency),
            decoded.kind.at_once.eq(~is_pipelined & ~is_wide),
            *(decoded.kind[name].eq(arithmetic.kind[name]) for name in arithmetic.uses),
        ]
        if self._wide:
            latency = self._wide.latency(arriving.op) + 1
            with m.If(is_wide):
                m.d.sync += decoded.latency.eq(Mux(arriving.half, latency, 0))
            m.d.sync += decoded.kind.wide_first.eq(is_wide & ~arriving.half)
            for possible in self._wide_uses:
                m.d.sync += decoded.kind[f"wide_{possible}"].eq(is_wide & arriving.half & (latency == possible))

    def _follow_answers(self, m):
        """Keep the answers of the host; return whether the lines of both operations are there."""
        known = [Signal(LINE_ANSWER, name=f"known_{index}") for index in range(2)]
        for answer, latest, operation in zip(known, self._answers, (self._operations[0], self._coming), strict=True):
            m.d.comb += answer.eq(latest)
            with m.If(self.filled & (self.filled_entry == operation.entry)):
                m.d.comb += [answer.present.eq(1), answer.refused.eq(self.filled_refused)]
        m.d.sync += [
            self._answers[0].eq(Mux(self._moves, known[1].as_value(), known[0].as_value())),
            self._answers[1].eq(Mux(self._takes, self.answer.as_value(), known[1].as_value())),
        ]
        return [answer.present for answer in known]

    def _look_ahead(self, m, present):
        """Decide on the next cycle of the operation that will be first then, and of those behind it.

        Both candidates are looked up; the choice between them only chooses between the answers.
        """
        issued, decoded, coming = self._operations[0], self._decoded[0], self._coming
        unsettled = Signal(range(STEP_SETTLES + self._longest + 1))
        steps = Signal()
        m.d.comb += steps.eq(issued.gather | issued.compute | issued.scatter)
        with m.If(self._issues & steps):
            m.d.sync += unsettled.eq(STEP_SETTLES + decoded.latency)
        with m.Elif(unsettled != 0):
            m.d.sync += unsettled.eq(unsettled - 1)

        blocked = Signal(2)
        for index, operation in enumerate((issued, coming)):
            waits = (
                ~self.space,
                operation.fetches & ~present[index],
                operation.touches & self._will_be_late(operation),
                operation.settle & (unsettled > 1),
                self._admission.blocked[index],
            )
            m.d.comb += blocked[index].eq(Cat(waits).any())
        # An operation issued in this cycle enters the pipeline only now.
        same_entry = coming.entry == issued.entry
        if self._wide:
            same_entry |= decoded.wide & (coming.entry == self._first_entry)
        overlaps, hinders = Signal(), Signal()
        m.d.comb += [
            overlaps.eq(issued.touches & coming.touches & same_entry & (coming.strobe & issued.strobe).any()),
            hinders.eq((overlaps & (decoded.latency != 0)) | (steps & coming.settle) | self._admission.hinders),
        ]
        follows = self._coming_valid & ~blocked[1] & ~(self._issues & hinders)
        will_issue, will_move, will_come = Signal(), Signal(), Signal()
        m.d.comb += [
            will_issue.eq(Mux(self._moves, follows, ~blocked[0])),
            will_move.eq(will_issue | (self._moves & ~self._coming_valid)),
            will_come.eq(Mux(self._takes, self.i.valid, self._coming_valid)),
        ]
        m.d.sync += [
            self._issues.eq(will_issue),
            self._moves.eq(will_move),
            self._takes.eq(will_move | ~will_come),
        ]

    def _issue(self, m):
        """Read the line and signal the end of the request; find out whether the operation cannot be executed."""
        operation = self._operations[0]
        m.submodules.finish_line = finish_line = FinishLine(COMMITTED, self._longest)
        m.d.comb += [
            self.read.eq(self._issues),
            self.read_entry.eq(operation.entry),
            finish_line.start.eq(self._issues & operation.finishes),
            finish_line.writes.eq(operation.request_writes),
            finish_line.extra.eq(self._decoded[0].latency),
            self.finished.eq(finish_line.finished),
            self.finished_writes.eq(finish_line.finished_writes),
            self._errors[0].eq(
                Mux(
                    operation.compute | operation.scatter,
                    self._elements.error,
                    operation.fetches & self._answers[0].refused,
                )
            ),
        ]

    def _will_be_late(self, operation):
        """Whether, in the next cycle, bytes that the operation touches will come from the pipeline too late for it.

        Bytes that come at the time at which it would compute are early enough for a pipelined operation; another
        one is not issued then anyway, since it could not commit. Only halves of wide elements are too late
        then: they are passed on from the commit register, not from where they come out.
        """
        return Cat(
            late.valid
            & (late.entry == operation.entry)
            & (late.strobe & operation.strobe).any()
            & (late.wide if cycles == 0 else 1)
            for cycles, late in enumerate(self._late[ISSUE_TO_COMPUTE + 1 :])
        ).any()

    def _pass_on(self, m):
        """Everything gets older, and pipelined operations get their places among the results to come."""
        for ages in (self._operations, self._operands, self._decoded, self._valid, self._errors):
            for before, after in pairwise(ages):
                m.d.sync += after.eq(before)
        for sooner, later in pairwise(self._late):
            m.d.sync += sooner.eq(later)
        m.d.sync += self._late[-1].eq(0)
        operation, error = self._operations[0], self._errors[0]
        latencies = {kind: latency for kind, uses in self._arithmetic.uses.items() for latency in uses["result"]}
        for latency in sorted(set(latencies.values())):
            # One cycle of the time to the result is over when the register shows it.
            entering = ISSUE_TO_COMPUTE + latency - 1
            enters = Cat(self._decoded[0].kind[kind] for kind in latencies if latencies[kind] == latency).any()
            self._enter(m, entering, enters, error, entry=operation.entry)
        if self._wide:
            self._pass_on_wide(m)

    def _enter(self, m, cycles, enters, error, entry, wide=0, half=0):
        """Give an operation of a kind that ``enters`` its place among the results, if it is issued.

        No operation is issued whose place another has (Admission).
        """
        operation, entering = self._operations[0], self._late[cycles]
        with m.If(self._issues & enters):
            m.d.sync += [
                entering.valid.eq(1),
                entering.compute.eq(operation.compute),
                entering.touches.eq(operation.touches),
                entering.wide.eq(wide),
                entering.half.eq(half),
                entering.entry.eq(entry),
                entering.strobe.eq(Mux(operation.touches & ~error, operation.strobe, 0)),
            ]

    def _pass_on_wide(self, m):
        """With the second half of an element, both get their places among the results to come.

        Nothing is issued between the two, so nobody can miss the first meanwhile.
        """
        operation, error = self._operations[0], self._errors[0]
        first_error = Signal()
        with m.If(self._issues & self._decoded[0].wide & ~operation.half):
            m.d.sync += [self._first_entry.eq(operation.entry), first_error.eq(error)]
        for latency in self._wide_uses:
            for half, entry in enumerate((self._first_entry, operation.entry)):
                entering = ISSUE_TO_COMPUTE + latency - 2 + half
                enters = self._decoded[0].kind[f"wide_{latency}"]
                self._enter(m, entering, enters, error | first_error, entry, wide=1, half=half)

    def _look_for_ends(self, m):
        """Says a cycle ahead what ends at age 2, and which of its bytes those behind it take.

        That is known as soon as the operation of age 1, or the pipeline, has reached its last cycle; and whoever asks
        for it is of age 0 until then, whether it is issued or not.
        """
        asking, ending = self._operations[:2]
        soon, later = self._late[1:3]
        ends = Signal.like(self._ends, name="next_ends")
        with m.If(soon.valid):
            m.d.comb += [
                ends.touches.eq(soon.touches),
                ends.stores_element.eq(soon.compute & ~soon.wide),
                ends.entry.eq(soon.entry),
                ends.strobe.eq(soon.strobe),
            ]
        with m.Else():
            ends_at_once = self._valid[1] & ~self._decoded[1].pipelined & ~self._decoded[1].wide
            m.d.comb += [
                ends.touches.eq(ends_at_once & ending.touches),
                ends.stores_element.eq(ends_at_once & ending.compute),
                ends.entry.eq(ending.entry),
                ends.strobe.eq(Mux(ending.writes & ~self._errors[1], ending.strobe, 0)),
            ]

        def asked_of(ended, touches):
            return Mux(touches & asking.touches & (ended.entry == asking.entry), ended.strobe, 0)

        m.d.sync += [
            self._ends.eq(ends),
            self._forwarded.eq(asked_of(ends, ends.touches)),
            self._newer.eq(asked_of(self._ends, self._ends.touches)),
            self._forwarded_late.eq(asked_of(later, later.valid)),
            self._arriving_late.eq(self._forwarded_late),
        ]

    def _fetch_line(self, m):
        """Age 1: puts together what age 2 starts from but for what commits just now, and prepares the operands."""
        operation = self._operations[1]
        elements = self._elements
        fetched = Signal(self._parameters.data_width)
        m.d.comb += [
            elements.scatter_turn.eq(operation.turn),
            elements.element_half.eq(operation.half),
            elements.scatter_half.eq(operation.half),
            fetched.eq(
                Mux(operation.compute, elements.element, merge(self._newer, self.commit.data, self.read_data))
            ),
        ]
        arithmetic = self._arithmetic
        m.d.comb += [
            arithmetic.prepare_control.eq(self._decoded[1].control),
            arithmetic.operand.eq(self._operands[1].operand),
            arithmetic.compare.eq(self._operands[1].compare),
            arithmetic.is_late.eq(operation.scatter),
            arithmetic.late_operand.eq(elements.scattered),
        ]
        return fetched

    def _compute(self, m, fetched):
        """Age 2, and the choice of what commits next."""
        arithmetic = self._arithmetic
        ends, ends_late = self._ends, self._late[0]
        commit = Signal(commit_of(self._parameters), name="next_commit")
        target = Signal(self._parameters.data_width, reset_less=True)
        late_result = Signal(self._parameters.data_width)
        starts, stores_element = Signal(), Signal()
        m.d.sync += starts.eq(self._valid[1] & self._decoded[1].pipelined)
        m.d.comb += [
            self._old.eq(merge(self._arriving_late, arithmetic.late_result, target)),
            arithmetic.start.eq(starts),
            arithmetic.target.eq(target),
            arithmetic.forward.eq(self._forwarded_late),
            late_result.eq(arithmetic.late_result),
        ]
        if self._wide:
            with m.If(ends_late.wide):
                half = self._wide.result.word_select(ends_late.half, self._parameters.data_width)
                m.d.comb += late_result.eq(half)
        # The calculated result, and the choice between the two outcomes of other operations, are known last: all work
        # that does not depend on them has happened then.
        outcomes = [Signal.like(target, name=f"outcome_{raised}") for raised in range(2)]
        calculates = Signal()
        m.d.comb += calculates.eq(arithmetic.calculates & ~ends_late.valid)
        for outcome, result in zip(outcomes, arithmetic.results, strict=True):
            m.d.comb += outcome.eq(Mux(ends_late.valid, late_result, result))
        if_not, if_raised = (merge(self._forwarded, outcome, fetched) for outcome in outcomes)
        forwards_calculated = self._forwarded & calculates.replicate(len(self._forwarded))
        m.d.comb += [
            arithmetic.next_target[0].eq(if_not),
            arithmetic.next_target[1].eq(merge(forwards_calculated, arithmetic.calculated, if_raised)),
        ]
        commits_raised = Mux(calculates, arithmetic.calculated, outcomes[1])
        m.d.comb += [
            commit.valid.eq(ends.touches),
            commit.entry.eq(ends.entry),
            commit.strobe.eq(ends.strobe),
            commit.data.eq(merge(arithmetic.raised, commits_raised, outcomes[0])),
        ]
        m.d.sync += [
            target.eq(merge(arithmetic.raised, arithmetic.next_target[1], arithmetic.next_target[0])),
            self.commit.eq(commit),
            stores_element.eq(ends.stores_element),
        ]
        m.d.comb += [self._elements.store.eq(stores_element), self._elements.store_data.eq(self.commit.data)]

    def _compute_wide(self, m):
        """Ages 1 and 2 of operations on halves of elements, and the end of those that were misaligned."""
        operation = self._operations[1]
        ends = self._late[0]
        wide = self._wide
        m.submodules.wide = wide
        if wide.multiplies:
            wiring.connect(m, wide.product, self._arithmetic.wide)
        loads = Signal()
        m.d.sync += loads.eq(self._issues & self._decoded[0].wide)
        m.d.comb += [
            wide.load.eq(loads),
            wide.half.eq(operation.half),
            wide.op.eq(operation.op),
            wide.cswap_by_bits.eq(operation.cswap_by_bits),
            wide.operand.eq(self._operands[1].operand),
            wide.compare.eq(self._operands[1].compare),
            wide.target.eq(self._old),
        ]
        with m.If(ends.valid & ends.wide & ends.compute):
            m.d.comb += [self._elements.store.eq(1), self._elements.store_data.eq(wide.result)]

    def _deliver(self, m):
        """Age 3: the old value goes to the result, or to the element that is being gathered."""
        operation, executed = self._operations[2:4]
        elements = self._elements
        event = self.trace_executed.event
        delivers = self._valid[2] & ~operation.gather & ~operation.scatter
        m.d.sync += [
            self.result.data.eq(self._old),
            self.result.offset.eq(operation.offset),
            self.result.count.eq(Mux(operation.returns_data, operation.count, 0)),
            self.result.last.eq(operation.result_last),
            self.result.error.eq(self._errors[2]),
            self.result_valid.eq(delivers & (operation.returns_data | operation.result_last | self._errors[2])),
            self.trace_executed.valid.eq(delivers & operation.result_last),
            event.psn.eq(operation.psn),
            event.pdc.eq(operation.pdc),
            event.context.eq(Const(0xFF, 8)),
            self.count_atomic_beats.eq(self._valid[2] & operation.atomic),
        ]
        m.d.comb += [
            elements.gather.eq(self._valid[3] & executed.gather),
            elements.gather_line.eq(self.result.data),
            elements.gather_strobe.eq(executed.strobe),
            elements.gather_turn.eq(executed.turn),
            elements.gather_half.eq(executed.half),
            elements.gather_starts.eq(executed.starts_element),
            elements.gather_error.eq(self._errors[3]),
        ]
