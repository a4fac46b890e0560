"""Active messages, by the names of UCX's gtest test_ucp_am.cc, and what else is guaranteed of them.

Covers ``openucx/ucp/active_messages.py`` and ``openucx/ucp/am_sends.py``.
"""

import random

import amoeba.ucp as ucp
import pytest
from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.active_messages import AmDescriptor
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba.openucx.ucp.am_sends import MAX_EAGER
from amoeba.transport.rendezvous import Record
from amoeba_model.impairments import Impairments
from amoeba_model.ucp import UCP_ANSWER, MessageFlags, MessageKind

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_streams import Copying, bytes_of_seed, param

OK, IN_PROGRESS = ucp.UcsStatus.UCS_OK, ucp.UcsStatus.UCS_INPROGRESS
EAGER, RNDV, REPLY = ucp.UCP_AM_SEND_FLAG_EAGER, ucp.UCP_AM_SEND_FLAG_RNDV, ucp.UCP_AM_SEND_FLAG_REPLY
HAS_DATA, IS_RNDV = ucp.UCP_AM_RECV_ATTR_FLAG_DATA, ucp.UCP_AM_RECV_ATTR_FLAG_RNDV
HAS_REPLY = ucp.UCP_AM_RECV_ATTR_FIELD_REPLY_EP
IMPAIRED = Impairments(seed=6, loss=0.02, duplication=0.02, corruption=0.02, reordering=0.02)
ID = 7


def send(ep, data, header=None, number=ID, **fields):
    length = 0 if header is None else len(header)
    return ucp.ucp_am_send_nbx(ep, number, header, length, data, len(data), param(**fields) if fields else None)


class Messages:
    """A handler that notes what comes, and answers with what ``verdict`` says of it."""

    def __init__(self, entity, verdict=lambda came: OK, number=ID, **fields):
        self.entity = entity
        self.verdict = verdict
        self.came = []
        handler = ucp.ucp_am_handler_param_t(id=number, cb=self.call, arg="arg", **fields)
        ucp.ucp_worker_set_am_recv_handler(entity.worker, handler)

    def call(self, arg, header, header_length, data, length, recv):
        assert arg == "arg"
        assert (header is None) == (header_length == 0)
        assert header is None or header.nbytes == header_length
        self.header = None if header is None else bytes(header)
        self.attr, self.reply_ep = recv.recv_attr, recv.reply_ep
        self.data = data
        self.length = length
        self.bytes = bytes(data) if isinstance(data, memoryview) else None
        verdict = self.verdict(self)
        self.came.append((self.header, self.bytes, length))
        return verdict

    def receive(self, count=None, **fields):
        """Receive what came last: (request, buffer)."""
        buffer = bytearray(self.length if count is None else count)
        request = ucp.ucp_am_recv_data_nbx(
            self.entity.worker, self.data, buffer, len(buffer), param(**fields) if fields else None
        )
        return request, buffer


def keep(came):
    return IN_PROGRESS


