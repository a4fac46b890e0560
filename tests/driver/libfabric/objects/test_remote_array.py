"""A peer's memory as an array, against NumPy on the same memory."""

import re
import threading
from pathlib import Path

import amoeba
import numpy as np
import pytest
from amoeba import Errno, Op, Progress, ProtectionError, open_cluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.driver.batching import KINDS, WORDS, opened, scene_on
from tests.driver.endpoints import refused

SHAPE = (4, 8, 2)
RNG = np.random.default_rng(17)


def array_of(scene, shape=SHAPE):
    """(remote array, what it should be)."""
    return scene.endpoint.array(scene.peer, scene.others[0], np.uint64, shape), scene.expected[0].reshape(shape)


KEYS = [
    np.s_[:],
    np.s_[1],
    np.s_[-1, ..., 0],
    np.s_[1:3],
    np.s_[:, 2:6:2],
    np.s_[::-1, ::-3, 1],
    np.s_[3, 7, 1],
    np.s_[..., None, 1],
    np.s_[2:2],
    np.s_[None, :, 5],
    np.s_[:, :, :],
    np.s_[:-1, 1:],
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_slice_reads_and_writes_what_it_names(on_model, key):
    remote, expected = array_of(on_model)
    np.testing.assert_array_equal(remote[key], expected[key])
    assert np.shape(remote[key]) == expected[key].shape
    values = RNG.integers(0, 1 << 60, expected[key].shape, dtype=np.uint64)
    remote[key] = values
    expected[key] = values
    on_model.check()
    remote[key] = 9
    expected[key] = 9
    on_model.check()


def test_slices_and_updates_do_on_every_nic_what_numpy_does(scene):
    remote, expected = array_of(scene)
    remote[1:3, ::2] = np.arange(8, dtype=np.uint64)[:, None].reshape(4, 2)
    expected[1:3, ::2] = np.arange(8).reshape(4, 2)
    where = tuple(RNG.integers(-length, length, 60) for length in SHAPE)
    remote.add_at(where, 5)
    np.add.at(expected, where, 5)
    values = RNG.integers(0, 1 << 40, 60, dtype=np.uint64)
    remote.at(np.bitwise_xor, where, values)
    np.bitwise_xor.at(expected, where, values)
    remote.at(Op.FI_MAX, where, 7)
    np.maximum.at(expected, where, 7)
    scene.check()
    np.testing.assert_array_equal(remote[:], expected)
    np.testing.assert_array_equal(np.asarray(remote), expected)
    np.testing.assert_array_equal(remote[where], expected[where])


def test_fetch_add_tells_what_was_there_also_for_duplicates(scene):
    remote, expected = array_of(scene, WORDS)
    indices = RNG.integers(0, 4, (5, 8))
    old = remote.fetch_add(indices, 3)
    assert old.shape == (5, 8)
    for number, index in np.ndenumerate(indices):
        assert old[number] == expected[index]
        expected[index] += 3
    scene.check()
    assert remote.fetch_add(-1, 1) == expected[-1]
    expected[-1] += 1
    scene.check()


def test_compare_and_swap_swaps_where_it_finds_what_was_expected(scene):
    remote, expected = array_of(scene, WORDS)
    wanted = expected[:20].copy()
    wanted[::3] += 1
    before = expected[:20].copy()
    np.testing.assert_array_equal(remote.compare_and_swap(range(20), wanted, 77), before)
    expected[:20] = np.where(wanted == before, 77, before)
    scene.check()


def test_fetch_at_takes_any_operation(on_model):
    remote, expected = array_of(on_model, WORDS)
    np.testing.assert_array_equal(remote.fetch_at(np.minimum, [1, 5], [3, 3]), expected[[1, 5]])
    expected[[1, 5]] = 3
    on_model.check()
    with refused(Errno.FI_EOPNOTSUPP, "arctan2"):
        remote.at(np.arctan2, [1], [1])


def test_masks_and_arrays_choose_elements(on_model):
    remote, expected = array_of(on_model)
    mask = RNG.random(SHAPE) < 0.3
    np.testing.assert_array_equal(remote[mask], expected[mask])
    remote[mask] = 4
    expected[mask] = 4
    where = np.nonzero(mask)
    remote[where] = np.arange(len(where[0]))
    expected[where] = np.arange(len(where[0]))
    np.testing.assert_array_equal(remote[[3, 0, 3]], expected[[3, 0, 3]])
    np.testing.assert_array_equal(remote[[3, 0], [-1, 2]], expected[[3, 0], [-1, 2]])
    remote[mask[:, 0, 0]] = 1
    expected[mask[:, 0, 0]] = 1
    with pytest.raises(IndexError, match="stand alone"):
        remote[:, [0, 1]]
    remote.add_at([1, 1], 2)
    np.add.at(expected, [1, 1], np.uint64(2))
    remote.add_at(np.s_[1, ::2], [[1], [2], [3], [4]])
    np.add.at(expected, np.s_[1, ::2], np.array([[1], [2], [3], [4]], np.uint64))
    on_model.check()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (4, "index 4 is out of bounds for axis 0 with size 4"),
        ((0, -9), "index -9 is out of bounds for axis 1 with size 8"),
        ((0, 0, 0, 0), "too many indices"),
        ((..., ...), "single ellipsis"),
        (([0, 1], [0, 8], [0, 0]), "index 8 is out of bounds for axis 1 with size 8"),
        (([0, -5], [0, 0], [0, 0]), "index -5 is out of bounds for axis 0 with size 4"),
        (([0], [8]), "index 8 is out of bounds for axis 1 with size 8"),
        (([0.5], [0], [0]), "integer"),
        (np.ones(5, bool), "boolean index"),
    ],
)
def test_indices_that_numpy_refuses_are_refused_before_anything_is_done(on_model, key, words):
    remote, expected = array_of(on_model)
    for refuse in (
        lambda: remote[key],
        lambda: remote.__setitem__(key, 0),
        lambda: remote.add_at(key, 1),
        lambda: remote.fetch_add(key, 1),
        lambda: remote.compare_and_swap(key, 0, 1),
    ):
        with pytest.raises(IndexError, match=words):
            refuse()
    with pytest.raises(IndexError):
        expected[key]
    on_model.check()


