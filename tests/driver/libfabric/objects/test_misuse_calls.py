"""Operations with arguments that cannot be meant: refused before a ring entry is taken, without a trace.

Each family of mistakes is made many times more often than a ring has places, on two NICs. Nothing may be in flight
then, nothing granted, nothing told, nothing changed; and the next good call does what it says, and only that.

Covers ``libfabric/objects/operations/rights.py``.
"""

import contextlib
import ctypes

import ml_dtypes
import numpy as np
import pytest
from amoeba import (
    ArgumentError,
    ArgumentTypeError,
    AtomicMsg,
    Datatype,
    MrAccess,
    Op,
    OpFlags,
    RmaIoc,
    RmaIov,
    RmaMsg,
    TryAgainError,
    fi,
)

from tests.driver.endpoints import entries
from tests.driver.libfabric.objects.misuse import (
    NO_64_BITS,
    NO_NUMBERS,
    ONE,
    PAIRS,
    REFERENCES,
    SUM,
    U64,
    WRONG_FLAGS,
    two_nics,
    words,
)


@pytest.fixture(params=PAIRS, ids="-".join)
def fabric(request, build_of):
    with two_nics(request.param, build_of(request.param)) as opened:
        yield opened



class Watch:
    """A client that makes mistakes, and what they must not have changed."""

    def __init__(self, client, memory, region):
        self.client, self.memory, self.region = client, memory, region
        self.to = client.peer, region.address, region.key
        self.expected = memory.copy()

    def check(self, call, error=ArgumentError, match=None):
        """Make a mistake as often as it takes to use up a ring; what raises leaves nothing behind."""
        endpoint = self.client.endpoint
        grants = dict(self.client.domain.nic.dma._users)
        places = endpoint.tx_size_left
        for _ in range(endpoint.tx_size + 1):
            with pytest.raises(error, match=match):
                call(endpoint, self.to)
        assert endpoint.tx_size_left == places
        assert not endpoint._rings.outstanding
        assert self.client.domain.nic.dma._users == grants

    def go_on(self):
        """Nothing was told or changed; the ring has all its places, and each works."""
        assert self.client.queue.read(8) == []
        for count in range(self.client.endpoint.tx_size + 1):
            self.client.endpoint.write(np.uint64(count), *self.to, context=count)
            assert self.client.finish().op_context == count
        assert self.client.queue.read(8) == []
        self.expected[0] = self.client.endpoint.tx_size
        np.testing.assert_array_equal(self.memory, self.expected)


@pytest.fixture
def watch(pair, target):
    return Watch(pair[0], *target)


@pytest.mark.parametrize("wrong", [*NO_NUMBERS, *NO_64_BITS])
def test_numbers_that_are_none_leave_no_trace(watch, wrong):
    value = (NO_NUMBERS | NO_64_BITS)[wrong]
    error = ArgumentTypeError if wrong in NO_NUMBERS else ArgumentError
    result = words()
    for place, name in enumerate(("dest_addr", "addr", "key")):
        if name == "dest_addr" and wrong not in NO_NUMBERS:
            continue  # numbers of no peer are another mistake
        to = (*watch.to[:place], value, *watch.to[place + 1 :])
        for call in (
            lambda e, _, to=to: e.write(ONE, *to),
            lambda e, _, to=to: e.write(bytes(100), *to),
            lambda e, _, to=to: e.inject_write(ONE, *to),
            lambda e, _, to=to: e.writedata(ONE, 1, *to),
            lambda e, _, to=to: e.writev([ONE, ONE], *to),
            lambda e, _, to=to: e.read(result, *to),
            lambda e, _, to=to: e.readv([result, result.copy()], *to),
            lambda e, _, to=to: e.atomic(ONE, *to, SUM),
            lambda e, _, to=to: e.inject_atomic(ONE, *to, SUM),
            lambda e, _, to=to: e.atomicv([ONE, ONE], *to, SUM),
            lambda e, _, to=to: e.fetch_atomic(ONE, result, *to, SUM),
            lambda e, _, to=to: e.fetch_atomicv([ONE], [result], *to, SUM),
            lambda e, _, to=to: e.compare_atomic(ONE, ONE, result, *to, Op.FI_CSWAP),
            lambda e, _, to=to: e.compare_atomicv([ONE], [ONE], [result], *to, Op.FI_CSWAP),
        ):
            watch.check(call, error, name)
    for call in (
        lambda e, to: e.writedata(ONE, value, *to),
        lambda e, to: e.inject_writedata(ONE, value, *to),
        lambda e, to: e.writemsg(
            RmaMsg([ONE], to[0], [RmaIov(to[1], 8, to[2])], data=value), OpFlags.FI_REMOTE_CQ_DATA
        ),
        lambda e, to: e.atomicmsg(
            AtomicMsg([ONE], to[0], [RmaIoc(to[1], 1, to[2])], SUM, data=value), OpFlags.FI_REMOTE_CQ_DATA
        ),
    ):
        watch.check(call, error, "data")
    watch.go_on()


