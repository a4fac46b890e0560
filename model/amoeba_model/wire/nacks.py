"""Effect of each NACK on an initiator: "Loss" in hw/amoeba_hw/initiator/README.md.

A code outside these sets answers nothing that Amoeba's PDCs can send: such a NACK is dropped, as one for an answered
packet.
"""

from amoeba_model.wire.uet import NackCode

__all__ = ["FATAL_NACKS", "LOSS_NACKS", "NO_PDC_NACKS", "PATIENT_NACKS"]

LOSS_NACKS = frozenset(
    {
        NackCode.TRIMMED,
        NackCode.TRIMMED_LASTHOP,
        NackCode.PKT_NOT_RCVD,
        NackCode.ACK_WITH_DATA,
        NackCode.RCVR_INFER_LOSS,
    }
)
"""The packet is lost, and is sent again."""
NO_PDC_NACKS = frozenset({NackCode.NO_PDC_AVAIL, NackCode.NO_CCC_AVAIL, NackCode.NO_BITMAP})
"""The target has no PDC for the packet, which is sent again later."""
PATIENT_NACKS = NO_PDC_NACKS | frozenset(
    {
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
