"""How endpoints find each other, and messages between drivers, by the engine's own means.

Covers ``openucx/ucp/addresses.py`` and ``amoeba_model/ucp.py``.
"""

import pytest
from amoeba_model.ucp import MessageKind

from tests.driver.openucx.ucp.entities import Entity, wait_for


def collect(entity):
    """The chunks of streams that come, with their endpoints."""
    got = []

    def take(endpoint, header, letter):
        got.append((endpoint, bytes(letter.chunk.view)))
        letter.chunk.release()

    entity.worker.wireup.handlers[MessageKind.STREAM] = take
    return got


def test_a_message_makes_the_endpoint_that_the_receiver_asks_for_later(sender, receiver):
    got = collect(receiver)
    ep = sender.connect(receiver)
    ep.send_message(MessageKind.STREAM, memoryview(b"hello"))
    wait_for(lambda: got, sender, receiver)
    endpoint, data = got[0]
    assert data == b"hello"
    assert receiver.connect(sender) is endpoint


def test_the_nth_endpoints_of_two_workers_pair_up(pair):
    sender, receiver = pair
    got = collect(receiver)
    second = sender.connect(receiver)
    second.send_message(MessageKind.STREAM, memoryview(b"second"))
    sender.ep.send_message(MessageKind.STREAM, memoryview(b"first"))
    wait_for(lambda: len(got) == 2, sender, receiver)
    other = receiver.connect(sender)
    assert dict(got) == {receiver.ep: b"first", other: b"second"}


@pytest.mark.parametrize("loopback", [True, False])
def test_an_endpoint_to_oneself_is_its_own_peer_or_pairs_with_the_next(models, loopback):
    import amoeba.ucp as ucp

    entity = Entity(models[0])
    got = collect(entity)
    flags = ucp.ucp_ep_params_flags_field(0) if loopback else ucp.UCP_EP_PARAMS_FLAGS_NO_LOOPBACK
    eps = [entity.connect(entity, flags=flags) for _ in range(2)]
    for index, ep in enumerate(eps):
        ep.send_message(MessageKind.STREAM, memoryview(b"%d" % index))
    wait_for(lambda: len(got) == 2, entity)
    expected = eps if loopback else eps[::-1]
    assert dict(got) == {expected[0]: b"0", expected[1]: b"1"}


def test_more_messages_than_the_ring_holds_arrive_in_order(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    got = collect(receiver)
    ep = sender.connect(receiver)
    for index in range(3000):
        ep.send_message(MessageKind.STREAM, memoryview(b"%d" % index))
    wait_for(lambda: len(got) == 3000, sender, receiver)
    assert [int(data) for _, data in got] == list(range(3000))