@pytest.fixture
def two(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    receiver.connect(sender)
    return sender, receiver


# UCX's tests


def test_send_process_am_on_every_pair(pair):
    """In a packet, in fragments, and read: with a header."""
    sender, receiver = pair
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    for size, flags in ((8, 0), (4096, 0), (9000, EAGER), (9000, RNDV)):
        data = bytes_of_seed(size, size)
        request = send(sender.ep, data, b"header", flags=flags)
        wait_for(lambda: came.came, *pair)
        [(header, taken, length)] = came.came
        came.came.clear()
        if flags & RNDV:
            assert request is not None
            assert not request.done
            received, taken = came.receive()
            assert finish(received, *pair) == OK
        assert (header, taken, length) == (b"header", data, size)
        assert finish(request, *pair) == OK


@pytest.mark.parametrize("header", [b"", bytes(range(256)) * 4])
@pytest.mark.parametrize("size", [0, 1, 64, 65, 3072, 3073, 4096, 4097, 100_001])
@pytest.mark.parametrize("flags", [0, EAGER, RNDV])
def test_sends_of_all_sizes(two, size, header, flags):
    """short_send to long_zcopy_send, header_and_data_rndv, rndv_zero_send."""
    sender, receiver = two
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    data = bytes_of_seed(size, size)
    request = send(sender.ep, data, header or None, flags=flags)
    wait_for(lambda: came.came, *two)
    taken = came.bytes or b""
    if came.attr & IS_RNDV:
        received, taken = came.receive()
        assert finish(received, *two) == OK
    assert taken == data
    assert came.came[0][::2] == (header or None, size)
    assert finish(request, *two) == OK
    assert bool(came.attr & IS_RNDV) == (flags == RNDV or (not flags and size > 1 << 16))


def test_send_process_iov_am_and_generic(two):
    sender, receiver = two
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    parts = [bytes_of_seed(n, n) for n in (10, 0, 5000, 300)]
    iov = [ucp.ucp_dt_iov_t(each) for each in parts]
    kind = Copying()
    for number, flags in enumerate((EAGER, RNDV)):
        request = ucp.ucp_am_send_nbx(
            sender.ep, ID, b"h", 1, iov, len(iov), param(datatype=ucp.ucp_dt_make_iov(), flags=flags)
        )
        wait_for(lambda: came.came, *two)
        taken = came.bytes
        if flags == RNDV:
            buffers = [bytearray(n) for n in (1, 309, 5000)]
            received = ucp.ucp_am_recv_data_nbx(
                receiver.worker,
                came.data,
                [ucp.ucp_dt_iov_t(each) for each in buffers],
                3,
                param(datatype=ucp.ucp_dt_make_iov()),
            )
            assert finish(received, *two) == OK
            taken = b"".join(buffers)
        assert taken == b"".join(parts)
        assert finish(request, *two) == OK
        came.came.clear()
        data = bytes_of_seed(number, 6000)
        request = ucp.ucp_am_send_nbx(
            sender.ep, ID, None, 0, data, len(data), param(datatype=kind.datatype, flags=flags)
        )
        wait_for(lambda: came.came, *two)
        if flags == RNDV:
            buffer = bytearray(6000)
            received = ucp.ucp_am_recv_data_nbx(
                receiver.worker, came.data, buffer, 6000, param(datatype=kind.datatype)
            )
            assert finish(received, *two) == OK
            assert buffer == data
        else:
            assert came.bytes == data
        assert finish(request, *two) == OK
        came.came.clear()
    assert (kind.started, kind.finished) == (3, 3)


def test_what_unpacking_says_is_the_status_of_the_receive(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    kind = Copying(status=ucp.UcsStatus.UCS_ERR_NO_MEMORY)
    request = send(sender.ep, bytes(500), flags=RNDV)
    wait_for(lambda: came.came, *two)
    received = ucp.ucp_am_recv_data_nbx(
        receiver.worker, came.data, bytearray(500), 500, param(datatype=kind.datatype)
    )
    assert finish(received, *two) == ucp.UcsStatus.UCS_ERR_NO_MEMORY
    assert finish(request, *two) == OK
    assert (kind.started, kind.finished) == (1, 1)


def test_send_process_am_release(two):
    """rx_persistent_data; short, single, multi: what is kept stays, until it is released."""
    sender, receiver = two
    came = Messages(receiver, keep, flags=ucp.UCP_AM_FLAG_PERSISTENT_DATA)
    kept = []
    for size in (1, 2048, 8000):
        send(sender.ep, bytes_of_seed(size, size), b"h", flags=EAGER)
        wait_for(lambda: came.came, *two)
        came.came.clear()
        assert came.attr == HAS_DATA
        kept.append((came.data, bytes_of_seed(size, size)))
    for data, expected in kept:
        assert bytes(data) == expected
        ucp.ucp_am_data_release(receiver.worker, data)
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_am_data_release(receiver.worker, data)


def test_the_inbox_grows_with_what_is_kept(two):
    sender, receiver = two
    came = Messages(
        receiver, lambda came: kept.append(came.data) or IN_PROGRESS, flags=ucp.UCP_AM_FLAG_PERSISTENT_DATA
    )
    kept = []
    for number in range(1500):
        send(sender.ep, number.to_bytes(4, "little") * 1000)
    wait_for(lambda: len(kept) == 1500, *two)
    assert [int.from_bytes(data[3996:], "little") for data in kept] == list(range(1500))
    for data in kept:
        ucp.ucp_am_data_release(receiver.worker, data)
    assert came.came
    assert receiver.worker.inbox._out == 0


def test_send_process_old_am(two):
    """The older calls: data, reply endpoint, INPROGRESS, in a packet and in fragments."""
    sender, receiver = two
    told = []

    def call(arg, data, length, reply_ep, flags):
        told.append((arg, bytes(data), length, reply_ep, flags))
        kept.append(data)
        return IN_PROGRESS

    kept = []
    ucp.ucp_worker_set_am_handler(receiver.worker, 65535, call, "old", ucp.UCP_AM_FLAG_WHOLE_MSG)
    ended = []
    for size, flags in ((8, REPLY), (10_000, 0), (100_000, REPLY)):
        data = bytes_of_seed(size, size)
        request = ucp.ucp_am_send_nb(
            sender.ep, 65535, data, size, ucp.ucp_dt_make_contig(1), lambda *given: ended.append(given), flags
        )
        wait_for(lambda: told, *two)
        reply = receiver.ep if flags else None
        assert told.pop() == ("old", data, size, reply, ucp.UCP_CB_PARAM_FLAG_DATA)
        assert finish(request, *two) == OK
        assert request is None or ended.pop() == (request, OK)
        ucp.ucp_am_data_release(receiver.worker, kept.pop())


def test_old_and_new_handlers_do_not_mix_and_ids_without_handlers_are_dropped(two):
    sender, receiver = two
    called = []
    ucp.ucp_worker_set_am_handler(receiver.worker, 1, lambda *given: called.append(given), None, 0)
    Messages(receiver, lambda came: called.append(came) or OK, number=2)
    send(sender.ep, b"new", number=1)
    send(sender.ep, bytes(9000), number=1, flags=EAGER)
    for size in (8, 9000):
        ucp.ucp_am_send_nb(sender.ep, 2, bytes(size), size, ucp.ucp_dt_make_contig(1), None, 0)
    send(sender.ep, b"nobody", number=3)
    requests = [send(sender.ep, bytes(100), number=number, flags=RNDV) for number in (1, 3)]
    for request in requests:
        assert finish(request, *two) == ucp.UcsStatus.UCS_ERR_INVALID_PARAM
    wait_for(lambda: receiver.worker.active_messages.unhandled == 7, *two)
    assert not called


def test_set_am_handler_realloc_and_removal(two):
    sender, receiver = two
    handlers = [Messages(receiver, number=number) for number in (0, 1000, 65535)]
    for number in (0, 1000, 65535):
        send(sender.ep, b"%d" % number, number=number)
    wait_for(lambda: all(each.came for each in handlers), *two)
    assert [each.bytes for each in handlers] == [b"0", b"1000", b"65535"]
    ucp.ucp_worker_set_am_recv_handler(
        receiver.worker,
        ucp.ucp_am_handler_param_t(
            field_mask=ucp.UCP_AM_HANDLER_PARAM_FIELD_ID | ucp.UCP_AM_HANDLER_PARAM_FIELD_CB, id=1000
        ),
    )
    send(sender.ep, b"gone", number=1000)
    wait_for(lambda: receiver.worker.active_messages.unhandled == 1, *two)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": 1},
        {"cb": print},
        {"id": 65536, "cb": print},
        {"id": 1, "cb": 5},
        {"id": 1, "cb": print, "flags": 1 << 20},
    ],
)
def test_set_invalid_handler(models, fields):
    entity = Entity(models[0])
    with pytest.raises(ucp.UcsInvalidParamError):
        ucp.ucp_worker_set_am_recv_handler(entity.worker, ucp.ucp_am_handler_param_t(**fields))


