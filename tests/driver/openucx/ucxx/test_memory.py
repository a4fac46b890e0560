"""Memory that peers use: put, get, atomics, flush, fence; keys that travel.

Covers ``openucx/ucxx/packed.py`` and ``openucx/ucxx/remote_memory.py``.
"""

import pickle

import amoeba.ucx as ucxx
import numpy as np
import pytest
from amoeba.openucx.ucp.status import UcsStatus

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE, pattern, run_program

OPS = ("add", "and", "or", "xor", "swap")


def _reference(op: str, before: int, value: int, bits: int) -> int:
    mask = (1 << bits) - 1
    return {
        "add": before + value & mask,
        "and": before & value,
        "or": before | value,
        "xor": before ^ value,
        "swap": value,
    }[op]


@pytest.mark.parametrize("size", [1, 8, 64, 65, 5000])
def test_what_is_put_can_be_got(everywhere, size):
    memory = everywhere.contexts[1].alloc(8192)
    key = ucxx.RemoteKey(pickle.loads(pickle.dumps(memory.pack())))
    data = pattern(size)
    everywhere.ab.put(data, key, 100).result(PATIENCE)
    everywhere.ab.flush().result(PATIENCE)
    assert bytes(memory.view[100 : 100 + size]) == bytes(data)
    assert not any(memory.view[:100])
    assert not any(memory.view[100 + size :])
    received = bytearray(size)
    assert everywhere.ab.get(received, key, address=memory.address + 100).result(PATIENCE) is received
    assert received == bytes(data)
    memory.close()


@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.uint64, np.int64])
def test_atomics_do_what_integers_do(parties, dtype):
    bits = 8 * np.dtype(dtype).itemsize
    random = np.random.default_rng(bits)
    numbers = np.zeros(4, dtype)
    memory = parties.contexts[1].map(numbers)
    remote = parties.ab.unpack_rkey(memory.pack())
    for op in OPS:
        start = random.integers(0, 2**bits, 4, np.uint64).astype(f"u{bits // 8}")
        numbers[:] = start.view(dtype)
        value = random.integers(0, 2**bits, 1, np.uint64).astype(f"u{bits // 8}").view(dtype)[0]
        before = remote.atomic(op, value, numbers.itemsize * 2, reply=True).result(PATIENCE)
        assert before == start.view(dtype)[2]
        expected = start.copy()
        expected[2] = _reference(op, int(start[2]), int(value) % (1 << bits), bits)
        assert (numbers.view(expected.dtype) == expected).all(), f"{op} of {dtype}"


@pytest.mark.full_build
def test_atomics_of_every_form_on_every_pair_of_devices(everywhere):
    numbers = np.arange(8, dtype=np.uint64)
    memory = everywhere.contexts[1].map(numbers)
    remote = everywhere.ab.unpack_rkey(memory.pack())
    posted = remote.atomic(ucxx.AtomicOp.ADD, 10)
    assert posted.completed
    everywhere.ab.flush().result(PATIENCE)
    assert numbers[0] == 10
    reply = np.zeros(3, np.uint64)
    values = np.array([100, 200, 300], np.uint64)
    assert remote.atomic("add", values, 8, reply=reply).result(PATIENCE) is reply
    assert list(reply) == [1, 2, 3]
    assert list(numbers[1:4]) == [101, 202, 303]
    assert remote.atomic("cswap", 7, 32, compare=5).result(PATIENCE) == 4
    assert numbers[4] == 4
    assert remote.atomic("cswap", 7, 32, compare=4).result(PATIENCE) == 4
    assert numbers[4] == 7
    assert remote.atomic("swap", np.float64(1.5), 40).result(PATIENCE).view(np.uint64) == 5
    assert numbers.view(np.float64)[5] == 1.5
    assert remote.atomic("or", 0xFF, 48, size=4, reply=True).result(PATIENCE) == 6
    assert numbers[6] == 0xFF
    remote.close()
    memory.close()


def test_compare_and_swap_of_arrays_compares_each(parties):
    numbers = np.array([1, 2, 3, 4], np.uint32)
    memory = parties.contexts[1].map(numbers)
    remote = parties.ab.unpack_rkey(memory.pack())
    new, compare = np.array([[10, 20], [30, 40]], np.uint32), np.array([1, 0, 3, 0], np.uint32)
    before = remote.atomic("cswap", new, compare=compare).result(PATIENCE)
    assert before.shape == (2, 2)
    assert before.ravel().tolist() == [1, 2, 3, 4]
    assert numbers.tolist() == [10, 2, 30, 4]
    assert remote.atomic("cswap", new, compare=np.uint32(4)).result(PATIENCE).ravel().tolist() == [10, 2, 30, 4]
    assert numbers.tolist() == [10, 2, 30, 40]


