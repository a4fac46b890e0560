"""Calls outside the data path refuse wrong types, numbers and enumerations where they are given.

An error names the argument, what was expected and what came. ``except TypeError`` catches wrong types, too.

Covers ``libfabric/objects/checks.py`` and ``core/operands.py``.
"""

import array
import copy
import ctypes
import math
import pickle

import ml_dtypes
import numpy as np
import pytest
from amoeba import (
    ArgumentError,
    ArgumentTypeError,
    AvFlags,
    AvType,
    BindFlags,
    Caps,
    CqFormat,
    CqWaitCond,
    Datatype,
    EpType,
    EqFlags,
    Errno,
    ErrorAvailableError,
    MrAccess,
    Op,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
    WaitObj,
    fi,
    open_cluster,
    strerror,
)
from amoeba.core.buffers import check_datatype, datatype_of, vector_datatype, view_of
from amoeba.core.operands import encoded, operand_of
from amoeba.libfabric.objects.operations.rights import ALL_RIGHTS, rights_of
from hypothesis import example, given
from hypothesis import strategies as st

from tests.driver.endpoints import BOTH, connect, make_side

NAN, INFINITE = math.nan, math.inf


@pytest.fixture(params=[("model", "model"), ("rtl", "rtl"), ("model", "rtl")], ids="-".join)
def fabric(request, keep, rtl_parameters):
    """Two NICs, also of two kinds."""
    parameters = rtl_parameters if "rtl" in request.param else None
    with open_cluster(request.param, parameters, rtl_options={"host_latency": 40}) as opened:
        yield opened


@pytest.fixture
def pair(fabric):
    """(client, server), connected."""
    client, server = make_side(fabric.domain(0)), make_side(fabric.domain(1))
    connect(client, server)
    return client, server


@pytest.fixture
def domain(two_models):
    return two_models.domain(0)


def wrong_type(words):
    return pytest.raises(ArgumentTypeError, match=f"^FI_EINVAL: {words}")


def test_a_wrong_type_is_an_argument_error_and_a_type_error():
    with pytest.raises(TypeError) as caught:
        open_cluster("model")
    error = caught.value
    assert isinstance(error, ArgumentError)
    assert isinstance(error, OSError)
    assert (error.fi_errno, error.errno) == (Errno.FI_EINVAL, 22)
    assert str(error) == "FI_EINVAL: kinds: expected a sequence of kinds, as ['model', 'model'], got str 'model'"


@pytest.mark.parametrize("kinds", ["model", 2, None, {"model"}, [1, 2], [None]])
def test_a_cluster_is_opened_from_a_sequence_of_kinds(kinds):
    with wrong_type("kinds"):
        open_cluster(kinds)


def test_what_came_is_shown_in_short():
    for wrong in ("x" * 1000, [list(range(1000))], [np.zeros((100, 100))]):
        with pytest.raises(ArgumentTypeError) as caught:
            open_cluster(wrong)
        assert len(str(caught.value)) < 150
        assert "\n" not in str(caught.value)
    with pytest.raises(ArgumentError) as caught:
        RmaIov(1 << 5000, 1, 1)
    assert "an integer of 5001 bits" in str(caught.value)


# Time

NO_TIMES = ((-1, "expected 0 or more seconds"), (-0.001, "expected 0 or more"), (NAN, "expected 0 or more"))
NO_NUMBERS = ("1", b"1", [1], True, WaitObj.FI_WAIT_FD, 1j)


def test_every_wait_refuses_times_that_are_none(two_models, domain, keep):
    queue, counter = keep(domain.cq_open()), keep(domain.cntr_open())
    events, waits = keep(two_models.eq_open()), keep(two_models.wait_open())
    for wait in (
        lambda timeout: queue.sread(timeout=timeout),
        lambda timeout: queue.sreadfrom(timeout=timeout),
        lambda timeout: counter.wait(1, timeout),
        events.sread,
        waits.wait,
    ):
        for timeout, words in NO_TIMES:
            with pytest.raises(ArgumentError, match=f"^FI_EINVAL: timeout: {words}"):
                wait(timeout)
        for timeout in NO_NUMBERS:
            with wrong_type("timeout: expected seconds, or None for no limit"):
                wait(timeout)


