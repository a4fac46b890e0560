"""Helpers of checks in several groups."""

from collections.abc import Callable
from typing import Any

import amoeba.ucp as ucp

__all__ = [
    "ALL",
    "BYTE",
    "CANCELED",
    "FORCE_IMMEDIATE",
    "INVALID",
    "IN_PROGRESS",
    "LONG",
    "NO_IMMEDIATE",
    "OK",
    "Calls",
    "Generic",
    "nothing",
    "param",
    "pattern",
]

OK, IN_PROGRESS = ucp.UcsStatus.UCS_OK, ucp.UcsStatus.UCS_INPROGRESS
INVALID, CANCELED = ucp.UcsStatus.UCS_ERR_INVALID_PARAM, ucp.UcsStatus.UCS_ERR_CANCELED
NO_IMMEDIATE = ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
FORCE_IMMEDIATE = ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
ALL = 2**64 - 1
"""A mask of all bits."""
BYTE = ucp.ucp_dt_make_contig(1)
LONG = 9000
"""Bytes of a message that is more than a packet: never over at once."""


def param(**fields: Any) -> ucp.ucp_request_param_t:
    """Return a structure with these fields."""
    return ucp.ucp_request_param_t(**fields)


def pattern(length: int, first: int = 1) -> bytes:
    """Return bytes that differ from their neighbours, and from those of another ``first``."""
    return bytes((first + 7 * index + index // 251) & 0xFF for index in range(length))


def nothing(*told: Any) -> None:
    """Serve as a callback without effect."""


class Calls:
    """Callback that records its arguments."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __call__(self, *told: Any) -> None:
        self.told.append(told)

    @property
    def statuses(self) -> list[ucp.UcsStatus]:
        """The status of each call, which is its second argument."""
        return [told[1] for told in self.told]


class Generic:
    """A generic datatype whose elements are bytes, each xored with 0x5A on its way; it notes what is called."""

    def __init__(self, keep: Callable[[Callable[[], object]], object]) -> None:
        self.calls: list[str] = []
        self.contexts: list[Any] = []
        operations = ucp.ucp_generic_dt_ops_t(
            start_pack=self._start_pack,
            start_unpack=self._start_unpack,
            packed_size=lambda state: len(state),
            pack=self._pack,
            unpack=self._unpack,
            finish=lambda state: self.calls.append("finish"),
        )
        self.datatype = ucp.ucp_dt_create_generic(operations, self)
        keep(lambda: ucp.ucp_dt_destroy(self.datatype))

    def _start(self, name: str, context: Any, buffer: Any, count: int) -> memoryview:
        self.calls.append(name)
        self.contexts.append(context)
        return memoryview(buffer)[:count]

    def _start_pack(self, context: Any, buffer: Any, count: int) -> memoryview:
        return self._start("start_pack", context, buffer, count)

    def _start_unpack(self, context: Any, buffer: Any, count: int) -> memoryview:
        return self._start("start_unpack", context, buffer, count)

    def _pack(self, state: memoryview, offset: int, dest: memoryview, most: int) -> int:
        self.calls.append("pack")
        piece = state[offset : offset + most]
        dest[: len(piece)] = bytes(byte ^ 0x5A for byte in piece)
        return len(piece)

    def _unpack(self, state: memoryview, offset: int, src: memoryview, length: int) -> int:
        self.calls.append("unpack")
        state[offset : offset + length] = bytes(byte ^ 0x5A for byte in src[:length])
        return int(OK)
