"""Effect of each NACK on an initiator: "Loss" in hw/amoeba_hw/initiator/README.md.

A code outside these sets answers nothing that Amoeba's PDCs can send: such a NACK is dropped, as one for an answered
packet.
"""

from amoeba_model.wire.uet import NackCode

__all__ = ["FATAL_NACKS", "PATIENT_NACKS"]

PATIENT_NACKS = frozenset(
    {
        NackCode.NO_PDC_AVAIL,
        NackCode.NO_RESOURCE,
        NackCode.NO_PKT_BUFFER,
        NackCode.NO_SES_MSG_AVAIL,
        NackCode.NO_GTD_DEL_AVAIL,
        NackCode.PSN_OOR_WINDOW,
    }
)
"""Refusals that pass: the packet is sent again later."""
FATAL_NACKS = frozenset(
    {
        NackCode.GTD_RESP_UNAVAIL,
        NackCode.PDC_HDR_MISMATCH,
        NackCode.PDC_MODE_MISMATCH,
        NackCode.CLOSING,
        NackCode.CLOSING_IN_ERR,
        NackCode.INVALID_SYN,
        NackCode.UNEXP_EVENT,
    }
)
"""The PDC fails. So it does with INV_DPDCID, if it is one that the target has answered before."""