def test_waits_take_numbers_of_any_kind(domain, two_models, keep):
    queue, events = keep(domain.cq_open()), keep(two_models.eq_open())
    for timeout in (0, 0.0, np.float32(0.001), np.int64(0)):
        assert queue.sread(timeout=timeout) == []
        assert events.sread(timeout) is None


def test_infinite_times_are_no_limit(two_models, keep):
    events = keep(two_models.eq_open(0, EqFlags.FI_WRITE))
    events.write(5)
    assert events.sread(INFINITE).event == 5


def test_in_c_negative_times_are_no_limit_and_nan_is_none(domain, two_models, keep):
    events, counter = keep(two_models.eq_open(0, EqFlags.FI_WRITE)), keep(domain.cntr_open())
    events.write(5)
    assert fi.fi_eq_sread(events, -1, 0).event == 5
    counter.add(1)
    fi.fi_cntr_wait(counter, 1, -1)
    for timeout in (NAN, "1", True):
        with pytest.raises(ArgumentError, match="timeout"):
            fi.fi_eq_sread(events, timeout, 0)


@pytest.mark.parametrize("wrong", [1.0, "1", None, True, -1])
def test_numbers_of_entries_are_counted_in_integers(domain, keep, wrong):
    queue, poll = keep(domain.cq_open(wait_cond=CqWaitCond.FI_CQ_COND_THRESHOLD)), keep(domain.poll_open())
    for read in (queue.read, queue.readfrom, queue.sread, queue.sreadfrom):
        with pytest.raises(ArgumentError, match=r"^FI_EINVAL: count"):
            read(wrong)
    if wrong is not None:
        with pytest.raises(ArgumentError, match=r"^FI_EINVAL: count"):
            poll.poll(wrong)
        with pytest.raises(ArgumentError, match=r"^FI_EINVAL: cond"):
            queue.sread(1, 0, wrong)


# Enumerations and flags


def test_enumerations_of_another_class_open_nothing(two_models, domain):
    for call, name in (
        (lambda: domain.cq_open(AvType.FI_AV_TABLE), "cq_format"),
        (lambda: domain.cq_open("FI_CQ_FORMAT_DATA"), "cq_format"),
        (lambda: domain.cq_open(wait_obj=CqFormat.FI_CQ_FORMAT_MSG), "wait_obj"),
        (lambda: domain.cq_open(wait_cond=True), "wait_cond"),
        (lambda: domain.cntr_open(CqFormat.FI_CQ_FORMAT_MSG), "wait_obj"),
        (lambda: domain.av_open(EpType.FI_EP_RDM), "av_type"),
        (lambda: domain.av_open(flags=OpFlags.FI_MORE), "flags"),
        (lambda: domain.endpoint(AvType.FI_AV_TABLE), "ep_type"),
        (lambda: domain.endpoint("rdm"), "ep_type"),
        (lambda: domain.endpoint(op_flags=Caps.FI_FENCE), "op_flags"),
        (lambda: domain.endpoint(caps=MrAccess.FI_WRITE), "caps"),
        (lambda: domain.endpoint(cq_flags=OpFlags.FI_COMPLETION), "cq_flags"),
        (lambda: domain.endpoint(cq=domain), "cq"),
        (lambda: domain.endpoint(av=b"address"), "av"),
        (lambda: domain.endpoint(tx_size=16.0), "tx_size"),
        (lambda: domain.scalable_endpoint(5), "info"),
        (lambda: two_models.eq_open(flags=AvFlags.FI_EVENT), "flags"),
        (lambda: two_models.wait_open(CqFormat.FI_CQ_FORMAT_MSG), "wait_obj"),
        (lambda: two_models.domain(1.0), "nic"),
        (lambda: two_models.domain(0, mr_mode=Caps.FI_MSG), "mr_mode"),
        (lambda: two_models.domain(0, job_id="job"), "job_id"),
        (lambda: two_models.getinfo("hints"), "hints"),
        (lambda: two_models.getinfo(node=5), "node"),
        (lambda: two_models.passive_ep(None), "info"),
        (lambda: domain.mr_reg(bytearray(8), Caps.FI_REMOTE_READ), "access"),
        (lambda: domain.mr_reg(bytearray(8), "rw"), "access"),
        (lambda: domain.mr_reg(bytearray(8), MrAccess.FI_READ, requested_key=1.0), "requested_key"),
        (lambda: domain.mr_reg(bytearray(8), MrAccess.FI_READ, flags=MrAccess.FI_READ), "flags"),
        (lambda: domain.mr_reg(np.array([object()]), MrAccess.FI_READ), "buffer"),
        (lambda: domain.queue_work("work"), "work"),
        (lambda: domain.bind("queue"), "eq"),
        (lambda: domain.query_atomic(Op.FI_SUM, Datatype.FI_UINT64), "datatype"),
        (lambda: fi.fi_mr_reg(domain, bytearray(8), 8, Caps.FI_REMOTE_READ, 0, 0, 0), "access"),
        (lambda: fi.fi_mr_reg(domain, bytearray(8), 8.0, 256, 0, 0, 0), "len"),
        (lambda: fi.fi_query_atomic(domain, Datatype.FI_INT8, Op.FI_SUM, OpFlags.FI_CLAIM), "flags"),
        (lambda: fi.fi_cq_open(domain, fi.CqAttr(WaitObj.FI_WAIT_FD)), "cq_format"),
        (lambda: fi.fi_control(domain, AvType.FI_AV_MAP), "command"),
    ):
        with wrong_type(f"{name}: expected"):
            call()


