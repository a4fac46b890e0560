"""Fields of received frames in network order, the Internet checksum, and the ports of what answers frames."""

from amaranth.hdl import Cat
from amaranth.lib.wiring import In, Out

__all__ = ["ANSWER_MEMBERS", "BEAT_BYTES", "ones_sum", "take_field"]

BEAT_BYTES = 16
"""Of the beats that the answers to ARP and ICMP look at."""

ANSWER_MEMBERS = {
    "beat": In(8 * BEAT_BYTES),
    "index": In(8),
    "count": In(range(BEAT_BYTES + 1)),
    "moves": In(1),
    "last": In(1),
    "mac": In(48),
    "ip": In(32),
    "answer": Out(8 * BEAT_BYTES),
    "good": Out(1),
}
"""Ports of a component that turns a request's frame into the answer's, beat by beat, in the same cycle.

The beat ``beat`` of a frame has ``count`` bytes and the number ``index``, which stays at 255; ``moves`` says that the
beat passes, and ``last`` that the frame ends with the beat. ``mac`` and ``ip`` are the node's addresses. ``answer``
is the beat of the answer. With the last beat, ``good`` says that the frame is a request to be answered.
"""


def take_field(beat, first, count):
    """Return ``count`` bytes from the frame's byte ``first`` on as a number, the most significant byte first.

    ``beat`` is the beat that has them all. The bytes of a beat that is driven may be assigned so.
    """
    place = first % BEAT_BYTES
    return Cat(beat.word_select(place + index, 8) for index in reversed(range(count)))


def ones_sum(*words):
    """Return the sum of words of 16 bits in ones' complement (RFC 1071)."""
    total = sum(words)
    while len(total) > 17:
        total = total[:16] + total[16:]
    # A carry that comes of the carry stops there: 0xFFFF + 0xFFFF + 1 fits.
    return (total[:16] + total[16:])[:16]
