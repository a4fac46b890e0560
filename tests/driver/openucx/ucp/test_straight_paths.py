"""Usual calls take few steps. These tests hold them against the checked path: the same is done, the same refused.

A number that is NumPy's own, or an operation given as a plain number, is never taken by a straight path.
"""

import dataclasses
import random

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.openucx.ucp import request_params
from amoeba.openucx.ucp.calls import active_messages, atomics, rma

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.memheap import memheap

CONTIG = {size: ucp.ucp_dt_make_contig(size) for size in (1, 4, 8, 16)}
MANY = ucp.UCP_OP_ATTR_FLAG_MULTI_SEND
FIELDS = {
    name: getattr(ucp, f"UCP_OP_ATTR_FIELD_{name}")
    for name in ("REQUEST", "CALLBACK", "USER_DATA", "DATATYPE", "FLAGS", "REPLY_BUFFER", "MEMORY_TYPE", "RECV_INFO")
}
WAS = int.from_bytes(bytes(range(1, 9)), "little")
OPS = [getattr(ucp, f"UCP_ATOMIC_OP_{name}") for name in ("ADD", "SWAP", "CSWAP", "AND", "OR", "XOR")]
FETCH_OPS = [
    getattr(ucp, f"UCP_ATOMIC_FETCH_OP_{name}") for name in ("FADD", "SWAP", "CSWAP", "FAND", "FOR", "FXOR")
]
POST_OPS = [getattr(ucp, f"UCP_ATOMIC_POST_OP_{name}") for name in ("ADD", "AND", "OR", "XOR")]


def frozen(array):
    array.flags.writeable = False
    return array


BUFFERS = {
    "one uint64": lambda: np.full(1, 0x1122334455667788, np.uint64),
    "one uint32": lambda: np.full(1, 0x11223344, np.uint32),
    "two uint32": lambda: np.arange(2, dtype=np.uint32),
    "no dimension": lambda: np.array(7, np.uint64),
    "float64": lambda: np.ones(1),
    "complex64": lambda: np.ones(1, np.complex64),
    "big endian": lambda: np.ones(1, ">u8"),
    "eight bools": lambda: np.ones(8, np.bool_),
    "date": lambda: np.zeros(1, "M8[s]"),
    "structure": lambda: np.zeros(1, [("a", "u4"), ("b", "u4")]),
    "object": lambda: np.array([None], object),
    "structure with an object": lambda: np.zeros(1, [("a", object)]),
    "with gaps": lambda: np.arange(8, dtype=np.uint32)[::2],
    "one of many": lambda: np.arange(8, dtype=np.uint64)[3:4],
    "read-only": lambda: frozen(np.ones(1, np.uint64)),
    "empty": lambda: np.zeros(0, np.uint64),
    "two uint64": lambda: np.arange(2, dtype=np.uint64),
    "scalar": lambda: np.uint64(9),
    "subclass": lambda: np.ones(1, np.uint64).view(np.recarray),
    "bytes": lambda: bytes(range(8)),
    "four bytes": lambda: bytes(range(4)),
    "bytearray": lambda: bytearray(range(8)),
    "four bytes, writable": lambda: bytearray(range(4)),
    "long bytearray": lambda: bytearray(range(16)),
    "view with gaps": lambda: memoryview(bytearray(range(16)))[::2],
    "view of a number": lambda: memoryview(np.full(1, 5, np.uint64)),
    "view": lambda: memoryview(bytearray(range(8))),
    "read-only view": lambda: memoryview(bytes(8)),
    "none": lambda: None,
    "number": lambda: 5,
    "text": lambda: "12345678",
}


def contents(buffer):
    if isinstance(buffer, np.ndarray) and not buffer.dtype.hasobject:
        return buffer.tobytes()
    return bytes(buffer) if isinstance(buffer, bytes | bytearray | memoryview) else None


