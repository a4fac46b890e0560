"""The streams of the UltraScale+ integrated block for PCI Express: descriptors and ``tuser``.

RQ carries requests of the card, RC their completions, CQ requests of the host, CC their completions. Descriptors lie
at the front of a packet, the payload behind them (DWORD-aligned mode); ``tuser`` says which bytes count. Source:
AMD (Xilinx) PG213, "UltraScale+ Devices Integrated Block for PCI Express", version 1.3, chapter "Port Descriptions"
and "AXI4-Stream Interface Description".
"""

import enum

from amoeba_model.layout import Field, Record

__all__ = [
    "CC_DESCRIPTOR",
    "CC_USER",
    "CQ_DESCRIPTOR",
    "CQ_USER",
    "RC_DESCRIPTOR",
    "RC_USER",
    "RQ_DESCRIPTOR",
    "RQ_USER",
    "WIDTHS",
    "ErrorCode",
    "RequestType",
    "user_width",
]

WIDTHS = (256, 512)
"""Bits of data per beat: Gen3 x8 and Gen3 x16, at 250 MHz."""


class RequestType(enum.IntEnum):
    """``request_type`` in RQ and CQ (PG213, "Transaction Type Field Encoding")."""

    MEMORY_READ = 0
    MEMORY_WRITE = 1
    IO_READ = 2
    IO_WRITE = 3
    FETCH_ADD = 4
    SWAP = 5
    COMPARE_SWAP = 6
    LOCKED_READ = 7
    MESSAGE = 12
    VENDOR_MESSAGE = 13
    ATS_MESSAGE = 14


class ErrorCode(enum.IntEnum):
    """``error_code`` in RC: what the integrated block found wrong with a completion."""

    NONE = 0
    POISONED = 1
    BAD_STATUS = 2
    """The completer ended the request with UR, CRS or CA."""
    NO_DATA = 3
    MISMATCH = 4
    """Its requester, traffic class or attributes are not those of the request."""
    BAD_ADDRESS = 5
    UNKNOWN_TAG = 6
    """No request has that tag: the packet says nothing of any."""
    FLR = 8
    """A function level reset ended the request."""
    TIMEOUT = 9


RQ_DESCRIPTOR = Record(
    "ultrascale_rq_descriptor",
    16,
    (
        Field("address_type", 2, "0: untranslated."),
        Field("address", 62, "Host address, in DWs."),
        Field("dwords", 11, "DWs of payload, or asked for."),
        Field("request_type", 4, "Type of the request.", RequestType),
        Field("poisoned", 1, "0."),
        Field("requester_id", 16, "Function in the low bits; bus and device are the integrated block's own."),
        Field("tag", 8, "Of a read, with client tags."),
        Field("completer_id", 16, "0 for memory requests."),
        Field("requester_id_enable", 1, "0: bus and device as the integrated block knows them."),
        Field("traffic_class", 3, "0."),
        Field("attributes", 3, "0: neither relaxed nor ID-based ordering, and caches are looked at."),
        Field("force_ecrc", 1, "0."),
    ),
    "In front of a request of the card.",
)

RC_DESCRIPTOR = Record(
    "ultrascale_rc_descriptor",
    12,
    (
        Field("lower_address", 12, "Low bits of the host address of the first byte."),
        Field("error_code", 4, "Error of the completion.", ErrorCode),
        Field("byte_count", 13, "Bytes of the request still to come, these included."),
        Field("locked", 1, "Of a locked read: never."),
        Field("request_completed", 1, "The last completion of the request."),
        Field("reserved0", 1, "Reserved."),
        Field("dwords", 11, "DWs of payload."),
        Field("status", 3, "Completion status."),
        Field("poisoned", 1, "The payload is known to be wrong."),
        Field("reserved1", 1, "Reserved."),
        Field("requester_id", 16, "The card's."),
        Field("tag", 8, "Of the request."),
        Field("completer_id", 16, "ID of the completer."),
        Field("reserved2", 1, "Reserved."),
        Field("traffic_class", 3, "Of the request."),
        Field("attributes", 3, "Of the request."),
        Field("reserved3", 1, "Reserved."),
    ),
    "In front of a completion for the card.",
)

CQ_DESCRIPTOR = Record(
    "ultrascale_cq_descriptor",
    16,
    (
        Field("address_type", 2, "Translated or not."),
        Field("address", 62, "Host address, in DWs: its low ``bar_aperture`` bits, in bytes, are the offset."),
        Field("dwords", 11, "DWs of payload, or asked for."),
        Field("request_type", 4, "Type of the request.", RequestType),
        Field("reserved0", 1, "Reserved."),
        Field("requester_id", 16, "ID of the requester."),
        Field("tag", 8, "To be returned."),
        Field("target_function", 8, "0: there is one function."),
        Field("bar_id", 3, "Number of the BAR that was hit."),
        Field("bar_aperture", 6, "Logarithm of the BAR's size in bytes."),
        Field("traffic_class", 3, "To be returned."),
        Field("attributes", 3, "To be returned."),
        Field("reserved1", 1, "Reserved."),
    ),
    "In front of a request of the host.",
)

