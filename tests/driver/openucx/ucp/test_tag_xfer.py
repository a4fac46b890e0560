"""UCX's test_ucp_tag_xfer: every datatype at both ends, every length, expected and not, also when it has to match.

On every pair a few; on models all, and also over links that lose, double, reorder and corrupt.
"""

import itertools
import random

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba_model.impairments import Impairments

from tests.driver.openucx.ucp.entities import finish, wait_for
from tests.driver.openucx.ucp.tagged import ALL, OK, PAYLOAD, couple_of, probe, settle

LENGTHS = [0, 1, 100, PAYLOAD, PAYLOAD + 1, 30_000]
KINDS = ["contig", "iov", "generic"]


class Generic:
    """A datatype of bytes, backwards: what is sent is the buffer from its end to its beginning."""

    def __init__(self):
        self.finished = []
        self.datatype = ucp.ucp_dt_create_generic(
            ucp.ucp_generic_dt_ops_t(
                start_pack=self.start,
                start_unpack=self.start,
                packed_size=lambda state: len(state[0]),
                pack=self.pack,
                unpack=self.unpack,
                finish=lambda state: self.finished.append(state[1]),
            )
        )
        self.started = 0
        self.refuses = 0
        """A status that unpacking ends with."""

    def start(self, context, buffer, count):
        self.started += 1
        return buffer, self.started

    @staticmethod
    def pack(state, offset, dest, space):
        size = min(space, 1000)
        buffer = state[0]
        data = bytes(buffer[len(buffer) - offset - size : len(buffer) - offset])
        dest[:size] = data[::-1]
        return min(size, len(buffer) - offset)

    def unpack(self, state, offset, src, length):
        if self.refuses:
            return self.refuses
        buffer = state[0]
        buffer[len(buffer) - offset - length : len(buffer) - offset] = bytes(src)[::-1]
        return 0


def scattered(data, writable):
    """A list of pieces, some of which are empty; what they hold."""
    pieces, at, numbers = [], 0, random.Random(len(data))
    while at < len(data):
        size = min(numbers.choice([0, 1, 7, 500, 9000]), len(data) - at)
        piece = bytearray(data[at : at + size]) if writable else data[at : at + size]
        pieces.append(ucp.ucp_dt_iov_t(piece if size else None, size))
        at += size
    return pieces


class Side:
    """The buffer of one end: (buffer, count, datatype), and a function that shows its content."""

    def __init__(self, kind, data, *, writable=False):
        self.generic = None
        self.kind = kind
        if kind == "contig":
            self.arguments = (bytearray(data) if writable else data, len(data), ucp.ucp_dt_make_contig(1))
        elif kind == "iov":
            pieces = scattered(data, writable)
            self.arguments = (pieces, len(pieces), ucp.ucp_dt_make_iov())
        else:
            self.generic = Generic()
            self.arguments = (bytearray(data[::-1]), 1, self.generic.datatype)

    @property
    def data(self):
        buffer = self.arguments[0]
        if self.kind == "iov":
            return b"".join(bytes(piece.buffer) for piece in buffer if piece.length)
        return bytes(buffer[::-1] if self.generic else buffer)

    def done(self):
        """The application's state has been released, once."""
        if self.generic:
            assert self.generic.finished == [1]
            ucp.ucp_dt_destroy(self.generic.datatype)


