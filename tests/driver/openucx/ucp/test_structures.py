"""Structures: which fields count, what they may hold, and what is said of those that cannot be meant.

Covers ``openucx/ucp/field_masks.py``, ``openucx/ucp/handles.py`` and ``openucx/ucp/kinds.py``.
"""

import dataclasses

import numpy as np
import pytest
from amoeba import ucp
from amoeba.openucx.ucp.field_masks import Attributes, Parameters

MASKS = {
    ucp.ucp_params_t: ucp.ucp_params_field,
    ucp.ucp_worker_params_t: ucp.ucp_worker_params_field,
    ucp.ucp_ep_params_t: ucp.ucp_ep_params_field,
    ucp.ucp_ep_evaluate_perf_param_t: ucp.ucp_ep_perf_param_field_t,
    ucp.ucp_listener_params_t: ucp.ucp_listener_params_field,
    ucp.ucp_mem_map_params_t: ucp.ucp_mem_map_params_field,
    ucp.ucp_mem_advise_params_t: ucp.ucp_mem_advise_params_field,
    ucp.ucp_request_param_t: ucp.ucp_op_attr_t,
    ucp.ucp_am_handler_param_t: ucp.ucp_am_handler_param_field,
    ucp.ucp_lib_attr_t: ucp.ucp_lib_attr_field,
    ucp.ucp_context_attr_t: ucp.ucp_context_attr_field,
    ucp.ucp_worker_attr_t: ucp.ucp_worker_attr_field,
    ucp.ucp_worker_address_attr_t: ucp.ucp_worker_address_attr_field,
    ucp.ucp_ep_attr_t: ucp.ucp_ep_attr_field,
    ucp.ucp_ep_evaluate_perf_attr_t: ucp.ucp_ep_perf_attr_field_t,
    ucp.ucp_listener_attr_t: ucp.ucp_listener_attr_field,
    ucp.ucp_conn_request_attr_t: ucp.ucp_conn_request_attr_field,
    ucp.ucp_mem_attr_t: ucp.ucp_mem_attr_field,
    ucp.ucp_request_attr_t: ucp.ucp_req_attr_field,
}
PARAMETERS = [kind for kind in MASKS if issubclass(kind, Parameters)]
ATTRIBUTES = [kind for kind in MASKS if issubclass(kind, Attributes)]
POINTERS = {
    "request_init", "request_cleanup", "name", "user_data", "address", "request", "cb", "reply_buffer", "recv_info",
    "arg",
}  # fmt: skip
"""Fields that may be NULL."""


def masked_with(structure, mask, **values):
    return structure(**{structure.MASK: mask}, **values)


def fields_with_structure(kinds):
    return [pytest.param(kind, name, id=f"{kind.__name__}.{name}") for kind in kinds for name in kind.fields_by_bit()]


def test_every_masked_structure_is_looked_at():
    exported = {kind for name in ucp.__all__ if isinstance(kind := getattr(ucp, name), type)}
    assert {kind for kind in exported if issubclass(kind, Parameters) and kind is not Parameters} == set(PARAMETERS)
    assert {kind for kind in exported if issubclass(kind, Attributes) and kind is not Attributes} == set(ATTRIBUTES)


# Which fields count


def test_the_mask_follows_from_what_is_set():
    params = ucp.ucp_params_t(features=ucp.UCP_FEATURE_TAG, request_size=0)
    assert params.mask == ucp.UCP_PARAM_FIELD_FEATURES | ucp.UCP_PARAM_FIELD_REQUEST_SIZE
    taken = ucp.ucp_params_t.taken(params)
    assert (taken.features, taken.request_size, taken.name) == (ucp.UCP_FEATURE_TAG, 0, None)
    assert taken.field_mask == params.mask


def test_a_mask_that_is_given_alone_says_what_counts():
    params = ucp.ucp_params_t(
        field_mask=ucp.UCP_PARAM_FIELD_FEATURES, features=ucp.UCP_FEATURE_AM, request_size="not looked at", name=7
    )
    taken = ucp.ucp_params_t.taken(params)
    assert taken == ucp.ucp_params_t(field_mask=1, features=ucp.UCP_FEATURE_AM)


@pytest.mark.parametrize("structure", PARAMETERS)
def test_an_empty_mask_takes_nothing(structure):
    wrong = {name: object() for name in structure.fields_by_bit()}
    assert structure.taken(masked_with(structure, 0, **wrong)) == masked_with(structure, 0)


@pytest.mark.parametrize("structure", PARAMETERS + ATTRIBUTES)
def test_bits_of_a_later_release_are_ignored(structure):
    known = 0
    for bit in structure.fields_by_bit().values():
        known |= bit
    flags = 0xF0000 if structure is ucp.ucp_request_param_t else 0
    assert masked_with(structure, (1 << structure.MASK_BITS) - 1).mask == known | flags