def test_segments_that_are_none_leave_no_trace(watch):
    for wrong in (8.0, True, None, "8", -1, 1 << 64):
        for call in (
            lambda e, to, w=wrong: e.writemsg(RmaMsg([ONE], to[0], [RmaIov(w, 8, to[2])])),
            lambda e, to, w=wrong: e.writemsg(RmaMsg([ONE], to[0], [RmaIov(to[1], w, to[2])])),
            lambda e, to, w=wrong: e.readmsg(RmaMsg([words()], to[0], [RmaIov(to[1], 8, w)])),
            lambda e, to, w=wrong: e.atomicmsg(AtomicMsg([ONE], to[0], [RmaIoc(to[1], w, to[2])], SUM)),
        ):
            watch.check(call)
    for segments in ([(0, 8, 0)], [None], None, 5, RmaIov(0, 8, 0), [RmaIoc(0, 1, 0)]):
        watch.check(lambda e, to, s=segments: e.writemsg(RmaMsg([ONE], to[0], s)), ArgumentTypeError, "rma_iov")
    watch.check(
        lambda e, to: e.atomicmsg(AtomicMsg([ONE], to[0], [RmaIov(to[1], 8, to[2])], SUM)),
        ArgumentTypeError,
        "rma_iov",
    )
    watch.go_on()


def test_a_vector_with_a_mistake_at_its_end_does_nothing_of_its_beginning(watch):
    good = RmaIov(watch.to[1] + 8, 8, watch.to[2])
    for local, error in (
        ([words(7), np.zeros(1, object)], ArgumentTypeError),
        ([words(7), None], ArgumentTypeError),
        ([words(7), 7], ArgumentTypeError),
        ([words(7), np.zeros((2, 2))[:, 1]], ArgumentError),
        ([words(7), words(7)[:0]], ArgumentError),
    ):
        if error is ArgumentTypeError:
            watch.check(lambda e, to, iov=local: e.writev(iov, *to), error)
        watch.check(lambda e, to, iov=local: e.writemsg(RmaMsg(iov, to[0], [good, good])), error)
    watch.check(lambda e, to: e.atomicv([words(7), np.ones(1)], *to, SUM))
    watch.check(lambda e, to: e.atomicv([words(7), np.ones(1, np.int64)], *to, SUM, U64))
    watch.check(lambda e, to: e.fetch_atomicv([words(7), words(7)], [words(), np.ones(1)], *to, SUM))
    watch.check(lambda e, to: e.fetch_atomicv([words(7), words(7)], [words(), bytes(8)], *to, SUM))
    watch.check(
        lambda e, to: e.compare_atomicv(
            [words(7)] * 2, [words(0), np.zeros(1, "f4")], [words(), words()], *to, Op.FI_CSWAP
        )
    )
    watch.go_on()


