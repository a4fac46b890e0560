"""The immediate data of messages between drivers."""

from amoeba_model.ucp import UCP_MESSAGE

__all__ = ["Header", "message_header"]

_KIND = UCP_MESSAGE.bit_offset("kind")
_FLAGS = UCP_MESSAGE.bit_offset("flags")
_AM_ID = UCP_MESSAGE.bit_offset("am_id")
_HEADER_LENGTH = UCP_MESSAGE.bit_offset("header_length")
_ENDPOINT = UCP_MESSAGE.bit_offset("endpoint")
_NUMBERS = 1 << 24


def message_header(kind: int, endpoint: int, flags: int = 0, am_id: int = 0, header_length: int = 0) -> int:
    """Make the immediate data of a message between drivers: a UCP_MESSAGE."""
    return kind << _KIND | flags << _FLAGS | am_id << _AM_ID | header_length << _HEADER_LENGTH | endpoint << _ENDPOINT


class Header:
    """A received UCP_MESSAGE."""

    __slots__ = ("am_id", "endpoint", "flags", "header_length", "kind")

    def __init__(self, data: int) -> None:
        self.kind = data >> _KIND & 0xF
        self.flags = data >> _FLAGS & 0xF
        self.am_id = data >> _AM_ID & 0xFFFF
        self.header_length = data >> _HEADER_LENGTH & 0xFFFF
        self.endpoint = data >> _ENDPOINT & _NUMBERS - 1