def test_max_am_header(two):
    sender, receiver = two
    most = ucp.ucp_worker_query(sender.worker, ucp.ucp_worker_attr_t()).max_am_header
    assert 64 <= most < 4096
    came = Messages(receiver)
    send(sender.ep, b"", b"m" * most)
    wait_for(lambda: came.came, *two)
    assert came.came == [(b"m" * most, None, 0)]
    with pytest.raises(ucp.UcsInvalidParamError):
        send(sender.ep, b"", b"m" * (most + 1))


def test_zero_send(two):
    sender, receiver = two
    came = Messages(receiver)
    assert ucp.ucp_am_send_nbx(sender.ep, ID, None, 0, None, 0, None) is None
    wait_for(lambda: came.came, *two)
    assert came.came == [(None, None, 0)]
    assert came.attr == 0


def test_rndv_flag_zero_send(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    request = send(sender.ep, b"", flags=RNDV)
    wait_for(lambda: came.came, *two)
    assert came.attr == IS_RNDV
    assert isinstance(came.data, AmDescriptor)
    assert came.length == 0
    assert came.receive()[0] is None
    assert finish(request, *two) == OK


def test_send_eager_flag_and_just_header_rndv(two):
    """EAGER wins over RNDV and the threshold; without data nothing is left at the sender unless the flag says so."""
    _, receiver = two
    config = ucp.ucp_config_read()
    ucp.ucp_config_modify(config, "RNDV_THRESH", "1")
    context = ucp.ucp_init(ucp.ucp_params_t(features=ucp.UCP_FEATURE_AM), config, adapter=receiver.adapter)
    sender = Entity(receiver.adapter)
    ucp.ucp_worker_destroy(sender.worker)
    sender.worker = ucp.ucp_worker_create(context, ucp.ucp_worker_params_t())
    sender.connect(receiver)
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    for data, header, flags in ((b"x" * 9, b"h", EAGER), (b"x" * 9, b"h", EAGER | RNDV), (b"", b"h", 0)):
        send(sender.ep, data, header, flags=flags)
        wait_for(lambda: came.came, sender, receiver)
        assert not came.attr & IS_RNDV
        came.came.clear()
    request = send(sender.ep, b"x")
    wait_for(lambda: came.came, sender, receiver)
    assert came.attr == IS_RNDV
    ucp.ucp_am_data_release(receiver.worker, came.data)
    assert finish(request, sender, receiver) == OK


@pytest.mark.parametrize("alignment", [64, 4096])
@pytest.mark.parametrize("size", [8, 3000, 20_000])
def test_alignment(models, alignment, size):
    """basic, multi: am_alignment holds for data that can be kept."""
    sender, receiver = Entity(models[0]), Entity(models[1], am_alignment=alignment)
    sender.connect(receiver)
    seen = []
    came = Messages(receiver, lambda came: seen.append(address_of(came.data)), flags=ucp.UCP_AM_FLAG_PERSISTENT_DATA)
    for _ in range(3):
        send(sender.ep, bytes_of_seed(1, size), b"h", flags=EAGER)
    wait_for(lambda: len(came.came) == 3, sender, receiver)
    assert {address % alignment for address in seen} == {0}
    assert {taken for _, taken, _ in came.came} == {bytes_of_seed(1, size)}


@pytest.mark.parametrize("size", [8, 9000])
@pytest.mark.parametrize("flags", [EAGER, RNDV])
def test_reply(two, size, flags):
    """The receiver's own endpoint; one that the application has not made serves as well."""
    sender, receiver = two
    came = Messages(receiver)
    answered = Messages(sender, number=8)
    second = sender.connect(receiver)
    for ep, own in ((sender.ep, receiver.ep), (second, None)):
        request = send(ep, bytes(size), flags=flags | REPLY)
        wait_for(lambda: came.came, *two)
        came.came.clear()
        assert came.attr & HAS_REPLY
        assert own is None or came.reply_ep is own
        send(came.reply_ep, b"answer", number=8)
        wait_for(lambda: answered.came, *two)
        answered.came.clear()
        assert finish(request, *two) == OK
    send(sender.ep, bytes(size), flags=flags)
    wait_for(lambda: came.came, *two)
    assert not came.attr & HAS_REPLY
    assert came.reply_ep is None


# Descriptors


def test_what_a_handler_says_of_a_rendezvous_reaches_the_sender(two):
    sender, receiver = two
    ended = []
    came = Messages(receiver, lambda came: ucp.UcsStatus.UCS_ERR_REJECTED)
    request = send(sender.ep, bytes(200), flags=RNDV, cb=lambda *given: ended.append(given), user_data="mine")
    assert finish(request, *two) == ucp.UcsStatus.UCS_ERR_REJECTED
    assert ended == [(request, ucp.UcsStatus.UCS_ERR_REJECTED, "mine")]
    came.verdict = lambda came: OK
    assert finish(send(sender.ep, bytes(200), flags=RNDV), *two) == OK
    with pytest.raises(ucp.UcsInvalidParamError):
        came.receive()
    came.verdict = lambda came: None
    assert finish(send(sender.ep, bytes(200), flags=RNDV), *two) == OK


def test_a_descriptor_is_used_once(two):
    """invalid_recv_desc: also where the receive fails; within the handler or later."""
    sender, receiver = two
    received = []

    def at_once(came):
        received.append(came.receive())
        return IN_PROGRESS

    came = Messages(receiver, at_once)
    request = send(sender.ep, bytes_of_seed(1, 500), flags=RNDV)
    assert finish(request, *two) == OK
    [(got, buffer)] = received
    assert finish(got, *two) == OK
    assert buffer == bytes_of_seed(1, 500)
    came.verdict = keep
    came.came.clear()
    request = send(sender.ep, bytes(500), flags=RNDV)
    wait_for(lambda: came.came, *two)
    with pytest.raises(ucp.UcsMessageTruncatedError):
        came.receive(499)
    assert finish(request, *two) == OK
    for again in (came.receive, lambda: ucp.ucp_am_data_release(receiver.worker, came.data)):
        with pytest.raises(ucp.UcsInvalidParamError):
            again()
    for wrong in (None, 5, b"x", object()):
        with pytest.raises(ucp.UcsInvalidParamError):
            ucp.ucp_am_recv_data_nbx(receiver.worker, wrong, bytearray(1), 1, None)


def test_a_count_of_0_gives_the_data_up(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    request = send(sender.ep, bytes(500), flags=RNDV)
    wait_for(lambda: came.came, *two)
    assert ucp.ucp_am_recv_data_nbx(receiver.worker, came.data, None, 0, None) is None
    assert finish(request, *two) == OK


def test_kept_data_can_be_received_and_tells_its_length(two):
    sender, receiver = two
    came = Messages(receiver, keep, flags=ucp.UCP_AM_FLAG_PERSISTENT_DATA)
    send(sender.ep, b"12345678")
    wait_for(lambda: came.came, *two)
    info = ucp.ucp_tag_recv_info_t()
    request, buffer = came.receive(20, recv_info=info)
    assert request is None
    assert info.length == 8
    assert buffer[:8] == b"12345678"


def test_the_callback_of_a_receive_is_told_the_length(two):
    sender, receiver = two
    came, told = Messages(receiver, keep), []
    send(sender.ep, bytes(700), flags=RNDV)
    wait_for(lambda: came.came, *two)
    request, _ = came.receive(1000, cb=lambda *given: told.append(given), user_data="mine")
    finish(request, *two)
    assert told == [(request, OK, 700, "mine")]


def test_forced_calls_that_cannot_be_over_at_once_do_nothing(two):
    sender, receiver = two
    forced = {"op_attr_mask": ucp.UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL}
    with pytest.raises(ucp.UcsNoResourceError):
        send(sender.ep, bytes(5000), **forced)
    assert send(sender.ep, bytes(4000), **forced) is None
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    request = send(sender.ep, bytes_of_seed(1, 300), flags=RNDV)
    wait_for(lambda: came.came and came.attr == IS_RNDV, *two)
    with pytest.raises(ucp.UcsNoResourceError):
        came.receive(**forced)
    received, buffer = came.receive()
    assert finish(received, *two) == finish(request, *two) == OK
    assert buffer == bytes_of_seed(1, 300)


def test_data_that_was_not_given_to_keep_cannot_be_kept(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    send(sender.ep, b"short")
    with pytest.raises(ucp.UcsInvalidParamError, match="keep"):
        wait_for(lambda: len(came.came) == 2, *two)
    came.verdict = lambda came: OK
    send(sender.ep, b"next")
    wait_for(lambda: len(came.came) == 2, *two)


def test_a_handler_that_raises_leaves_everything_usable(two):
    sender, receiver = two

    def raising(came):
        raise KeyError("mine")

    came = Messages(receiver, raising)
    for flags in (EAGER, RNDV):
        request = send(sender.ep, bytes(100), flags=flags)
        with pytest.raises(KeyError, match="mine"):
            wait_for(lambda: False, *two)
        assert finish(request, *two) == OK
    came.verdict = lambda came: OK
    send(sender.ep, b"next")
    wait_for(lambda: came.came, *two)


def test_calls_check_before_they_act(two):
    sender, receiver = two
    for call in (
        lambda: send(sender.ep, b"x", number=65536),
        lambda: send(sender.ep, b"x", number=-1),
        lambda: ucp.ucp_am_send_nbx(sender.ep, ID, b"h", 2, b"x", 1, None),
        lambda: ucp.ucp_am_send_nbx(sender.ep, ID, None, 0, b"x", 2, None),
        lambda: ucp.ucp_am_send_nbx(receiver.worker, ID, None, 0, b"x", 1, None),
        lambda: ucp.ucp_worker_set_am_handler(receiver.worker, ID, None, None, 1 << 31),
    ):
        with pytest.raises(ucp.UcsInvalidParamError):
            call()
    with pytest.raises(ucp.UcsExceedsLimitError):
        send(sender.ep, bytes(MAX_EAGER + 1), flags=EAGER)
    other = Entity(receiver.adapter, ucp.UCP_FEATURE_STREAM)
    ep = other.connect(sender)
    with pytest.raises(ucp.UcsInvalidParamError, match="AM"):
        send(ep, b"x")
    assert sender.worker.rings.outstanding == 0
    assert not sender.ep.wired


# Ends


def test_rx_am_on_closed_ep(models):
    """A single packet without a reply is still delivered; of others, the sender of a rendezvous is told."""
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    receiver.connect(sender)
    came = Messages(receiver, keep)
    request = send(sender.ep, b"x" * 10, flags=RNDV)
    wait_for(lambda: came.came, sender, receiver)
    came.came.clear()
    came.verdict = lambda came: OK
    del receiver.worker.endpoints[receiver.ep.remote.identity, 0]  # as when it is closed, but the sender was not told
    send(sender.ep, b"short")
    wait_for(lambda: came.came, sender, receiver)
    send(sender.ep, b"reply", flags=REPLY)
    send(sender.ep, bytes(5000), flags=EAGER)
    wait_for(lambda: receiver.worker.wireup.malformed == 3, sender, receiver)
    late = send(sender.ep, bytes(5000), flags=RNDV)
    assert finish(late, sender, receiver) == ucp.UcsStatus.UCS_ERR_CANCELED
    assert not request.done
    assert len(came.came) == 1
    receiver.worker.endpoints[receiver.ep.remote.identity, 0] = receiver.ep


def test_what_nobody_has_read_ends_with_the_endpoint(two):
    sender, receiver = two
    came = Messages(receiver, keep)
    requests = [send(sender.ep, bytes(5000), flags=RNDV) for _ in range(3)]
    wait_for(lambda: len(came.came) == 3, *two)
    finish(ucp.ucp_ep_close_nbx(sender.ep, None), *two)
    wait_for(lambda: all(request.done for request in requests), *two)
    assert {request.code for request in requests} == {ucp.UcsStatus.UCS_ERR_CANCELED}
    received, _ = came.receive()
    assert finish(received, *two) != OK


def test_data_survives_a_bad_link():
    with open_adapters(impairments=IMPAIRED) as adapters:
        sender, receiver = Entity(adapters[0]), Entity(adapters[1])
        sender.connect(receiver)
        received = []
        came = Messages(receiver)

        def verdict(came):
            if came.attr & IS_RNDV:
                received.append((len(came.came), *came.receive()))
                return IN_PROGRESS
            return OK

        came.verdict = verdict
        numbers = random.Random(1)
        sent = [bytes_of_seed(n, numbers.choice((8, 500, 5000, 30_000))) for n in range(60)]
        requests = [
            send(sender.ep, data, b"%d" % n, flags=numbers.choice((EAGER, RNDV))) for n, data in enumerate(sent)
        ]
        wait_for(lambda: len(came.came) == 60, sender, receiver)
        for request in requests + [request for _, request, _ in received]:
            assert finish(request, sender, receiver) == OK
        taken = [data for _, data, _ in came.came]
        for index, _, buffer in received:
            taken[index] = bytes(buffer)
        # messages of one endpoint come in the order in which they were sent
        assert [int(header) for header, _, _ in came.came] == list(range(60))
        assert taken == sent


# What peers send


def test_malformed_messages_are_dropped_and_counted(two):
    sender, receiver = two
    came = Messages(receiver)
    ep = sender.ep
    long = bytes(40)
    wrong = [
        (MessageKind.AM, b"abc", 4),
        (MessageKind.AM, bytes(2000), 1500),
        (MessageKind.AM_FIRST, b"\x10" + bytes(7), 0),
        (MessageKind.AM_FIRST, b"\x01" + bytes(8), 0),
        (MessageKind.AM_FIRST, (MAX_EAGER + 1).to_bytes(8, "little") + b"x", 0),
        (MessageKind.AM_MORE, b"x", 0),
        (MessageKind.AM_LONG, long, 0),
        (MessageKind.AM_LONG, long[1:], 0),
        (MessageKind.AM_LONG, long, 1),
        (MessageKind.ANSWER, UCP_ANSWER.pack(token=4, status=5), 0),
        (MessageKind.ANSWER, b"", 0),
    ]
    for kind, data, headed in wrong:
        ep.send_message(kind, memoryview(data), am_id=ID, header_length=headed)
    wait_for(lambda: receiver.worker.wireup.malformed == len(wrong), *two)
    # fragments that are too long, empty, or of a message whose former was not finished
    first = memoryview((100).to_bytes(8, "little") + bytes(50))
    ep.send_message(MessageKind.AM_FIRST, first, am_id=ID)
    ep.send_message(MessageKind.AM_MORE, memoryview(bytes(51)))
    ep.send_message(MessageKind.AM_FIRST, first, am_id=ID)
    ep.send_message(MessageKind.AM_FIRST, first, am_id=ID)
    ep.send_message(MessageKind.AM_MORE, memoryview(bytes(50)))
    wait_for(lambda: came.came, *two)
    assert receiver.worker.wireup.malformed == len(wrong) + 2
    assert came.came == [(None, bytes(100), 100)]
    assert receiver.ep.incoming is None


def send_at_random(sender, receiver, seed, count):
    """Whatever a peer sends, progress raises nothing, and honest messages still come."""
    sender.connect(receiver)
    receiver.connect(sender)
    came = Messages(receiver, lambda came: IN_PROGRESS if came.attr & IS_RNDV else OK)
    ucp.ucp_worker_set_am_handler(receiver.worker, ID + 1, lambda *given: OK, None, 0)
    send(sender.ep, b"hello")
    numbers = random.Random(seed)
    kinds = [kind for kind in MessageKind if kind not in (MessageKind.WIREUP_REQUEST, MessageKind.GONE)] + [13, 15]
    home = Record(5, 4, sender.worker.main.address).pack()
    for number in range(count):
        size = numbers.choice((0, 1, 8, 16, 40, 41, numbers.randrange(300)))
        data = bytearray(numbers.randbytes(size))
        if numbers.random() < 0.5:
            data[1:8] = bytes(min(7, max(0, size - 1)))  # small lengths
        if numbers.random() < 0.2 and size >= len(home):
            data[: len(home)] = home  # a place that cannot be read
        sender.ep.send_message(
            numbers.choice(kinds),
            memoryview(data),
            flags=numbers.choice((0, MessageFlags.REPLY, MessageFlags.OLD, 15)),
            am_id=numbers.choice((ID, ID + 1, 9)),
            header_length=numbers.choice((0, 0, size, max(0, size - 40), numbers.randrange(65536))),
        )
        if not number % 50:
            sender.progress(), receiver.progress()
    send(sender.ep, b"honest", b"last")
    wait_for(lambda: came.came and came.came[-1] == (b"last", b"honest", 6), sender, receiver)
    assert receiver.worker.wireup.malformed > count // 6
    assert receiver.worker.inbox._out <= 32


@pytest.mark.parametrize("seed", range(2))
def test_random_messages_harm_nobody(models, seed):
    print(f"send_at_random with seed {seed}, 2000 messages")
    send_at_random(Entity(models[0]), Entity(models[1]), seed, 2000)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), [("model", 100_000), ("rtl", 10_000)])
def test_many_random_messages_harm_nobody(kind, count):
    print(f"send_at_random with seed 99, {count} messages")
    with open_adapters((kind, kind), rtl_options={"host_latency": 40}) as adapters:
        send_at_random(Entity(adapters[0]), Entity(adapters[1]), 99, count)
