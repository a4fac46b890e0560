"""The integrated block for PCI Express, as Vivado's IP catalogue makes it."""

from amaranth.hdl import Const, DomainRenamer, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.ultrascale import CC_USER, CQ_USER, RC_USER, RQ_USER, user_width

from amoeba_hw.pcie.interfaces import PcieLinkSignature
from amoeba_hw.pcie.link_crossing import READS_LATE, LinkCrossing
from amoeba_hw.pcie.ultrascale.link import READ_MARGIN, UltraScaleLink

__all__ = ["LANES", "PcieBlock"]

LANES = 16
_WIDTH = 512
_CONFIGURATION = (
    "cfg_max_payload",
    "cfg_max_read_req",
    "cfg_function_status",
    "cfg_rcb_status",
    "cfg_interrupt_msix_enable",
    "cfg_interrupt_msix_mask",
    "cfg_flr_in_process",
)
_TIED = {
    # configuration management: not used
    "cfg_mgmt_addr": (10, 0),
    "cfg_mgmt_function_number": (8, 0),
    "cfg_mgmt_write": (1, 0),
    "cfg_mgmt_write_data": (32, 0),
    "cfg_mgmt_byte_enable": (4, 0),
    "cfg_mgmt_read": (1, 0),
    "cfg_mgmt_debug_access": (1, 0),
    # messages: none are sent
    "cfg_msg_transmit": (1, 0),
    "cfg_msg_transmit_type": (3, 0),
    "cfg_msg_transmit_data": (32, 0),
    "cfg_fc_sel": (3, 0),
    "cfg_dsn": (64, 0),
    "cfg_power_state_change_ack": (1, 1),
    "cfg_err_cor_in": (1, 0),
    "cfg_err_uncor_in": (1, 0),
    "cfg_vf_flr_func_num": (8, 0),
    "cfg_vf_flr_done": (1, 0),
    "cfg_link_training_enable": (1, 1),
    "cfg_config_space_enable": (1, 1),
    "cfg_req_pm_transition_l23_ready": (1, 0),
    "cfg_hot_reset_in": (1, 0),
    "cfg_pm_aspm_l1_entry_reject": (1, 0),
    "cfg_pm_aspm_tx_l0s_entry_disable": (1, 0),
    "cfg_ds_port_number": (8, 0),
    "cfg_ds_bus_number": (8, 0),
    "cfg_ds_device_number": (5, 0),
    # interrupts are memory writes in RQ, behind the data that they announce
    "cfg_interrupt_int": (4, 0),
    "cfg_interrupt_pending": (4, 0),
    "cfg_interrupt_msix_address": (64, 0),
    "cfg_interrupt_msix_data": (32, 0),
    "cfg_interrupt_msix_int": (1, 0),
    "cfg_interrupt_msix_vec_pending": (2, 0),
    "cfg_interrupt_msi_function_number": (8, 0),
}
"""Inputs that never change: bits and value."""


