"""What passes between the components of the target."""

from amaranth.lib import data

from amoeba_hw.interfaces import FRAME_HEADER, KEY_ENTRY
from amoeba_hw.packed import CUT

__all__ = ["ANSWER", "LOCATED_REQUEST", "OPERAND_JOB", "SEQUENCED_REQUEST"]

SEQUENCED_REQUEST = data.StructLayout({"header": FRAME_HEADER, "pdc": 16, "dropped": 1})
"""A request whose PDC is known; ``dropped``: no PDC accepts it, only its payload is still to be swallowed."""

LOCATED_REQUEST = data.StructLayout({"request": SEQUENCED_REQUEST, "found": 1, "entry": KEY_ENTRY})
"""A request and the entry of its key, if ``found``."""

OPERAND_JOB = data.StructLayout({"has_operand": 1, "has_compare": 1, "operand": CUT, "compare": CUT})
"""What to do with one payload: which parts are operands and compare values. With neither it is swallowed."""

ANSWER = data.StructLayout(
    {
        "mac": 48,
        "ip": 32,
        "port": 16,
        "psn": 32,
        "spdcid": 16,
        "dpdcid": 16,
        "message_id": 16,
        "job_id": 24,
        "return_code": 6,
        "request_length": 32,
        "executed": 1,  # the memory engine has a result; otherwise the return code is final
        "returns_data": 1,
    }
)
"""What the Responder has to know of a request."""
