"""Workers that claim to be others, or take more than their share: the NIC that a message comes from is its sender."""

import sys

import amoeba.ucp as ucp
import pytest
from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.message_headers import message_header
from amoeba.openucx.ucp.requests import Quiet
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DeviceError
from amoeba_model.ucp import MessageKind

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.tagged import receive
from tests.driver.openucx.ucp.test_ep_close import PEER, receive_stream

SEND, IMMEDIATE = int(DescriptorOpcode.SEND), int(DescriptorFlags.IMMEDIATE)


def say(ep, kind, data=b"", number=0, *, am_id=0, header_length=0):
    """Send any message of drivers on an endpoint's lane, whatever the driver itself would say."""
    view, lane = memoryview(bytearray(data)), ep.messages
    header = message_header(kind, number, 0, am_id, header_length)
    place = address_of(view) if view.nbytes else 0
    sent = Quiet(lane, 0, view.nbytes, view, ((place, view.nbytes, False),) if view.nbytes else ())
    sent.opcode, sent.flags, sent.local, sent.compare = SEND, IMMEDIATE, place, header

    def post():
        sent.peer = lane.entry()
        ep.worker.rings.post(sent)

    lane.submit(post, 1, sent)


def claim(entity, uid):
    """The address of a worker with another's number in it."""
    own = entity.worker.address
    return WorkerAddress(uid, own.main, own.message_context, own.link).pack()


@pytest.fixture
def three(models):
    """An attacker and a victim, and a friend that the victim may know."""
    return Entity(models[0]), Entity(models[1]), Entity(models[0])


def listen(entity):
    """The data of active messages with number 1, as they come."""
    came = []

    def take(arg, header, header_length, data, length, param):
        came.append(bytes(data))
        return ucp.UCS_OK

    ucp.ucp_worker_set_am_recv_handler(entity.worker, ucp.ucp_am_handler_param_t(id=1, cb=take))
    return came


def settle(*entities, rounds=300):
    for _ in range(rounds):
        for entity in entities:
            entity.progress()


# Identity


@pytest.mark.parametrize("honest_first", [False, True])
@pytest.mark.parametrize("friend_known", [False, True])
def test_b5_a_worker_that_claims_another_s_number_is_not_taken_for_it(three, honest_first, friend_known):
    attacker, victim, friend = three
    to_friend = victim.connect(friend, err_mode=PEER) if friend_known else None
    ep = attacker.connect(victim)
    if honest_first:
        ep.wire()
    say(ep, MessageKind.WIREUP_REQUEST, claim(attacker, friend.worker.uid))
    say(ep, MessageKind.STREAM, b"forged")
    say(ep, MessageKind.GONE)
    settle(attacker, victim)
    to_friend = to_friend or victim.connect(friend, err_mode=PEER)
    assert to_friend.failure is None
    assert to_friend.remote.identity == friend.worker.address.identity
    from_friend = friend.connect(victim)
    ucp.ucp_stream_send_nbx(from_friend, b"friend", 6, None)
    victim.ep = to_friend
    got, more = receive_stream(victim, 6)
    wait_for(more, victim, friend)
    assert got == b"friend"


def test_a_worker_that_claims_the_victim_s_own_number_is_another(three):
    attacker, victim, _ = three
    own = victim.connect(victim)
    ep = attacker.connect(victim)
    say(ep, MessageKind.WIREUP_REQUEST, claim(attacker, victim.worker.uid))
    say(ep, MessageKind.GONE)
    settle(attacker, victim)
    assert own.failure is None


def test_closed_endpoints_of_workers_that_nobody_asked_for_leave_bounded_memory(three):
    attacker, victim, _ = three
    ep = attacker.connect(victim)
    for uid in range(1, 300):
        say(ep, MessageKind.WIREUP_REQUEST, claim(attacker, uid))
        say(ep, MessageKind.GONE)
    settle(attacker, victim, rounds=2000)
    assert len(victim.worker.wireup._skipped) <= 1, "one for each NIC and context"
    assert not victim.worker.wireup._numbers
    assert len(victim.worker.endpoints) <= 1


def test_an_address_that_cannot_be_reached_is_dropped_and_counted(three, monkeypatch):
    attacker, victim, _ = three

    def unreachable(*_):
        raise DeviceError("no way")

    monkeypatch.setattr(victim.context.adapter, "reach", unreachable)
    attacker.connect(victim).wire()
    wait_for(lambda: victim.worker.wireup.malformed == 1, attacker, victim)


# Quotas


