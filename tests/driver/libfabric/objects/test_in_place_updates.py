"""In-place operators on a remote array: atomic updates where they are set back, plain arithmetic elsewhere.

Covers ``libfabric/objects/remote_value.py``.
"""

import copy
import math
import pickle
import re

import numpy as np
import pytest
from amoeba import Errno, RemoteValue, open_cluster, run_team
from amoeba.devices.devices import DEVICE_KINDS

from tests.driver.batching import KINDS, WORDS, scene_on
from tests.driver.endpoints import refused

OPERATORS = {
    "+=": np.add,
    "-=": np.subtract,
    "*=": np.multiply,
    "&=": np.bitwise_and,
    "|=": np.bitwise_or,
    "^=": np.bitwise_xor,
}
WITHOUT = ["/=", "//=", "%=", "**=", "<<=", ">>=", "@="]
TYPES = ["u1", "i2", "u4", "i8", "u8", "f4", "f8", "c8", "c16"]


@pytest.fixture(params=KINDS[:2])
def devices(request):
    return request.param


def array_of(scene, shape=WORDS, dtype=np.uint64):
    """(remote array, what it should be)."""
    words = scene.expected[0]
    expected = words.view(dtype)[: math.prod(np.atleast_1d(shape))].reshape(shape)
    return scene.endpoint.array(scene.peer, scene.others[0], dtype, shape), expected


def spied(remote, monkeypatch):
    """The opcodes of the batches that the array executes from here on."""
    opcodes, execute = [], remote._endpoint._execute
    monkeypatch.setattr(
        type(remote._endpoint),
        "_execute",
        lambda _, opcode, *args, **kwargs: opcodes.append(opcode.name) or execute(opcode, *args, **kwargs),
    )
    return opcodes


@pytest.mark.parametrize(
    ("kind", "times"), [("model", 100), ("rtl", 5), pytest.param("rtl", 100, marks=pytest.mark.long)]
)
def test_a5_increments_of_all_ranks_add_up(kind, times):
    def program(team):
        window = team.window((2, 2))
        for _ in range(times):
            window[0][0, 1] += 1
        team.barrier()
        return window.local.tolist()

    assert run_team(program, [kind] * 8) == [[[0, 8 * times], [0, 0]]] + [[[0, 0], [0, 0]]] * 7


@pytest.mark.parametrize("kind", DEVICE_KINDS)
def test_a5_slices_and_whole_arrays_of_a_window_add_up(kind):
    def program(team):
        window = team.window((3, 4), np.float64)
        for _ in range(10):
            window[0][1, ::2] += [1, 2]
            window[0][2] -= np.arange(4)
            window[0] += 0.5
        team.barrier()
        return window.local

    expected = np.full((3, 4), 0.5)
    expected[1, ::2] += [1, 2]
    expected[2] -= range(4)
    np.testing.assert_array_equal(run_team(program, [kind] * 3)[0], 30 * expected)


@pytest.mark.full_build
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_do_on_every_nic_what_numpy_does(scene, sign):
    remote, expected = array_of(scene, (4, 16))
    for target in ("a[1, 2]", "a[2]", "a[:, 3:9:2]", "a[[0, 3], [15, 0]]", "a[...]", "a"):
        for operand in ("5", "np.uint64(1 << 63)", "7"):
            for a in (remote, expected):
                exec(f"{target} {sign} {operand}", {"a": a, "np": np})
    scene.check()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_do_on_every_type_what_numpy_does(on_model, dtype, sign):
    remote, expected = array_of(on_model, 8, dtype)
    for memory in (on_model.memories[0], on_model.expected[0]):
        memory.view(dtype)[:8] = range(1, 9)
    if np.dtype(dtype).kind in "fc" and sign in ("&=", "|=", "^="):
        for target in ("a[1]", "a[1:]", "a"):
            with pytest.raises(TypeError, match="not supported for the input types"):
                exec(f"{target} {sign} 3", {"a": remote})
    else:
        for target in ("a[1]", "a[2:5]", "a"):
            for a in (remote, expected):
                exec(f"{target} {sign} np.array(3, a.dtype)", {"a": a, "np": np})
    on_model.check()


