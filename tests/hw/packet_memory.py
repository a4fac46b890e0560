"""Host memory and packet streams as testbenches see them: bytes."""

import random

__all__ = ["Memory", "packet_beats", "packet_bytes"]


class Memory:
    """Sparse host memory; every access outside the granted ranges is refused."""

    def __init__(self):
        self._bytes = {}
        self._ranges = []

    def grant(self, address, length):
        self._ranges.append((address, address + length))

    def revoke(self, address, length):
        """Refuse what lies here from now on; ranges granted before are cut."""
        end = address + length
        parts = [part for low, high in self._ranges for part in ((low, min(high, address)), (max(low, end), high))]
        self._ranges = [(low, high) for low, high in parts if low < high]

    def allows(self, address, size):
        return any(start <= address and address + size <= end for start, end in self._ranges)

    def peek(self, address, size):
        return bytes(self._bytes.get(address + i, 0) for i in range(size))

    def poke(self, address, content):
        self._bytes.update(enumerate(content, address))

    def read(self, address, size, requester=None, context=None):
        return self.peek(address, size) if self.allows(address, size) else None

    def write(self, address, content, requester=None, context=None):
        assert self.allows(address, len(content)), f"write of {len(content)} bytes at {address:#x}"
        self.poke(address, content)


def packet_beats(width, content, error=False):
    """The beats of a packet, as payloads of a packet stream; invalid bytes are random."""
    size = width // 8
    beats = []
    for start in range(0, len(content), size):
        part = content[start : start + size]
        filled = part + random.randbytes(size - len(part))
        beats.append({"data": int.from_bytes(filled, "little"), "count": len(part), "last": 0, "error": 0})
    beats[-1].update(last=1, error=error)
    return beats


def packet_bytes(beats):
    """The bytes of a received packet; all its beats but the last must be full."""
    return b"".join(beat["data"].to_bytes(64, "little")[: beat["count"]] for beat in beats)