CC_DESCRIPTOR = Record(
    "ultrascale_cc_descriptor",
    12,
    (
        Field("lower_address", 7, "Low bits of the offset of the first byte."),
        Field("reserved0", 1, "0."),
        Field("address_type", 2, "Of the request: untranslated."),
        Field("reserved1", 6, "0."),
        Field("byte_count", 13, "Bytes of the request still to come, these included."),
        Field("locked", 1, "0."),
        Field("reserved2", 2, "0."),
        Field("dwords", 11, "DWs of payload."),
        Field("status", 3, "Completion status."),
        Field("poisoned", 1, "0."),
        Field("reserved3", 1, "0."),
        Field("requester_id", 16, "Of the request."),
        Field("tag", 8, "Of the request."),
        Field("completer_id", 16, "Function in the low bits; bus and device are the integrated block's own."),
        Field("completer_id_enable", 1, "0: bus and device as the integrated block knows them."),
        Field("traffic_class", 3, "Of the request."),
        Field("attributes", 3, "Of the request."),
        Field("force_ecrc", 1, "0."),
    ),
    "In front of a completion of the card.",
)

RQ_USER: dict[int, tuple[tuple[str, int], ...]] = {
    256: (
        ("first_be", 4),
        ("last_be", 4),
        ("address_offset", 3),
        ("discontinue", 1),
        ("tph_present", 1),
        ("tph_type", 2),
        ("tph_indirect_tag", 1),
        ("tph_steering_tag", 8),
        ("sequence_low", 4),
        ("parity", 32),
        ("sequence_high", 2),
    ),
    512: (
        ("first_be", 4),
        ("first_be_1", 4),
        ("last_be", 4),
        ("last_be_1", 4),
        ("address_offset", 4),
        ("starts", 2),
        ("start_places", 4),
        ("ends", 2),
        ("end_place", 4),
        ("end_place_1", 4),
        ("discontinue", 1),
        ("tph_present", 2),
        ("tph_type", 4),
        ("tph_indirect_tag", 2),
        ("tph_steering_tag", 16),
        ("sequence", 12),
        ("parity", 64),
    ),
}
"""``s_axis_rq_tuser`` by width, from bit 0 on: names and bits. Names that end in _1 are of a second packet in a beat,
which there is in straddle mode only. ``end_place`` is the last DW's number."""

RC_USER: dict[int, tuple[tuple[str, int], ...]] = {
    256: (
        ("byte_enables", 32),
        ("starts", 2),
        ("end", 4),
        ("end_1", 4),
        ("discontinue", 1),
        ("parity", 32),
    ),
    512: (
        ("byte_enables", 64),
        ("starts", 4),
        ("start_places", 8),
        ("ends", 4),
        ("end_places", 16),
        ("discontinue", 1),
        ("parity", 64),
    ),
}
"""``m_axis_rc_tuser``."""

CQ_USER: dict[int, tuple[tuple[str, int], ...]] = {
    256: (
        ("first_be", 4),
        ("last_be", 4),
        ("byte_enables", 32),
        ("start", 1),
        ("discontinue", 1),
        ("tph_present", 1),
        ("tph_type", 2),
        ("tph_steering_tag", 8),
        ("parity", 32),
        ("reserved", 3),
    ),
    512: (
        ("first_be", 4),
        ("first_be_1", 4),
        ("last_be", 4),
        ("last_be_1", 4),
        ("byte_enables", 64),
        ("starts", 2),
        ("start_places", 4),
        ("ends", 2),
        ("end_place", 4),
        ("end_place_1", 4),
        ("discontinue", 1),
        ("tph_present", 2),
        ("tph_type", 4),
        ("tph_steering_tag", 16),
        ("parity", 64),
    ),
}
"""``m_axis_cq_tuser``."""

CC_USER: dict[int, tuple[tuple[str, int], ...]] = {
    256: (("discontinue", 1), ("parity", 32)),
    512: (
        ("starts", 2),
        ("start_places", 4),
        ("ends", 2),
        ("end_place", 4),
        ("end_place_1", 4),
        ("discontinue", 1),
        ("parity", 64),
    ),
}
"""``s_axis_cc_tuser``."""


def user_width(layout: tuple[tuple[str, int], ...]) -> int:
    """Bits of a ``tuser``."""
    return sum(width for _, width in layout)
