"""The ends of active messages: closed endpoints, bad links, malformed and random messages of peers."""

import random

import amoeba.ucp as ucp
import pytest
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba.openucx.ucp.am_sends import MAX_EAGER
from amoeba.transport.rendezvous import Record
from amoeba_model.ucp import UCP_ANSWER, MessageFlags, MessageKind

from tests.driver.openucx.ucp.am_messages import (
    EAGER,
    ID,
    IMPAIRED,
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
from tests.driver.openucx.ucp.test_streams import bytes_of_seed

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
    """Progress raises nothing for any message of a peer, and honest messages still come."""
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