def test_endpoints_that_one_nic_makes_unasked_leave_places_for_others(models, monkeypatch):
    """The greedy one hears which of its endpoints have no other end, and the honest one is heard."""
    monkeypatch.setattr("amoeba.openucx.ucp.wireup._MAX_OF_ONE", 8)
    greedy, victim = Entity(models[0]), Entity(models[1])
    came = listen(victim)
    eps = [greedy.connect(victim, err_mode=PEER) for _ in range(12)]
    for ep in eps:
        ep.wire()
    wait_for(lambda: all(ep.failure for ep in eps[8:]), greedy, victim)
    assert [ep.failure for ep in eps[:8]] == [None] * 8
    assert {ep.failure for ep in eps[8:]} == {ucp.UcsStatus.UCS_ERR_CONNECTION_RESET}
    assert victim.worker.wireup.turned_away == 4
    wait_for(lambda: not victim.worker.wireup._parting, greedy, victim)
    assert len(victim.worker.endpoints) == 8
    honest = Entity(models[1])
    ucp.ucp_am_send_nbx(honest.connect(victim), 1, None, 0, b"honest", 6, None)
    wait_for(lambda: came, honest, victim, greedy)
    assert came == [b"honest"]
    victim.connect(greedy)  # the application takes one, so that another may come
    ucp.ucp_am_send_nbx(greedy.connect(victim), 1, None, 0, b"again", 5, None)
    wait_for(lambda: len(came) == 2, greedy, victim)


def test_when_all_places_are_taken_the_nic_with_the_most_makes_space(models, monkeypatch):
    monkeypatch.setattr("amoeba.openucx.ucp.wireup._MAX_UNASKED", 6)
    greedy, honest, victim = Entity(models[0]), Entity(models[1]), Entity(models[1])
    eps = [greedy.connect(victim, err_mode=PEER) for _ in range(6)]
    for ep in eps:
        ep.wire()
    settle(greedy, victim)
    assert len(victim.worker.endpoints) == 6
    mine = honest.connect(victim, err_mode=PEER)
    mine.wire()
    wait_for(lambda: eps[-1].failure, greedy, victim, honest)
    settle(greedy, victim, honest)
    assert [ep.failure for ep in (mine, *eps[:-1])] == [None] * 6
    assert len(victim.worker.endpoints) == 6


@pytest.mark.parametrize("asked", [False, True])
def test_messages_of_which_fragments_are_to_come_have_a_quota_for_each_nic(models, monkeypatch, asked):
    module = sys.modules[type(Entity(models[0]).worker.active_messages).__module__]
    monkeypatch.setattr(module, "_MAX_INCOMING", 40_000)
    greedy, victim, honest = Entity(models[0]), Entity(models[1]), Entity(models[1])
    eps = [greedy.connect(victim, err_mode=PEER) for _ in range(12)]
    for ep in eps:
        ep.wire()
        if asked:
            victim.connect(greedy, err_mode=PEER)
    settle(greedy, victim, rounds=50)
    for number, ep in enumerate(eps):
        say(ep, MessageKind.AM_FIRST, (1 << 20).to_bytes(8, "little") + bytes(4000), number)
    wait_for(lambda: any(ep.failure for ep in eps), greedy, victim)
    settle(greedy, victim)
    failed = [ep for ep in eps if ep.failure is not None]
    assert len(failed) == 12 - 40_000 // 5032
    assert {ep.failure for ep in failed} == {ucp.UcsStatus.UCS_ERR_CONNECTION_RESET}
    (kept,) = victim.worker.active_messages._incoming.values()
    assert kept <= 40_000
    came = listen(victim)
    param = ucp.ucp_request_param_t(flags=ucp.UCP_AM_SEND_FLAG_EAGER)
    ucp.ucp_am_send_nbx(honest.connect(victim), 1, None, 0, bytes(20_000), 20_000, param)
    wait_for(lambda: came, honest, victim)
    for ep in eps:
        if ep.failure is None:
            ucp.ucp_ep_close_nbx(ep, None)
    wait_for(lambda: not victim.worker.active_messages._incoming, greedy, victim)


def test_b6_tagged_messages_that_nobody_reads_have_a_quota_for_each_nic(models):
    """The endpoint of the greedy one fails, what came of it is received, and a neighbour is served."""
    greedy, victim, honest = Entity(models[0]), Entity(models[1]), Entity(models[1])
    receives = victim.worker.base.receives
    receives.unread.quota = 20 * 4096
    ep = greedy.connect(victim, err_mode=PEER)
    came = 0
    while ep.failure is None:
        assert came < 200
        request = ucp.ucp_tag_send_nbx(ep, came.to_bytes(3072, "little"), 3072, 7, ucp.ucp_request_param_t())
        wait_for(lambda: ep.tagged.idle or ep.failure, greedy, victim)
        came += ep.failure is None
        del request
    assert ep.failure == ucp.UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT
    assert receives.turned_away
    assert receives.unread.size <= 21 * 4096
    ucp.ucp_tag_send_nbx(honest.connect(victim), b"honest", 6, 9, ucp.ucp_request_param_t())
    buffer = bytearray(3072)
    for tag, text in [(9, b"honest"), *((7, number.to_bytes(3072, "little")) for number in range(came))]:
        assert finish(receive(victim, buffer, tag), victim, honest, greedy) == ucp.UcsStatus.UCS_OK
        assert buffer[: len(text)] == text
