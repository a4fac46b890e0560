# amaranth: UnusedElaboratable=no
"""The endpoint on the UltraScale+ integrated block, as cocotbext-pcie models it, and a root complex; in Verilator.

Covers ``pcie/ultrascale/cc.py``, ``pcie/ultrascale/completion_store.py``, ``pcie/ultrascale/cq.py``,
``pcie/ultrascale/link.py``, ``pcie/ultrascale/rc.py``, ``pcie/ultrascale/rq.py``, ``pcie/ultrascale/streams.py``,
``ultrascale.py`` and ``amoeba_model/ultrascale.py``.
"""

import pytest
from amaranth.hdl import Module, ResetInserter
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.pcie.completer import Completer
from amoeba_hw.pcie.function_reset import FunctionReset
from amoeba_hw.pcie.interfaces import REQUEST_HEADER, completion_beat, request_beat
from amoeba_hw.pcie.msix_table import MsixTable
from amoeba_hw.pcie.request_merger import RequestMerger
from amoeba_hw.pcie.ultrascale.link import UltraScaleLink
from amoeba_hw.pcie.ultrascale.streams import check_width
from amoeba_hw.stream import connect_streams
from amoeba_model import ultrascale
from amoeba_sim.cocotb_runner import run_bench

WORDS = 256
VECTORS = 8


class Endpoint(wiring.Component):
    """The stand-in between the integrated block and a function: registers are a memory, the bench makes requests."""

    def __init__(self, width):
        self._link = UltraScaleLink(width)
        self._width = width
        outside = {
            name: member
            for name, member in self._link.signature.members.items()
            if name.startswith(("cfg_", "tfc_", "rq", "rc", "cq", "cc"))
        }
        super().__init__(
            {
                **outside,
                "writes": In(stream.Signature(request_beat(width))),
                "reads": In(stream.Signature(REQUEST_HEADER)),
                "completions": Out(stream.Signature(completion_beat(width))),
                "irq": In(VECTORS),
                "completion_hold": In(1),
                "reads_idle": In(1),
                "reset": Out(1),
                "run": Out(1),
            }
        )
        self._outside = tuple(outside)

    def elaborate(self, platform):
        m = Module()
        function, completer = FunctionReset(), Completer()
        merger, table = RequestMerger(self._width), MsixTable(VECTORS)
        m.submodules.link = outer = self._link
        m.submodules.function = function
        m.submodules.completer = completer
        m.submodules.merger = ResetInserter(function.reset)(merger)
        m.submodules.table = ResetInserter(function.reset)(table)
        for name in self._outside:
            port, member = getattr(outer, name), outer.signature.members[name]
            if member.is_signature:
                wiring.connect(m, port, flipped(getattr(self, name)))
            elif member.flow == In:
                m.d.comb += port.eq(getattr(self, name))
            else:
                m.d.comb += getattr(self, name).eq(port)
        link = outer.link
        for producer, consumer in (
            (merger.requests, link.requests),
            (link.completions, flipped(self.completions)),
            (link.register_requests, completer.requests),
            (table.messages, merger.interrupts),
            (completer.table_accesses, table.accesses),
            (table.read_data, completer.table_read_data),
            (flipped(self.writes), merger.writes),
            (flipped(self.reads), merger.reads),
        ):
            connect_streams(m, producer, consumer)
        answer, answered = completer.completions, link.register_completions
        m.d.comb += [
            answered.payload.eq(answer.payload),
            answered.valid.eq(answer.valid & ~self.completion_hold),
            answer.ready.eq(answered.ready & ~self.completion_hold),
            merger.read_credit.eq(link.read_credit),
            merger.run.eq(function.run),
            function.bus_master.eq(link.configuration.bus_master),
            function.reset_request.eq(outer.reset_request),
            outer.reset_done.eq(function.reset_done),
            function.merger_idle.eq(merger.idle),
            function.reads_idle.eq(self.reads_idle),
            function.accesses_idle.eq(completer.idle),
            completer.hold.eq(function.hold),
            table.irq.eq(self.irq),
            table.enable.eq(link.configuration.msix_enable),
            table.function_mask.eq(link.configuration.msix_mask),
            self.reset.eq(function.reset),
            self.run.eq(function.run),
        ]
        self._elaborate_registers(m, completer.accesses, completer.read_data)
        return m

    def _elaborate_registers(self, m, accesses, answers):
        m.submodules.words = words = memory.Memory(shape=32, depth=WORDS, init=[])
        write, read = words.write_port(), words.read_port()
        taken = accesses.valid & accesses.ready
        m.d.comb += [
            accesses.ready.eq(~answers.valid | answers.ready),
            write.addr.eq(accesses.p.address[2:]),
            write.data.eq(accesses.p.data),
            write.en.eq(taken & accesses.p.write),
            read.addr.eq(accesses.p.address[2:]),
            read.en.eq(taken & ~accesses.p.write),
            answers.payload.eq(read.data),
        ]
        with m.If(answers.ready):
            m.d.sync += answers.valid.eq(0)
        with m.If(read.en):
            m.d.sync += answers.valid.eq(1)


@pytest.mark.parametrize("width", [256, 512])
def test_the_endpoint_below_a_root_complex(width):
    parameters = {"width": width, "vectors": VECTORS, "words": WORDS}
    run_bench(Endpoint(width), "tests.hw.pcie.bench_ultrascale", parameters=parameters, timeout=300)


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match="256 or 512 bits, got 128"):
        UltraScaleLink(128)
    check_width(512)


@pytest.mark.parametrize(
    ("layout", "widths"),
    [
        (ultrascale.RQ_USER, (62, 137)),
        (ultrascale.RC_USER, (75, 161)),
        (ultrascale.CQ_USER, (88, 183)),
        (ultrascale.CC_USER, (33, 81)),
    ],
)
def test_tuser_has_as_many_bits_as_the_block_has(layout, widths):
    assert tuple(ultrascale.user_width(layout[width]) for width in ultrascale.WIDTHS) == widths
