"""The sizes that fit together to a NIC."""

import pytest
from amoeba_model.parameters import NicParameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data_width", 64),
        ("data_width", 1024),
        ("contexts", 0),
        ("contexts", 33),
        ("keys", 48),
        ("peers", -1),
        ("peers", 6),
        ("target_pdcs", -1),
        ("out_of_order_entries", -1),
        ("out_of_order_entries", 257),
        ("lines", 3),
        ("window", 48),
        ("window", 8192),  # the offset of a packet with SYN has 12 bits
        ("receives", 1),
        ("receives", 48),
        ("unexpected", 0),
        ("unexpected", 1),
        ("event_counters", 1),
        ("event_counters", 512),
        ("payload", 0),
        ("payload", 100),
        ("payload", 8256),
        ("single_cycle_products", 1),
        ("event_rings", 1),
        ("event_rings", False),
        ("return_data", 1),
    ],
)
def test_sizes_that_no_nic_can_have_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be .*, got {value}$"):
        NicParameters(**{name: value})


def test_all_pdcs_have_numbers_of_16_bits():
    assert NicParameters(peers=1 << 14, target_pdcs=1 << 15).target_pdcs == 1 << 15
    message = "^peers and target_pdcs must be at most 65535 together, got 65536$"
    with pytest.raises(ValueError, match=message):
        NicParameters(peers=1 << 15, target_pdcs=1 << 15)


def test_the_largest_window_is_what_a_packet_with_syn_can_count():
    assert NicParameters(window=4096).window == 4096


def test_a_nic_without_peers_has_no_initiator():
    assert not NicParameters(peers=0).has_initiator
    assert NicParameters(peers=1).has_initiator


def test_a_nic_without_receives_and_unexpected_messages_has_no_messages():
    assert not NicParameters(receives=0, unexpected=0).has_messages
    assert NicParameters(receives=2, unexpected=2).has_messages
