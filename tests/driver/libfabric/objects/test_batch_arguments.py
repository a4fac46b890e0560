"""A batch is refused as a whole, before anything is posted, and the error names the operation.

Covers ``libfabric/objects/operations/batch_arguments.py``.
"""

import numpy as np
import pytest
from amoeba import BATCH_STATUS, ArgumentTypeError, Datatype, Errno, MrAccess, Op, OpFlags

from tests.driver.batching import WORDS, opened
from tests.driver.endpoints import refused

COUNT = 40


@pytest.fixture
def scene():
    with opened("model,model,model") as scene:
        yield scene
        # nothing has been posted, granted or reported
        assert scene.endpoint.tx_size_left == 64
        assert not scene.endpoint._rings.batches.live
        assert scene.queue.read() == []
        scene.check()


@pytest.fixture
def words():
    return np.arange(COUNT, dtype=np.uint64)


def spoiled(value, at, wrong):
    array = np.full(COUNT, value)
    array[at] = wrong
    return array


def test_an_unknown_peer_is_named_by_its_first_operation(scene, words):
    peers = spoiled(scene.peer, [7, 30], 99)
    with refused(Errno.FI_EINVAL, "operation 7: .*99"):
        scene.endpoint.write_batch(words, peers, *scene.to[1:])
    with refused(Errno.FI_EINVAL, "operation 30: .*4294967296"):
        scene.endpoint.write_batch(words, spoiled(scene.peer, 30, 1 << 32), *scene.to[1:])


@pytest.mark.parametrize("name", ["dest_addr", "addr", "key", "index"])
def test_a_negative_number_is_named_with_its_place(scene, words, name):
    given = {"dest_addr": scene.peer, "addr": 0, "key": 1, "index": 1} | {name: spoiled(1, 12, -5)}
    with refused(Errno.FI_EINVAL, rf"{name}\[12\]: .*-5"):
        scene.endpoint.write_batch(words, **given)
    with refused(Errno.FI_EINVAL, rf"{name}\[12\]: "):
        scene.endpoint.write_batch(words, **given | {name: given[name].tolist()})


@pytest.mark.parametrize(
    "wrong", [1.0, "1", True, None, Op.FI_SUM, np.ones(COUNT), np.ones(COUNT, bool), [1.0] * COUNT], ids=str
)
@pytest.mark.parametrize("name", ["dest_addr", "addr", "key"])
def test_what_is_no_integer_is_refused(scene, words, name, wrong):
    given = {"dest_addr": scene.peer, "addr": 0, "key": 1} | {name: wrong}
    with pytest.raises(ArgumentTypeError, match=rf"^FI_EINVAL: {name}"):
        scene.endpoint.write_batch(words, **given)


def test_an_index_beyond_all_addresses_is_named(scene, words):
    indices = np.arange(COUNT)
    indices[9] = 1 << 61
    with refused(Errno.FI_EINVAL, "operation 9: index 2305843009213693952"):
        scene.endpoint.write_batch(words, scene.peer, 1 << 63, 1, index=indices)


def test_arguments_that_disagree_about_the_number_of_operations_are_told_apart(scene, words):
    with refused(Errno.FI_EINVAL, "addr or index for 39, buf for 40"):
        scene.endpoint.write_batch(words, *scene.to, index=np.arange(39))
    with refused(Errno.FI_EINVAL, "key for 3.*result for 40"):
        scene.endpoint.read_batch(words, scene.peer, 0, [1, 2, 3])
    with refused(Errno.FI_EINVAL, "one dimension"):
        scene.endpoint.write_batch(words, scene.peer, np.zeros((4, 10), int), 1)


def test_rows_of_operands_compare_values_and_results_must_be_as_long(scene, words):
    pairs = np.zeros((COUNT, 2), np.uint64)
    with refused(Errno.FI_EINVAL, "result: expected rows of 8 bytes, got 16"):
        scene.endpoint.fetch_atomic_batch(words, pairs, *scene.to, Op.FI_SUM)
    with refused(Errno.FI_EINVAL, "compare: expected rows of 8 bytes, got 16"):
        scene.endpoint.compare_atomic_batch(words, pairs, words, *scene.to, Op.FI_CSWAP)
    with refused(Errno.FI_EINVAL, "elements of 8 bytes, got rows of 4 bytes"):
        scene.endpoint.atomic_batch(np.zeros((3, 4), np.uint8), *scene.to, Op.FI_SUM, Datatype.FI_UINT64)


def test_datatypes_that_contradict_each_other_are_refused(scene, words):
    with refused(Errno.FI_EINVAL, "expected FI_INT64, got FI_UINT64"):
        scene.endpoint.atomic_batch(words, *scene.to, Op.FI_SUM, Datatype.FI_INT64)
    with refused(Errno.FI_EINVAL, "result: expected FI_UINT64, got FI_DOUBLE"):
        scene.endpoint.fetch_atomic_batch(words, words.astype(float), *scene.to, Op.FI_SUM)
    with pytest.raises(ArgumentTypeError, match="byte order"):
        scene.endpoint.atomic_batch(words.astype(">u8"), *scene.to, Op.FI_SUM)
    with pytest.raises(ArgumentTypeError):
        scene.endpoint.atomic_batch(words, *scene.to, Datatype.FI_UINT64, Op.FI_SUM)