def test_numbers_that_no_enumeration_has_open_nothing(domain):
    for call, name in (
        (lambda: domain.cq_open(9), "cq_format"),
        (lambda: domain.cq_open(wait_obj=99), "wait_obj"),
        (lambda: domain.cntr_open(-1), "wait_obj"),
        (lambda: domain.av_open(3), "av_type"),
        (lambda: domain.endpoint(7), "ep_type"),
        (lambda: fi.fi_cq_open(domain, fi.CqAttr(9)), "cq_format"),
    ):
        with pytest.raises(ArgumentError, match=f"^FI_EINVAL: {name}: expected one of "):
            call()


def test_plain_numbers_open_as_in_c(domain, keep):
    assert keep(domain.cq_open(3)).format is CqFormat.FI_CQ_FORMAT_DATA
    assert keep(domain.av_open(1)).type is AvType.FI_AV_MAP
    assert keep(domain.endpoint(3)).ep_type is EpType.FI_EP_RDM
    region = keep(domain.mr_reg(bytearray(8), 1 << 12, requested_key=np.uint16(7)))
    assert (region.access, region.key, type(region.key)) == (MrAccess.FI_REMOTE_READ, 7, int)


def test_what_is_bound_and_how_is_checked(domain, keep):
    endpoint, queue, counter = keep(domain.endpoint()), keep(domain.cq_open()), keep(domain.cntr_open())
    region = keep(domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ))
    for call in (
        lambda: endpoint.bind(queue, OpFlags.FI_MORE),
        lambda: endpoint.bind(queue, "FI_TRANSMIT"),
        lambda: endpoint.bind(queue, None),
        lambda: endpoint.bind("queue"),
        lambda: endpoint.bind(region),
        lambda: endpoint.bind(counter, Caps.FI_WRITE),
        lambda: region.bind(counter, Caps.FI_REMOTE_READ),
        lambda: fi.fi_ep_bind(endpoint, queue, Caps.FI_SEND),
        lambda: keep(domain.poll_open()).add(endpoint),
    ):
        with pytest.raises(ArgumentTypeError):
            call()
    endpoint.bind(queue, int(BOTH))
    endpoint.bind(counter, int(BindFlags.FI_WRITE))
    with wrong_type("op_flags"):
        endpoint.op_flags = Caps.FI_FENCE
    assert endpoint.op_flags == OpFlags(0)


# Addresses


def test_an_address_is_what_getname_returns(domain, keep):
    peers = keep(domain.av_open())
    for wrong in ("10.0.0.1", None, 5, [0] * 18, np.zeros(18, np.uint8)):
        with wrong_type("address"):
            peers.insert(wrong)
        with wrong_type("address"):
            peers.straddr(wrong)
    for wrong in (bytes(18), bytes(17), bytes.fromhex("020000000001 00000000 00000001 0001 0000")):
        with pytest.raises(ArgumentError):
            peers.insert(wrong)
    for wrong in (bytes(18), "addresses", 5, None):
        with wrong_type("addresses"):
            peers.insert_all(wrong)
    with wrong_type(r"addresses\[1\]"):
        peers.insert_all([bytes.fromhex("020000000001 0a000001 00000001 0001 0000"), "second"])
    assert len(peers) == 0
    assert fi.fi_av_insert(peers, bytes(36), 2, 0).count == 0


