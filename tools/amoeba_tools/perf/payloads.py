"""Contents of messages, by which a check can tell the messages apart."""

import functools

import numpy as np

__all__ = ["Findings", "Payloads"]

_FEW = 8
_PERIODS = (7, 11, 13, 17, 19)
"""Together more than any number of places, so that one of them divides it not."""


class Payloads:
    """The contents of messages by number: random bytes that repeat after a few messages.

    Contents that follow one another in the same place, ``places`` messages apart, differ. Their last byte is never 0,
    so that unwritten memory never looks like a message.
    """

    def __init__(self, size: int, places: int) -> None:
        self.size = size
        self.period = next(period for period in _PERIODS if places % period)
        self.contents = [_content(size, index) for index in range(self.period)]

    def of(self, number: int) -> bytes:
        return self.contents[number % self.period]


@functools.cache
def _content(size: int, index: int) -> bytes:
    if not size:
        return b""
    drawn: bytes = np.random.default_rng(index).bytes(size - 1)
    return drawn + bytes([index + 1])


class Findings:
    """Errors of a check: the first few, and their count."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, what: str) -> None:
        self.count += 1
        if len(self.first) < _FEW:
            self.first.append(what)

    def expect(self, found: object, expected: object, what: str) -> None:
        """Record an error if two values differ; long ones are not shown."""
        if found != expected:
            self.add(f"{what}: expected {_shown(expected)}, got {_shown(found)}")


def _shown(thing: object) -> str:
    if isinstance(thing, bytes | bytearray | memoryview):
        data = bytes(thing)
        return f"{data[:8].hex()}{'...' if len(data) > 8 else ''} ({len(data)} bytes)"
    return repr(thing)
