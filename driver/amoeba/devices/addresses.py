"""Network addresses of NICs that have none of their own, by their numbers."""

__all__ = ["MAX_NICS", "ip_of", "mac_of"]

MAX_NICS = 254
_FIRST_MAC = 0x0200_0000_0001
"""02:00:00:00:00:01: locally administered, as unassigned addresses must be."""
_FIRST_IP = 0x0A00_0001
"""10.0.0.1."""


def mac_of(index: int) -> bytes:
    """Return 02:00:00:00:00:n of number n, the index plus 1."""
    return (_FIRST_MAC + index).to_bytes(6, "big")


def ip_of(index: int) -> int:
    """Return 10.0.0.n."""
    return _FIRST_IP + index