def test_what_is_no_memory_of_numbers_is_refused(scene, words):
    for wrong in (None, "text", [1, 2], np.array([{}] * COUNT)):
        with pytest.raises(ArgumentTypeError, match=r"^FI_EINVAL: buf"):
            scene.endpoint.write_batch(wrong, *scene.to)
        with pytest.raises(ArgumentTypeError, match=r"^FI_EINVAL: buf"):
            scene.endpoint.read_batch(wrong, *scene.to)
        with pytest.raises(ArgumentTypeError, match=r"^FI_EINVAL: result"):
            scene.endpoint.fetch_atomic_batch(words, wrong, *scene.to, Op.FI_SUM)
    words.flags.writeable = False
    with refused(Errno.FI_EINVAL, "buf: expected a writable buffer"):
        scene.endpoint.read_batch(words, *scene.to)
    with refused(Errno.FI_EINVAL, "buf: expected a contiguous buffer"):
        scene.endpoint.read_batch(np.zeros(80, np.uint64)[::2], *scene.to)
    with refused(Errno.FI_EINVAL, "rows of one byte"):
        scene.endpoint.write_batch(np.zeros((4, 0)), *scene.to)


def test_a_region_must_hold_the_rows_and_allow_their_use(scene, words, keep):
    region = keep(scene.domain.mr_reg(words[:20], MrAccess.FI_READ))
    with refused(Errno.FI_EINVAL, "320 bytes lies outside"):
        scene.endpoint.read_batch(words, *scene.to, desc=region)
    with refused(Errno.FI_EACCES):
        scene.endpoint.write_batch(words[:20].reshape(10, 2), *scene.to, desc=region)
    region.close()
    with refused(Errno.FI_EBADF):
        scene.endpoint.read_batch(words[:20], *scene.to, desc=region)


def test_what_the_nic_does_not_execute_is_refused(scene, words):
    with refused(Errno.FI_EOPNOTSUPP):
        scene.endpoint.atomic_batch(words.astype(float), *scene.to, Op.FI_BXOR)


@pytest.mark.parametrize("flag", [OpFlags.FI_TRIGGER, OpFlags.FI_COMMIT_COMPLETE, OpFlags.FI_REMOTE_CQ_DATA])
def test_flags_that_make_no_sense_for_batches_are_refused(scene, words, flag):
    with refused(Errno.FI_EBADFLAGS):
        scene.endpoint.write_batch(words, *scene.to, flags=flag)


def test_batches_do_not_pass_over_that_an_endpoint_commits_everything(scene, words):
    scene.endpoint.op_flags = OpFlags.FI_COMMIT_COMPLETE
    with refused(Errno.FI_EBADFLAGS, "committed"):
        scene.endpoint.write_batch(words, *scene.to)


@pytest.mark.parametrize("status", [np.zeros(39, BATCH_STATUS), np.zeros(40, np.uint8), [], "status"])
def test_a_status_needs_one_place_for_each_operation(scene, words, status):
    with refused(Errno.FI_EINVAL, "status: expected a writable array of 40 BATCH_STATUS"):
        scene.endpoint.write_batch(words, *scene.to, status=status)


def test_an_endpoint_that_is_not_enabled_posts_nothing(scene, words, keep):
    endpoint = keep(scene.domain.endpoint())
    with refused(Errno.FI_EOPBADSTATE):
        endpoint.write_batch(words, *scene.to)
    with refused(Errno.FI_EOPBADSTATE):
        endpoint.atomic_batch(words, *scene.to, Op.FI_SUM)
    endpoint.close()
    with refused(Errno.FI_EBADF):
        endpoint.array(*scene.to[:1], scene.to[1:], np.uint64, 4)


def test_a_remote_array_must_fit_and_hold_numbers(scene):
    with refused(Errno.FI_EINVAL, "520 bytes.*512 bytes"):
        scene.endpoint.array(scene.peer, scene.others[0], np.uint64, WORDS + 1)
    with refused(Errno.FI_EINVAL, "dtype"):
        scene.endpoint.array(scene.peer, scene.others[0], object, 4)
    with refused(Errno.FI_EINVAL, "shape"):
        scene.endpoint.array(scene.peer, scene.others[0], np.uint64, (4, -1))
    for wrong in (5, (1, 2, 3), None):
        with pytest.raises(ArgumentTypeError, match="region"):
            scene.endpoint.array(scene.peer, wrong, np.uint64, 4)
    with pytest.raises(TypeError):
        scene.endpoint.array(scene.peer, scene.others[0], np.uint64, 4.0)
