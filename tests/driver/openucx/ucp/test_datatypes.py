"""Datatypes, and where the bytes of (buffer, count, datatype) lie."""

import random

import ml_dtypes
import numpy as np
import pytest
from amoeba import ucp
from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.datatypes import destination, source

OK = ucp.UCS_OK
IOV = ucp.ucp_dt_make_iov()


class Every:
    """A generic datatype: every other byte of a buffer, from the first on. It notes what it is called with."""

    def __init__(self, most=2**63, answer=None):
        self.calls = []
        self.most = most
        self.answer = answer
        self.ops = ucp.ucp_generic_dt_ops_t(
            start_pack=self.start_pack, start_unpack=self.start_unpack, packed_size=self.packed_size,
            pack=self.pack, unpack=self.unpack, finish=self.finish,
        )  # fmt: skip

    def start_pack(self, context, buffer, count):
        self.calls.append(("start_pack", context, count))
        return memoryview(buffer)[::2][:count]

    def start_unpack(self, context, buffer, count):
        self.calls.append(("start_unpack", context, count))
        return memoryview(buffer)[::2][:count]

    def packed_size(self, state):
        self.calls.append(("packed_size",))
        return len(state)

    def pack(self, state, offset, dest, max_length):
        assert dest.nbytes == max_length
        length = min(max_length, self.most)
        self.calls.append(("pack", offset, length))
        dest[:length] = bytes(state[offset : offset + length])
        return length

    def unpack(self, state, offset, src, length):
        assert src.nbytes == length
        assert src.readonly
        self.calls.append(("unpack", offset, length))
        if self.answer is not None:
            return self.answer()
        state[offset : offset + length] = src
        return OK

    def finish(self, state):
        self.calls.append(("finish",))

    @property
    def names(self):
        return [call[0] for call in self.calls]


@pytest.fixture
def every():
    def make(*arguments, **options):
        kind = Every(*arguments, **options)
        made.append(ucp.ucp_dt_create_generic(kind.ops, "the context"))
        return kind, made[-1]

    made = []
    yield make
    for datatype in made:
        ucp.ucp_dt_destroy(datatype)


# Numbers


def test_datatypes_are_c_s_numbers():
    assert [ucp.ucp_dt_make_contig(size) for size in (0, 1, 4, 8)] == [0, 8, 0x20, 0x40]
    assert ucp.ucp_dt_make_contig(2**61 - 1) == 2**64 - 8
    assert IOV == 2


@pytest.mark.parametrize("size", [-1, 2**61, 1.0, None, "1"])
def test_an_element_size_that_does_not_fit_is_refused(size):
    with pytest.raises(ucp.UcsInvalidParamError, match="elem_size: expected"):
        ucp.ucp_dt_make_contig(size)


def test_generic_datatypes_have_class_7_and_are_all_different(every):
    numbers = [every()[1] for _ in range(3)]
    assert {number & ucp.UCP_DATATYPE_CLASS_MASK for number in numbers} == {ucp.UCP_DATATYPE_GENERIC}
    assert len(set(numbers)) == 3


@pytest.mark.parametrize("datatype", [1, 3, 4, 5, 6, 8 | 1, 2**63 | 7, 2**64, -8, "bytes", None])
def test_a_datatype_that_does_not_exist_is_refused(datatype):
    with pytest.raises(ucp.UcsInvalidParamError, match="datatype: "):
        source(bytes(8), 1, datatype)


@pytest.mark.parametrize("missing", ["start_pack", "start_unpack", "packed_size", "pack", "unpack", "finish"])
def test_a_generic_datatype_needs_all_its_functions(missing):
    ops = Every().ops
    setattr(ops, missing, None)
    with pytest.raises(ucp.UcsInvalidParamError, match=rf"ops\.{missing}: expected a function, got NoneType"):
        ucp.ucp_dt_create_generic(ops, None)


def test_what_is_no_set_of_functions_is_no_generic_datatype():
    with pytest.raises(ucp.UcsInvalidParamError, match="ops: expected a ucp_generic_dt_ops_t"):
        ucp.ucp_dt_create_generic({}, None)


