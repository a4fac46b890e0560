"""The library's version, and what it says of itself before there is a context.

Covers ``ucp.py`` and ``openucx/ucp/adapter.py``.
"""

import re

import pytest
from amoeba import ucp


def test_the_version_is_that_of_the_api_in_all_its_forms():
    assert ucp.ucp_get_version() == (1, 12, 1)
    assert ucp.ucp_get_version_string() == "1.12.1"
    assert ucp.ucp_get_version()[:2] == (ucp.UCP_API_MAJOR, ucp.UCP_API_MINOR)
    assert ucp.UCP_API_VERSION == ucp.UCP_VERSION(1, 12) == 0x010C0000


def test_versions_are_ordered_as_numbers():
    assert ucp.UCP_VERSION(1, 9) < ucp.UCP_VERSION(1, 12) < ucp.UCP_VERSION(2, 0)


def test_the_text_has_the_form_that_the_document_guarantees():
    assert re.fullmatch(r"\d+\.\d+\.\d+", ucp.ucp_get_version_string())


@pytest.mark.parametrize("mask", [None, ucp.UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL, 1 << 20 | 1])
def test_the_query_fills_and_returns_what_it_is_given(mask):
    attr = ucp.ucp_lib_attr_t(field_mask=mask)
    assert ucp.ucp_lib_query(attr) is attr
    assert attr.max_thread_level is ucp.UCS_THREAD_MODE_MULTI
    assert attr.field_mask == mask


def test_what_is_not_asked_for_is_not_filled():
    assert ucp.ucp_lib_query(ucp.ucp_lib_attr_t(field_mask=0)).max_thread_level is None


@pytest.mark.parametrize("attr", [None, 1, ucp.ucp_context_attr_t()])
def test_another_structure_cannot_be_filled(attr):
    with pytest.raises(ucp.UcsInvalidParamError, match="attr: expected a ucp_lib_attr_t, got"):
        ucp.ucp_lib_query(attr)
