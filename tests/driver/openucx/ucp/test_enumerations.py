"""Traps of UCP's enumerations: what C allows with their numbers, and numbers that are not what they seem.

Covers ``openucx/ucp/constants.py``.
"""

import pytest
from amoeba import ucp


def test_old_and_new_closing_have_different_numbers_for_force():
    assert (ucp.UCP_EP_CLOSE_MODE_FORCE, ucp.UCP_EP_CLOSE_FLAG_FORCE) == (0, 1)


@pytest.mark.parametrize(
    ("operation", "post", "fetch", "nbx", "uct"),
    [
        ("ADD", 0, 0, 0, 0),
        ("AND", 1, 3, 3, 1),
        ("OR", 2, 4, 4, 2),
        ("XOR", 3, 5, 5, 3),
        ("SWAP", None, 1, 1, 4),
        ("CSWAP", None, 2, 2, 5),
    ],
)
def test_an_atomic_operation_has_a_number_for_each_family_of_calls(operation, post, fetch, nbx, uct):
    fetching = operation if "SWAP" in operation else f"F{operation}"
    assert getattr(ucp, f"UCP_ATOMIC_POST_OP_{operation}", None) == post
    assert getattr(ucp, f"UCP_ATOMIC_FETCH_OP_{fetching}") == fetch
    assert getattr(ucp, f"UCP_ATOMIC_OP_{operation}") == nbx
    assert getattr(ucp, f"UCT_ATOMIC_OP_{operation}") == uct


def test_names_that_c_gives_one_number_are_one_member():
    assert ucp.UCP_AM_SEND_REPLY is ucp.UCP_AM_SEND_FLAG_REPLY
    assert ucp.UCS_MEMORY_TYPE_UNKNOWN is ucp.UCS_MEMORY_TYPE_LAST
    assert ucp.UCP_DATATYPE_CLASS_MASK is ucp.UCP_DATATYPE_GENERIC


def test_fields_and_flags_of_an_operation_lie_apart():
    fields = [each for each in ucp.ucp_op_attr_t if "_FIELD_" in each.name]
    flags = [each for each in ucp.ucp_op_attr_t if "_FLAG_" in each.name]
    assert max(fields) < 1 << 16 <= min(flags)
    assert len(fields) + len(flags) == len(ucp.ucp_op_attr_t)


def test_bits_that_are_not_known_are_kept():
    """As newer programs set them: what takes a mask leaves them out, an enumeration does not lose them."""
    mask = ucp.ucp_feature(1 << 30 | ucp.UCP_FEATURE_AM)
    assert mask == 1 << 30 | 0x40
    assert ucp.UCP_FEATURE_AM in mask


def test_members_combine_and_compare_with_plain_numbers():
    assert ucp.UCP_FEATURE_TAG | ucp.UCP_FEATURE_AM == 0x41
    assert 0x10 | ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL == 0x10010
    assert ucp.UCS_OK == 0
