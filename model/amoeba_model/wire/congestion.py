"""Congestion state of an ACK_CC, behind the header that an ACK has."""

from amoeba_model.layout import Field, Record

__all__ = ["CONGESTION_STATE", "MPR_UNIT"]

MPR_UNIT = 128
"""Packets that one unit of ``mpr`` stands for; also the window of a peer that has not said its own."""

CONGESTION_STATE = Record(
    "congestion_state",
    20,
    (
        Field("cc_type", 4, "Ignored."),
        Field("cc_flags", 4, "Ignored."),
        Field("mpr", 8, "Most packets of the PDC that may be unanswered, in units of 128; 0: not said."),
        Field("sack_psn_offset", 16, "Ignored."),
        Field("sack_bitmap", 64, "Ignored."),
        Field("ack_cc_state", 64, "Ignored."),
    ),
    "Congestion state behind the PDS header of an ACK_CC, which is accepted only.",
    "big",
)
