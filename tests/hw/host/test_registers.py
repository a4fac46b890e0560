# amaranth: UnusedElaboratable=no
"""The registers behind AXI4-Lite, in Verilator.

Covers ``host/axi_lite.py`` and ``host/register_bank.py``.
"""

from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, flipped
from amoeba_hw.host.axi import Axi4LiteSignature
from amoeba_hw.host.axi_lite import AxiLite
from amoeba_hw.host.register_bank import ADDRESS_WIDTH, RegisterBank
from amoeba_hw.stream import connect_streams
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import run_bench

CONTEXTS = 2
OWN_PORTS = ("accesses", "read_data")
STREAMS = (
    "transmit_tails",
    "completion_heads",
    "arms",
    "event_heads",
    "event_arms",
    "receive_tails",
    "slot_releases",
    "counter_clears",
    "counter_admissions",
    "key_stores",
    "peer_stores",
)


class Bar(wiring.Component):
    """Bus adapter and registers: a RegisterBank with ``bar`` in place of its access streams."""

    def __init__(self):
        self._bank = RegisterBank(NicParameters(contexts=CONTEXTS))
        rest = {name: member for name, member in self._bank.signature.members.items() if name not in OWN_PORTS}
        super().__init__({"bar": In(Axi4LiteSignature(ADDRESS_WIDTH)), **rest})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = self._bank
        m.submodules.adapter = adapter = AxiLite(ADDRESS_WIDTH)
        wiring.connect(m, flipped(self.bar), adapter.bus)
        connect_streams(m, adapter.accesses, bank.accesses)
        connect_streams(m, bank.read_data, adapter.read_data)
        for name in STREAMS:
            connect_streams(m, getattr(bank, name), flipped(getattr(self, name)))
        for index in range(CONTEXTS):
            m.d.comb += Value.cast(self.contexts[index]).eq(Value.cast(bank.contexts[index]))
        m.d.comb += [
            bank.counts.eq(self.counts),
            self.drain.eq(bank.drain),
            bank.draining.eq(self.draining),
            self.mac.eq(bank.mac),
            self.ip.eq(bank.ip),
            self.dscp.eq(bank.dscp),
            self.psn_key.eq(bank.psn_key),
            Value.cast(self.retransmission).eq(Value.cast(bank.retransmission)),
            self.answer_base.eq(bank.answer_base),
            Value.cast(self.pdc_command).eq(Value.cast(bank.pdc_command)),
            Value.cast(bank.pdc_view).eq(Value.cast(self.pdc_view)),
            self.cycles.eq(bank.cycles),
            self.counter_base.eq(bank.counter_base),
        ]
        return m


def test_registers_do_what_they_declare():
    run_bench(Bar(), "tests.hw.host.bench_registers", parameters={"contexts": CONTEXTS})
