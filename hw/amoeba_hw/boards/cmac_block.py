"""The integrated block for 100G Ethernet, as Vivado's IP catalogue makes it."""

from amaranth.hdl import Const, DomainRenamer, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.boards.cmac_receive import CmacReceive
from amoeba_hw.boards.cmac_transmit import CmacTransmit
from amoeba_hw.host.axi import AxiStreamSignature

__all__ = ["LANES", "CmacBlock"]

LANES = 4
_WIDTH = 512
_TIED = {
    "gt_loopback_in": (12, 0),
    "gtwiz_reset_tx_datapath": (1, 0),
    "gtwiz_reset_rx_datapath": (1, 0),
    "ctl_tx_rsfec_enable": (1, 1),
    "ctl_rx_rsfec_enable": (1, 1),
    "ctl_rsfec_ieee_error_indication_mode": (1, 0),
    "ctl_rx_rsfec_enable_correction": (1, 1),
    "ctl_rx_rsfec_enable_indication": (1, 1),
    "core_rx_reset": (1, 0),
    "ctl_rx_enable": (1, 1),
    "ctl_rx_force_resync": (1, 0),
    "ctl_rx_test_pattern": (1, 0),
    "core_tx_reset": (1, 0),
    "ctl_tx_enable": (1, 1),
    "ctl_tx_send_idle": (1, 0),
    "ctl_tx_send_rfi": (1, 0),
    "ctl_tx_send_lfi": (1, 0),
    "ctl_tx_test_pattern": (1, 0),
    "tx_preamblein": (56, 0),
    "core_drp_reset": (1, 0),
    "drp_clk": (1, 0),
    "drp_addr": (10, 0),
    "drp_di": (16, 0),
    "drp_en": (1, 0),
    "drp_we": (1, 0),
}
"""Inputs that never change: bits and value. RS-FEC is on, as 100GBASE-CR4 and -SR4 want it."""


class CmacBlock(wiring.Component):
    """The block, and frames to and from it in its own domain ``mac``, which it drives with ``gt_txusrclk2``.

    Members
    -------
    tx, rx : AXI4-Stream, In and Out, of 512 bits
    init_clk, reset : In
        A clock of 125 MHz that runs before the link does, and a reset in it.
    mac_clk, mac_reset : Out
    rx_p, rx_n, tx_p, tx_n, refclk_p, refclk_n : pins
    """

    def __init__(self):
        super().__init__(
            {
                "tx": In(AxiStreamSignature(_WIDTH)),
                "rx": Out(AxiStreamSignature(_WIDTH)),
                "init_clk": In(1),
                "reset": In(1),
                "mac_clk": Out(1),
                "mac_reset": Out(1),
                "rx_p": In(LANES),
                "rx_n": In(LANES),
                "tx_p": Out(LANES),
                "tx_n": Out(LANES),
                "refclk_p": In(1),
                "refclk_n": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        transmit, receive = CmacTransmit(_WIDTH), CmacReceive(_WIDTH)
        m.submodules.transmit = DomainRenamer("mac")(transmit)
        m.submodules.receive = DomainRenamer("mac")(receive)
        wiring.connect(m, wiring.flipped(self.tx), transmit.i)
        wiring.connect(m, receive.o, wiring.flipped(self.rx))
        tx_reset, rx_reset = Signal(), Signal()
        m.d.comb += self.mac_reset.eq(tx_reset | rx_reset)
        sent, received = transmit.o, receive.i
        m.submodules.block = Instance(
            "cmac_usplus_0",
            i_gt_rxp_in=self.rx_p,
            i_gt_rxn_in=self.rx_n,
            o_gt_txp_out=self.tx_p,
            o_gt_txn_out=self.tx_n,
            i_gt_ref_clk_p=self.refclk_p,
            i_gt_ref_clk_n=self.refclk_n,
            i_sys_reset=self.reset,
            i_init_clk=self.init_clk,
            o_gt_txusrclk2=self.mac_clk,
            i_rx_clk=self.mac_clk,
            o_usr_tx_reset=tx_reset,
            o_usr_rx_reset=rx_reset,
            i_tx_axis_tdata=sent.tdata,
            i_tx_axis_tkeep=sent.tkeep,
            i_tx_axis_tlast=sent.tlast,
            i_tx_axis_tuser=Const(0, 1),
            i_tx_axis_tvalid=sent.tvalid,
            o_tx_axis_tready=sent.tready,
            o_rx_axis_tdata=received.tdata,
            o_rx_axis_tkeep=received.tkeep,
            o_rx_axis_tlast=received.tlast,
            o_rx_axis_tuser=receive.error,
            o_rx_axis_tvalid=received.tvalid,
            **{f"i_{name}": Const(value, width) for name, (width, value) in _TIED.items()},
        )
        return m
