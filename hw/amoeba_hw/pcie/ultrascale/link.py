"""The integrated block as the endpoint's link."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.ultrascale import CC_USER, CQ_USER, RC_USER, RQ_USER

from amoeba_hw.pcie.interfaces import PcieLinkSignature
from amoeba_hw.pcie.ultrascale.cc import CcAdapter
from amoeba_hw.pcie.ultrascale.completion_store import CompletionStore
from amoeba_hw.pcie.ultrascale.cq import CqAdapter
from amoeba_hw.pcie.ultrascale.rc import RcAdapter
from amoeba_hw.pcie.ultrascale.rq import RqAdapter
from amoeba_hw.pcie.ultrascale.streams import UltraScaleStream, check_width
from amoeba_hw.stream import connect_streams

__all__ = ["READ_MARGIN", "UltraScaleLink"]

READ_MARGIN = 4
"""Credits for reads that are left alone: the block tells how many there are some cycles late, and one read that waits
in RQ makes writes wait behind it."""


class UltraScaleLink(wiring.Component):
    """All four streams, and what the block tells of its configuration. In the clock domain of ``user_clk``.

    32 tags are used: the block does not tell whether more are allowed, and 32 reads of 512 bytes are more than a
    microsecond of Gen3 x16 brings.

    Parameters
    ----------
    width : int
        256 or 512.
    read_margin : int
        Credits for reads that are left alone, READ_MARGIN and what may come late besides: 4 to 14, as the block
        counts to 15.

    Members
    -------
    link : the endpoint's :class:`PcieLinkSignature`
    rq, rc, cq, cc : streams of the block
    cq_np_req : Out(2)
    tfc_nph_av : In(4)
        Credits of the host for reads; 15 are 15 or more. Credits for the data of non-posted requests (``tfc_npd_av``)
        are ignored, as reads carry none; for writes the block has RQ wait.
    cfg_max_payload, cfg_max_read_req, cfg_function_status, cfg_rcb_status, cfg_interrupt_msix_enable,
    cfg_interrupt_msix_mask, cfg_flr_in_process : In
    cfg_flr_done : Out(4)
        All as the block names and sizes them. Of four functions only the first is there.
    reset_request : Out(1); reset_done : In(1)
        To and from FunctionReset.
    """

    def __init__(self, width, *, read_margin=READ_MARGIN):
        check_width(width)
        if not READ_MARGIN <= read_margin < 15:
            raise ValueError(f"Expected a margin of {READ_MARGIN} to 14 credits for reads, got {read_margin}")
        self._width, self._read_margin = width, read_margin
        super().__init__(
            {
                "link": In(PcieLinkSignature(width)),
                "rq": Out(UltraScaleStream(width, RQ_USER[width])),
                "rc": In(UltraScaleStream(width, RC_USER[width])),
                "cq": In(UltraScaleStream(width, CQ_USER[width])),
                "cc": Out(UltraScaleStream(width, CC_USER[width])),
                "cq_np_req": Out(2),
                "tfc_nph_av": In(4),
                "cfg_max_payload": In(2),
                "cfg_max_read_req": In(3),
                "cfg_function_status": In(16),
                "cfg_rcb_status": In(4),
                "cfg_interrupt_msix_enable": In(4),
                "cfg_interrupt_msix_mask": In(4),
                "cfg_flr_in_process": In(4),
                "cfg_flr_done": Out(4),
                "reset_request": Out(1),
                "reset_done": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width, link = self._width, self.link
        m.submodules.rq = rq = RqAdapter(width)
        m.submodules.rc = rc = RcAdapter(width)
        m.submodules.store = store = CompletionStore(width)
        m.submodules.cq = cq = CqAdapter(width)
        m.submodules.cc = cc = CcAdapter(width)
        connect_streams(m, wiring.flipped(link.requests), rq.requests)
        connect_streams(m, rc.completions, store.i)
        connect_streams(m, store.o, wiring.flipped(link.completions))
        connect_streams(m, cq.requests, wiring.flipped(link.register_requests))
        connect_streams(m, wiring.flipped(link.register_completions), cc.completions)
        for name, adapter in (("rq", rq), ("rc", rc), ("cq", cq), ("cc", cc)):
            wiring.connect(m, getattr(adapter, name), wiring.flipped(getattr(self, name)))
        configuration = link.configuration
        m.d.comb += [
            store.discontinued.eq(rc.discontinued),
            cq.completed.eq(cc.completed),
            self.cq_np_req.eq(cq.np_request),
            link.read_credit.eq(self.tfc_nph_av > self._read_margin),
            configuration.max_payload.eq(self.cfg_max_payload),
            configuration.max_read_request.eq(self.cfg_max_read_req),
            configuration.read_completion_boundary.eq(self.cfg_rcb_status[0]),
            configuration.memory_space.eq(self.cfg_function_status[1]),
            configuration.bus_master.eq(self.cfg_function_status[2]),
            configuration.msix_enable.eq(self.cfg_interrupt_msix_enable[0]),
            configuration.msix_mask.eq(self.cfg_interrupt_msix_mask[0]),
            self.reset_request.eq(self.cfg_flr_in_process[0]),
            self.cfg_flr_done.eq(self.reset_done),
        ]
        return m