def test_results_and_compare_values_cannot_be_left_out(watch):
    result = words()
    for call, name in (
        (lambda e, to: e.fetch_atomic(ONE, None, *to, SUM), "result"),
        (lambda e, to: e.fetch_atomic(None, None, *to, Op.FI_ATOMIC_READ, U64), "result"),
        (lambda e, to: e.compare_atomic(ONE, None, result, *to, Op.FI_CSWAP), "compare"),
        (lambda e, to: e.compare_atomic(ONE, ONE, None, *to, Op.FI_CSWAP), "result"),
        (lambda e, to: e.fetch_atomicv([ONE], None, *to, SUM), "resultv"),
        (lambda e, to: e.fetch_atomicv([ONE], [None], *to, SUM), "resultv"),
        (lambda e, to: e.compare_atomicv([ONE], None, [result], *to, Op.FI_CSWAP), "comparev"),
        (lambda e, to: e.compare_atomicv([ONE], [None], [result], *to, Op.FI_CSWAP), "comparev"),
        (lambda e, to: e.compare_atomicv([ONE], [ONE], None, *to, Op.FI_CSWAP), "resultv"),
        (lambda e, to: e.fetch_atomicmsg(AtomicMsg([ONE], to[0], [RmaIoc(to[1], 1, to[2])], SUM), None), "resultv"),
        (
            lambda e, to: e.compare_atomicmsg(
                AtomicMsg([ONE], to[0], [RmaIoc(to[1], 1, to[2])], Op.FI_CSWAP), None, [result]
            ),
            "comparev",
        ),
        (lambda e, to: e.atomic(None, *to, SUM), "buf"),
        (lambda e, to: e.write(None, *to), "buf"),
        (lambda e, to: e.read(None, *to), "buf"),
    ):
        watch.check(call, ArgumentTypeError, name)
    watch.go_on()


def test_references_are_no_buffers(watch):
    for make in REFERENCES.values():
        buffer = make()
        for call in (
            lambda e, to, b=buffer: e.write(b, *to),
            lambda e, to, b=buffer: e.writev([ONE, b], *to),
            lambda e, to, b=buffer: e.read(b, *to),
            lambda e, to, b=buffer: e.readv([b], *to),
            lambda e, to, b=buffer: e.atomic(b, *to, SUM, U64),
            lambda e, to, b=buffer: e.fetch_atomic(words(1, 1), b, *to, SUM, U64),
            lambda e, to, b=buffer: e.compare_atomic(words(1, 1), b, words(1, 1), *to, Op.FI_CSWAP, U64),
        ):
            watch.check(call, ArgumentTypeError)
        with pytest.raises(ArgumentTypeError):
            watch.client.domain.mr_reg(buffer, MrAccess.FI_REMOTE_WRITE)
    watch.go_on()


WRONG_ENUMS = {
    "C's order": (U64, SUM),
    "two operations": (SUM, SUM),
    "an operation of the number that the datatype has": (SUM, Op(int(U64))),
    "two datatypes": (U64, U64),
    "names": ("FI_SUM", "FI_UINT64"),
    "flags": (OpFlags.FI_MORE, U64),
    "booleans": (True, U64),
    "floats": (2.0, 7.0),
}


@pytest.mark.parametrize("wrong", WRONG_ENUMS)
def test_enumerations_of_another_class_are_refused_in_every_call(watch, wrong):
    op, datatype = WRONG_ENUMS[wrong]
    result, segments = words(), [RmaIoc(watch.to[1], 1, watch.to[2])]
    for call in (
        lambda e, to: e.atomic(words(1), *to, op, datatype),
        lambda e, to: e.inject_atomic(words(1), *to, op, datatype),
        lambda e, to: e.atomicv([words(1)], *to, op, datatype),
        lambda e, to: e.atomicmsg(AtomicMsg([words(1)], to[0], segments, op, datatype)),
        lambda e, to: e.fetch_atomic(words(1), result, *to, op, datatype),
        lambda e, to: e.fetch_atomicv([words(1)], [result], *to, op, datatype),
        lambda e, to: e.fetch_atomicmsg(AtomicMsg([words(1)], to[0], segments, op, datatype), [result]),
        lambda e, to: e.compare_atomic(words(1), words(1), result, *to, op, datatype),
        lambda e, to: e.compare_atomicv([words(1)], [words(1)], [result], *to, op, datatype),
        lambda e, to: e.compare_atomicmsg(AtomicMsg([words(1)], to[0], segments, op, datatype), [words(1)], [result]),
        lambda e, to: fi.fi_atomic(e, words(1), 1, None, *to, datatype, op),
        lambda e, to: fi.fi_inject_atomic(e, words(1), 1, *to, datatype, op),
        lambda e, to: fi.fi_fetch_atomic(e, words(1), 1, None, result, None, *to, datatype, op),
        lambda e, to: fi.fi_compare_atomic(e, words(1), 1, None, words(1), None, result, None, *to, datatype, op),
        lambda e, to: fi.fi_atomicv(e, [words(1)], None, 1, *to, datatype, op),
        lambda e, _: e.atomicvalid(datatype, op),
        lambda e, _: e.fetch_atomicvalid(datatype, op),
        lambda e, _: e.compare_atomicvalid(datatype, op),
        lambda e, _: fi.fi_atomicvalid(e, datatype, op),
        lambda e, _: e.domain.query_atomic(datatype, op),
    ):
        watch.check(call, ArgumentTypeError, "^FI_EINVAL: (op|datatype): expected (Op|Datatype) or its plain number")
    watch.go_on()