def test_peers_are_numbered_in_integers(domain, keep):
    peers = keep(domain.av_open())
    assert peers.insert(bytes.fromhex("020000000001 0a000001 00000001 0001 0000")) == 0
    for wrong in (0.0, False, "0", None, b"\0", AvType.FI_AV_UNSPEC):
        for call in (peers.lookup, peers.remove, lambda number: fi.fi_av_remove(peers, [number], 1, 0)):
            with wrong_type("number"):
                call(wrong)
    assert peers.lookup(np.uint8(0))[:1] == b"\2"
    for wrong in (1, "node"):
        with wrong_type("service" if wrong == "node" else "node"):
            peers.insertsvc(wrong, 0)


@pytest.mark.parametrize("wrong", [1.0, "1", None, True])
def test_counters_count_in_integers(domain, keep, wrong):
    counter = keep(domain.cntr_open())
    for change in (counter.add, counter.adderr, counter.set, counter.seterr):
        with wrong_type("value"):
            change(wrong)
    with wrong_type("threshold"):
        counter.wait(wrong, 0)
    counter.add(np.uint8(200))
    counter.add(np.uint8(200))
    assert (counter.read(), counter.readerr()) == (400, 0)


# Objects


def test_what_a_nic_has_is_neither_copied_nor_pickled(pair, fabric, target):
    for thing in (fabric, pair[0].domain, pair[0].endpoint, pair[0].queue, pair[0].peers, target[1]):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"{type(thing).__name__}.* not to be copied or pickled"):
                copied(thing)
        assert not thing.closed
    pair[0].endpoint.write(bytes(8), pair[0].peer, target[1].address, target[1].key)
    pair[0].finish()


def test_error_numbers_in_words(domain, two_models, keep):
    queue, events = keep(domain.cq_open()), keep(two_models.eq_open())
    for wrong in (99999, -99999):
        with pytest.raises(ArgumentError, match=f"^FI_EINVAL: {wrong} is no error number"):
            strerror(wrong)
    assert queue.strerror(99999) == "unknown return code 99999"
    with pytest.raises(ArgumentError, match=r"^FI_EINVAL: prov_errno"):
        events.strerror(99999)
    for words in (strerror, queue.strerror, events.strerror, fi.fi_strerror):
        for wrong in ("22", 22.0, None):
            with pytest.raises(ArgumentTypeError):
                words(wrong)


# Segments


@given(st.sampled_from([np.uint8, np.int32, np.uint64, np.int64]), st.integers(0, 127), st.integers(0, 127))
def test_segments_hold_integers_of_python(kind, address, length):
    for segment in (RmaIov(kind(address), kind(length), kind(5)), RmaIoc(kind(address), kind(length), kind(5))):
        values = vars(segment).values()
        assert [type(value) for value in values] == [int] * 3
        assert list(values) == [address, length, 5]


def test_numbers_of_numpy_in_segments_neither_overflow_nor_wrap(pair, target):
    client, (memory, region) = pair[0], target
    segments = [RmaIov(np.uint64(region.address + 8), np.uint8(200), np.uint64(region.key)),
                RmaIov(np.int64(region.address + 208), np.int8(100), np.uint64(region.key))]  # fmt: skip
    source = np.arange(300, dtype=np.uint16).astype(np.uint8)
    client.endpoint.writemsg(RmaMsg([source], np.uint8(client.peer), segments))
    assert client.finish().len == 300
    assert memory.tobytes()[8:308] == source.tobytes()


# What an error says


def test_a_failure_says_what_failed_to_whom_and_why(pair, target):
    client, (_, region) = pair[0], target
    client.endpoint.fetch_atomic(
        np.uint64(1), np.zeros(1, np.uint64), client.peer, region.address, region.key ^ 1, Op.FI_SUM, context="mine"
    )
    text = "fetching atomic of 8 bytes to peer 0 failed: Key not available (BAD_MKEY)"
    with pytest.raises(ErrorAvailableError) as caught:
        client.queue.sread(timeout=30)
    assert str(caught.value) == f"FI_EAVAIL: {text}; readerr() takes its entry"
    entry = client.queue.readerr()
    assert (entry.op_context, entry.peer, entry.err) == ("mine", 0, Errno.FI_ENOKEY)
    assert str(entry.error()) == f"FI_ENOKEY: {text}"
    assert entry.error().prov_errno == entry.prov_errno