def test_batches_have_one_request_for_a_thousand_operations(parties):
    random = np.random.default_rng(3)
    numbers = random.integers(0, 1 << 60, 4000, np.uint64)
    expected = numbers.copy()
    memory = parties.contexts[1].map(numbers)
    remote = parties.ab.unpack_rkey(memory.pack())
    places = random.permutation(4000)[:1000]
    values = random.integers(0, 1 << 60, 1000, np.uint64)
    remote.put_batch(values, 8 * places).result(PATIENCE)
    expected[places] = values
    assert (numbers == expected).all()
    into = np.zeros(1000, np.uint64)
    assert remote.get_batch(into, 8 * places).result(PATIENCE) is into
    assert (into == values).all()
    with_repeats = random.integers(0, 4000, 1000)
    remote.atomic_batch("add", values, 8 * with_repeats).result(PATIENCE)
    np.add.at(expected, with_repeats, values)
    assert (numbers == expected).all()
    before = remote.atomic_batch("swap", into, 8 * places, reply=True).result(PATIENCE)
    assert (before == expected[places]).all()
    assert (numbers[places] == into).all()
    for wrong in (-1 * places - 1, 8.0 * places, places[:5]):
        with pytest.raises(ucxx.UCXInvalidParamError):
            remote.put_batch(values, wrong)
    with pytest.raises(ucxx.UCXError):
        remote.get_batch(into[:2], [0, 8 * 4000]).result(PATIENCE)


def test_counts_of_many_adders_are_exact(parties):
    counter = np.zeros(1, np.uint64)
    memory = parties.contexts[1].map(counter)
    key = memory.pack()
    others = [ucxx.Endpoint.create_from_worker_address(parties.a, parties.b.address) for _ in range(3)]
    for _ in range(50):
        for endpoint in (parties.ab, *others):
            endpoint.atomic("add", 1, key)
    parties.a.flush().result(PATIENCE)
    assert counter[0] == 200


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        (("multiply", 1), {}, "op: expected one of"),
        (("add", 1.5), {}, "value"),
        (("add", np.float64(1)), {}, "integers"),
        (("add", np.uint16(1)), {}, "4 or 8 bytes"),
        (("add", np.zeros(0, np.uint32)), {}, "none"),
        (("add", 1 << 64), {}, "8 bytes"),
        (("add", 1), {"size": 2}, "size"),
        (("add", np.uint32(1)), {"size": 8}, "8 bytes"),
        (("add", 1), {"compare": 1}, "compares nothing"),
        (("cswap", 1), {}, "compare"),
        (("cswap", np.uint32(1)), {"compare": np.uint64(1)}, "compare"),
        (("swap", 1), {"reply": False}, "need"),
        (("add", 1), {"reply": bytearray(4)}, "reply"),
        (("add", 1, 3), {}, "multiple|align"),
    ],
)
def test_atomics_that_cannot_be_meant_are_refused(parties, arguments, named, words):
    memory = parties.contexts[1].alloc(64)
    remote = parties.ab.unpack_rkey(memory.pack())
    with pytest.raises(ucxx.UCXInvalidParamError, match=words):
        remote.atomic(*arguments, **named)
    parties.ab.flush().result(PATIENCE)
    assert not any(memory.view)


def test_what_lies_outside_or_may_not_be_written_is_refused_by_the_peer(parties):
    read_only = parties.contexts[1].map(bytes(range(64)))
    remote = parties.ab.unpack_rkey(read_only.pack())
    assert remote.get(bytearray(4), 10).result(PATIENCE) == bytes(range(10, 14))
    with pytest.raises(ucxx.UCXRejectedError):
        remote.put(bytes(100)).result(PATIENCE)
    with pytest.raises(ucxx.UCXError):
        remote.get(bytearray(65)).result(PATIENCE)
    read_only.close()
    with pytest.raises(ucxx.UCXRejectedError):
        remote.get(bytearray(4)).result(PATIENCE)


def test_a_flush_tells_of_puts_that_failed(parties):
    memory = parties.contexts[1].alloc(64)
    key = memory.pack()
    memory.close()
    assert parties.ab.put(b"gone", key).completed
    with pytest.raises(ucxx.UCXRejectedError):
        parties.ab.flush().result(PATIENCE)
    parties.ab.flush().result(PATIENCE)


