"""Makes a request's payload from operands and compare values."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.uet import CSWAP_VALUES_SIZE

from amoeba_hw.byte_order import SWAP_BITS, swap_bytes
from amoeba_hw.initiator.records import PayloadKind
from amoeba_hw.interfaces import packet_beat

__all__ = ["PAYLOAD", "PayloadJoin"]

PAYLOAD = data.StructLayout(
    {
        "kind": PayloadKind,
        "inline": 1,
        "discard": 1,
        "length": 14,
        "swap": SWAP_BITS,  # as of amoeba_hw.byte_order
        "local": 64,
        "compare": 64,
    }
)
"""One payload to make; ``kind`` is not NONE, ``length`` counts the operands' bytes. With ``discard`` its packets are
taken and nothing is delivered."""


class PayloadJoin(wiring.Component):
    """Turns each payload's operand packet and compare packet into one packet, in network order.

    Parameters
    ----------
    width : int
        Bits per beat.

    Members
    -------
    payloads : PAYLOAD stream
    operands, compares : packet streams
        One packet per payload and kind that has them, unless they are inline. Errors are not looked at.
    o : packet stream
        OPERANDS: as they come. SWAP_PAIR: the compare value in 16 bytes, the operand in 16 bytes. VECTORS: the
        operands and, from the next byte on, the compare values. All are permuted by ``swap``. Latency zero; one beat
        per cycle, and one cycle more where operands and compare values meet inside a beat.
    """

    def __init__(self, width):
        self._width = width
        self._beat = packet_beat(width)
        super().__init__(
            {
                "payloads": In(stream.Signature(PAYLOAD)),
                "operands": In(stream.Signature(self._beat)),
                "compares": In(stream.Signature(self._beat)),
                "o": Out(stream.Signature(self._beat)),
            }
        )
        self._joined = Signal(width)
        """The beat at hand, before it is permuted."""
        self._carry = Signal(width)
        self._carried = Signal(range(width // 8 + 1))
        self._second = Signal()
        """The operands are through."""
        self._tail = Signal()
        """Only the carried bytes are left."""

    def elaborate(self, platform):
        m = Module()
        payload = self.payloads.payload
        operand = Signal(self._beat)
        operand_valid = Signal()
        compare = Signal(self._beat)
        compare_valid = Signal()
        use_operand = Signal()
        use_compare = Signal()
        for name, beat, valid, source, value in (
            ("operand", operand, operand_valid, self.operands, payload.local),
            ("compare", compare, compare_valid, self.compares, payload.compare),
        ):
            used = use_operand if name == "operand" else use_compare
            m.d.comb += [beat.eq(source.payload), valid.eq(source.valid), source.ready.eq(used & ~payload.inline)]
            with m.If(payload.inline):
                m.d.comb += [beat.data.eq(value), beat.count.eq(payload.length), beat.last.eq(1), valid.eq(1)]

        valid = Signal()
        final = Signal()
        step = Signal()
        """The beat at hand is delivered or discarded."""
        m.d.comb += [
            self.o.valid.eq(self.payloads.valid & valid & ~payload.discard),
            self.o.p.data.eq(swap_bytes(m, "joined", self._joined, payload.swap)),
            self.o.p.last.eq(final),
            step.eq(self.payloads.valid & valid & (self.o.ready | payload.discard)),
            self.payloads.ready.eq(step & final),
        ]
        with m.Switch(payload.kind):
            with m.Case(PayloadKind.OPERANDS):
                m.d.comb += [
                    self._joined.eq(operand.data),
                    self.o.p.count.eq(operand.count),
                    valid.eq(operand_valid),
                    final.eq(operand.last),
                    use_operand.eq(step),
                ]
            with m.Case(PayloadKind.SWAP_PAIR):
                self._elaborate_pair(m, operand, compare, operand_valid & compare_valid, valid, final, step)
                m.d.comb += [use_operand.eq(step & final), use_compare.eq(step & final)]
            with m.Case(PayloadKind.VECTORS):
                absorbed = Signal()
                self._elaborate_vectors(
                    m, (operand, operand_valid), (compare, compare_valid), valid, final, step, absorbed
                )
                m.d.comb += [
                    use_operand.eq(~self._second & (step | absorbed)),
                    use_compare.eq(self._second & ~self._tail & step),
                ]
        return m

    def _elaborate_pair(self, m, operand, compare, both_valid, valid, final, step):
        def padded(beat):
            return Cat((beat.data.word_select(i, 8) & (i < beat.count).replicate(8)) for i in range(16))

        beat_bytes = self._width // 8
        m.d.comb += valid.eq(both_valid)
        if beat_bytes >= CSWAP_VALUES_SIZE:
            m.d.comb += [
                self._joined.eq(Cat(padded(compare), padded(operand))),
                self.o.p.count.eq(CSWAP_VALUES_SIZE),
                final.eq(1),
            ]
        else:
            m.d.comb += [
                self._joined.eq(Mux(self._second, padded(operand), padded(compare))),
                self.o.p.count.eq(beat_bytes),
                final.eq(self._second),
            ]
            with m.If(step):
                m.d.sync += self._second.eq(~self._second)

    def _elaborate_vectors(self, m, operands, compares, valid, final, step, absorbed):
        operand, operand_valid = operands
        compare, compare_valid = compares
        beat_bytes = self._width // 8
        partial = operand.count != beat_bytes
        spread = Signal(2 * self._width)
        total = Signal(range(2 * beat_bytes + 1))
        ones = Const((1 << self._width) - 1, self._width)
        m.d.comb += [
            spread.eq(compare.data << (self._carried << 3)),
            total.eq(self._carried + Mux(self._tail, 0, compare.count)),
        ]
        with m.If(~self._second):
            # A last beat that is not full waits for the compare values that fill it.
            m.d.comb += [
                self._joined.eq(operand.data),
                self.o.p.count.eq(beat_bytes),
                valid.eq(operand_valid & ~(operand.last & partial)),
                absorbed.eq(self.payloads.valid & operand_valid & operand.last & partial),
            ]
            with m.If((step | absorbed) & operand.last):
                m.d.sync += [
                    self._second.eq(1),
                    self._carry.eq(Mux(absorbed, operand.data & ~(ones << (operand.count << 3))[: self._width], 0)),
                    self._carried.eq(Mux(absorbed, operand.count, 0)),
                ]
        with m.Else():
            m.d.comb += [
                self._joined.eq(self._carry | Mux(self._tail, 0, spread[: self._width])),
                valid.eq(self._tail | compare_valid),
                final.eq(self._tail | (compare.last & (total <= beat_bytes))),
                self.o.p.count.eq(Mux(final, total, beat_bytes)),
            ]
            with m.If(step):
                m.d.sync += self._carry.eq(spread[self._width :])
                with m.If(final):
                    m.d.sync += [self._second.eq(0), self._tail.eq(0)]
                with m.Elif(compare.last):
                    m.d.sync += [self._tail.eq(1), self._carried.eq(total - beat_bytes)]