def test_destroying_what_is_not_generic_changes_nothing():
    for datatype in (8, 0x20, IOV):
        ucp.ucp_dt_destroy(datatype)
    assert source(bytes(8), 1, 0x20).length == 4


def test_a_destroyed_datatype_is_gone_but_for_operations_in_flight():
    kind = Every()
    datatype = ucp.ucp_dt_create_generic(kind.ops, None)
    outstanding = source(b"abcdef", 3, datatype)
    ucp.ucp_dt_destroy(datatype)
    assert bytes(outstanding.packed()) == b"ace"
    outstanding.finish()
    for call in (lambda: source(b"abcdef", 3, datatype), lambda: ucp.ucp_dt_destroy(datatype)):
        with pytest.raises(ucp.UcsInvalidParamError, match="is no generic datatype, or is destroyed"):
            call()
    assert kind.names == ["start_pack", "packed_size", "pack", "finish"]


def test_functions_that_are_changed_later_do_not_change_the_datatype(every):
    kind, datatype = every()
    kind.ops.pack = None
    assert bytes(source(b"abcdef", 3, datatype).packed()) == b"ace"


# Contiguous elements


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("count", [1, 3])
def test_contiguous_elements_are_in_place(size, count):
    memory = bytearray(range(40))
    layout = destination(memory, count, ucp.ucp_dt_make_contig(size))
    assert layout.length == size * count == layout.view.nbytes
    assert layout.views == (layout.view,)
    layout.view[:] = bytes(size * count)
    assert memory == bytes(size * count) + bytes(range(size * count, 40))


@pytest.mark.parametrize(
    "buffer",
    [
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.arange(6, dtype=">i4"),
        np.zeros(4, dtype=[("a", "<i4"), ("b", "<i2")]),
        np.arange(12).astype(ml_dtypes.bfloat16),
        np.array(1.5),
        memoryview(bytearray(24)).cast("i"),
    ],
    ids=["two dimensions", "byte order", "structures", "bfloat16", "a scalar", "a view of ints"],
)
def test_any_contiguous_buffer_is_bytes_in_place(buffer):
    whole = np.asarray(buffer)
    layout = source(buffer, whole.nbytes)
    assert bytes(layout.view) == whole.tobytes()
    assert (layout.view.format, layout.view.ndim) == ("B", 1)
    assert address_of(layout.view) == whole.ctypes.data


@pytest.mark.parametrize("buffer", [None, b"", np.zeros(0), 5])
@pytest.mark.parametrize("datatype", [8, 0x20, IOV])
def test_nothing_needs_no_buffer(buffer, datatype):
    layout = destination(buffer, 0, datatype)
    assert (layout.length, layout.views, layout.view.nbytes, bytes(layout.packed())) == (0, (), 0, b"")


def test_elements_of_no_bytes_need_no_buffer():
    assert source(None, 2**64 - 1, ucp.ucp_dt_make_contig(0)).length == 0


@pytest.mark.parametrize(
    ("buffer", "count", "message"),
    [
        (None, 1, "buffer: expected a buffer of 4 bytes, got None"),
        (bytearray(7), 2, "buffer: expected at least 8 bytes, got 7"),
        (bytearray(8), 2**62, "expected at least 18446744073709551616 bytes"),
        (bytearray(8), -1, r"count: expected 0 to 2\^64 - 1, got -1"),
        (bytearray(8), 2**64, "count: expected"),
        (bytearray(8), 1.0, "count: expected an integer"),
        (5, 1, "buffer: expected a buffer"),
        ("text", 1, "buffer: expected a buffer"),
        (np.zeros((4, 4))[:, 0], 1, "buffer: expected a contiguous buffer, got one with gaps"),
        (memoryview(bytes(16))[::2], 1, "buffer: expected a contiguous buffer, got one with gaps"),
        (np.array([None, None]), 1, "not of references"),
    ],
)
@pytest.mark.parametrize("layout", [source, destination])
def test_a_buffer_that_cannot_serve_is_refused(layout, buffer, count, message):
    with pytest.raises(ucp.UcsInvalidParamError, match=message):
        layout(buffer, count, ucp.ucp_dt_make_contig(4))


