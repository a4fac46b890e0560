"""Operands and compare values out of request payloads."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_model.wire.uet import CSWAP_VALUES_SIZE

from amoeba_hw.byte_order import SWAP_BITS, swap_bytes
from amoeba_hw.interfaces import packet_beat
from amoeba_hw.packed import CUT, Realign
from amoeba_hw.request_records import OPERAND_JOB
from amoeba_hw.stream import Queue, RegisterSlice, SkidBuffer, connect_streams

__all__ = ["OperandSplitter"]

_USES = data.StructLayout({"operand": 1, "compare": 1, "swap": SWAP_BITS})


class OperandSplitter(wiring.Component):
    """Cuts each payload into a packet of operands and a packet of compare values, or swallows it.

    Parameters
    ----------
    parameters : NicParameters
    jobs : int
        Payloads that may be announced ahead of their bytes.

    Members
    -------
    jobs : OPERAND_JOB stream
        One for each payload, in order. The payload must have the bytes of the parts.
    payload : :func:`packet_beat` stream
        Its ``ready`` comes from a register.
    operands, compares : :func:`packet_beat` streams
        One beat per cycle each, little-endian: the payload is permuted by its job's ``swap``, and then cut. A
        consumer may wait for both: compare values may stand behind all operands, so the queue of operands holds a
        whole payload; a single one may stand a beat before its operand, so a register takes it.
    """

    def __init__(self, parameters, jobs=16):
        self._parameters = parameters
        self._depth = jobs
        self._beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "jobs": In(stream.Signature(OPERAND_JOB)),
                "payload": In(stream.Signature(self._beat)),
                "operands": Out(stream.Signature(self._beat)),
                "compares": Out(stream.Signature(self._beat)),
            }
        )
        self._taken = {name: Signal(name=f"{name}_taken") for name in ("operand", "compare")}
        """The beat on offer has been taken for this part, and waits for the other."""

    def elaborate(self, platform):
        m = Module()
        width = self._parameters.data_width
        skips = {0, CSWAP_VALUES_SIZE // 2 % self._parameters.beat_bytes}
        m.submodules.uses = uses = Queue(_USES, self._depth)
        m.submodules.operand_cuts = operand_cuts = Queue(CUT, self._depth)
        m.submodules.compare_cuts = compare_cuts = Queue(CUT, self._depth)
        m.submodules.operand_cutter = operand_cutter = Realign(width, skips)
        m.submodules.compare_cutter = compare_cutter = Realign(width)
        m.submodules.waiting = waiting = Queue(self._beat, self._parameters.payload // self._parameters.beat_bytes)
        m.submodules.first_compare = first_compare = RegisterSlice(self._beat)
        m.submodules.payload_skid = payload = SkidBuffer(self._beat)
        self._elaborate_jobs(m, uses, {"operand": operand_cuts, "compare": compare_cuts})
        connect_streams(m, flipped(self.payload), payload.i)
        self._elaborate_fork(m, payload.o, uses, {"operand": operand_cutter, "compare": compare_cutter})
        connect_streams(m, operand_cuts.o, operand_cutter.cuts)
        connect_streams(m, compare_cuts.o, compare_cutter.cuts)
        connect_streams(m, operand_cutter.o, waiting.i)
        connect_streams(m, waiting.o, flipped(self.operands))
        connect_streams(m, compare_cutter.o, first_compare.i)
        connect_streams(m, first_compare.o, flipped(self.compares))
        return m

    def _elaborate_jobs(self, m, uses, cuts):
        job = self.jobs.p
        has = {"operand": job.has_operand, "compare": job.has_compare}
        space = uses.i.ready & cuts["operand"].i.ready & cuts["compare"].i.ready
        m.d.comb += [
            self.jobs.ready.eq(space),
            uses.i.valid.eq(self.jobs.valid & space),
            uses.i.p.swap.eq(job.swap),
        ]
        for name, queue in cuts.items():
            m.d.comb += [
                uses.i.p[name].eq(has[name]),
                queue.i.valid.eq(self.jobs.valid & space & has[name]),
                queue.i.p.eq(job[name]),
            ]

    def _elaborate_fork(self, m, payload, uses, cutters):
        """Each beat goes to every part that the job has, to each as soon as it is ready."""
        done = uses.o.valid
        swapped = swap_bytes(m, "payload", payload.p.data, uses.o.p.swap)
        for name, cutter in cutters.items():
            wants = Signal(name=f"wants_{name}")
            m.d.comb += [
                wants.eq(uses.o.p[name] & ~self._taken[name]),
                cutter.i.valid.eq(payload.valid & uses.o.valid & wants),
                cutter.i.p.eq(payload.p),
                cutter.i.p.data.eq(swapped),
            ]
            done &= ~wants | cutter.i.ready
            with m.If(cutter.i.valid & cutter.i.ready):
                m.d.sync += self._taken[name].eq(1)
        m.d.comb += [
            payload.ready.eq(done),
            uses.o.ready.eq(payload.valid & done & payload.p.last),
        ]
        with m.If(payload.valid & done):
            m.d.sync += [taken.eq(0) for taken in self._taken.values()]