# What buffers and numbers hold

NAMED = (
    (np.zeros(1, np.int8), Datatype.FI_INT8),
    (np.uint64(1), Datatype.FI_UINT64),
    (np.zeros(1, np.longlong), Datatype.FI_INT64),
    (np.zeros(1, np.longdouble), Datatype.FI_LONG_DOUBLE),
    (np.zeros(1, ml_dtypes.bfloat16), Datatype.FI_BFLOAT16),
    (ml_dtypes.bfloat16(1), Datatype.FI_BFLOAT16),
    (np.zeros(1, ml_dtypes.float8_e4m3fn), Datatype.FI_FLOAT8_E4M3),
    (np.zeros(1, ml_dtypes.float8_e5m2), Datatype.FI_FLOAT8_E5M2),
    (array.array("d", [1]), Datatype.FI_DOUBLE),
    (array.array("B", [1]), Datatype.FI_UINT8),
    (array.array("l", [1]), Datatype.FI_INT64),
    ((ctypes.c_float * 2)(), Datatype.FI_FLOAT),
    (ctypes.c_uint16(1), Datatype.FI_UINT16),
    (ctypes.c_longlong(1), Datatype.FI_INT64),
    (memoryview(bytes(8)).cast("Q"), Datatype.FI_UINT64),
    (memoryview(np.zeros(1, complex)), Datatype.FI_DOUBLE_COMPLEX),
)
UNNAMED = (
    b"12345678",
    bytearray(8),
    memoryview(bytes(8)),
    np.zeros(1, "V8"),
    (ctypes.c_char * 8)(),
    np.zeros(1, "u1,u1"),
)
REFUSED = (
    np.zeros(1, ">u8"),
    np.zeros(1, ">f8"),
    np.zeros(8, bool),
    np.zeros(1, "S8"),
    np.zeros(1, "M8[s]"),
    np.zeros(8, ml_dtypes.float8_e4m3),
    np.zeros(8, ml_dtypes.float8_e5m2fnuz),
    array.array("u", "ab"),
    (ctypes.c_uint32.__ctype_be__ * 2)(),
    (ctypes.c_bool * 8)(),
    memoryview(bytes(8)).cast("?"),
)


@pytest.mark.parametrize(("buffer", "datatype"), NAMED, ids=lambda value: type(value).__name__)
def test_buffers_name_their_datatype(buffer, datatype):
    assert datatype_of(buffer) is datatype
    assert operand_of(buffer)[1] is datatype
    assert bytes(operand_of(buffer)[0]) == (buffer.tobytes() if hasattr(buffer, "tobytes") else bytes(buffer))
    check_datatype(buffer, datatype)
    other = Datatype.FI_INT16
    if datatype is not Datatype.FI_UINT8:
        with pytest.raises(ArgumentError, match=f"^FI_EINVAL: compare: expected FI_INT16, got {datatype.name}"):
            check_datatype(buffer, other, "compare")


@pytest.mark.parametrize("buffer", UNNAMED, ids=lambda value: type(value).__name__)
def test_bytes_name_none_and_hold_any(buffer):
    with pytest.raises(ArgumentError, match=r"^FI_EINVAL: buf: .*datatype="):
        datatype_of(buffer)
    for datatype in Datatype:
        check_datatype(buffer, datatype)
    assert operand_of(buffer, Datatype.FI_UINT64)[1] is Datatype.FI_UINT64


@pytest.mark.parametrize("buffer", REFUSED, ids=lambda value: str(getattr(value, "dtype", type(value).__name__)))
def test_what_libfabric_has_not_is_refused_but_moves_as_bytes(buffer):
    assert view_of(buffer).nbytes == memoryview(np.asarray(buffer).reshape(-1).view(np.uint8)).nbytes
    for call in (datatype_of, operand_of, lambda each: check_datatype(each, Datatype.FI_UINT64)):
        with pytest.raises(ArgumentTypeError):
            call(buffer)