@pytest.mark.parametrize("buffer", [bytes(8), memoryview(bytearray(8)).toreadonly(), np.frombuffer(bytes(8), "u1")])
def test_what_is_read_only_is_sent_but_not_received_into(buffer):
    assert source(buffer, 8).length == 8
    with pytest.raises(ucp.UcsInvalidParamError, match="here: expected a writable buffer, got a read-only"):
        destination(buffer, 8, name="here")
    with pytest.raises(ucp.UcsInvalidParamError, match=r"buffer\[1\]\.buffer: expected a writable buffer"):
        destination([ucp.ucp_dt_iov_t(), ucp.ucp_dt_iov_t(buffer)], 2, IOV)


# Scattered memory


def test_entries_of_no_bytes_are_left_out_and_their_buffers_not_looked_at():
    one, two = bytearray(b"abc"), bytearray(b"defgh")
    entries = [
        ucp.ucp_dt_iov_t(None, 0),
        ucp.ucp_dt_iov_t(one, 2),
        ucp.ucp_dt_iov_t(object, 0),
        ucp.ucp_dt_iov_t(two),
    ]
    layout = destination(entries, 4, IOV)
    assert [bytes(view) for view in layout.views] == [b"ab", b"defgh"]
    assert layout.view is None
    assert bytes(layout.packed()) == b"abdefgh"
    assert layout.write(1, memoryview(b"1234")) == OK
    assert (one, two) == (b"a1c", b"234gh")


def test_one_entry_that_is_not_empty_is_in_place():
    memory = bytearray(b"abcd")
    layout = source((ucp.ucp_dt_iov_t(), ucp.ucp_dt_iov_t(memory, 3)), 2, IOV)
    assert address_of(layout.view) == address_of(memoryview(memory))
    assert layout.packed() is layout.view


def test_the_count_says_how_many_entries_there_are():
    entries = [ucp.ucp_dt_iov_t(b"ab"), ucp.ucp_dt_iov_t(b"cd"), "not looked at"]
    assert bytes(source(entries, 2, IOV).packed()) == b"abcd"


@pytest.mark.parametrize(
    ("buffer", "count", "message"),
    [
        ([ucp.ucp_dt_iov_t(b"ab")], 2, "buffer: expected 2 entries, got 1"),
        ([b"ab"], 1, r"buffer\[0\]: expected a ucp_dt_iov_t, got bytes"),
        (b"ab", 1, "buffer: expected a list of ucp_dt_iov_t, got bytes"),
        (None, 1, "buffer: expected a list of ucp_dt_iov_t, got NoneType"),
        (ucp.ucp_dt_iov_t(b"ab"), 1, "buffer: expected a list of ucp_dt_iov_t"),
        ([ucp.ucp_dt_iov_t(None, 1)], 1, r"buffer\[0\]\.buffer: expected a buffer of 1 bytes, got None"),
        ([ucp.ucp_dt_iov_t(b"ab", 3)], 1, r"buffer\[0\]\.buffer: expected at least 3 bytes, got 2"),
        ([ucp.ucp_dt_iov_t(b"ab", -1)], 1, r"buffer\[0\]\.length: expected 0 to"),
        ([ucp.ucp_dt_iov_t(5)], 1, r"buffer\[0\]\.buffer: expected a buffer"),
        ([ucp.ucp_dt_iov_t(np.zeros((2, 2))[:, 0])], 1, r"buffer\[0\]\.buffer: expected a contiguous buffer"),
    ],
)
def test_entries_that_cannot_serve_are_refused(buffer, count, message):
    with pytest.raises(ucp.UcsInvalidParamError, match=message):
        source(buffer, count, IOV)


