"""Simulated frames for other people's tools: pcapng (draft-ietf-opsawg-pcapng), written by hand.

Timestamps count nanoseconds: at 250 MHz, cycles must not fall together. Every NIC is an interface of its own,
and what the network did to a frame is the packet's comment.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from amoeba_model.frames import Frame

__all__ = ["write_pcapng"]

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_COMMENT, _INTERFACE_NAME, _TIME_RESOLUTION = 1, 2, 9
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_UNKNOWN_LENGTH = (1 << 64) - 1
_ETHERNET = 1
_NO_LIMIT = 0


def write_pcapng(path: Path, frames: Iterable[tuple[int, Frame]], clock_hz: int) -> None:
    """Write frames with their time of departure, which counts from reset at ``clock_hz``.

    ``frames`` are (index of the sending NIC, frame), as in :attr:`amoeba_model.network.Network.log`; those of a
    negative index came from another process. Raises OSError when the file cannot be written.
    """
    with path.open("wb") as file:
        _write_block(file, _SECTION, struct.pack("<IHHQ", _BYTE_ORDER_MAGIC, 1, 0, _UNKNOWN_LENGTH))
        interfaces: dict[int, int] = {}
        for sender, frame in frames:
            if sender not in interfaces:
                interfaces[sender] = len(interfaces)
                name = f"NIC {sender}" if sender >= 0 else "outside"
                _write_block(
                    file,
                    _INTERFACE,
                    struct.pack("<HHI", _ETHERNET, 0, _NO_LIMIT),
                    [(_INTERFACE_NAME, name.encode()), (_TIME_RESOLUTION, bytes([9]))],
                )
            time = frame.cycle * 1_000_000_000 // clock_hz
            size = len(frame.data)
            _write_block(
                file,
                _PACKET,
                struct.pack("<IIIII", interfaces[sender], time >> 32, time & 0xFFFF_FFFF, size, size)
                + _padded(frame.data),
                [(_COMMENT, frame.remark.encode())] if frame.remark else [],
            )


def _write_block(file: BinaryIO, kind: int, body: bytes, options: Iterable[tuple[int, bytes]] = ()) -> None:
    body += b"".join(_options(options))
    size = struct.pack("<I", len(body) + 12)
    file.write(struct.pack("<I", kind) + size + body + size)


def _options(options: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Return the options with their end mark, or no bytes without options."""
    end = b""
    for code, value in options:
        yield struct.pack("<HH", code, len(value)) + _padded(value)
        end = bytes(4)
    yield end


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