@pytest.mark.parametrize("structure", PARAMETERS + ATTRIBUTES)
@pytest.mark.parametrize("mask", ["1", 1.0, -1, 1 << 64, pytest.param(10**9999, id="huge")])
def test_a_mask_that_is_none_is_refused(structure, mask):
    check = structure.taken if structure in PARAMETERS else structure.expected
    with pytest.raises(ucp.UcsInvalidParamError, match=rf"{structure.__name__}\.{structure.MASK}: expected"):
        check(masked_with(structure, mask))


@pytest.mark.parametrize("structure", PARAMETERS + ATTRIBUTES)
@pytest.mark.parametrize("given", [None, 0, "params", {}, ucp.ucp_tag_recv_info_t()])
def test_another_structure_is_refused(structure, given):
    check = structure.taken if structure in PARAMETERS else structure.expected
    with pytest.raises(ucp.UcsInvalidParamError, match=f"what: expected a {structure.__name__}, got "):
        check(given, "what")


@pytest.mark.parametrize(("structure", "name"), fields_with_structure(PARAMETERS))
def test_a_masked_field_that_is_none_is_null_or_refused(structure, name):
    params = masked_with(structure, structure.fields_by_bit()[name])
    if name in POINTERS and (structure, name) != (ucp.ucp_ep_params_t, "address"):
        taken = structure.taken(params)
        assert getattr(taken, name) is None
        assert taken.mask == structure.fields_by_bit()[name]
    else:
        with pytest.raises(ucp.UcsInvalidParamError, match=rf"params\.{name}: expected .*, got None"):
            structure.taken(params)


@pytest.mark.parametrize(("structure", "name"), fields_with_structure(PARAMETERS))
def test_a_field_of_a_wrong_type_is_refused_by_name(structure, name):
    if name in ("user_data", "arg", "request", "reply_buffer"):
        assert (
            getattr(structure.taken(structure(**{name: object})), name) is object
        )  # the application's, or the call's
        return
    with pytest.raises(ucp.UcsInvalidParamError, match=rf"asked\.{name}(\.cb)?: expected .*, got "):
        structure.taken(structure(**{name: 1.5}), "asked")


def test_what_is_taken_is_a_copy():
    params = ucp.ucp_worker_params_t(client_id=3)
    taken = ucp.ucp_worker_params_t.taken(params)
    params.client_id = 4
    assert taken.client_id == 3
    assert params.field_mask is None


# What fields may hold