def test_ranges_of_scattered_memory_are_those_of_its_bytes_in_one_piece():
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(300):
        pieces = [bytearray(rng.randbytes(rng.choice((0, 1, 2, 5, 9)))) for _ in range(rng.randrange(6))]
        layout = destination([ucp.ucp_dt_iov_t(piece) for piece in pieces], len(pieces), IOV)
        whole = bytearray(b"".join(pieces))
        begin, end = sorted(rng.choices(range(len(whole) + 1), k=2))
        found, new = memoryview(bytearray(end - begin)), rng.randbytes(end - begin)
        layout.read(begin, found)
        assert found == whole[begin:end], f"seed {seed}"
        layout.write(begin, memoryview(new))
        whole[begin:end] = new
        assert b"".join(pieces) == whole == layout.packed(), f"seed {seed}"


@pytest.mark.parametrize(("offset", "length"), [(0, 5), (4, 1), (5, 0), (-1, 1)])
def test_a_range_that_is_not_there_is_refused(offset, length):
    layout = destination([ucp.ucp_dt_iov_t(bytearray(2)), ucp.ucp_dt_iov_t(bytearray(2))], 2, IOV)
    for call in (layout.read, layout.write):
        with pytest.raises(ValueError, match="expected a range within 4 bytes"):
            call(offset, memoryview(bytearray(length)))


# What the application packs


def test_packing_asks_for_what_is_missing_until_all_is_there(every):
    kind, datatype = every(most=2)
    with source(b"a-b-c-d-e-", 5, datatype) as layout:
        assert (layout.length, layout.view, layout.views) == (5, None, ())
        assert bytes(layout.packed()) == b"abcde"
    assert kind.calls == [
        ("start_pack", "the context", 5), ("packed_size",),
        ("pack", 0, 2), ("pack", 2, 2), ("pack", 4, 1), ("finish",),
    ]  # fmt: skip


def test_packing_goes_on_from_packet_to_packet(every):
    kind, datatype = every()
    chunks = []
    with source(b"a-b-c-d-e-", 5, datatype) as layout:
        for offset, length in ((0, 2), (2, 2), (4, 1)):
            chunk = bytearray(length)
            layout.read(offset, memoryview(chunk))
            chunks.append(bytes(chunk))
    assert chunks == [b"ab", b"cd", b"e"]
    assert [call[1] for call in kind.calls if call[0] == "pack"] == [0, 2, 4]


def test_unpacking_gets_what_has_come_in_its_order(every):
    kind, datatype = every()
    memory = bytearray(b"----------")
    with destination(memory, 5, datatype) as layout:
        assert layout.write(0, memoryview(b"ab")) == OK
        assert layout.write(2, memoryview(b"cde")) == OK
    assert memory == b"a-b-c-d-e-"
    assert kind.calls == [
        ("start_unpack", "the context", 5), ("packed_size",), ("unpack", 0, 2), ("unpack", 2, 3), ("finish",),
    ]  # fmt: skip


def raising(error):
    def answer():
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda: ucp.UCS_ERR_NO_MEMORY, ucp.UCS_ERR_NO_MEMORY),
        (lambda: -19, ucp.UCS_ERR_OUT_OF_RANGE),
        (lambda: 1, ucp.UCS_ERR_IO_ERROR),
        (lambda: "done", ucp.UCS_ERR_IO_ERROR),
        (lambda: -777, ucp.UCS_ERR_IO_ERROR),
        (raising(ucp.UcsBusyError("later")), ucp.UCS_ERR_BUSY),
        (raising(MemoryError()), ucp.UCS_ERR_NO_MEMORY),
        (raising(ZeroDivisionError()), ucp.UCS_ERR_IO_ERROR),
    ],
)
def test_the_first_error_of_unpacking_stays_and_ends_it(every, answer, status):
    kind, datatype = every(answer=answer)
    with destination(bytearray(10), 5, datatype) as layout:
        assert layout.write(0, memoryview(b"ab")) is status
        assert layout.write(2, memoryview(b"c")) is status
        assert layout.status is status
    assert kind.names == ["start_unpack", "packed_size", "unpack", "finish"]


