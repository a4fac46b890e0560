"""fi_cq(3) of a completion: "the buffers will not be read from again". Looked for where packets are sent again.

Covers ``conformance/pair.py``.
"""

import pytest
from amoeba_model.impairments import Impairments
from amoeba_tools.conformance import open_pair, select

from tests.tools.conformance.pairs import SOON

ROUNDS = 12


@pytest.mark.parametrize("kind", ["model", "rtl"])
def test_operands_are_not_read_after_the_completion(kind):
    """Sources are granted to the NIC until their completion is read: a later read of them is a fault."""
    links = Impairments(seed=3, loss=0.05)
    (check,) = select("fi_endpoint.reads_after_writes_see_them")
    with open_pair([kind, kind], impairments=links, retransmission=SOON, rtl_options={"host_latency": 40}) as pair:
        for _ in range(ROUNDS):
            check.run(pair)
            assert [fault for device in pair.fabric.devices for fault in device.faults()] == []
