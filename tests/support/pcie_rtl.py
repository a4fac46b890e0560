"""Small NICs of RTL on PCI Express, which are built in a minute or two."""

from typing import Any

from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

__all__ = ["LINKS", "SMALL"]

SMALL = NicParameters(
    data_width=128, contexts=2, keys=16, peers=4, target_pdcs=4, window=16, payload=1024, lines=32, receives=4,
    unexpected=4, event_counters=4, datatypes=(Datatype.FI_UINT64,),
    ops=(Op.FI_SUM, Op.FI_ATOMIC_READ, Op.FI_ATOMIC_WRITE, Op.FI_CSWAP),
)  # fmt: skip
LINKS: dict[str, dict[str, Any]] = {
    "smallest": {"max_payload": 128, "max_read_request": 128, "extended_tags": False},
    "usual": {"max_payload": 256, "max_read_request": 512},
    "largest": {"max_payload": 4096, "max_read_request": 4096, "read_completion_boundary": 128},
}
"""Arguments of amoeba_sim.rtl.PcieLink."""