@pytest.mark.parametrize(
    ("structure", "name", "given", "taken"),
    [
        (ucp.ucp_params_t, "features", 0x7F, ucp.ucp_feature(0x7F)),
        (ucp.ucp_params_t, "features", 1 << 40 | 2, ucp.UCP_FEATURE_RMA),
        (ucp.ucp_params_t, "request_size", np.uint16(7), 7),
        (ucp.ucp_params_t, "tag_sender_mask", 2**64 - 1, 2**64 - 1),
        (ucp.ucp_params_t, "mt_workers_shared", True, 1),
        (ucp.ucp_params_t, "mt_workers_shared", -1, -1),
        (ucp.ucp_params_t, "name", "a context", "a context"),
        (ucp.ucp_worker_params_t, "thread_mode", 1, ucp.UCS_THREAD_MODE_SERIALIZED),
        (ucp.ucp_worker_params_t, "events", 0x30, ucp.ucp_wakeup_event_t(0)),
        (ucp.ucp_mem_map_params_t, "prot", 0x7F2, ucp.UCP_MEM_MAP_PROT_LOCAL_WRITE | ucp.ucp_mem_map_prot(0x300)),
        (ucp.ucp_worker_params_t, "events", 0x10C00, ucp.UCP_WAKEUP_TX | ucp.UCP_WAKEUP_RX | ucp.UCP_WAKEUP_EDGE),
        (ucp.ucp_worker_params_t, "cpu_mask", {3, 1}, frozenset({1, 3})),
        (ucp.ucp_ep_params_t, "address", bytearray(b"xyz"), b"xyz"),
        (ucp.ucp_ep_params_t, "address", np.arange(3, dtype=np.uint8), b"\0\1\2"),
        (ucp.ucp_ep_params_t, "sockaddr", ["127.0.0.1", 0], ("127.0.0.1", 0)),
        (ucp.ucp_ep_params_t, "sockaddr", ("::1", 65535, 0, 0), ("::1", 65535, 0, 0)),
        (ucp.ucp_ep_params_t, "err_mode", 1, ucp.UCP_ERR_HANDLING_MODE_PEER),
        (ucp.ucp_mem_map_params_t, "address", 0x1000, 0x1000),
        (ucp.ucp_mem_map_params_t, "memory_type", 5, ucp.UCS_MEMORY_TYPE_UNKNOWN),
        (ucp.ucp_am_handler_param_t, "flags", 0x43, ucp.UCP_AM_FLAG_WHOLE_MSG | ucp.UCP_AM_FLAG_PERSISTENT_DATA),
        (ucp.ucp_request_param_t, "datatype", 0x20, 0x20),
    ],
)
def test_a_field_is_taken_as_the_driver_uses_it(structure, name, given, taken):
    found = getattr(structure.taken(structure(**{name: given})), name)
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize(
    ("structure", "name", "given", "message"),
    [
        (ucp.ucp_params_t, "request_size", -1, r"expected 0 to 2\^64 - 1, got -1"),
        pytest.param(ucp.ucp_params_t, "request_size", 10**9999, "got an integer of 33216 bits", id="huge"),
        (ucp.ucp_params_t, "tag_sender_mask", 1 << 64, r"expected 0 to 2\^64 - 1"),
        (ucp.ucp_params_t, "mt_workers_shared", 1 << 31, r"expected -2\^31 to 2\^31 - 1"),
        (ucp.ucp_params_t, "name", "a\0b", "without zero characters"),
        (ucp.ucp_params_t, "name", b"bytes", "expected a str, got bytes"),
        (ucp.ucp_worker_params_t, "thread_mode", 3, r"expected one of .*MULTI \(2\), got 3"),
        (ucp.ucp_worker_params_t, "events", 1 << 32, r"expected 0 to 2\^32 - 1"),
        (ucp.ucp_worker_params_t, "cpu_mask", [-1], r"expected 0 to 2\^32 - 1"),
        (ucp.ucp_ep_params_t, "address", 5, "expected the bytes of a worker's address, got int 5"),
        (ucp.ucp_ep_params_t, "sockaddr", ("127.0.0.1", 65536), "expected a port from 0 to 65535, got 65536"),
        (ucp.ucp_ep_params_t, "sockaddr", ("127.0.0.1", "80"), "expected .host, port."),
        (ucp.ucp_ep_params_t, "sockaddr", ("127.0.0.1",), "expected .host, port."),
        (ucp.ucp_ep_params_t, "sockaddr", "127.0.0.1", "expected .host, port."),
        (ucp.ucp_ep_params_t, "err_mode", 2, "expected one of UCP_ERR_HANDLING_MODE_NONE"),
        (ucp.ucp_ep_params_t, "err_handler", ucp.ucp_err_handler_t(cb=3), r"\.cb: expected a function"),
        (ucp.ucp_ep_params_t, "conn_request", 3, "expected a ucp_conn_request_h, got int 3"),
        (
            ucp.ucp_listener_params_t,
            "conn_handler",
            ucp.ucp_err_handler_t(),
            "expected a ucp_listener_conn_handler_t",
        ),
        (ucp.ucp_mem_map_params_t, "address", -8, r"expected 0 to 2\^64 - 1, got -8"),
        (ucp.ucp_mem_map_params_t, "address", np.zeros((4, 4))[:, 1], "expected a contiguous buffer"),
        (ucp.ucp_mem_map_params_t, "address", np.array([None]), "not of references"),
        (ucp.ucp_mem_map_params_t, "memory_type", 6, "expected one of UCS_MEMORY_TYPE_HOST"),
        (ucp.ucp_am_handler_param_t, "flags", 1 << 15, "expected flags below 0x8000, got 0x8000"),
        (ucp.ucp_request_param_t, "recv_info", [0], "expected a ucp_tag_recv_info, got list"),
    ],
)
def test_what_a_field_cannot_hold_is_refused(structure, name, given, message):
    with pytest.raises(ucp.UcsInvalidParamError, match=rf"params\.{name}.*{message}"):
        structure.taken(structure(**{name: given}))