class Arena:
    """A sender, memory of its peer that it may change, and what becomes of a call."""

    def __init__(self, models, **more):
        self.sender, self.receiver = Entity(models[0], **more), Entity(models[1])
        self.sender.connect(self.receiver)
        self.heap = memheap(self.receiver, self.sender, 64)
        self.told = []
        ucp.ucp_put(self.sender.ep, bytes(8), 8, self.heap.address, self.heap.rkey)
        ucp.ucp_worker_flush(self.sender.worker)

    def outcome(self, call, reply):
        """The result and the effects of a call, or its exception; then the call has posted nothing."""
        self.heap.bytes[:16] = np.frombuffer(WAS.to_bytes(8, "little") * 2, np.uint8)
        self.told.clear()
        lane = self.sender.ep.memory
        posted, before = lane.posted, contents(reply)
        try:
            request = call()
        except ucp.UcsError as error:
            assert (lane.posted, self.sender.worker.rings.outstanding) == (posted, 0)
            assert contents(reply) == before
            return type(error), str(error)
        status = finish(request if hasattr(request, "done") else None, self.sender)
        assert finish(ucp.ucp_worker_flush_nbx(self.sender.worker), self.sender) == ucp.UcsStatus.UCS_OK
        found = (request is None, status, contents(reply), self.heap.bytes[:16].tobytes(), list(self.told))
        return found if not isinstance(request, ucp.UcsStatus) else (*found, request)

    def tell(self, request, status, user_data):
        self.told.append((status, user_data))


@pytest.fixture
def arena(models):
    return Arena(models)


def either(chance, usual, *others):
    """Mostly what is usual."""
    return usual if chance.random() < 0.93 else chance.choice(others)


def param_of(chance, arena, datatype, reply):
    """A structure, mostly one that a straight path takes."""
    given = {
        "datatype": either(chance, datatype, None, *CONTIG.values(), ucp.ucp_dt_make_iov(), -1, "8", np.int64(64)),
        "reply_buffer": reply,
        "cb": either(chance, None, arena.tell, arena.tell, 5),
        "user_data": either(chance, None, "mine"),
        "request": either(chance, None, None, "mine"),
        "flags": either(chance, None, None, 0, 2**32),
        "memory_type": either(chance, None, ucp.UCS_MEMORY_TYPE_HOST, ucp.UCS_MEMORY_TYPE_CUDA, 77),
        "recv_info": either(chance, None, ucp.ucp_tag_recv_info_t(), 12),
    }
    fields = int(FIELDS["DATATYPE"] | FIELDS["REPLY_BUFFER"])
    for field in FIELDS.values():
        if chance.random() < 0.05:
            fields ^= field
    mask = chance.choice((None, MANY, int(MANY), fields, fields | int(MANY)))
    mask = either(chance, mask, 0, -1, 1 << 40, "3", [], True, ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, fields | 1 << 16)
    return ucp.ucp_request_param_t(op_attr_mask=mask, **given)


@pytest.mark.parametrize("seed", range(4))
def test_atomics_do_and_refuse_the_same_on_both_paths(arena, seed):
    chance = random.Random(seed)
    ep, heap = arena.sender.ep, arena.heap
    kinds = set()
    for number in range(120):
        operand, target = (
            either(chance, usual, *BUFFERS)
            for usual in chance.choice((("one uint64", "one of many"), ("bytes", "bytearray"), ("one uint32",) * 2))
        )
        buffer, reply = BUFFERS[operand](), chance.choice((True, True, None))
        size = 4 if operand == "one uint32" else 8
        param = either(chance, param_of(chance, arena, CONTIG[size], reply), None, "param")
        op, count = chance.choice(OPS), either(chance, 1, 0, 2, -1, 2**64)
        address = either(chance, heap.address, heap.address + 1, heap.address + 4, -1, 2**64, float(heap.address))
        rkey = either(chance, heap.rkey, None)
        found = []
        for opcode in (op, int(op)):
            place = BUFFERS[target]()
            if isinstance(param, ucp.ucp_request_param_t) and reply:
                param = dataclasses.replace(param, reply_buffer=place)
            found.append(
                arena.outcome(lambda: ucp.ucp_atomic_op_nbx(ep, opcode, buffer, count, address, rkey, param), place)  # noqa: B023
            )
        assert found[0] == found[1], (seed, number, operand, target, op, count, address, rkey, param)
        kinds.add(len(found[0]))
    assert len(kinds) == 2, "some were refused, and some were not"


