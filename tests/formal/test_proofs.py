"""Every proof of the catalogue holds.

Covers ``amoeba_hw/target/drain.py`` and ``amoeba_hw/host/write_fence.py``.
"""

import pytest

from tests.formal.catalog import PROOFS

pytestmark = [pytest.mark.long, pytest.mark.ci]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_holds(proof):
    assert proof.run().name == proof.name


def test_names_are_unique():
    names = [proof.name for proof in PROOFS]
    assert len(names) == len(set(names))