def test_values_that_numpy_would_not_convert_are_refused(on_model):
    remote, _ = array_of(on_model, WORDS)
    for wrong in (1.5, np.array([1]), "a"):
        with pytest.raises((TypeError, ValueError)):
            remote.add_at([1], wrong)
    with pytest.raises(OverflowError):
        remote.add_at([1], -1)
    with pytest.raises(ValueError, match="broadcast"):
        remote.add_at([1, 2, 3], [1, 2])
    on_model.check()


@pytest.mark.parametrize("dtype", ["u1", "i4", "f8", "c16", np.dtype([("a", "u4"), ("b", "f4")])], ids=str)
def test_elements_may_be_of_any_size(on_model, dtype):
    remote = on_model.endpoint.array(on_model.peer, on_model.others[0], dtype, 10)
    expected = on_model.expected[0].view(np.uint8)[: 10 * remote.dtype.itemsize].view(dtype)
    np.testing.assert_array_equal(remote[::3], expected[::3])
    remote[2:9:2] = expected[:4]
    expected[2:9:2] = expected[:4].copy()
    on_model.check()


def test_an_array_says_what_it_is(on_model):
    remote, expected = array_of(on_model)
    assert (remote.shape, remote.ndim, remote.size, remote.nbytes, len(remote)) == (
        expected.shape, expected.ndim, expected.size, expected.nbytes, len(expected),
    )  # fmt: skip
    assert repr(remote) == f"<RemoteArray uint64 (4, 8, 2) of peer 0 at {on_model.addresses[0]:#x}>"
    scalar = on_model.endpoint.array(on_model.peer, on_model.others[0], np.uint64, ())
    assert scalar[()] == expected[0, 0, 0]
    scalar[...] = 5
    expected[0, 0, 0] = 5
    on_model.check()
    with pytest.raises(TypeError):
        len(scalar)