@pytest.mark.parametrize("name", BUFFERS)
def test_every_sort_of_buffer_serves_both_paths_or_none(arena, name):
    ep, address, rkey = arena.sender.ep, arena.heap.address, arena.heap.rkey

    def both(call, make):
        """``call`` is given one of what a straight path takes and one that it does not, and a buffer."""
        found = []
        for straight in (True, False):
            place = make()
            found.append(arena.outcome(lambda: call(straight, place), place))  # noqa: B023
        assert found[0] == found[1]

    for size in (4, 8):
        usual, add, fadd = BUFFERS[f"one uint{8 * size}"], OPS[0], FETCH_OPS[0]

        def operand(straight, place):
            param = ucp.ucp_request_param_t(datatype=CONTIG[size], reply_buffer=place)  # noqa: B023
            op = add if straight else int(add)  # noqa: B023
            return ucp.ucp_atomic_op_nbx(ep, op, BUFFERS[name](), 1, address, rkey, param)

        def reply(straight, place):
            param = ucp.ucp_request_param_t(datatype=CONTIG[size], reply_buffer=place)  # noqa: B023
            op = add if straight else int(add)  # noqa: B023
            return ucp.ucp_atomic_op_nbx(ep, op, usual(), 1, address, rkey, param)  # noqa: B023

        def result(straight, place):
            op = fadd if straight else int(fadd)  # noqa: B023
            return ucp.ucp_atomic_fetch_nb(ep, op, 3, place, size, address, rkey, None)  # noqa: B023

        both(operand, usual)
        both(reply, BUFFERS[name])
        both(result, BUFFERS[name])
    for size in (4, 8, 16):
        both(
            lambda straight, place: ucp.ucp_get_nbx(
                ep, place, size if straight else np.int64(size), address, rkey, None  # noqa: B023
            ),
            BUFFERS[name],
        )


@pytest.mark.parametrize("seed", range(2))
def test_atomics_of_older_calls_do_and_refuse_the_same_on_both_paths(arena, seed):
    chance = random.Random(seed)
    ep, heap = arena.sender.ep, arena.heap
    for number in range(120):
        usual, target = chance.choice(((8, "one uint64"), (8, "bytearray"), (4, "one uint32")))
        target, size = either(chance, target, *BUFFERS), either(chance, usual, 4, 2, 16, "8", True)
        value = either(chance, chance.getrandbits(64), -1, 2**64, 1.5, None)
        address = either(chance, heap.address, heap.address + 2, 2**64, None)
        rkey, cb = either(chance, heap.rkey, None), either(chance, None, None, 5)
        post_op, op = chance.choice(POST_OPS), chance.choice(FETCH_OPS)
        found, posted = [], []
        for kind in (lambda opcode: opcode, int):
            reply = BUFFERS[target]()
            found.append(
                arena.outcome(
                    lambda: ucp.ucp_atomic_fetch_nb(ep, kind(op), value, reply, size, address, rkey, cb),  # noqa: B023
                    reply,
                )
            )
            posted.append(
                arena.outcome(lambda: ucp.ucp_atomic_post(ep, kind(post_op), value, size, address, rkey), None)  # noqa: B023
            )
        assert found[0] == found[1], (seed, number, op, value, target, size, address, rkey, cb)
        assert posted[0] == posted[1], (seed, number, post_op, value, size, address, rkey)