def test_what_unpacking_raised_is_kept(every):
    error = ZeroDivisionError("nothing to divide by")
    with destination(bytearray(10), 5, every(answer=raising(error))[1]) as layout:
        layout.write(0, memoryview(b"ab"))
        assert layout.error is error


def test_an_unpacking_function_that_returns_nothing_has_succeeded(every):
    kind, datatype = every(answer=lambda: None)
    with destination(bytearray(10), 5, datatype) as layout:
        assert layout.write(0, memoryview(b"abcde")) is OK
    assert "unpack" in kind.names


@pytest.mark.parametrize("answer", [0, -1, 6, None, "2", 2.0])
def test_a_packing_function_that_packs_nothing_or_too_much_is_refused(every, answer):
    kind, _ = every()
    kind.ops.pack = lambda state, offset, dest, most: answer
    datatype = ucp.ucp_dt_create_generic(kind.ops, None)
    with (
        source(b"a-b-c-d-e-", 5, datatype) as layout,
        pytest.raises(ucp.UcsInvalidParamError, match=r"pack\(\): expect"),
    ):
        layout.packed()
    assert kind.names[-1] == "finish"
    ucp.ucp_dt_destroy(datatype)


@pytest.mark.parametrize("answer", [-1, 1.5, None, 2**64])
def test_a_packed_size_that_is_none_is_refused_and_finished(every, answer):
    kind, _ = every()
    kind.ops.packed_size = lambda state: answer
    datatype = ucp.ucp_dt_create_generic(kind.ops, None)
    for layout in (source, destination):
        kind.calls.clear()
        with pytest.raises(ucp.UcsInvalidParamError, match=r"packed_size\(\): expected"):
            layout(bytearray(10), 5, datatype)
        assert kind.names[1:] == ["finish"]
    ucp.ucp_dt_destroy(datatype)


def test_what_does_not_start_is_not_finished(every):
    kind, _ = every()
    kind.ops.start_pack = lambda context, buffer, count: 1 // 0
    datatype = ucp.ucp_dt_create_generic(kind.ops, None)
    with pytest.raises(ZeroDivisionError):
        source(b"a-b-", 2, datatype)
    assert kind.calls == []
    ucp.ucp_dt_destroy(datatype)


def test_finish_is_called_once_however_often_the_operation_ends(every):
    kind, datatype = every()
    layout = destination(bytearray(10), 5, datatype)
    for _ in range(3):
        layout.finish()
    assert kind.names == ["start_unpack", "packed_size", "finish"]


def test_finish_is_called_when_the_operation_breaks_off(every):
    kind, datatype = every()
    with pytest.raises(RuntimeError), source(b"a-b-", 2, datatype):
        raise RuntimeError("canceled")
    assert kind.names == ["start_pack", "packed_size", "finish"]


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_chunks_out_of_order_are_a_mistake_of_the_driver(every, offset):
    chunk = memoryview(bytearray(1))
    for layout, name in (
        (source(b"a-b-c-", 3, every()[1]), "read"),
        (destination(bytearray(6), 3, every()[1]), "write"),
    ):
        transfer = getattr(layout, name)
        transfer(0, chunk)
        transfer(1, chunk)
        with pytest.raises(ValueError, match=r"expected what follows byte 2|expected a range within 3 bytes"):
            transfer(offset, chunk)
        layout.finish()


def test_nothing_is_packed_after_the_end(every):
    layout = source(b"a-b-", 2, every()[1])
    layout.finish()
    with pytest.raises(ValueError, match=r"before finish\(\)"):
        layout.read(0, memoryview(bytearray(1)))


def test_a_generic_datatype_of_no_bytes_starts_and_finishes(every):
    kind, datatype = every()
    with source(b"", 0, datatype) as layout:
        assert (layout.length, layout.view.nbytes, bytes(layout.packed())) == (0, 0, b"")
    with destination(bytearray(), 0, datatype) as layout:
        assert layout.write(0, memoryview(b"")) is OK
    assert kind.names == ["start_pack", "packed_size", "finish", "start_unpack", "packed_size", "finish"]