def test_a_vector_has_one_datatype():
    one, bytes_ = np.ones(1, np.int32), bytes(4)
    assert vector_datatype([bytes_, one, bytearray(4)]) is Datatype.FI_INT32
    with pytest.raises(ArgumentError, match=r"^FI_EINVAL: iov\[2\]: expected FI_INT32, got FI_FLOAT"):
        vector_datatype([bytes_, one, np.ones(1, np.float32)])
    with pytest.raises(ArgumentError, match="datatype="):
        vector_datatype([bytes_, bytes_])


INTEGERS = {Datatype.FI_INT8: np.int8, Datatype.FI_UINT8: np.uint8, Datatype.FI_INT16: np.int16,
            Datatype.FI_UINT32: np.uint32, Datatype.FI_INT64: np.int64, Datatype.FI_UINT64: np.uint64}  # fmt: skip
FLOATS = {Datatype.FI_FLOAT16: np.float16, Datatype.FI_FLOAT: np.float32, Datatype.FI_DOUBLE: np.float64,
          Datatype.FI_BFLOAT16: ml_dtypes.bfloat16, Datatype.FI_FLOAT8_E4M3: ml_dtypes.float8_e4m3fn,
          Datatype.FI_FLOAT8_E5M2: ml_dtypes.float8_e5m2}  # fmt: skip


@given(st.integers(-(1 << 65), 1 << 65), st.sampled_from(list(INTEGERS)))
@example(-128, Datatype.FI_INT8)
@example(128, Datatype.FI_INT8)
@example(1 << 64, Datatype.FI_UINT64)
def test_integers_that_fit_are_encoded_and_others_refused(value, datatype):
    kind = INTEGERS[datatype]
    if np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        assert encoded(value, datatype) == kind(value).tobytes()
    else:
        with pytest.raises(ArgumentError, match=f"^FI_EINVAL: buf: {datatype.name} cannot hold"):
            encoded(value, datatype)


@given(st.floats(width=32) | st.floats(-600, 600) | st.floats(-1e-6, 1e-6), st.sampled_from(list(FLOATS)))
@example(0.0, Datatype.FI_BFLOAT16)
@example(-0.0, Datatype.FI_FLOAT8_E4M3)
@example(448.0, Datatype.FI_FLOAT8_E4M3)
@example(math.inf, Datatype.FI_FLOAT8_E5M2)
def test_floats_are_rounded_as_ml_dtypes_and_numpy_do(value, datatype):
    with np.errstate(all="ignore"):
        expected = np.array([value], np.float64).astype(FLOATS[datatype])
    number = float(expected[0])
    if not math.isnan(value) and (math.isnan(number) or math.isinf(number) != math.isinf(value)):
        with pytest.raises(ArgumentError, match="cannot hold"):
            encoded(value, datatype)
    elif math.isnan(value):
        assert math.isnan(float(np.frombuffer(encoded(value, datatype), FLOATS[datatype])[0]))
    else:
        assert encoded(value, datatype) == expected.tobytes()


def test_numbers_of_several_parts_are_encoded_without_what_lay_there():
    assert encoded(1.5 - 2j, Datatype.FI_FLOAT_COMPLEX) == np.complex64(1.5 - 2j).tobytes()
    assert encoded(3, Datatype.FI_DOUBLE_COMPLEX) == np.complex128(3).tobytes()
    assert encoded(-5, Datatype.FI_INT128) == (-5).to_bytes(16, "little", signed=True)
    assert encoded(1.0, Datatype.FI_LONG_DOUBLE) == bytes.fromhex("0000000000000080ff3f" + "00" * 6)
    assert encoded(1j, Datatype.FI_LONG_DOUBLE_COMPLEX) == bytes(16) + bytes.fromhex(
        "0000000000000080ff3f" + "00" * 6
    )


def test_without_capabilities_everything_is_allowed_and_without_directions_all_are_meant():
    assert rights_of(None) == rights_of(Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_RMA | Caps.FI_ATOMIC) == ALL_RIGHTS
    assert rights_of(Caps.FI_RMA | Caps.FI_REMOTE_READ) == rights_of(Caps.FI_MSG | Caps.FI_RECV) == 0
    assert rights_of(None, datagrams=True) == rights_of(Caps.FI_MSG | Caps.FI_TAGGED | Caps.FI_SEND)
