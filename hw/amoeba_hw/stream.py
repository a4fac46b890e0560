"""Stream building blocks: queues, register slices, arbiters, demultiplexers, and a strict ``connect``.

Every stream follows Amaranth's contract (RFC 61): ``valid`` never waits for ``ready``; once ``valid``, both
``valid`` and the payload hold until the transfer. A packet stream is one whose payload has a one-bit field
``last``; a packet ends with the beat that has it set. Everything here lives in the ``sync`` domain.
"""

import enum

from amaranth.hdl import Array, Const, Module, Mux, Shape, ShapeCastable, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

__all__ = [
    "Demux",
    "HalfRateSlice",
    "Queue",
    "RegisterSlice",
    "RegisteredArbiter",
    "RegisteredQueue",
    "RoundRobinArbiter",
    "SkidBuffer",
    "connect_streams",
]


def _payload_shape(interface):
    """Return the payload's shape as the signature declares it, whichever way the interface faces."""
    return interface.signature.members["payload"].shape


def _canonical(shape):
    """Return the shape in a form whose ``==`` means "the same fields": 8 becomes unsigned(8), layouts stay."""
    if isinstance(shape, ShapeCastable) or (isinstance(shape, type) and issubclass(shape, enum.Enum)):
        return shape
    return Shape.cast(shape)


def connect_streams(m, producer, consumer):
    """Connect two streams, insisting that their payloads have the same shape.

    ``wiring.connect`` of Amaranth 0.5 lets any two payloads of equal width pass, so that ``{data, last}``
    connects to ``{last, data}`` in silence.

    Parameters
    ----------
    m : Module
        Receives the connection.
    producer, consumer : stream interface
        As for ``wiring.connect``: two ports of submodules, or one of the component's own, flipped.

    Raises
    ------
    TypeError
        If a payload shape differs from the other.
    """
    shapes = [_payload_shape(interface) for interface in (producer, consumer)]
    if _canonical(shapes[0]) != _canonical(shapes[1]):
        raise TypeError(
            f"Expected streams with the same payload, got {shapes[0]!r} from the producer "
            f"and {shapes[1]!r} at the consumer"
        )
    wiring.connect(m, producer, consumer)


def _has_last(shape):
    """Whether ``shape`` is that of a packet stream: a layout with a field ``last``."""
    try:
        layout = data.Layout.cast(shape)
    except TypeError:
        return False
    return any(name == "last" for name, _ in layout)


class Queue(wiring.Component):
    """First in, first out, in order and without loss.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Beats it holds, at least 1.

    Members
    -------
    i, o : stream of ``shape``
        A beat appears on ``o`` in the cycle after it entered an empty queue; one beat per cycle in and out if the
        depth is at least 2. ``i.ready`` does not depend on ``o.ready``.
    level : range(depth + 1)
        Beats inside, those on offer at ``o`` included.
    """

    def __init__(self, shape, depth):
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"Expected a depth of at least one beat, got {depth!r}")
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    @property
    def depth(self):
        return self._depth

    def elaborate(self, platform):
        m = Module()
        width = Shape.cast(_payload_shape(self.i)).width
        m.submodules.rows = rows = memory.Memory(shape=width, depth=self._depth, init=[])
        write = rows.write_port()
        # A payload that enters an empty queue is on offer in the next cycle; amaranth.lib.fifo takes two.
        read = rows.read_port(transparent_for=[write])
        enters, leaves, moves = Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.level != self._depth),
            enters.eq(self.i.valid & self.i.ready),
            leaves.eq(self.o.valid & self.o.ready),
            # The beat on offer is the read port's.
            moves.eq((~self.o.valid | self.o.ready) & (enters | (self.level != self.o.valid))),
            write.en.eq(enters),
            write.data.eq(self.i.p),
            read.en.eq(moves),
            self.o.p.eq(read.data),
        ]
        m.d.sync += self.level.eq(self.level + enters - leaves)
        for advances, port in ((enters, write), (moves, read)):
            place = Signal(range(self._depth))
            m.d.comb += port.addr.eq(place)
            with m.If(advances):
                m.d.sync += place.eq(Mux(place == self._depth - 1, 0, place + 1))
        with m.If(moves | leaves):
            m.d.sync += self.o.valid.eq(moves)
        return m


