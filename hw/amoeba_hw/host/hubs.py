"""Joins the DMA clients of the core onto one read and one write port."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from amoeba_hw.interfaces import READ_REQUEST, read_beat, write_beat
from amoeba_hw.stream import Demux, Queue, RegisterSlice, RoundRobinArbiter, connect_streams

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
        The merged requests (latency zero), and their answers in the same order.
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
        m.submodules.arbiter = arbiter = RoundRobinArbiter(READ_REQUEST, count)
        m.submodules.order = order = Queue(range(count), self._outstanding)
        m.submodules.demux = demux = Demux(read_beat(self._width), count)
        # Once offered, a request may not be withdrawn when the order queue fills up: it fills only by
        # transfers on this port, so its ready cannot fall while a request waits.
        m.d.comb += [
            self.port.payload.eq(arbiter.o.payload),
            self.port.valid.eq(arbiter.o.valid & order.i.ready),
            arbiter.o.ready.eq(self.port.ready & order.i.ready),
            order.i.valid.eq(arbiter.o.valid & self.port.ready),
            order.i.payload.eq(arbiter.grant),
            self.port_user.eq(Array(self._users)[arbiter.grant]),
        ]
        for index in range(count):
            connect_streams(m, wiring.flipped(self.requests[index]), arbiter.i[index])
            connect_streams(m, demux.o[index], wiring.flipped(self.answers[index]))
        m.d.comb += [
            demux.i.payload.eq(self.port_answers.payload),
            demux.i.valid.eq(self.port_answers.valid & order.o.valid),
            self.port_answers.ready.eq(demux.i.ready & order.o.valid),
            demux.select.eq(order.o.payload),
            order.o.ready.eq(self.port_answers.valid & demux.i.ready & self.port_answers.p.last),
        ]
        return m


class WriteHub(wiring.Component):
    """Merges the host writes of several clients, burst by burst, in the order of acceptance.

    Parameters
    ----------
    width : int
        Bits per beat.
    users : sequence of int
        AxUSER number of each client.

    Members
    -------
    writes : array of :func:`write_beat` streams, one per client
        A burst once begun must be delivered without waiting for anything that needs this hub.
    port : :func:`write_beat` stream
        Latency one cycle, one beat per cycle.
    port_user : 8 bits
        AxUSER of the beat on ``port``.
    """

    def __init__(self, width, users):
        self._width = width
        self._users = tuple(users)
        super().__init__(
            {
                "writes": In(stream.Signature(write_beat(width))).array(len(self._users)),
                "port": Out(stream.Signature(write_beat(width))),
                "port_user": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = arbiter = RoundRobinArbiter(write_beat(self._width), len(self._users))
        m.submodules.output = output = RegisterSlice(write_beat(self._width))
        for index in range(len(self._users)):
            connect_streams(m, wiring.flipped(self.writes[index]), arbiter.i[index])
        connect_streams(m, arbiter.o, output.i)
        connect_streams(m, output.o, wiring.flipped(self.port))
        user = Signal(8)
        with m.If(output.i.ready):
            m.d.sync += user.eq(Array(self._users)[arbiter.grant])
        m.d.comb += self.port_user.eq(user)
        return m