@pytest.mark.parametrize("sign", WITHOUT)
def test_operators_without_an_atomic_operation_are_refused(on_model, sign):
    remote, _ = array_of(on_model)
    targets = ("a",) if sign == "@=" else ("a[1]", "a[2:5]", "a")
    for target in targets:
        with pytest.raises(TypeError, match=re.escape(f"no atomic operation does {sign} on uint64. at(), add_at()")):
            exec(f"{target} {sign} 2", {"a": remote})
    on_model.check()


@pytest.mark.parametrize("dtype", [np.dtype([("a", "u4"), ("b", "f4")]), "?", "S8", ">u8", "M8[s]"], ids=str)
def test_types_without_atomics_are_refused(on_model, dtype):
    remote, _ = array_of(on_model, 4, dtype)
    for target in ("a[1]", "a[2:]", "a"):
        with pytest.raises(TypeError):
            exec(f"{target} |= a[0]", {"a": remote})
    on_model.check()


def test_operands_that_numpy_would_not_convert_are_refused(on_model):
    remote, _ = array_of(on_model)
    for target, operand, error, words in (
        ("a[1]", "0.5", TypeError, "same_kind"),
        ("a[1:3]", "np.array([1, 2])", TypeError, "same_kind"),
        ("a", "np.array([1])", TypeError, "same_kind"),
        ("a[1]", "-1", OverflowError, "out of bounds"),
        ("a[1]", "np.int64(-1)", OverflowError, "out of bounds"),
        ("a[1]", "[1, 2]", ValueError, "broadcast"),
        ("a[1:3]", "[1, 2, 3]", ValueError, "broadcast"),
        ("a[1]", "None", TypeError, "NoneType"),
        ("a[64]", "1", IndexError, "out of bounds"),
    ):
        with pytest.raises(error, match=words):
            exec(f"{target} += {operand}", {"a": remote, "np": np})
    on_model.check()


def test_an_element_takes_any_integer_that_fits(on_model):
    remote, expected = array_of(on_model)
    remote[3] += np.int64(5)
    remote[4] += np.array(6, np.int8)
    remote[5] += remote[6]
    expected[3:6] += np.array([5, 6, expected[6]], np.uint64)
    on_model.check()


def test_an_element_named_twice_is_updated_once_as_in_numpy(on_model):
    remote, expected = array_of(on_model)
    for a in (remote, expected):
        a[[1, 2, 1]] += np.array([1, 2, 3], np.uint64)
        a[[1, 1]] -= 5
    on_model.check()


def test_an_update_through_brackets_is_one_read_and_one_atomic(on_model, monkeypatch):
    remote, expected = array_of(on_model, (8, 8))
    opcodes = spied(remote, monkeypatch)
    remote[0, 0] += 1
    remote[1] += 1
    assert opcodes == ["READ", "ATOMIC"] * 2
    opcodes.clear()
    remote += 1
    remote.add_at(0, 1)
    assert opcodes == ["ATOMIC"] * 2
    expected[0, 0] += 1
    expected[1] += 1
    expected += 1
    expected[0] += 1
    on_model.check()
    opcodes.clear()
    remote[2:2] += 1
    assert opcodes == []


def test_a_value_is_read_once_and_stays_what_it_was(on_model, monkeypatch):
    remote, expected = array_of(on_model)
    opcodes = spied(remote, monkeypatch)
    value, row = remote[3], remote[2:5]
    before = expected[2:5].copy()
    remote[2:5] = 0
    assert (value, row.tolist(), value + 1) == (before[1], before.tolist(), before[1] + 1)
    assert opcodes == ["READ", "READ", "WRITE"]


def test_a_value_with_a_name_of_its_own_stays_local(on_model):
    remote, expected = array_of(on_model)
    total, row = remote[0], remote[:3]
    kept = row
    for _ in range(3):
        total += remote[1]
        total /= 2
        row += remote[1:4]
    assert total == (((expected[0] + expected[1]) / 2 + expected[1]) / 2 + expected[1]) / 2
    assert row.tolist() == (expected[:3] + 3 * expected[1:4]).tolist()
    assert kept.tolist() == expected[:3].tolist()
    on_model.check()