def test_plain_numbers_do_as_in_c(watch):
    endpoint, result = watch.client.endpoint, words()
    for call in (
        lambda to: endpoint.atomic(words(5), *to, 2, 7),
        lambda to: endpoint.fetch_atomic(words(5), result, *to, 2, 7),
        lambda to: endpoint.atomicmsg(AtomicMsg([words(5)], to[0], [RmaIoc(to[1], 1, to[2])], 2, 7), 1 << 24),
        lambda to: endpoint.atomic(words(5), *to, 2, 7, flags=int(OpFlags.FI_DELIVERY_COMPLETE)),
        lambda to: fi.fi_atomic(endpoint, words(5), 1, None, *to, 7, 2),
        lambda to: fi.fi_atomicmsg(endpoint, AtomicMsg([words(5)], to[0], [RmaIoc(to[1], 1, to[2])], 2, 7), 1 << 24),
        lambda to: endpoint.writemsg(RmaMsg([words(30)], to[0], [RmaIov(to[1], 8, to[2])]), 1 << 24),
        lambda to: endpoint.readmsg(RmaMsg([result], to[0], [RmaIov(to[1], 8, to[2])]), 0),
    ):
        call(watch.to)
        watch.client.finish()
    assert (watch.memory[0], result[0]) == (30, 30)
    for number in (99, -1, 1 << 40):
        watch.check(lambda e, to, n=number: e.atomic(ONE, *to, n, 7), Exception, "^FI_EOPNOTSUPP")
        watch.check(lambda e, to, n=number: e.atomic(bytes(8), *to, 2, n), Exception, "^FI_EOPNOTSUPP")
    watch.go_on()


def test_flags_of_another_class_are_refused_in_every_call(watch):
    result = words()
    for flags in WRONG_FLAGS:
        rma = [RmaIov(watch.to[1], 8, watch.to[2])]
        atomic = AtomicMsg([ONE], watch.to[0], [RmaIoc(watch.to[1], 1, watch.to[2])], SUM)
        swap = AtomicMsg([ONE], watch.to[0], [RmaIoc(watch.to[1], 1, watch.to[2])], Op.FI_CSWAP)
        for call in (
            lambda e, to, f=flags: e.write(ONE, *to, flags=f),
            lambda e, to, f=flags: e.writev([ONE], *to, flags=f),
            lambda e, to, f=flags: e.writedata(ONE, 1, *to, flags=f),
            lambda e, to, f=flags, r=rma: e.writemsg(RmaMsg([ONE], to[0], r), f),
            lambda e, to, f=flags: e.read(result, *to, flags=f),
            lambda e, to, f=flags: e.readv([result], *to, flags=f),
            lambda e, to, f=flags, r=rma: e.readmsg(RmaMsg([result], to[0], r), f),
            lambda e, to, f=flags: e.atomic(ONE, *to, SUM, flags=f),
            lambda e, to, f=flags: e.atomicv([ONE], *to, SUM, flags=f),
            lambda e, _, f=flags, m=atomic: e.atomicmsg(m, f),
            lambda e, to, f=flags: e.fetch_atomic(ONE, result, *to, SUM, flags=f),
            lambda e, _, f=flags, m=atomic: e.fetch_atomicmsg(m, [result], flags=f),
            lambda e, to, f=flags: e.compare_atomic(ONE, ONE, result, *to, Op.FI_CSWAP, flags=f),
            lambda e, _, f=flags, m=swap: e.compare_atomicmsg(m, [ONE], [result], flags=f),
            lambda e, _, f=flags, m=atomic: fi.fi_atomicmsg(e, m, f),
            lambda e, to, f=flags, r=rma: fi.fi_writemsg(e, RmaMsg([ONE], to[0], r), f),
            lambda e, to, f=flags, r=rma: fi.fi_readmsg(e, RmaMsg([result], to[0], r), f),
        ):
            watch.check(call, ArgumentTypeError, "flags")
    watch.go_on()


