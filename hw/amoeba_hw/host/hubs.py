"""Joins the DMA clients of the core onto one read and one write port."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import READ_REQUEST, WRITE_BEGUN, read_beat, write_beat
from amoeba_hw.stream import (
    Demux,
    Queue,
    RegisteredArbiter,
    RegisterSlice,
    SkidBuffer,
    connect_streams,
)

__all__ = ["ReadHub", "WriteHub"]


class ReadHub(wiring.Component):
    """Merges the host reads of several clients; each gets the answers to its own requests, in order.

    Parameters
    ----------
    width : int
        Bits per beat.
    users : sequence of int
        AxUSER number of each client.
    outstanding : int
        Requests that may be unanswered: enough to cover the host's latency.

    Members
    -------
    requests : array of READ_REQUEST streams, one per client
    answers : array of :func:`read_beat` streams, one per client
        A client that does not take its answer holds up those behind it: clients ask only for answers that they can
        store.
    port, port_answers : streams
        The merged requests (latency zero, one cycle for a client that was not the last), and their answers in the
        same order. All ``ready`` come from registers.
    port_user : 8 bits
        AxUSER of the request on ``port``.
    """

    def __init__(self, width, users, outstanding=128):
        self._width = width
        self._users = tuple(users)
        self._outstanding = outstanding
        count = len(self._users)
        super().__init__(
            {
                "requests": In(stream.Signature(READ_REQUEST)).array(count),
                "answers": Out(stream.Signature(read_beat(width))).array(count),
                "port": Out(stream.Signature(READ_REQUEST)),
                "port_answers": In(stream.Signature(read_beat(width))),
                "port_user": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = len(self._users)
        m.submodules.arbiter = arbiter = RegisteredArbiter(READ_REQUEST, count)
        m.submodules.order = order = Queue(range(count), self._outstanding)
        m.submodules.demux = demux = Demux(read_beat(self._width), count)
        m.submodules.answers_skid = answers = SkidBuffer(read_beat(self._width))
        m.submodules.requests_skid = merged = SkidBuffer(data.StructLayout({"request": READ_REQUEST, "user": 8}))
        # Once offered, a request may not be withdrawn when the order queue fills up: it fills only by
        # transfers of requests, so its ready cannot fall while a request waits.
        m.d.comb += [
            merged.i.p.request.eq(arbiter.o.p),
            merged.i.p.user.eq(Array(self._users)[arbiter.grant]),
            merged.i.valid.eq(arbiter.o.valid & order.i.ready),
            arbiter.o.ready.eq(merged.i.ready & order.i.ready),
            order.i.valid.eq(arbiter.o.valid & merged.i.ready),
            order.i.payload.eq(arbiter.grant),
            self.port.payload.eq(merged.o.p.request),
            self.port_user.eq(merged.o.p.user),
            self.port.valid.eq(merged.o.valid),
            merged.o.ready.eq(self.port.ready),
        ]
        connect_streams(m, wiring.flipped(self.port_answers), answers.i)
        for index in range(count):
            connect_streams(m, wiring.flipped(self.requests[index]), arbiter.i[index])
            connect_streams(m, demux.o[index], wiring.flipped(self.answers[index]))
        m.d.comb += [
            demux.i.payload.eq(answers.o.payload),
            demux.i.valid.eq(answers.o.valid & order.o.valid),
            answers.o.ready.eq(demux.i.ready & order.o.valid),
            demux.select.eq(order.o.payload),
            order.o.ready.eq(answers.o.valid & demux.i.ready & answers.o.p.last),
        ]
        return m


class WriteHub(wiring.Component):
    """Merges the host writes of several clients, burst by burst, and so defines the order of all host writes.

    A beat has its place in the order from the cycle on in which it enters the hub's registers. Only ``ordered`` and
    ``begun`` say that: a client does not conclude it from its own handshake, as registers may stand between::

        cycle          0            1           2
        client's beat  last taken
                       ``ordered``
        port                        on offer
        ``begun``                   of a burst of one beat

    Parameters
    ----------
    width : int
        Bits per beat.
    users : sequence of int
        AxUSER number of each client.

    Members
    -------
    writes : array of :func:`write_beat` streams, one per client
        A burst once begun must be delivered without waiting for anything that needs this hub. ``ready`` comes from
        registers.
    ordered : Out, a bit per client
        Pulse: the last beat of the client's oldest burst gets its place. A read that comes in a later cycle, whatever
        is written later, and interrupts raised later all come behind it.
    begun : WRITE_BEGUN, Out
        One cycle after the first beat of a burst got its place.
    port : :func:`write_beat` stream
        One cycle after a beat got its place, one beat per cycle.
    port_user : 8 bits
        AxUSER of the beat on ``port``.
    level : range(3)
        Beats in the hub, those on offer at ``port`` included.
    """

    def __init__(self, width, users):
        self._width = width
        self._users = tuple(users)
        tagged = data.StructLayout({"beat": write_beat(width), "user": 8})
        self._spare = SkidBuffer(tagged)
        self._output = RegisterSlice(tagged)
        super().__init__(
            {
                "writes": In(stream.Signature(write_beat(width))).array(len(self._users)),
                "ordered": Out(len(self._users)),
                "begun": Out(WRITE_BEGUN),
                "port": Out(stream.Signature(write_beat(width))),
                "port_user": Out(8),
                "level": Out(range(3)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RegisteredArbiter(write_beat(self._width), len(self._users))
        m.submodules.spare = spare = self._spare
        m.submodules.output = output = self._output
        enters = Signal()
        for index in range(len(self._users)):
            connect_streams(m, wiring.flipped(self.writes[index]), arbiter.i[index])
        connect_streams(m, spare.o, output.i)
        m.d.comb += [
            spare.i.p.beat.eq(arbiter.o.p),
            spare.i.p.user.eq(Array(self._users)[arbiter.grant]),
            spare.i.valid.eq(arbiter.o.valid),
            arbiter.o.ready.eq(spare.i.ready),
            enters.eq(arbiter.o.valid & arbiter.o.ready),
            self.ordered.eq(Mux(enters & arbiter.o.p.last, 1 << arbiter.grant, 0)),
            self.port.payload.eq(output.o.p.beat),
            self.port_user.eq(output.o.p.user),
            self.port.valid.eq(output.o.valid),
            output.o.ready.eq(self.port.ready),
            self.level.eq(output.o.valid + ~spare.i.ready),
        ]
        m.d.sync += [
            self.begun.valid.eq(enters & arbiter.o.p.first),
            self.begun.user.eq(spare.i.p.user),
            self.begun.address.eq(arbiter.o.p.address),
        ]
        return m
