"""Requests of the host from the integrated block's CQ stream."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import RegisterRequestKind
from amoeba_model.ultrascale import CQ_DESCRIPTOR, CQ_USER, RequestType

from amoeba_hw.layout import struct_layout
from amoeba_hw.pcie.completer import COMPLETIONS
from amoeba_hw.pcie.interfaces import REGISTER_REQUEST
from amoeba_hw.pcie.ultrascale.streams import UltraScaleStream, check_width

__all__ = ["CqAdapter"]

_DESCRIPTOR = 8 * CQ_DESCRIPTOR.size


class CqAdapter(wiring.Component):
    """Makes one beat of each request of the host, and limits the requests in flight that want a completion.

    Completer has an entry for the completion of each, so that writes behind them never wait.

    Parameters
    ----------
    width : int
        256 or 512.

    Members
    -------
    cq : CQ stream, In
    requests : REGISTER_REQUEST stream, Out
        Latency zero. ``poisoned`` is what the block says in the first beat: poisoned packets it drops itself.
    np_request : Out(2)
        ``pcie_cq_np_req``: the block may deliver one request more that wants a completion.
    completed : In(1)
        Pulse: a completion was sent.
    """

    def __init__(self, width):
        check_width(width)
        super().__init__(
            {
                "cq": In(UltraScaleStream(width, CQ_USER[width])),
                "requests": Out(stream.Signature(REGISTER_REQUEST)),
                "np_request": Out(2),
                "completed": In(1),
            }
        )
        self._credits = Signal(range(COMPLETIONS + 1), init=COMPLETIONS)
        """Free entries that the block has not been told of."""

    def elaborate(self, platform):
        m = Module()
        cq, request = self.cq, self.requests
        descriptor = Signal(struct_layout(CQ_DESCRIPTOR))
        inside = Signal()
        offset = Signal(64)
        m.d.comb += [
            descriptor.eq(cq.tdata[:_DESCRIPTOR]),
            offset.eq((1 << descriptor.bar_aperture) - 1),
            request.valid.eq(cq.tvalid & ~inside),
            cq.tready.eq(request.ready | inside),
            request.p.address.eq(Cat(Const(0, 2), descriptor.address) & offset),
            request.p.data.eq(cq.tdata[_DESCRIPTOR:]),
            request.p.bar.eq(descriptor.bar_id),
            request.p.first_be.eq(cq.tuser.first_be),
            request.p.last_be.eq(cq.tuser.last_be),
            request.p.poisoned.eq(cq.tuser.discontinue),
        ]
        for name in ("dwords", "traffic_class", "attributes", "requester_id", "tag"):
            m.d.comb += request.p[name].eq(descriptor[name])
        with m.Switch(descriptor.request_type):
            with m.Case(RequestType.MEMORY_READ):
                m.d.comb += request.p.kind.eq(RegisterRequestKind.MEMORY_READ)
            with m.Case(RequestType.MEMORY_WRITE):
                m.d.comb += request.p.kind.eq(RegisterRequestKind.MEMORY_WRITE)
            with m.Case(RequestType.MESSAGE, RequestType.VENDOR_MESSAGE, RequestType.ATS_MESSAGE):
                m.d.comb += request.p.kind.eq(RegisterRequestKind.OTHER_POSTED)
            with m.Default():
                m.d.comb += request.p.kind.eq(RegisterRequestKind.OTHER_NON_POSTED)
        with m.If(cq.tvalid & cq.tready):
            m.d.sync += inside.eq(~cq.tlast)
        m.d.comb += self.np_request.eq(self._credits != 0)
        m.d.sync += self._credits.eq(self._credits - (self._credits != 0) + self.completed)
        return m