def test_reads_have_nothing_to_inject(watch):
    """fi_rma(3): FI_INJECT applies to fi_writemsg."""
    result = words()
    for call in (
        lambda e, to: e.read(result, *to, flags=OpFlags.FI_INJECT),
        lambda e, to: e.readv([result], *to, flags=OpFlags.FI_INJECT),
        lambda e, to: e.readmsg(RmaMsg([result], to[0], [RmaIov(to[1], 8, to[2])]), OpFlags.FI_INJECT),
        lambda e, to: fi.fi_readmsg(e, RmaMsg([result], to[0], [RmaIov(to[1], 8, to[2])]), int(OpFlags.FI_INJECT)),
    ):
        watch.check(call, ArgumentError, "^FI_EBADFLAGS: .*FI_INJECT")
    watch.go_on()


# What buffers hold


def test_buffers_that_contradict_the_datatype_are_refused_in_every_place(watch):
    wrong = {
        "another": lambda: np.ones(1),
        "signed": lambda: np.ones(1, np.int64),
        "shorter": lambda: np.ones(2, np.uint32),
        "backwards": lambda: np.ones(1, ">u8"),
        "booleans": lambda: np.ones(8, bool),
        "an extension": lambda: np.ones(4, ml_dtypes.bfloat16),
        "ctypes": lambda: (ctypes.c_double * 1)(1.0),
    }
    for make in wrong.values():
        for call in (
            lambda e, to, m=make: e.atomic(m(), *to, SUM, U64),
            lambda e, to, m=make: e.inject_atomic(m(), *to, SUM, U64),
            lambda e, to, m=make: e.fetch_atomic(ONE, m(), *to, SUM),
            lambda e, to, m=make: e.fetch_atomic(m(), words(), *to, SUM, U64),
            lambda e, to, m=make: e.fetch_atomic(None, m(), *to, Op.FI_ATOMIC_READ, U64),
            lambda e, to, m=make: e.compare_atomic(ONE, m(), words(), *to, Op.FI_CSWAP),
            lambda e, to, m=make: e.compare_atomic(ONE, ONE, m(), *to, Op.FI_CSWAP),
            lambda e, to, m=make: e.atomicv([words(1), m()], *to, SUM),
            lambda e, to, m=make: e.fetch_atomicv([words(1)], [m()], *to, SUM),
            lambda e, to, m=make: e.compare_atomicv([words(1)], [m()], [words()], *to, Op.FI_CSWAP),
            lambda e, to, m=make: fi.fi_atomic(e, m(), 1, None, *to, U64, SUM),
            lambda e, to, m=make: fi.fi_fetch_atomic(e, words(1), 1, None, m(), None, *to, U64, SUM),
            lambda e, to, m=make: fi.fi_compare_atomic(
                e, words(1), 1, None, m(), None, words(), None, *to, U64, Op.FI_CSWAP
            ),
        ):
            watch.check(call)
    watch.go_on()


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8), lambda b: np.frombuffer(b, "V8")]
)
def test_bytes_hold_whatever_the_datatype_says(watch, kind):
    operand = kind(words(5).tobytes())
    result = np.zeros(8, np.uint8)
    endpoint, to = watch.client.endpoint, watch.to
    endpoint.atomic(operand, *to, SUM, U64)
    watch.client.finish()
    endpoint.fetch_atomic(operand, result, *to, SUM, U64)
    watch.client.finish()
    assert (result.view(np.uint64)[0], watch.memory[0]) == (5, 10)
    endpoint.compare_atomic(operand, kind(words(10).tobytes()), bytearray(8), *to, Op.FI_CSWAP, U64)
    watch.client.finish()
    assert watch.memory[0] == 5


NUMBERS = {
    Datatype.FI_INT8: (-3, np.int8),
    Datatype.FI_UINT16: (65535, np.uint16),
    Datatype.FI_INT32: (-(2**31), np.int32),
    Datatype.FI_UINT64: (2**64 - 1, np.uint64),
    Datatype.FI_FLOAT: (0.1, np.float32),
    Datatype.FI_DOUBLE: (7, np.float64),
    Datatype.FI_FLOAT16: (-2.5, np.float16),
    Datatype.FI_BFLOAT16: (3.140625, ml_dtypes.bfloat16),
    Datatype.FI_DOUBLE_COMPLEX: (1 - 2j, np.complex128),
}


