"""One array of multipliers for numbers of every size."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["SegmentedMultiplier"]

_TILE = 16
_TILES = 4


class SegmentedMultiplier(wiring.Component):
    """Multiplies 1, 2, 4 or 8 pairs of unsigned numbers in 64 bits; a product per cycle.

    The 64x64-bit product is sixteen 16x16-bit tiles (a tile is one DSP block). Numbers of 32 and 16 bits use
    the tiles on the diagonal only; the other tiles are switched off, and as double-length products do not
    overlap, the same adders then deliver them side by side. Of 8-bit numbers, whose odd ones use the tiles next
    to the diagonal, only the lower half of the product is returned::

        cycle 1  factors of the tiles    2  tiles    3  three partial sums    4  sum

    A DSP block takes a third of a cycle, and its place on a chip is given: so there is nothing else in its cycle, and
    the registers before and behind it are such that the block's own can take their place.

    Members
    -------
    size : In
        One-hot: the numbers are of 1, 2, 4 or 8 bytes.
    a, b : In(64)
    product : Out(128)
        ``LATENCY`` cycles later: number n's in bits 2*n*size and up; of 8-bit numbers, their lower halves in
        bits 8*n and up.
    """

    LATENCY = 4

    SIZE = data.StructLayout({"b1": 1, "b2": 1, "b4": 1, "b8": 1})

    def __init__(self):
        super().__init__({"size": In(self.SIZE), "a": In(64), "b": In(64), "product": Out(128)})

    def elaborate(self, platform):
        m = Module()
        tiles = self._multiply(m)
        bytes_mode = Signal(3, reset_less=True)
        m.d.sync += bytes_mode.eq(Cat(self.size.b1, bytes_mode))

        def row(offset):
            """Concatenate the tiles at one distance from the diagonal, which lie side by side."""
            chosen = [
                tiles[i, i + offset] if offset >= 0 else tiles[i - offset, i] for i in range(_TILES - abs(offset))
            ]
            return Cat(Const(0, _TILE * abs(offset)), *chosen)

        byte_products = Cat(Cat(tiles[i, i][:8], tiles[i, i ^ 1][:8]) for i in range(_TILES))
        sums = [Signal(128, name=f"sum_{index}", reset_less=True) for index in range(3)]
        m.d.sync += [
            sums[0].eq(Mux(bytes_mode[1], byte_products, row(0) + row(1))),
            sums[1].eq(Mux(bytes_mode[1], 0, row(-1) + row(2))),
            sums[2].eq(Mux(bytes_mode[1], 0, row(-2) + (row(3) + row(-3)))),
            self.product.eq(sums[0] + sums[1] + sums[2]),
        ]
        return m

    def _multiply(self, m):
        size = self.size
        tiles = {}
        for i in range(_TILES):
            for j in range(_TILES):
                a, b = self.a.word_select(i, _TILE), self.b.word_select(j, _TILE)
                same_word = i // 2 == j // 2
                on = size.b8 | (size.b4 if same_word else 0)
                left, right = a & on.replicate(_TILE), b
                # The upper half of a factor does not reach the lower half of the product, which is all that counts
                # for 8-bit numbers.
                if i == j:
                    left = a
                elif same_word:
                    upper = self.b.word_select(i, _TILE)[8:]
                    left = Cat(Mux(size.b1, a[8:], left[:8]), left[8:])
                    right = Cat(Mux(size.b1, upper, b[:8]), b[8:])
                factors = [Signal(_TILE, name=f"{side}_{i}_{j}", reset_less=True) for side in ("left", "right")]
                tiles[i, j] = Signal(2 * _TILE, name=f"tile_{i}_{j}", reset_less=True)
                m.d.sync += [
                    factors[0].eq(left),
                    factors[1].eq(right),
                    tiles[i, j].eq(factors[0] * factors[1]),
                ]
        return tiles