@pytest.mark.parametrize("seed", range(2))
def test_gets_do_and_refuse_the_same_on_both_paths(arena, seed):
    chance = random.Random(seed)
    ep, heap = arena.sender.ep, arena.heap
    for number in range(120):
        target = either(chance, chance.choice(("one uint64", "two uint32", "bytearray")), *BUFFERS)
        size = either(chance, 8, 0, 4, 16, -1, 2**62)
        param = either(chance, param_of(chance, arena, CONTIG[1], None), None, "param")
        address = either(chance, heap.address, heap.address + 3, -1, 2**64, None)
        rkey, found = either(chance, heap.rkey, None), []
        for kind in (int, np.int64):
            reply = BUFFERS[target]()
            found.append(
                arena.outcome(lambda: ucp.ucp_get_nbx(ep, reply, kind(size), address, rkey, param), reply)  # noqa: B023
            )
        assert found[0] == found[1], (seed, number, target, size, address, rkey, param)


class Number(int):
    """A whole number that no straight path takes."""


def both_ways(chance, lane, send):
    """The effects of ``send`` on both paths: with a count that a straight path takes, and one that it refuses."""
    data = either(chance, chance.randbytes(chance.randrange(1, 10)), None, "text")
    data = bytearray(data) if isinstance(data, bytes) and chance.random() < 0.3 else data
    size = either(chance, len(data) if data else 1, 0, 3, 2**65, -1)
    found = []
    for count in (size, Number(size)):
        posted = lane.posted
        try:
            found.append(send(data, count))
        except ucp.UcsError as error:
            assert lane.posted == posted
            found.append((type(error), str(error)))
    assert found[0] == found[1], (data, size)
    return found[0]


@pytest.mark.parametrize("seed", range(2))
def test_active_messages_do_and_refuse_the_same_on_both_paths(arena, seed):
    chance = random.Random(seed)
    sender, receiver, came = arena.sender, arena.receiver, []

    def handler(arg, header, header_length, data, length, param):
        came.append((header_length, length, None if data is None else bytes(data), int(param.recv_attr)))

    ucp.ucp_worker_set_am_recv_handler(receiver.worker, ucp.ucp_am_handler_param_t(id=65535, cb=handler))
    for number in range(100):
        ident = either(chance, 65535, 65536, -1, None)
        header = either(chance, (None, 0), (b"head", 4), (None, 1), (None, -1))
        param = chance.choice((None, param_of(chance, arena, CONTIG[1], None), "param"))
        if isinstance(param, ucp.ucp_request_param_t):
            param.flags = chance.choice((param.flags, ucp.UCP_AM_SEND_FLAG_EAGER, ucp.UCP_AM_SEND_FLAG_REPLY))

        def send(data, count):
            came.clear()
            arena.told.clear()
            request = ucp.ucp_am_send_nbx(sender.ep, ident, *header, data, count, param)  # noqa: B023
            wait_for(lambda: came, sender, receiver)
            status = finish(request, sender, receiver)
            return request is None, status, list(came), [status for status, _ in arena.told]

        try:
            both_ways(chance, sender.ep.messages, send)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, message {number}: {ident} {header} {param}") from error


@pytest.mark.parametrize("seed", range(2))
def test_tagged_sends_do_and_refuse_the_same_on_both_paths(arena, seed):
    chance = random.Random(seed)
    sender, receiver = arena.sender, arena.receiver
    for number in range(100):
        tag = either(chance, chance.getrandbits(64), -1, 2**64, None)
        param = chance.choice((None, param_of(chance, arena, CONTIG[1], None), "param"))

        def send(data, count):
            arena.told.clear()
            request = ucp.ucp_tag_send_nbx(sender.ep, data, count, tag, param)  # noqa: B023
            buffer, heard = bytearray(16), [ucp.ucp_tag_recv_info_t()]
            told = ucp.ucp_request_param_t(recv_info=heard[0], cb=lambda *told: heard.append(told[2]))
            received = ucp.ucp_tag_recv_nbx(receiver.worker, buffer, 16, 0, 0, told)
            assert finish(received, sender, receiver) == ucp.UcsStatus.UCS_OK
            status = finish(request, sender, receiver)
            info = heard[-1].sender_tag, heard[-1].length
            return request is None, status, bytes(buffer), info, [status for status, _ in arena.told]

        try:
            both_ways(chance, sender.ep.tagged, send)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, message {number}: {tag} {param}") from error