class PcieBlock(wiring.Component):
    """The block with its reference clock, and the endpoint's link, in ``sync``.

    ``user_clk`` drives the domain ``sync``; or, if the NIC has a clock of its own, ``link``.

    Parameters
    ----------
    ip : str
        ``pcie4_uscale_plus`` or ``pcie4c_uscale_plus``; the module is called so with ``_0`` behind.
    crosses : bool
        The NIC has a clock of its own: a LinkCrossing stands between.

    Members
    -------
    link : the endpoint's :class:`PcieLinkSignature`, of 512 bits
    reset_request, reset_done : to and from FunctionReset
    user_clk, user_reset : Out
    rx_p, rx_n, tx_p, tx_n, refclk_p, refclk_n, reset_n : pins
    """

    def __init__(self, ip, *, crosses=False):
        self._ip, self._crosses = ip, crosses
        self.adapter = UltraScaleLink(_WIDTH, read_margin=READ_MARGIN + (READS_LATE if crosses else 0))
        super().__init__(
            {
                "link": In(PcieLinkSignature(_WIDTH)),
                "reset_request": Out(1),
                "reset_done": In(1),
                "user_clk": Out(1),
                "user_reset": Out(1),
                "rx_p": In(LANES),
                "rx_n": In(LANES),
                "tx_p": Out(LANES),
                "tx_n": Out(LANES),
                "refclk_p": In(1),
                "refclk_n": In(1),
                "reset_n": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        link = self._elaborate_link(m)
        sys_clk, sys_clk_gt = Signal(), Signal()
        m.submodules.refclk = Instance(
            "IBUFDS_GTE4",
            p_REFCLK_HROW_CK_SEL=Const(0, 2),
            i_I=self.refclk_p,
            i_IB=self.refclk_n,
            i_CEB=Const(0, 1),
            o_O=sys_clk_gt,
            o_ODIV2=sys_clk,
        )
        configuration = {}
        for name in _CONFIGURATION:
            configuration[f"o_{name}"] = Signal.like(getattr(link, name), name=name)
            m.d.comb += getattr(link, name).eq(configuration[f"o_{name}"])
        m.submodules.block = Instance(
            f"{self._ip}_0",
            i_sys_clk=sys_clk,
            i_sys_clk_gt=sys_clk_gt,
            i_sys_reset=self.reset_n,
            i_pci_exp_rxp=self.rx_p,
            i_pci_exp_rxn=self.rx_n,
            o_pci_exp_txp=self.tx_p,
            o_pci_exp_txn=self.tx_n,
            o_user_clk=self.user_clk,
            o_user_reset=self.user_reset,
            o_pcie_tfc_nph_av=link.tfc_nph_av,
            i_pcie_cq_np_req=link.cq_np_req,
            i_cfg_flr_done=link.cfg_flr_done,
            **configuration,
            **self._streams(m, link),
            **{f"i_{name}": Const(value, width) for name, (width, value) in _TIED.items()},
        )
        return m

    def _elaborate_link(self, m):
        """Make the adapter, in the clock of the block."""
        link = self.adapter
        if not self._crosses:
            m.submodules.link = link
            wiring.connect(m, wiring.flipped(self.link), link.link)
            m.d.comb += [self.reset_request.eq(link.reset_request), link.reset_done.eq(self.reset_done)]
            return link
        m.submodules.link = DomainRenamer("link")(link)
        m.submodules.crossing = crossing = LinkCrossing(_WIDTH)
        wiring.connect(m, wiring.flipped(self.link), crossing.nic)
        wiring.connect(m, crossing.link, link.link)
        m.d.comb += [
            crossing.reset_request.eq(link.reset_request),
            link.reset_done.eq(crossing.reset_done),
            self.reset_request.eq(crossing.nic_reset_request),
            crossing.nic_reset_done.eq(self.reset_done),
        ]
        return link

    @staticmethod
    def _streams(m, link):
        ports = {}
        for name, prefix, user in (
            ("rq", "s_axis_rq", RQ_USER),
            ("cc", "s_axis_cc", CC_USER),
            ("rc", "m_axis_rc", RC_USER),
            ("cq", "m_axis_cq", CQ_USER),
        ):
            stream, to_block = getattr(link, name), prefix.startswith("s")
            ours, theirs = ("i", "o") if to_block else ("o", "i")
            ports |= {
                f"{ours}_{prefix}_{part}": getattr(stream, part) for part in ("tdata", "tkeep", "tlast", "tvalid")
            }
            bits = Signal(user_width(user[_WIDTH]), name=f"{name}_tuser")
            ports[f"{ours}_{prefix}_tuser"] = bits
            m.d.comb += bits.eq(stream.tuser) if to_block else stream.tuser.eq(bits)
            # The block has four copies of its ready.
            ready = Signal(4, name=f"{name}_tready") if to_block else stream.tready
            ports[f"{theirs}_{prefix}_tready"] = ready
            if to_block:
                m.d.comb += stream.tready.eq(ready[0])
        return ports
