"""The structure of an ``_nbx`` call, as operations read it: the result of taken(), but fast."""

import itertools
import random

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.request_params import DEFAULTS, old_param, read_param

FIELDS = ucp.ucp_request_param_t.fields_by_bit()
INFO = ucp.ucp_tag_recv_info_t()
VALUES = {
    "flags": (3, 0, 2**32 - 1),
    "request": (object(), "mine"),
    "cb": (print, len),
    "datatype": (ucp.ucp_dt_make_contig(4), ucp.ucp_dt_make_iov()),
    "user_data": ("data", 7),
    "reply_buffer": (bytearray(8),),
    "memory_type": (ucp.UCS_MEMORY_TYPE_HOST, ucp.UCS_MEMORY_TYPE_UNKNOWN),
    "recv_info": (INFO,),
}
NULL = {"request": None, "cb": None, "user_data": None, "reply_buffer": None, "recv_info": None, "flags": 0}


def test_without_a_structure_everything_has_its_default():
    read = read_param(None)
    assert read is DEFAULTS
    assert (read.callback, read.user_data, read.request, read.reply_buffer, read.recv_info) == (None,) * 5
    assert (read.datatype, read.flags) == (ucp.ucp_dt_make_contig(1), 0)
    assert (read.immediate, read.forced, read.fast, read.many) == (True, False, False, False)


@pytest.mark.parametrize("seed", range(3))
def test_what_counts_is_what_the_checked_copy_has(seed):
    chance = random.Random(seed)
    for _ in range(300):
        given = {name: chance.choice(values) for name, values in VALUES.items() if chance.random() < 0.5}
        mask = chance.choice((None, 0, chance.getrandbits(32)))
        if mask:
            mask &= ~sum(bit for name, bit in FIELDS.items() if name not in given and name not in NULL)
            mask &= ~(FIELDS["flags"] if "flags" not in given else 0)
        param = ucp.ucp_request_param_t(op_attr_mask=mask, **given)
        read, taken = read_param(param), ucp.ucp_request_param_t.taken(param, "param")
        assert taken.op_attr_mask is not None
        expected = {**NULL, "datatype": ucp.ucp_dt_make_contig(1)}
        expected |= {name: getattr(taken, name) for name in expected if getattr(taken, name) is not None}
        found = {name: getattr(read, name) for name in expected if name != "cb"} | {"cb": read.callback}
        assert found == expected, (seed, param)
        assert read.immediate is not bool(taken.op_attr_mask & ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL)
        assert read.forced is bool(taken.op_attr_mask & ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)
        assert read.fast is bool(taken.op_attr_mask & ucp.UCP_OP_ATTR_FLAG_FAST_CMPL)
        assert read.many is bool(taken.op_attr_mask & ucp.UCP_OP_ATTR_FLAG_MULTI_SEND)


@pytest.mark.parametrize(
    "wrong",
    [
        {"op_attr_mask": -1},
        {"op_attr_mask": 2**32},
        {"op_attr_mask": "3"},
        {"cb": 5},
        {"datatype": -1},
        {"datatype": 2**64},
        {"datatype": "contig"},
        {"flags": 2**32},
        {"flags": 1.0},
        {"memory_type": 77},
        {"memory_type": ucp.UCS_MEMORY_TYPE_CUDA},
        {"recv_info": 12},
        {"op_attr_mask": ucp.UCP_OP_ATTR_FIELD_DATATYPE},
        {"op_attr_mask": ucp.UCP_OP_ATTR_FIELD_FLAGS},
        {"op_attr_mask": ucp.UCP_OP_ATTR_FIELD_MEMORY_TYPE},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_and_named(wrong):
    name = "op_attr_mask" if len(wrong) == 1 and "op_attr_mask" in wrong else next(iter(wrong))
    with pytest.raises(ucp.UcsInvalidParamError) as caught:
        read_param(ucp.ucp_request_param_t(**wrong))
    assert name in str(caught.value) or "the mask says" in str(caught.value)


@pytest.mark.parametrize("wrong", [5, {}, ucp.ucp_params_t(), ucp.ucp_request_param_t], ids=str)
def test_another_structure_is_refused(wrong):
    with pytest.raises(ucp.UcsInvalidParamError, match="expected a ucp_request_param_t"):
        read_param(wrong)


def test_fields_that_do_not_count_are_not_looked_at():
    for name, nonsense in itertools.product(("datatype", "flags", "cb", "memory_type", "recv_info"), ("x", -5, [])):
        read = read_param(ucp.ucp_request_param_t(op_attr_mask=0, **{name: nonsense}))
        assert (read.datatype, read.flags, read.callback, read.recv_info) == (8, 0, None, None)


def test_older_callbacks_are_notified_of_no_user_data():
    heard = []
    read = old_param(lambda *told: heard.append(told), immediate=False)
    assert not read.immediate
    assert read.callback is not None
    read.callback("request", "status", "info", None)
    read.callback("request", "status", None)
    assert heard == [("request", "status", "info"), ("request", "status")]
    assert old_param(None) is DEFAULTS
    assert old_param(None, immediate=False).callback is None
    with pytest.raises(ucp.UcsInvalidParamError, match="cb: expected a function"):
        old_param(7)
