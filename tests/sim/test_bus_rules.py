# amaranth: UnusedElaboratable=no
"""A design that breaks the rules of its buses is stopped with the reason."""

import pytest
from amaranth.hdl import Assert, Module
from amaranth.lib import wiring
from amoeba_model.device import DeviceError
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import build_nic

from tests.sim import copy_engine as engine


class RuleBreaker(wiring.Component):
    """The copy engine, with one output spoilt by ``spoil(m, self)``."""

    def __init__(self, spoil):
        self._spoil = spoil
        super().__init__(engine.CopyEngine(64).signature)

    def elaborate(self, platform):
        m = Module()
        self._spoil(m, self)
        return m


def _drop_valid(m, nic):
    m.d.comb += nic.tx.tkeep.eq(0xFF)
    m.d.sync += nic.tx.tvalid.eq(~nic.tx.tvalid)


def _change_data(m, nic):
    m.d.comb += [nic.tx.tvalid.eq(1), nic.tx.tkeep.eq(0xFF)]
    m.d.sync += nic.tx.tdata.eq(nic.tx.tdata + 1)


def _leave_gap(m, nic):
    m.d.comb += [nic.tx.tkeep.eq(0xFD), nic.tx.tlast.eq(1)]
    m.d.sync += nic.tx.tvalid.eq(1)


def _cross_page(m, nic):
    m.d.sync += nic.host.arvalid.eq(1)
    m.d.comb += [nic.host.araddr.eq(4088), nic.host.arlen.eq(1)]
    m.d.comb += [nic.host.arsize.eq(3), nic.host.arburst.eq(1)]


def _fail_assertion(m, nic):
    m.d.sync += Assert(nic.bar.wdata != 0x666)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_drop_valid, "tx valid fell before the transfer"),
        (_change_data, "tx payload changed before the transfer"),
        (_leave_gap, "tx TKEEP 0xfd with TLAST 1"),
        (_cross_page, "AR address 0xff8, 2 beats"),
        (_fail_assertion, "an assertion of the design failed"),
    ],
)
def test_a_design_that_breaks_the_rules_of_its_buses_is_stopped_with_the_reason(spoil, message):
    with RtlDevice(build_nic(RuleBreaker(spoil)), stall=0.5) as device:
        device.write(engine.SCRATCH, 0x666)
        with pytest.raises(DeviceError, match=message):
            device.run_until(100)
