"""A link whose clock is not the NIC's."""

from amaranth.hdl import Module, Mux, ResetSignal, Signal
from amaranth.lib import cdc, data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.tlp import RequestKind

from amoeba_hw.pcie.interfaces import CONFIGURATION, PcieLinkSignature

__all__ = ["READS", "READS_LATE", "LinkCrossing"]

READS = 4
"""Reads that may be on the way from one clock to the other while the link takes reads."""
READS_LATE = READS + 2
"""Reads that may come after ``read_credit`` fell: these, and what RequestMerger has on offer."""
_SHORT, _LONG = 8, 16
"""Beats that a queue holds: enough for all the way of a pointer there and back; and so with a beat in every cycle."""

_STATUS = data.StructLayout({"configuration": CONFIGURATION, "reset_request": 1})


class LinkCrossing(wiring.Component):
    """Carries a :class:`PcieLinkSignature` between the domain ``sync``, the NIC's, and ``link``, at any two clocks.

    Streams pass asynchronous queues. A write begins at the link when all of it has come, so that it waits for
    nothing, whichever clock is the faster. Configuration passes as a whole, some cycles late. Packets inside
    go on when the NIC is stopped, and a function level reset is not done before they have left. Both domains are
    reset together.

    Parameters
    ----------
    width : int
        Bits per beat.
    write_limit : int
        Bytes that a write carries at most.

    Members
    -------
    nic : the NIC's :class:`PcieLinkSignature`, in ``sync``
    link : PcieLinkSignature, in ``link``
        READS_LATE reads may come after ``read_credit`` fell; the adapter leaves as many credits alone.
    reset_request : In; reset_done : Out
        To the adapter, in ``link``: as of FunctionReset.
    nic_reset_request : Out; nic_reset_done : In
        To FunctionReset, in ``sync``.
    """

    def __init__(self, width, *, write_limit=512):
        self._width = width
        self._most_beats = write_limit // (width // 8)
        super().__init__(
            {
                "nic": In(PcieLinkSignature(width)),
                "link": Out(PcieLinkSignature(width)),
                "reset_request": In(1),
                "reset_done": Out(1),
                "nic_reset_request": Out(1),
                "nic_reset_done": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        nic, link = self.nic, self.link
        requests = self._elaborate_requests(m)
        for name, source, sink, to_nic, depth in (
            ("completions", link.completions, nic.completions, True, _LONG),
            ("register_requests", link.register_requests, nic.register_requests, True, _SHORT),
            ("register_completions", nic.register_completions, link.register_completions, False, _SHORT),
        ):
            queue = _queue(m, name, source.p.shape().size, depth, to_nic=to_nic)
            _fill(m, queue, source)
            m.d.comb += [
                sink.p.eq(queue.r_data),
                sink.valid.eq(queue.r_rdy),
                queue.r_en.eq(sink.ready),
            ]
        self._elaborate_credits(m)
        self._elaborate_status(m, requests)
        return m

    def _elaborate_requests(self, m):
        """Carry requests to the link. Writes begin when they are whole."""
        nic, link = self.nic.requests, self.link.requests
        queue = _queue(m, "requests", nic.p.shape().size, max(_LONG, 2 * self._most_beats), to_nic=False)
        _fill(m, queue, nic)
        header = link.p.header
        beats = Signal(range(self._most_beats + 1))
        inside = Signal()
        lanes = self._width // 32
        m.d.comb += [
            beats.eq(Mux(header.kind == RequestKind.MEMORY_WRITE, (header.dwords + lanes - 1) // lanes, 1)),
            link.p.eq(queue.r_data),
            link.valid.eq(queue.r_rdy & (inside | (queue.r_level >= beats))),
            queue.r_en.eq(link.valid & link.ready),
        ]
        with m.If(link.valid & link.ready):
            m.d.link += inside.eq(~link.p.last)
        return queue

    def _elaborate_credits(self, m):
        """Pass credits for reads from the link to the NIC: one for each read that it took, while it takes more."""
        nic, link = self.nic, self.link
        queue = _queue(m, "credits", 1, _SHORT, to_nic=True)
        owed, outstanding = Signal(range(READS_LATE + 2), init=READS), Signal(range(READS_LATE + 2), init=READS)
        taken, sent = (
            side.requests.valid & side.requests.ready & (side.requests.p.header.kind == RequestKind.MEMORY_READ)
            & side.requests.p.first
            for side in (link, nic)
        )  # fmt: skip
        m.d.comb += [
            queue.w_en.eq((owed != 0) & link.read_credit),
            # A credit that came during a reset would be forgotten.
            queue.r_en.eq(~ResetSignal("sync")),
            nic.read_credit.eq(outstanding < READS),
        ]
        m.d.link += owed.eq(owed + taken - (queue.w_en & queue.w_rdy))
        m.d.sync += outstanding.eq(outstanding + sent - (queue.r_en & queue.r_rdy))

    def _elaborate_status(self, m, requests):
        """Carry the link's status at all times; and the end of a reset, behind all requests."""
        queue = _queue(m, "status", _STATUS.size, _SHORT, to_nic=True)
        told, shown = Signal(_STATUS), Signal(_STATUS)
        m.submodules.done = done = cdc.PulseSynchronizer("sync", "link")
        waits = Signal()
        m.d.comb += [
            told.configuration.eq(self.link.configuration),
            told.reset_request.eq(self.reset_request),
            queue.w_data.eq(told),
            queue.w_en.eq(1),
            queue.r_en.eq(1),
            self.nic.configuration.eq(shown.configuration),
            self.nic_reset_request.eq(shown.reset_request),
            done.i.eq(self.nic_reset_done),
            self.reset_done.eq(waits & ~requests.r_rdy),
        ]
        with m.If(queue.r_rdy):
            m.d.sync += shown.eq(queue.r_data)
        m.d.link += waits.eq(done.o | (waits & ~self.reset_done))


def _queue(m, name, width, depth, *, to_nic):
    """Make an asynchronous queue of ``depth`` beats, a power of two, from one domain to the other."""
    domains = {"w_domain": "link", "r_domain": "sync"} if to_nic else {"w_domain": "sync", "r_domain": "link"}
    m.submodules[name] = queue = fifo.AsyncFIFO(width=width, depth=depth, **domains)
    return queue


def _fill(m, queue, source: stream.Interface):
    m.d.comb += [queue.w_data.eq(source.p), queue.w_en.eq(source.valid), source.ready.eq(queue.w_rdy)]