def test_what_is_set_elsewhere_or_changed_again_is_written(on_model, monkeypatch):
    remote, expected = array_of(on_model)
    opcodes = spied(remote, monkeypatch)
    value = remote[0]
    value += 1
    remote[1] = value  # elsewhere
    value = remote[2]
    value += 1
    value += 1
    remote[2] = value  # changed twice
    remote[3] = remote[3] + 1
    value = remote[4]
    value += 1
    remote[4] = value
    remote[4] = value  # an update takes effect once
    other = on_model.endpoint.array(on_model.peer, on_model.others[0], np.uint64, 8)
    value = remote[5]
    value += 1
    other[5] = value
    expected[1] = expected[0] + 1
    expected[2] += 2
    expected[3:6] += 1
    on_model.check()
    assert opcodes == ["READ", "WRITE"] * 3 + ["READ", "ATOMIC", "WRITE", "READ", "WRITE"]


def test_an_update_is_by_what_the_operand_was(on_model):
    remote, expected = array_of(on_model)
    row, operand = remote[:3], np.array([1, 2, 3], np.uint64)
    row += operand
    operand[:] = 99
    remote[:3] = row
    expected[:3] += np.array([1, 2, 3], np.uint64)
    on_model.check()


def test_values_are_read_only_so_that_no_update_is_lost(on_model):
    remote, expected = array_of(on_model, (4, 8))
    for statement in ("a[0][1] += 1", "a[0][1:3] += 1", "a[0][1] = 5", "a[0, 0][...] = 1"):
        with pytest.raises(ValueError, match=r"read-only: set elements by one pair of brackets.*copy\(\)"):
            exec(statement, {"a": remote})
    on_model.check()
    for own in (remote[0].copy(), copy.copy(remote[0]), copy.deepcopy(remote[0]), np.array(remote[0])):
        assert type(own) is np.ndarray
        own[1] += 1
        assert own[1] == expected[0, 1] + 1
    own = remote[0].astype(np.float64)
    own[1] += 1
    own += 1
    np.add(own, own, out=own)
    assert own[1] == 2 * (expected[0, 1] + 2)
    on_model.check()


def test_an_element_converts_where_a_number_is_needed(on_model):
    remote, expected = array_of(on_model)
    value, number = remote[7], expected[7]
    assert isinstance(value, RemoteValue)
    assert (int(value), float(value), complex(value), round(value), bool(value)) == (1007,) * 4 + (True,)
    assert (repr(value), str(value), f"{value:#06x}", f"{value}", hex(value)) == (
        repr(number), "1007", "0x03ef", "1007", "0x3ef",
    )  # fmt: skip
    assert (hash(value), {value: "found"}[1007]) == (hash(number), "found")
    assert [*range(2000)][value] == 1007
    for result in (value + 1, 1 + value, -value, value == 1007, value < 5, np.sqrt(value), np.maximum(value, 3)):
        assert isinstance(result, np.generic)
    assert (value % 10, value // 10, value > 1006, divmod(value, 10)) == (7, 100, True, (100, 7))
    assert (value.item(), value.dtype, value.shape, np.asarray(value).dtype) == (1007, np.uint64, (), np.uint64)
    assert (pickle.loads(pickle.dumps(value)), math.sqrt(value)) == (1007, math.sqrt(1007))
    assert sorted([remote[2], remote[1]]) == [1001, 1002]
    row = remote[:4]
    assert repr(row) == repr(expected[:4])
    assert type(row * 2) is np.ndarray
    assert row.sum() == expected[:4].sum()
    with pytest.raises(TypeError, match="unhashable"):
        hash(row)


def test_an_update_that_fails_raises_its_error_and_writes_nothing(on_model):
    peer, address, key = on_model.to
    remote = on_model.endpoint.array(peer, (address, key), np.uint64, 2 * WORDS)
    with refused(Errno.FI_EINVAL, "BAD_ADDR"):
        remote += 1
    on_model.expected[0] += 1
    on_model.check()


def test_arrays_of_a_window_are_not_replaced():
    def program(team):
        window = team.window(2)
        with pytest.raises(TypeError, match=r"window\[rank\]\[\.\.\.\] = values"):
            window[0] = 3
        window[0] ^= 6
        return window.local.tolist()

    assert run_team(program, ["model"]) == [[6, 6]]


def test_half_precision_updates_are_atomic_too():
    with open_cluster(["model"] * 3) as fabric:
        scene = scene_on(fabric, dtype=np.float16)
        remote = scene.endpoint.array(scene.peer, scene.others[0], np.float16, WORDS)
        for a in (remote, scene.expected[0]):
            a[3] -= 2
            a[4:6] *= 0.5
        scene.check()
