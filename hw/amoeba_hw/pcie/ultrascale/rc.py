"""Completions for the NIC from the integrated block's RC stream."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import CompletionStatus
from amoeba_model.ultrascale import RC_DESCRIPTOR, RC_USER, ErrorCode

from amoeba_hw.layout import struct_layout
from amoeba_hw.pcie.interfaces import COMPLETION_HEADER, completion_beat
from amoeba_hw.pcie.ultrascale.streams import UltraScaleStream, check_width

__all__ = ["RcAdapter"]

_LAYOUT = struct_layout(RC_DESCRIPTOR)
_DESCRIPTOR = 8 * RC_DESCRIPTOR.size


class RcAdapter(wiring.Component):
    """Takes the descriptor from the front of each completion.

    Errors that the integrated block itself found become a status: a timeout, or a reset of the function, TIMED_OUT;
    wrong labels, a wrong address or no data, CA. A completion of no request is dropped. A completion that is not SC
    has no payload. The block reports errors of its own memories in a completion's last beat.

    Parameters
    ----------
    width : int
        256 or 512.

    Members
    -------
    rc : RC stream, In
    completions : :func:`completion_beat` stream, Out
        A completion that fits into one beat with its descriptor in the cycle in which it comes; others a cycle later,
        a beat per cycle.
    discontinued : Out(1)
        With the last beat of a completion: its payload is wrong.
    """

    def __init__(self, width):
        check_width(width)
        self._width = width
        super().__init__(
            {
                "rc": In(UltraScaleStream(width, RC_USER[width])),
                "completions": Out(stream.Signature(completion_beat(width))),
                "discontinued": Out(1),
            }
        )
        self._header = Signal(COMPLETION_HEADER)
        """As the descriptor on ``rc`` says it."""

    def elaborate(self, platform):
        m = Module()
        rc, completion, lanes = self.rc, self.completions, self._width // 32
        space = lanes - _DESCRIPTOR // 32
        unknown = self._elaborate_header(m)
        header, held, left = Signal(COMPLETION_HEADER), Signal(self._width - _DESCRIPTOR), Signal(11)
        begun, broken = Signal(), Signal()
        """The first beat has left; ``discontinue`` came with a beat before."""
        payload = rc.tdata[_DESCRIPTOR:]
        moves = completion.valid & completion.ready
        m.d.comb += completion.p.header.eq(header)
        with m.FSM(name="completion"):
            with m.State("FIRST"):
                m.d.comb += [
                    completion.p.header.eq(self._header),
                    completion.p.data.eq(payload),
                    completion.p.first.eq(1),
                    completion.p.last.eq(1),
                    self.discontinued.eq(rc.tuser.discontinue),
                ]
                m.d.sync += [
                    header.eq(self._header),
                    held.eq(payload),
                    left.eq(self._header.dwords),
                    begun.eq(0),
                    broken.eq(rc.tuser.discontinue),
                ]
                with m.If(self._header.dwords > space):
                    m.d.comb += rc.tready.eq(1)
                    with m.If(rc.tvalid):
                        m.next = "REST"
                with m.Else():
                    m.d.comb += [completion.valid.eq(rc.tvalid & ~unknown), rc.tready.eq(completion.ready | unknown)]
                    with m.If(rc.tvalid & rc.tready & ~rc.tlast):
                        m.next = "DROP"
            with m.State("REST"):
                m.d.comb += [
                    completion.valid.eq(rc.tvalid | (left <= space)),
                    completion.p.data.eq(Cat(held, Mux(left > space, rc.tdata[:_DESCRIPTOR], 0))),
                    completion.p.first.eq(~begun),
                    completion.p.last.eq(left <= lanes),
                    rc.tready.eq(completion.ready & (left > space)),
                    self.discontinued.eq(broken | ((left > space) & rc.tuser.discontinue)),
                ]
                with m.If(moves):
                    m.d.sync += [held.eq(payload), left.eq(left - lanes), begun.eq(1), broken.eq(self.discontinued)]
                    with m.If(completion.p.last):
                        m.next = "FIRST"
            with m.State("DROP"):
                m.d.comb += rc.tready.eq(1)
                with m.If(rc.tvalid & rc.tlast):
                    m.next = "FIRST"
        return m

    def _elaborate_header(self, m):
        """Decode the descriptor; return whether it is of no request."""
        descriptor, header = Signal(_LAYOUT), self._header
        m.d.comb += [
            descriptor.eq(self.rc.tdata[:_DESCRIPTOR]),
            header.tag.eq(descriptor.tag),
            header.byte_count.eq(descriptor.byte_count),
            header.lower_address.eq(descriptor.lower_address),
            header.poisoned.eq(descriptor.poisoned | (descriptor.error_code == ErrorCode.POISONED)),
        ]
        with m.Switch(descriptor.error_code):
            with m.Case(ErrorCode.NONE, ErrorCode.POISONED, ErrorCode.BAD_STATUS):
                m.d.comb += header.status.eq(descriptor.status)
            with m.Case(ErrorCode.TIMEOUT, ErrorCode.FLR):
                m.d.comb += header.status.eq(CompletionStatus.TIMED_OUT)
            with m.Default():
                m.d.comb += header.status.eq(CompletionStatus.CA)
        m.d.comb += header.dwords.eq(Mux(header.status == CompletionStatus.SC, descriptor.dwords, 0))
        return descriptor.error_code == ErrorCode.UNKNOWN_TAG
