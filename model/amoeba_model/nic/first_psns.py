"""First psns of PDCs that are opened again: a keyed hash that no outsider can predict.

The hash is Speck64/96 (Beaulieu and others, "The SIMON and SPECK families of lightweight block ciphers", 2013), of
PDC and psn, under the key in the registers ``psn_key``. Hardware computes a round in each cycle.
"""

__all__ = ["DISTANCE", "KEY_WORDS", "ROUNDS", "encrypt", "first_psn"]

KEY_WORDS = 3
ROUNDS = 26
DISTANCE = 1 << 17
"""A connection epoch begins at least so far from the psn that its PDC would have used next."""

_MASK = 0xFFFF_FFFF
_HALF = 1 << 31


def encrypt(key: tuple[int, ...], high: int, low: int) -> tuple[int, int]:
    """Encrypt a block of two 32-bit words; of the three of ``key`` the first is the most significant."""
    later, earlier, round_key = key
    for number in range(ROUNDS):
        high = (_rotated(high, 24) + low & _MASK) ^ round_key
        low = _rotated(low, 3) ^ high
        following = (_rotated(earlier, 24) + round_key & _MASK) ^ number
        round_key = _rotated(round_key, 3) ^ following
        earlier, later = later, following
    return high, low


def first_psn(key: tuple[int, ...], pdc: int, psn: int) -> int:
    """Return where a PDC begins anew that would use ``psn`` next: at least :data:`DISTANCE` before or behind it."""
    distance, _ = encrypt(key, psn, pdc)
    if not DISTANCE <= distance <= _MASK - DISTANCE:
        distance ^= _HALF
    return psn + distance & _MASK


def _rotated(word: int, left: int) -> int:
    return (word << left | word >> 32 - left) & _MASK