def transfer(sender, receiver, kinds, length, *, expected, sync, more=0):
    """One message; the receiver's buffer has ``more`` bytes than it needs."""
    data = bytes(index * 31 % 251 for index in range(length))
    source = Side(kinds[0], data)
    place = Side(kinds[1], bytes(length + more), writable=True)
    call = ucp.ucp_tag_send_sync_nb if sync else ucp.ucp_tag_send_nb

    def receive():
        buffer, count, datatype = place.arguments
        return ucp.ucp_tag_recv_nb(receiver.worker, buffer, count, datatype, 9, ALL, lambda *args: None)

    received = receive() if expected else None
    sent = call(sender.ep, *source.arguments, 9, lambda *args: None)
    if not expected:
        wait_for(lambda: probe(receiver, 9)[0], sender, receiver)
        assert probe(receiver, 9)[1] == ucp.ucp_tag_recv_info_t(9, length)
        assert sent is None or sync or length > PAYLOAD
        received = receive()
    assert finish(received, sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert received.info == ucp.ucp_tag_recv_info_t(9, length)
    assert place.data[:length] == data
    assert place.data[length:] == bytes(more)
    source.done()
    place.done()


@pytest.fixture
def couple(models):
    """(sender, receiver) on models."""
    return couple_of(models)


@pytest.mark.parametrize("kinds", itertools.product(KINDS, KINDS), ids="-".join)
def test_xfer(couple, kinds):
    for length, expected, sync in itertools.product(LENGTHS, (True, False), (False, True)):
        transfer(*couple, kinds, length, expected=expected, sync=sync)


@pytest.mark.parametrize(
    ("kinds", "length"), [(("contig", "contig"), 100), (("iov", "generic"), 9000)], ids=["short", "long"]
)
def test_xfer_on_every_pair(pair, kinds, length):
    for expected in (True, False):
        transfer(*pair, kinds, length, expected=expected, sync=not expected)


@pytest.mark.parametrize("kind", ["contig", "iov"])
def test_a_buffer_may_be_longer_than_the_message(couple, kind):
    for length, expected in itertools.product((8, 9000), (True, False)):
        transfer(*couple, ("contig", kind), length, expected=expected, sync=False, more=10_000)


def impaired(seed):
    return Impairments(seed=seed, loss=0.02, duplication=0.02, reordering=0.02, corruption=0.02, holdback=2000)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_xfer_over_links_that_lose_double_reorder_and_corrupt(seed):
    numbers = random.Random(seed)
    with open_adapters(impairments=impaired(seed)) as adapters:
        couple = couple_of(adapters)
        for _ in range(40):
            kinds = numbers.choice(KINDS), numbers.choice(KINDS)
            length = numbers.choice(LENGTHS)
            transfer(*couple, kinds, length, expected=numbers.random() < 0.5, sync=numbers.random() < 0.3)
        for entity in couple:
            ucp.ucp_worker_destroy(entity.worker)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_messages_in_any_order_of_receives_over_links_that_lose_double_reorder_and_corrupt(seed):
    """As many receives as messages, in any order, before and after: each receive gets what one list of each gives."""
    numbers = random.Random(seed)
    with open_adapters(impairments=impaired(seed)) as adapters:
        sender, receiver = couple_of(adapters)
        messages = [(numbers.randrange(4), numbers.choice([8, 8, 8, 5000])) for _ in range(150)]
        sends = [
            ucp.ucp_tag_send_nbx(sender.ep, index.to_bytes(4, "big") * (length // 4), length, tag, None)
            for index, (tag, length) in enumerate(messages)
        ]
        wanted = [tag for tag, _ in messages]
        numbers.shuffle(wanted)
        receives = []
        for tag in wanted:
            buffer = bytearray(5000)
            receives.append((tag, buffer, ucp.ucp_tag_recv_nbx(receiver.worker, buffer, 5000, tag, ALL, None)))
            for _ in range(numbers.randrange(3)):
                sender.progress()
                receiver.progress()
        for _, _, request in receives:
            assert finish(request, sender, receiver) == OK
        for request in sends:
            assert finish(request, sender, receiver) == OK
        for wanted_tag in range(4):
            found = [int.from_bytes(buffer[:4], "big") for tag, buffer, _ in receives if tag == wanted_tag]
            assert found == [index for index, (tag, _) in enumerate(messages) if tag == wanted_tag]
        for entity in (sender, receiver):
            ucp.ucp_worker_destroy(entity.worker)


@pytest.mark.parametrize("length", [8, 9000])
@pytest.mark.parametrize("expected", [True, False])
def test_generic_err_exp_and_unexp(couple, length, expected):
    """The receive has the status of unpacking; the sender is notified of a success."""
    sender, receiver = couple
    place = Side("generic", bytes(length))
    place.generic.refuses = int(ucp.UcsStatus.UCS_ERR_NO_MEMORY)
    buffer, count, datatype = place.arguments
    mask = ucp.UCP_OP_ATTR_FIELD_DATATYPE | ucp.UCP_OP_ATTR_FLAG_NO_IMM_CMPL
    param = ucp.ucp_request_param_t(datatype=datatype, op_attr_mask=mask)
    request = ucp.ucp_tag_recv_nbx(receiver.worker, buffer, count, 1, ALL, param) if expected else None
    sent = ucp.ucp_tag_send_nbx(sender.ep, b"y" * length, length, 1, None)
    settle(sender, receiver)
    if request is None:
        request = ucp.ucp_tag_recv_nbx(receiver.worker, buffer, count, 1, ALL, param)
    assert finish(request, sender, receiver) == ucp.UcsStatus.UCS_ERR_NO_MEMORY
    assert finish(sent, sender, receiver) == OK
    assert place.generic.finished == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [8, 9000])
def test_truncated_dt(couple, kind, length):
    sender, receiver = couple
    place = Side(kind, b"x" * (length - 1), writable=True)
    buffer, count, datatype = place.arguments
    request = ucp.ucp_tag_recv_nb(receiver.worker, buffer, count, datatype, 1, ALL, lambda *args: None)
    sent = ucp.ucp_tag_send_nbx(sender.ep, bytes(length), length, 1, None)
    assert finish(request, sender, receiver) == ucp.UcsStatus.UCS_ERR_MESSAGE_TRUNCATED
    assert finish(sent, sender, receiver) == OK
    assert set(place.data) == {ord("x")}
    place.done()


def test_iov_with_empty_buffers(couple):
    sender, receiver = couple
    for length in (0, 10, 9000):
        pieces = [ucp.ucp_dt_iov_t(None, 0), ucp.ucp_dt_iov_t(b"z" * length, length), ucp.ucp_dt_iov_t(None, 0)]
        param = ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_iov())
        sent = ucp.ucp_tag_send_nbx(sender.ep, pieces, 3, 1, param)
        buffer = bytearray(length)
        pieces = [ucp.ucp_dt_iov_t(None, 0), ucp.ucp_dt_iov_t(buffer, length)]
        assert finish(ucp.ucp_tag_recv_nbx(receiver.worker, pieces, 2, 1, ALL, param), sender, receiver) == OK
        assert finish(sent, sender, receiver) == OK
        assert buffer == b"z" * length


def test_iov_of_many_pieces(couple):
    """More than are read at a time."""
    sender, receiver = couple
    data = bytes(index % 251 for index in range(20_000))
    places = [bytearray(100) for _ in range(200)]
    pieces = [ucp.ucp_dt_iov_t(place) for place in places]
    param = ucp.ucp_request_param_t(datatype=ucp.ucp_dt_make_iov())
    request = ucp.ucp_tag_recv_nbx(receiver.worker, pieces, 200, 1, ALL, param)
    sent = ucp.ucp_tag_send_nbx(sender.ep, data, 20_000, 1, None)
    assert finish(request, sender, receiver) == OK
    assert finish(sent, sender, receiver) == OK
    assert b"".join(places) == data


def test_a_generic_datatype_is_finished_once_when_its_operation_is_refused(couple):
    sender, receiver = couple
    forced = ucp.UCP_OP_ATTR_FIELD_DATATYPE | ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL
    for length in (8, 9000):
        side = Side("generic", bytes(length))
        buffer, count, datatype = side.arguments
        param = ucp.ucp_request_param_t(datatype=datatype, op_attr_mask=forced)
        with pytest.raises(ucp.UcsNoResourceError):
            ucp.ucp_tag_recv_nbx(receiver.worker, buffer, count, 1, ALL, param)
        side.done()
    side = Side("generic", bytes(9000))
    buffer, count, datatype = side.arguments
    param = ucp.ucp_request_param_t(datatype=datatype, op_attr_mask=forced)
    with pytest.raises(ucp.UcsNoResourceError):
        ucp.ucp_tag_send_nbx(sender.ep, buffer, count, 1, param)
    side.done()


def test_messages_to_oneself(models):
    sender, _ = couple_of(models)
    ep = sender.connect(sender)
    for length in (8, 9000):
        buffer = bytearray(length)
        request = ucp.ucp_tag_recv_nbx(sender.worker, buffer, length, 1, ALL, None)
        sent = ucp.ucp_tag_send_nbx(ep, b"m" * length, length, 1, None)
        assert finish(request, sender) == OK
        assert finish(sent, sender) == OK
        assert buffer == b"m" * length
