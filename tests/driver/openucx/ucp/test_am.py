"""Active messages, by the names of UCX's gtest test_ucp_am.cc, and what else is guaranteed of them.

Covers ``openucx/ucp/active_messages.py`` and ``openucx/ucp/am_sends.py``.
"""


import amoeba.ucp as ucp
import pytest
from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.active_messages import AmDescriptor

from tests.driver.openucx.ucp.am_messages import (
    EAGER,
    HAS_DATA,
    HAS_REPLY,
    ID,
    IN_PROGRESS,
    IS_RNDV,
    OK,
    REPLY,
    RNDV,
    Messages,
    keep,
    send,
)
from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_streams import Copying, bytes_of_seed, param

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