@pytest.mark.parametrize("kind", ["put", "get", "fetch_add", "put_batch", "get_batch"])
@pytest.mark.parametrize("end", ["force", "abort", "attempts"])
def test_a3_a_forced_close_cancels_operations_and_the_flushes_behind_them(parties, kind, end):
    size = 1 << 19
    memory = np.zeros(size, np.uint8)
    handle = parties.contexts[1].map(memory)
    remote = parties.ab.unpack_rkey(handle.pack())
    local = np.full(size, 7, np.uint8)
    offsets, rows = 64 * np.arange(4096), local[: 64 * 4096].reshape(-1, 64)
    if kind == "put":
        requests = [remote.put(local)]
    elif kind == "get":
        requests = [remote.get(local)]
    elif kind == "fetch_add":
        requests = [remote.atomic("add", 1, 0, reply=local[8 * at : 8 * at + 8]) for at in range(2000)]
    elif kind == "put_batch":
        requests = [remote.put_batch(rows, offsets)]
    else:
        requests = [remote.get_batch(rows, offsets)]
    flushes = [parties.ab.flush(), parties.a.flush()]
    if end == "force":
        parties.ab.close(force=True)
    elif end == "abort":
        parties.ab.abort()
    else:
        parties.ab.close_blocking(period=0, max_attempts=1)
    assert {each.status for each in (requests[-1], *flushes)} == {UcsStatus.UCS_ERR_CANCELED}
    assert all(each.completed for each in requests)
    local[:] = 0xEE
    for _ in range(300):
        parties.a.progress()
        parties.b.progress()
    assert not (memory == 0xEE).any()
    assert (local == 0xEE).all()


def test_a_fence_keeps_what_follows_behind(parties):
    numbers = np.zeros(2, np.uint64)
    memory = parties.contexts[1].map(numbers)
    key = memory.pack()
    other = ucxx.Endpoint.create_from_worker_address(parties.a, parties.b.address)
    for round_number in range(1, 20):
        parties.ab.put(np.uint64(round_number), key)
        parties.ab.fence()
        seen = other.get(np.zeros(1, np.uint64), key).result(PATIENCE)
        assert seen[0] == round_number


def test_memory_is_an_array_and_a_file(parties):
    memory = parties.contexts[1].alloc(100)
    assert len(memory) == memory.nbytes == 100
    assert np.asarray(memory).shape == (100,)
    np.asarray(memory)[:] = 1
    assert set(memory.view) == {1}
    file = parties.ab.unpack_rkey(memory.pack()).open()
    assert file.write(b"written") == 7
    assert file.tell() == 7
    assert bytes(memory.view[:8]) == b"written\x01"
    file.seek(-3, 2)
    assert file.write(b"too long") == 3
    assert bytes(memory.view[-3:]) == b"too"
    assert file.read(10) == b""
    file.seek(0)
    assert file.read(7) == b"written"
    assert file.seek(3, 1) == 10
    with pytest.raises(ValueError, match="negative"):
        file.seek(-1)


def test_keys_are_bytes_that_say_where_and_how_much(parties):
    memory = parties.contexts[1].alloc(300)
    key = memory.pack_rkey()
    again = ucxx.RemoteKey.create_from_buffer(memoryview(bytes(key)))
    assert again == key
    assert hash(again) == hash(key)
    assert again.tobytes() == bytes(key)
    assert key.length == len(key)
    assert (key.address, key.size) == (memory.address, 300)
    for wrong in (b"", bytes(len(key)), bytes(key)[:-1], "text"):
        with pytest.raises(ucxx.UCXInvalidParamError):
            ucxx.RemoteKey(wrong)
    with pytest.raises(ucxx.UCXInvalidParamError):
        parties.ab.unpack_rkey(b"nonsense")


_OTHER = """
import pickle, sys
import numpy as np
import amoeba.ucx as ucxx
address, key = pickle.loads(bytes.fromhex(sys.stdin.readline()))
worker = ucxx.Worker(ucxx.Context())
endpoint = ucxx.Endpoint.create_from_worker_address(worker, address)
before = endpoint.get(np.zeros(4, np.uint64), key).result(60)
endpoint.put(before * 2, key, 32).result(60)
fetched = endpoint.atomic("add", np.uint64(5), key, reply=True).result(60)
endpoint.flush().result(60)
endpoint.close_blocking()
print(int(fetched), flush=True)
"""


def test_a_pickled_key_serves_another_process():
    with ucxx.Context() as context, ucxx.Worker(context) as worker:
        memory = context.alloc(64)
        numbers = np.asarray(memory).view(np.uint64)
        numbers[:4] = (1, 2, 3, 4)
        other = run_program(_OTHER)
        assert other.stdin is not None
        other.stdin.write(pickle.dumps((worker.address, memory.pack())).hex() + "\n")
        other.stdin.flush()
        while other.poll() is None:
            worker.progress()
        out, errors = other.communicate()
        assert (out, other.returncode) == ("1\n", 0), errors
        assert numbers.tolist() == [6, 2, 3, 4, 2, 4, 6, 8]
