"""The rates that two NICs of the default build reach on their PCI Express links. Exact cycles of the RTL."""

import pytest

from bench import nic, pcie

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kind", ["rtl+pcie"])]


def test_long_transfers_fill_the_link(kind):
    rates = nic.transfers(kind=kind)
    assert min(rates.values()) >= pcie.FLOOR * pcie.link_rate(), rates


def test_long_transfers_both_ways_fill_the_links(kind):
    for operation, rate in pcie.both_ways(kind=kind).items():
        assert rate >= pcie.FLOOR * pcie.both_ways_rate(operation), operation
