"""Fields of received frames in network order, and the Internet checksum."""

from amaranth.hdl import Cat

__all__ = ["BEAT_BYTES", "ones_sum", "take_field"]

BEAT_BYTES = 16
"""Of the beats that the answers to ARP and ICMP look at."""


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