@pytest.mark.parametrize("kind", ["endpoint", "key"])
def test_what_is_closed_is_refused_by_straight_paths_too(arena, kind):
    ep, heap = arena.sender.ep, arena.heap
    if kind == "key":
        ucp.ucp_rkey_destroy(heap.rkey)
    else:
        finish(ucp.ucp_ep_close_nb(ep, ucp.UCP_EP_CLOSE_MODE_FLUSH), arena.sender)
    word = np.ones(1, np.uint64)
    param = ucp.ucp_request_param_t(datatype=CONTIG[8], reply_buffer=word)
    calls = [
        lambda: ucp.ucp_atomic_op_nbx(ep, OPS[0], word, 1, heap.address, heap.rkey, param),
        lambda: ucp.ucp_atomic_fetch_nb(ep, FETCH_OPS[0], 1, word, 8, heap.address, heap.rkey, None),
        lambda: ucp.ucp_atomic_post(ep, POST_OPS[0], 1, 8, heap.address, heap.rkey),
        lambda: ucp.ucp_get_nbx(ep, word, 8, heap.address, heap.rkey, None),
    ]
    if kind == "endpoint":
        calls.append(lambda: ucp.ucp_am_send_nbx(ep, 1, None, 0, bytes(8), 8, None))
    for call in calls:
        with pytest.raises(ucp.UcsInvalidParamError):
            call()


def test_calls_without_their_feature_are_refused_by_straight_paths_too(models):
    arena = Arena(models, features=ucp.UCP_FEATURE_RMA | ucp.UCP_FEATURE_STREAM)
    ep, heap, word = arena.sender.ep, arena.heap, np.ones(1, np.uint64)
    param = ucp.ucp_request_param_t(datatype=CONTIG[8], reply_buffer=word)
    for call in (
        lambda: ucp.ucp_atomic_op_nbx(ep, OPS[0], word, 1, heap.address, heap.rkey, param),
        lambda: ucp.ucp_atomic_fetch_nb(ep, FETCH_OPS[0], 1, word, 8, heap.address, heap.rkey, None),
        lambda: ucp.ucp_am_send_nbx(ep, 1, None, 0, bytes(8), 8, None),
    ):
        with pytest.raises(ucp.UcsInvalidParamError, match="needs"):
            call()