class RegisterSlice(wiring.Component):
    """Cuts the forward path: ``o.valid`` and ``o.payload`` come from registers; ``ready`` passes through.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.

    Members
    -------
    i, o : stream of ``shape``
        Latency one cycle, one beat per cycle. ``i.ready`` depends on ``o.ready`` combinationally.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(~self.o.valid | self.o.ready)
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


class HalfRateSlice(wiring.Component):
    """Cuts both directions with one place: for wide payloads that come in every other cycle at most.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.

    Members
    -------
    i, o : stream of ``shape``
        Latency one cycle, a beat in two cycles. All outputs come from registers.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(~self.o.valid)
        with m.If(self.o.valid):
            m.d.sync += self.o.valid.eq(~self.o.ready)
        with m.Else():
            m.d.sync += [self.o.valid.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        return m


class SkidBuffer(wiring.Component):
    """Cuts the backward path: ``i.ready`` comes from a register; ``valid`` and payload pass through.

    The beat that arrives while ``o`` refuses, before ``i.ready`` can fall, waits in the one spare place.
    A :class:`RegisterSlice` behind it makes both directions registered.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.

    Members
    -------
    i, o : stream of ``shape``
        Latency zero, one beat per cycle. ``o.valid`` depends on ``i.valid`` combinationally.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})
        self._full = Signal()
        self._spare = Signal(shape)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.i.ready.eq(~self._full), self.o.valid.eq(self.i.valid | self._full)]
        with m.If(self._full):
            m.d.comb += self.o.payload.eq(self._spare)
            m.d.sync += self._full.eq(~self.o.ready)
        with m.Else():
            m.d.comb += self.o.payload.eq(self.i.payload)
            m.d.sync += [self._full.eq(self.i.valid & ~self.o.ready), self._spare.eq(self.i.payload)]
        return m


class RegisteredQueue(wiring.Component):
    """Queue with a SkidBuffer and a RegisterSlice behind it, so that its memory shares no cycle with the consumer.

    For a consumer that takes a whole cycle to look at a beat, or to decide whether it takes one.

    Parameters
    ----------
    shape : shape-like
        Payload of both streams.
    depth : int
        Beats the queue itself holds, at least 1; two more fit behind it.

    Members
    -------
    i, o : stream of ``shape``
        Latency two cycles, one beat per cycle if the depth is at least 2. ``o`` comes from registers, ``i.ready``
        does not depend on ``o.ready``.
    level : range(depth + 1)
        Beats in the queue itself.
    """

    def __init__(self, shape, depth):
        self._queue = Queue(shape, depth)
        super().__init__(self._queue.signature)

    @property
    def depth(self):
        return self._queue.depth

    def elaborate(self, platform):
        m = Module()
        shape = _payload_shape(self.i)
        m.submodules.queue = queue = self._queue
        m.submodules.skid = skid = SkidBuffer(shape)
        m.submodules.slice = register_slice = RegisterSlice(shape)
        connect_streams(m, wiring.flipped(self.i), queue.i)
        connect_streams(m, queue.o, skid.i)
        connect_streams(m, skid.o, register_slice.i)
        connect_streams(m, register_slice.o, wiring.flipped(self.o))
        m.d.comb += self.level.eq(queue.level)
        return m


class _Arbiter(wiring.Component):
    """Base of arbiters: ``count`` streams of ``shape`` merged into one, and the one that it comes from."""

    def __init__(self, shape, count):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"Expected at least one input, got {count!r}")
        self._count = count
        super().__init__(
            {
                "i": In(stream.Signature(shape)).array(count),
                "o": Out(stream.Signature(shape)),
                "grant": Out(range(count)),
            }
        )


class RoundRobinArbiter(_Arbiter):
    """Merges packet streams; an input waits for at most one packet of each other input.

    Parameters
    ----------
    shape : shape-like
        Payload of all streams. With a field ``last``, a grant lasts until the beat that has it set; without
        one, every beat is a packet of its own.
    count : int
        Number of inputs, at least 1.

    Members
    -------
    i : array of ``count`` streams of ``shape``
        ``i[n].ready`` depends on ``o.ready`` and on the ``valid`` of the others combinationally.
    o : stream of ``shape``
        Latency zero, one beat per cycle, no idle cycle between packets.
    grant : range(count)
        The input that the beat on ``o`` comes from; meaningful while ``o.valid``.
    """

    def __init__(self, shape, count):
        super().__init__(shape, count)
        self._holder = Signal(range(count), init=count - 1)
        self._held = Signal()

    def elaborate(self, platform):
        m = Module()
        inputs = [self.i[index] for index in range(self._count)]

        m.d.comb += self.grant.eq(self._holder)
        with m.If(~self._held), m.Switch(self._holder):
            for holder in range(self._count):
                with m.Case(holder):
                    # The last assignment wins: the nearest input after the previous holder.
                    for distance in range(self._count, 0, -1):
                        candidate = (holder + distance) % self._count
                        with m.If(inputs[candidate].valid):
                            m.d.comb += self.grant.eq(candidate)

        with m.Switch(self.grant):
            for index, source in enumerate(inputs):
                with m.Case(index):
                    m.d.comb += [
                        self.o.valid.eq(source.valid),
                        self.o.payload.eq(source.payload),
                        source.ready.eq(self.o.ready),
                    ]

        last = self.o.p.last if _has_last(_payload_shape(self.o)) else 1
        with m.If(self.o.valid):
            # A refused beat is held too: the payload on offer may not change before its transfer.
            m.d.sync += [self._holder.eq(self.grant), self._held.eq(~(self.o.ready & last))]
        return m


class RegisteredArbiter(_Arbiter):
    """RoundRobinArbiter whose grant is a register: no input's ``ready`` depends on the ``valid`` of any.

    The grant moves when its packet ends, or while its input offers nothing; an input that is alone keeps it.

    Parameters
    ----------
    shape : shape-like
        Payload of all streams. With a field ``last``, a grant lasts until the beat that has it set; without
        one, every beat is a packet of its own.
    count : int
        Number of inputs, at least 1.

    Members
    -------
    i : array of ``count`` streams of ``shape``
        ``i[n].ready`` is ``o.ready`` while the grant is n's.
    o : stream of ``shape``
        Latency zero for the input that has the grant, one cycle for others. No idle cycle between packets that wait.
    grant : range(count)
        The input that the beat on ``o`` comes from.
    """

    def __init__(self, shape, count):
        super().__init__(shape, count)
        self._inside = Signal()
        """A packet has begun and has not ended."""

    def elaborate(self, platform):
        m = Module()
        inputs = [self.i[index] for index in range(self._count)]
        last = self.o.p.last if _has_last(_payload_shape(self.o)) else Const(1)
        moves = Signal()
        with m.Switch(self.grant):
            for index, source in enumerate(inputs):
                with m.Case(index):
                    m.d.comb += [
                        self.o.valid.eq(source.valid),
                        self.o.payload.eq(source.payload),
                        source.ready.eq(self.o.ready),
                    ]
                    # The last assignment wins: the nearest input after this one.
                    for distance in range(self._count - 1, 0, -1):
                        candidate = (index + distance) % self._count
                        with m.If(moves & inputs[candidate].valid):
                            m.d.sync += self.grant.eq(candidate)
        with m.If(self.o.valid):
            m.d.comb += moves.eq(self.o.ready & last)
            with m.If(self.o.ready):
                m.d.sync += self._inside.eq(~last)
        with m.Else():
            m.d.comb += moves.eq(~self._inside)
        return m


class Demux(wiring.Component):
    """Sends each packet to one of several outputs.

    Parameters
    ----------
    shape : shape-like
        Payload of all streams. With a field ``last``, a route lasts until the beat that has it set; without
        one, every beat is a packet of its own.
    count : int
        Number of outputs, at least 1.

    Members
    -------
    i : stream of ``shape``
        Latency zero, one beat per cycle. ``i.ready`` depends on ``select`` and the ``ready`` of the outputs
        combinationally.
    select : range(count + 1)
        Output for the packet whose first beat is on ``i``; must hold like the payload of that beat, and is
        not looked at on later beats. ``count`` discards the packet.
    o : array of ``count`` streams of ``shape``
    """

    def __init__(self, shape, count):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"Expected at least one output, got {count!r}")
        self._count = count
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "select": In(range(count + 1)),
                "o": Out(stream.Signature(shape)).array(count),
            }
        )
        self._inside = Signal()
        self._route = Signal(range(count + 1))

    def elaborate(self, platform):
        m = Module()
        outputs = [self.o[index] for index in range(self._count)]
        route = Signal.like(self._route)
        m.d.comb += route.eq(self.select)
        with m.If(self._inside):
            m.d.comb += route.eq(self._route)

        for output in outputs:
            m.d.comb += output.payload.eq(self.i.payload)
        with m.If(route < self._count):
            m.d.comb += [
                Array(output.valid for output in outputs)[route].eq(self.i.valid),
                self.i.ready.eq(Array(output.ready for output in outputs)[route]),
            ]
        with m.Else():
            m.d.comb += self.i.ready.eq(1)

        if _has_last(_payload_shape(self.i)):
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [self._inside.eq(~self.i.p.last), self._route.eq(route)]
        return m