@pytest.mark.full_build
@pytest.mark.parametrize("datatype", NUMBERS, ids=lambda datatype: datatype.name)
def test_one_number_does_as_operand_and_compare_value(watch, datatype):
    value, kind = NUMBERS[datatype]
    if Datatype(datatype) not in _written(watch.client.domain):
        pytest.skip("not executed by this build")
    endpoint, to = watch.client.endpoint, watch.to
    held = np.frombuffer(watch.memory.data, kind)
    endpoint.atomic(value, *to, Op.FI_ATOMIC_WRITE, datatype)
    watch.client.finish()
    assert held[0] == kind(value)
    result = np.zeros(1, kind)
    endpoint.fetch_atomic(value, result, *to, Op.FI_ATOMIC_WRITE, datatype)
    watch.client.finish()
    assert result[0] == kind(value)
    with contextlib.suppress(NotImplementedError):
        endpoint.compare_atomic(0, value, result, *to, Op.FI_CSWAP, datatype)
        watch.client.finish()
        assert held[0] == 0


def _written(domain):
    found = set()
    for datatype in NUMBERS:
        with contextlib.suppress(OSError):
            domain.query_atomic(datatype, Op.FI_ATOMIC_WRITE)
            found.add(datatype)
    return found


@pytest.mark.full_build
def test_numbers_that_the_datatype_has_not_are_refused(watch):
    for value, datatype in (
        (-1, U64), (1 << 64, U64), (128, Datatype.FI_INT8), (1e39, Datatype.FI_FLOAT), (10**400, Datatype.FI_DOUBLE),
    ):  # fmt: skip
        watch.check(lambda e, to, v=value, d=datatype: e.atomic(v, *to, SUM, d), ArgumentError, "buf")
        watch.check(lambda e, to, v=value, d=datatype: e.fetch_atomic(v, bytearray(d.size), *to, SUM, d), match="buf")
        watch.check(
            lambda e, to, v=value, d=datatype: e.compare_atomic(0, v, bytearray(d.size), *to, Op.FI_CSWAP, d),
            match="compare",
        )
    for value in (1.5, True, 1j, "1", [1], np.float64(1), np.bool_(True)):
        watch.check(lambda e, to, v=value: e.atomic(v, *to, SUM, U64), ArgumentTypeError, "buf")
    watch.check(lambda e, to: e.atomic(5, *to, SUM), ArgumentError, "datatype=")
    watch.check(lambda e, to: e.atomic(bytes(8), *to, SUM), ArgumentError, "datatype=")
    watch.go_on()


@pytest.mark.full_build
def test_arrays_of_ml_dtypes_name_their_datatype(watch):
    if Datatype.FI_BFLOAT16 not in _written(watch.client.domain):
        pytest.skip("not executed by this build")
    held = np.frombuffer(watch.memory.data, ml_dtypes.bfloat16)
    held[:4] = [1, 2, 3, 4]
    result = np.zeros(4, ml_dtypes.bfloat16)
    endpoint, to = watch.client.endpoint, watch.to
    endpoint.fetch_atomic(np.full(4, 0.5, ml_dtypes.bfloat16), result, *to, SUM)
    watch.client.finish()
    assert (result.tolist(), held[:4].tolist()) == ([1, 2, 3, 4], [1.5, 2.5, 3.5, 4.5])
    endpoint.write(np.full(4, 8, ml_dtypes.bfloat16), *to)
    watch.client.finish()
    endpoint.read(result, *to)
    watch.client.finish()
    assert result.tolist() == [8] * 4


def test_a_full_ring_is_told_before_anything_is_done(watch):
    """FI_EAGAIN, too, leaves no trace: what was refused is not done when there is space again."""
    endpoint, to = watch.client.endpoint, watch.to
    posted = 0
    with contextlib.suppress(TryAgainError):
        for _ in range(endpoint.tx_size + 1):
            endpoint.atomic(words(1), *to, SUM)
            posted += 1
    assert posted == endpoint.tx_size
    for call in (
        lambda: endpoint.atomic(words(1), *to, SUM),
        lambda: endpoint.atomicv([words(1), words(1)], *to, SUM),
        lambda: endpoint.write(words(9), *to),
    ):
        with pytest.raises(TryAgainError):
            call()
    entries(watch.client.queue, posted)
    assert watch.client.queue.read() == []
    assert watch.memory[:2].tolist() == [posted, 1]