@pytest.mark.parametrize(
    ("structure", "values", "message"),
    [
        (
            ucp.ucp_params_t,
            {"features": ucp.UCP_PARAM_FIELD_FEATURES},
            "features: expected a ucp_feature, got ucp_params_f",
        ),
        (
            ucp.ucp_params_t,
            {"field_mask": ucp.UCP_FEATURE_TAG},
            "field_mask: expected a ucp_params_field, got ucp_feature",
        ),
        (ucp.ucp_worker_params_t, {"thread_mode": ucp.UCP_ATOMIC_OP_SWAP}, "expected a ucs_thread_mode_t"),
        (
            ucp.ucp_mem_map_params_t,
            {"flags": ucp.UCP_MEM_MAP_PROT_LOCAL_WRITE},
            "flags: expected a ucp_mem_map_flags",
        ),
        (ucp.ucp_request_param_t, {"op_attr_mask": ucp.UCP_STREAM_RECV_FLAG_WAITALL}, "expected a ucp_op_attr_t"),
        (ucp.ucp_am_handler_param_t, {"flags": ucp.UCP_AM_SEND_FLAG_EAGER}, "flags: expected a ucp_am_cb_flags"),
    ],
)
def test_a_member_of_another_enumeration_is_refused(structure, values, message):
    """In C it would be a number, and mean something else."""
    with pytest.raises(ucp.UcsInvalidParamError, match=message):
        structure.taken(structure(**values))


# Parameters of operations


def test_an_operation_without_a_mask_has_the_fields_that_are_set():
    assert ucp.ucp_request_param_t().mask == 0
    assert ucp.ucp_request_param_t(cb=print, datatype=8).mask == 0x0A


def test_fields_in_the_mask_of_an_operation_alone_count():
    param = ucp.ucp_request_param_t(op_attr_mask=0x10004, cb=print, user_data=5, datatype="not looked at")
    taken = ucp.ucp_request_param_t.taken(param)
    assert (taken.cb, taken.user_data, taken.datatype, taken.mask) == (None, 5, None, 0x10004)


def test_flags_alone_leave_the_fields_to_what_is_set():
    param = ucp.ucp_request_param_t(op_attr_mask=ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL, cb=print)
    assert param.mask == ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL | ucp.UCP_OP_ATTR_FIELD_CALLBACK
    assert ucp.ucp_request_param_t.taken(param).cb is print


def test_a_mask_of_0_leaves_an_operation_without_fields():
    assert ucp.ucp_request_param_t(op_attr_mask=0, cb=print).mask == 0


def test_bits_of_later_releases_are_no_fields_of_an_operation():
    """Bits 8 (memh, from 1.13) and 20."""
    assert ucp.ucp_request_param_t(op_attr_mask=1 << 8 | 1 << 20 | 2, cb=print).mask == 2


@pytest.mark.parametrize("mask", [1 << 32, -1, "1", 2.0])
def test_the_mask_of_an_operation_has_32_bits(mask):
    with pytest.raises(ucp.UcsInvalidParamError, match="op_attr_mask: expected"):
        ucp.ucp_request_param_t.taken(ucp.ucp_request_param_t(op_attr_mask=mask))


# What calls fill


@pytest.mark.parametrize(("structure", "enumeration"), MASKS.items())
def test_every_structure_knows_its_own_enumeration(structure, enumeration):
    """Also where bits and kinds of fields are the same as another's."""
    mask = max(structure.fields_by_bit().values())
    assert masked_with(structure, enumeration(mask)).given_mask() == mask


@pytest.mark.parametrize("structure", ATTRIBUTES)
def test_attributes_without_a_mask_ask_for_everything(structure):
    attr = structure()
    assert all(attr.asks(name) for name in structure.fields_by_bit())


@pytest.mark.parametrize("structure", ATTRIBUTES)
def test_attributes_are_filled_as_far_as_they_are_asked_for(structure):
    for name, bit in structure.fields_by_bit().items():
        attr = structure(field_mask=bit | 1 << 63)
        assert attr.fill(**dict.fromkeys(structure.fields_by_bit(), "filled")) is attr
        filled = {each.name for each in dataclasses.fields(attr) if getattr(attr, each.name) == "filled"}
        assert name in filled
        assert filled == {other for other, bits in structure.fields_by_bit().items() if bits == bit}
        assert attr.field_mask == bit | 1 << 63


def test_address_and_its_length_share_a_bit():
    attr = ucp.ucp_worker_attr_t(field_mask=ucp.UCP_WORKER_ATTR_FIELD_ADDRESS)
    attr.fill(address=b"abc", address_length=3, name="not asked for")
    assert (attr.address, attr.address_length, attr.name) == (b"abc", 3, None)


# Structures without a mask


def test_plain_structures_take_their_fields_in_c_s_order():
    assert ucp.ucp_err_handler_t(print, 3) == ucp.ucp_err_handler_t(cb=print, arg=3)
    assert ucp.ucp_tag_recv_info_t(5, 7) == ucp.ucp_tag_recv_info_t(sender_tag=5, length=7)
    assert ucp.ucp_stream_poll_ep_t(ucp.ucp_ep_h(), 4).reserved == bytes(16)
    assert ucp.ucp_am_recv_param_t().recv_attr == 0