def test_an_error_names_the_element_and_the_queue_hears_nothing(on_model):
    peer, address, key = on_model.to
    remote = on_model.endpoint.array(peer, (address, key), np.uint64, 2 * WORDS)
    with refused(Errno.FI_EINVAL, r"2 of 4 operations failed, number 1 first, with BAD_ADDR"):
        remote[[0, WORDS, 1, WORDS + 1]]
    wrong = on_model.endpoint.array(peer, (address, key ^ 1), np.uint64, WORDS)
    with pytest.raises(ProtectionError):
        wrong.add_at([1, 2], 1)
    assert on_model.queue.read() == []
    on_model.check()


def test_completions_of_others_stay_for_those_who_read_the_queue(scene):
    remote, expected = array_of(scene, WORDS)
    peer, address, key = scene.to
    for number in range(5):
        scene.endpoint.atomic(np.array([1], np.uint64), peer, address, key, Op.FI_SUM, context=number)
    expected[0] += 5
    np.testing.assert_array_equal(remote[:], expected)
    assert [scene.finish().op_context for _ in range(5)] == list(range(5))


def test_threads_use_arrays_at_the_same_time_under_automatic_progress():
    with open_cluster(["model"] * 3, progress=Progress.FI_PROGRESS_AUTO) as fabric:
        scene = scene_on(fabric)
        remote, expected = array_of(scene, WORDS)
        old = []

        def count():
            for _ in range(10):
                old.extend(remote.fetch_add([0, 1, 0], 1)[[0, 2]])

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(old) == list(range(int(expected[0]), int(expected[0]) + 60))
        expected[:2] += np.array([60, 30], np.uint64)
        scene.check()


@pytest.fixture(scope="module")
def lasting():
    with opened(KINDS[0]) as scene:
        yield scene


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=arrays.basic_indices(SHAPE, allow_newaxis=True, allow_ellipsis=True), data=st.data())
def test_any_basic_index_names_what_it_names_in_numpy(lasting, key, data):
    remote, expected = array_of(lasting)
    np.testing.assert_array_equal(remote[key], expected[key])
    values = data.draw(arrays.arrays(np.uint64, np.shape(expected[key])))
    remote[key] = values
    expected[key] = values
    lasting.check()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=arrays.integer_array_indices(SHAPE, result_shape=arrays.array_shapes(max_dims=2, max_side=20)),
    amount=st.integers(0, 1 << 20),
)
def test_any_index_arrays_add_what_numpy_adds(lasting, key, amount):
    remote, expected = array_of(lasting)
    remote.add_at(key, amount)
    np.add.at(expected, key, np.uint64(amount))
    lasting.check()


def test_the_examples_in_the_documentation_run(on_model):
    page = (Path(__file__).parents[4] / "docs" / "libfabric.md").read_text()
    batches, array = re.findall(r"```python\n([^`]*(?:_batch\(|endpoint\.array)[^`]*)```", page)
    names = {name: getattr(amoeba, name) for name in amoeba.__all__} | {"np": np, "endpoint": on_model.endpoint}
    names |= dict(zip(("peer", "address", "key"), on_model.to, strict=True)) | {"queue": on_model.queue}
    exec(batches, names)
    assert (names["entry"].op_context, names["entry"].len) == ("added", 8000)
    assert names["failed"].tolist() == [3, 500]
    amounts = names["amounts"].copy()
    np.add.at(on_model.expected[0], names["indices"], amounts)
    amounts[[3, 500]] = 0
    np.add.at(on_model.expected[0], names["indices"], amounts)
    on_model.check()
    on_model.memories[0][:] = 0
    exec(array, names)
    expected = np.zeros((8, 8), np.uint64)
    expected[2:4, ::2] = 7
    expected[0] = 50
    expected[[5, 3, 6, 7], [2, 3, 6, 7]] = 30, 1, 1, 1
    np.testing.assert_array_equal(on_model.memories[0].reshape(8, 8), expected)
    assert (names["row"].tolist(), names["before"].tolist(), names["found"].tolist()) == ([0] * 8, [0], [0])
