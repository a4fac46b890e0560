"""Asks the host for what the core wants to read."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import RequestKind

from amoeba_hw.host.axi import USER_WIDTH
from amoeba_hw.interfaces import READ_REQUEST
from amoeba_hw.pcie.interfaces import READ_START, REQUEST_HEADER
from amoeba_hw.stream import RegisterSlice

__all__ = ["WIDE_READ", "ReadRequester", "size_mask"]

WIDE_READ = data.StructLayout({"request": READ_REQUEST, "each": 1, "user": USER_WIDTH})
"""A read, and who asks. With ``each`` it stands for as many reads as it has lines, of one whole line each."""


def size_mask(code, limit):
    """Return the mask of an address within a block of 128 bytes << ``code``, or ``limit`` bytes if that is less.

    ``limit`` is a power of two from 128 to 4,096.
    """
    return ((128 << code) - 1)[:12] & (limit - 1)


class ReadRequester(wiring.Component):
    """Cuts reads at multiples of Max_Read_Request_Size, and so at 4 KiB; starts each piece, then asks for it.

    Only the bytes wanted are enabled. A piece begins and ends where a line does, unless the read does not.

    Parameters
    ----------
    limit : int
        Bytes that a request has at most, whatever is configured: a power of two from 128 to 4,096, and no more than
        CompletionBuffer has lines for.

    Members
    -------
    reads : WIDE_READ stream
        One per cycle, if its bytes do not need more pieces.
    max_read_request : In(3)
        Code of Max_Read_Request_Size.
    starts : READ_START stream, Out
        To CompletionBuffer. May be withdrawn.
    tag : In
        The tag for what ``starts`` offers.
    requests : REQUEST_HEADER stream, Out
        Latency one cycle. A read on offer here has been started.
    """

    def __init__(self, limit=4096):
        if limit not in (128, 256, 512, 1024, 2048, 4096):
            raise ValueError(f"Expected a power of two from 128 to 4096 as limit, got {limit}")
        self._limit = limit
        super().__init__(
            {
                "reads": In(stream.Signature(WIDE_READ)),
                "max_read_request": In(3),
                "starts": Out(stream.Signature(READ_START)),
                "tag": In(8),
                "requests": Out(stream.Signature(REQUEST_HEADER)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.output = output = RegisterSlice(REQUEST_HEADER)
        wiring.connect(m, output.o, wiring.flipped(self.requests))
        read, start, header = self.reads.p, self.starts, output.i.p
        done = Signal(13)
        address = Signal(64)
        remaining, to_boundary, length = Signal(13), Signal(13), Signal(13)
        whole = Signal()
        mask = Signal(12)
        end = Signal(2)
        m.d.comb += [
            mask.eq(size_mask(self.max_read_request, self._limit)),
            address.eq(read.request.address + done),
            remaining.eq(read.request.length - done),
            to_boundary.eq(mask - (address & mask) + 1),
            whole.eq(remaining <= to_boundary),
            length.eq(Mux(whole, remaining, to_boundary)),
            start.p.address.eq(address),
            start.p.length.eq(length),
            start.p.last.eq(whole),
            start.p.each.eq(read.each),
            start.valid.eq(self.reads.valid & output.i.ready),
            output.i.valid.eq(self.reads.valid & start.ready),
            self.reads.ready.eq(output.i.ready & start.ready & whole),
            end.eq(address[:2] + length),
            header.kind.eq(RequestKind.MEMORY_READ),
            header.address.eq(address & ~0b11),
            header.dwords.eq((address[:2] + length + 3) >> 2),
            header.first_be.eq((0b1111 << address[:2]) & Mux(header.dwords == 1, 0b1111 >> (-end)[:2], 0b1111)),
            header.last_be.eq(Mux(header.dwords == 1, 0, 0b1111 >> (-end)[:2])),
            header.tag.eq(self.tag),
            header.user.eq(read.user),
        ]
        with m.If(start.valid & start.ready):
            m.d.sync += done.eq(Mux(whole, 0, done + length))
        return m
