"""Requests of the NIC on the integrated block's RQ stream."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import RequestKind
from amoeba_model.ultrascale import RQ_DESCRIPTOR, RQ_USER, RequestType

from amoeba_hw.layout import struct_layout
from amoeba_hw.pcie.interfaces import request_beat
from amoeba_hw.pcie.ultrascale.streams import UltraScaleStream, check_width

__all__ = ["RqAdapter"]

_DESCRIPTOR = 8 * RQ_DESCRIPTOR.size


class RqAdapter(wiring.Component):
    """Puts a descriptor in front of each request.

    Parameters
    ----------
    width : int
        256 or 512.

    Members
    -------
    requests : :func:`request_beat` stream, In
    rq : RQ stream
        Latency zero; a beat for each of ``requests``, and one more where the last one and the descriptor do not fit
        into one. A packet once begun goes on without a pause, as ``requests`` does.
    """

    def __init__(self, width):
        check_width(width)
        self._width = width
        super().__init__(
            {
                "requests": In(stream.Signature(request_beat(width))),
                "rq": Out(UltraScaleStream(width, RQ_USER[width])),
            }
        )
        self._tail = Signal()
        """The rest of a packet, all of which has come."""
        self._descriptor = Signal(struct_layout(RQ_DESCRIPTOR))

    def elaborate(self, platform):
        m = Module()
        request, rq, lanes = self.requests, self.rq, self._width // 32
        header = request.p.header
        first, last, left, following = Signal(), Signal(), Signal(12), Signal(12)
        held = Signal(_DESCRIPTOR)
        is_write = header.kind == RequestKind.MEMORY_WRITE
        m.d.comb += [
            self._descriptor.address.eq(header.address[2:]),
            self._descriptor.dwords.eq(header.dwords),
            self._descriptor.request_type.eq(Mux(is_write, RequestType.MEMORY_WRITE, RequestType.MEMORY_READ)),
            self._descriptor.tag.eq(Mux(is_write, 0, header.tag)),
            first.eq(request.p.first & ~self._tail),
            left.eq(Mux(first, Mux(is_write, header.dwords, 0) + _DESCRIPTOR // 32, following)),
            last.eq(left <= lanes),
            rq.tvalid.eq(request.valid | self._tail),
            rq.tdata.eq(
                Cat(
                    Mux(first, self._descriptor.as_value(), held),
                    Mux(self._tail, 0, request.p.data[:-_DESCRIPTOR]),
                )
            ),
            rq.tkeep.eq(Cat(left > lane for lane in range(lanes))),
            rq.tlast.eq(last),
            request.ready.eq(rq.tready & ~self._tail),
        ]
        with m.If(rq.tvalid & rq.tready):
            m.d.sync += [
                held.eq(request.p.data[-_DESCRIPTOR:]),
                following.eq(left - lanes),
                self._tail.eq(~self._tail & request.p.last & ~last),
            ]
        self._elaborate_user(m, first, last, left)
        return m

    def _elaborate_user(self, m, first, last, left):
        user, header = self.rq.tuser, self.requests.p.header
        with m.If(first):
            m.d.comb += [user.first_be.eq(header.first_be), user.last_be.eq(header.last_be)]
        if self._width == 512:
            m.d.comb += [
                user.starts.eq(first),
                user.ends.eq(last),
                user.end_place.eq(Mux(last, left - 1, 0)),
            ]