def test_usual_calls_are_looked_at_once(arena, monkeypatch):
    """Checks that only unusual arguments need are not there: usual calls do without."""
    ep, heap, word = arena.sender.ep, arena.heap, np.ones(1, np.uint64)
    ucp.ucp_worker_set_am_recv_handler(
        arena.receiver.worker, ucp.ucp_am_handler_param_t(id=1, cb=lambda *_: arena.told.append("message"))
    )
    assert ucp.ucp_am_send_nbx(ep, 1, None, 0, bytes(8), 8, None) is None  # tells the other end who sends
    wait_for(lambda: arena.told, arena.sender, arena.receiver)
    for module, name in (
        (atomics, "checked_target"), (rma, "checked_target"), (atomics, "_op_of"), (atomics, "U64"),
        (active_messages, "_send"), (atomics, "_bytes"), (rma, "bytes_of"),
    ):  # fmt: skip
        monkeypatch.delattr(module, name)
    for reply in (np.zeros(1, np.uint64), bytearray(8)):
        for mask in (None, MANY, FIELDS["DATATYPE"] | FIELDS["REPLY_BUFFER"] | FIELDS["CALLBACK"]):
            param = ucp.ucp_request_param_t(
                op_attr_mask=mask, datatype=CONTIG[8], reply_buffer=reply, cb=arena.tell, user_data=3
            )
            heap.bytes[:8] = 0
            request = ucp.ucp_atomic_op_nbx(ep, OPS[0], word, 1, heap.address, heap.rkey, param)
            assert finish(request, arena.sender) == ucp.UcsStatus.UCS_OK
            assert heap.bytes[0] == 1
            assert arena.told[-1] == (ucp.UcsStatus.UCS_OK, 3 if mask is None or mask == MANY else None)
    request = ucp.ucp_atomic_fetch_nb(ep, FETCH_OPS[0], 1, word, 8, heap.address, heap.rkey, None)
    assert finish(request, arena.sender) == ucp.UcsStatus.UCS_OK
    assert int(word[0]) == 1
    assert ucp.ucp_atomic_post(ep, POST_OPS[0], 1, 8, heap.address, heap.rkey) == ucp.UcsStatus.UCS_OK
    assert finish(ucp.ucp_get_nbx(ep, word, 8, heap.address, heap.rkey, None), arena.sender) == ucp.UcsStatus.UCS_OK
    assert int(word[0]) == 3
    arena.told.clear()
    assert ucp.ucp_am_send_nbx(ep, 1, None, 0, bytes(8), 8, None) is None
    wait_for(lambda: arena.told, arena.sender, arena.receiver)


def test_masks_of_straight_paths_are_those_that_the_checked_path_reads_alike():
    for mask, (many, replies, calls, knows) in request_params.PLAIN_MASKS.items():
        param = ucp.ucp_request_param_t(
            op_attr_mask=mask, datatype=CONTIG[8], reply_buffer=b"r", cb=print, user_data="mine"
        )
        read = request_params.read_param(param)
        assert (read.many, read.reply_buffer == b"r", read.callback is print, read.user_data == "mine") == (
            many, replies, calls, knows,
        )  # fmt: skip
        assert (read.immediate, read.forced, read.fast, read.datatype) == (True, False, False, CONTIG[8])


def test_what_takes_the_straight_path_arrives(pair):
    sender, receiver = pair
    heap, came = memheap(receiver, sender, 64), []

    def handler(arg, header, header_length, data, length, param):
        came.append(bytes(data))

    ucp.ucp_worker_set_am_recv_handler(receiver.worker, ucp.ucp_am_handler_param_t(id=65535, cb=handler))
    sent = [bytes(range(start, start + size)) for start, size in ((1, 8), (11, 1), (21, 3), (31, 8))]
    for data in sent:
        assert ucp.ucp_am_send_nbx(sender.ep, 65535, None, 0, data, len(data), None) is None
        wait_for(lambda: len(came) == sent.index(data) + 1, sender, receiver)  # noqa: B023
    assert came == sent
    heap.bytes[:8] = np.arange(8)
    was = int.from_bytes(bytes(range(8)), "little")
    reply, read = np.zeros(1, np.uint64), bytearray(8)
    param = ucp.ucp_request_param_t(datatype=CONTIG[8], reply_buffer=reply)
    request = ucp.ucp_atomic_op_nbx(sender.ep, OPS[0], np.full(1, 5, np.uint64), 1, heap.address, heap.rkey, param)
    assert finish(request, sender, receiver) == ucp.UcsStatus.UCS_OK
    assert int(reply[0]) == was
    request = ucp.ucp_get_nbx(sender.ep, read, 8, heap.address, heap.rkey, None)
    assert finish(request, sender, receiver) == ucp.UcsStatus.UCS_OK
    assert int.from_bytes(read, "little") == was + 5
