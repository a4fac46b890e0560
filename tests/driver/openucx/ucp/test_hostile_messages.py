"""Messages that no driver would send: nothing comes of them but a count.

Covers ``openucx/ucp/calls/active_messages.py``, ``openucx/ucp/inbox.py``, ``openucx/ucp/message_headers.py``,
``openucx/ucp/messages.py`` and ``openucx/ucp/packets.py``.
"""

import random

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.adapter import open_adapters
from amoeba.openucx.ucp.addresses import WorkerAddress
from amoeba.openucx.ucp.message_headers import message_header
from amoeba.openucx.ucp.requests import Quiet
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.ucp import UCP_ADDRESS, MessageKind

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for
from tests.driver.openucx.ucp.test_ep_close import PEER, receive_stream

KINDS = [*MessageKind, 0, 15]
GUARD = 64


class Victim(Entity):
    """Everything that messages could meet: handlers, posted receives, memory that peers may use."""

    def __init__(self, adapter):
        super().__init__(adapter)
        self.messages = 0
        for number in range(4):
            flags = number % 2 * ucp.UCP_AM_FLAG_WHOLE_MSG
            handler = ucp.ucp_am_handler_param_t(id=number, cb=self.take, flags=flags)
            ucp.ucp_worker_set_am_recv_handler(self.worker, handler)
        ucp.ucp_worker_set_am_handler(self.worker, 4, self.take_old, None, 0)
        self.guarded = np.full(4096 + 2 * GUARD, 0xA5, np.uint8)
        self.memory = np.full(4096, 0x5A, np.uint8)
        self.mapped = ucp.ucp_mem_map(
            self.context, ucp.ucp_mem_map_params_t(address=self.memory, length=self.memory.nbytes)
        )

    def take(self, arg, header, header_length, data, length, param):
        self.messages += 1
        assert len(header or b"") == header_length
        if param.recv_attr & ucp.UCP_AM_RECV_ATTR_FLAG_RNDV:
            return ucp.UCS_ERR_REJECTED
        assert len(data or b"") == length
        return ucp.UCS_OK

    def take_old(self, arg, data, length, reply_ep, flags):
        self.messages += 1
        return ucp.UCS_OK

    def receive(self, friend):
        """Keep a receive posted on every endpoint but the friend's, into guarded memory."""
        for ep in list(self.worker.endpoints.values()):
            if ep.remote.uid != friend and ep.failure is None:
                ucp.ucp_stream_recv_nbx(ep, self.guarded[GUARD:-GUARD], 4096, None)
                data = ucp.ucp_stream_recv_data_nb(ep)
                if data is not None:
                    ucp.ucp_stream_data_release(ep, data)

    def check(self):
        assert (self.guarded[:GUARD] == 0xA5).all()
        assert (self.guarded[-GUARD:] == 0xA5).all()
        assert (self.memory == 0x5A).all()


def mutated(rng, data):
    """Bytes like these, with some of them changed, left out, or more behind them."""
    data = bytearray(data)
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    change = rng.randrange(8)
    if change == 0:
        del data[rng.randrange(len(data) + 1) :]
    elif change == 1:
        data += rng.randbytes(rng.randrange(64))
    return bytes(data)


def payload(rng, sender, victim):
    """Of a message: like an address, like a record of a long message, lengths in front, or anything."""
    choice = rng.randrange(7)
    if choice == 0:
        return mutated(rng, sender.address)
    if choice == 1:
        return mutated(rng, victim.address)
    if choice == 2:
        return mutated(rng, UCP_ADDRESS.pack(magic=0x5543, version=1, uid=rng.randrange(3)))
    if choice == 3:
        return rng.choice((0, 1, 100, 1 << 40, 1 << 63, (1 << 64) - 1)).to_bytes(8, "little") + rng.randbytes(56)
    if choice == 4:
        return b""
    if choice == 5:  # it says that it is another worker
        own = sender.worker.address
        claimed = rng.choice((victim.worker.uid, *(uid for (_, uid), _ in victim.worker.endpoints)))
        return WorkerAddress(claimed, own.main, own.message_context, own.link).pack()
    return rng.randbytes(rng.choice((1, 7, 8, 32, 40, 64, 200, 1000, 4096)))


def attack(adapters, seed, count):
    """Send ``count`` messages; returns how many were dropped, and how many handlers have seen."""
    rng = random.Random(seed)
    sender, victim, friend = Entity(adapters[0]), Victim(adapters[1]), Entity(adapters[0])
    ep = sender.connect(victim)
    ep.wire()
    rings = sender.worker.rings
    good = friend.connect(victim, err_mode=PEER)
    op, flag = int(DescriptorOpcode.SEND), int(DescriptorFlags.IMMEDIATE)
    for number in range(count):
        data = memoryview(bytearray(payload(rng, sender, victim)))
        kind = rng.choice(KINDS)
        endpoint = rng.choice((0, 0, 0, 1, 2, rng.randrange(1 << 24), 1 << 23))
        header = message_header(
            kind, endpoint, rng.randrange(16), rng.choice((0, 1, 2, 3, 4, 5, 65535)), rng.choice((0, 1, 8, 65535))
        )
        place, lane = address_of(data), ep.messages
        sent = Quiet(lane, 0, data.nbytes, data, ((place, data.nbytes, False),) if data.nbytes else ())
        sent.opcode, sent.flags, sent.local, sent.compare = op, flag, place, header

        def post(sent=sent, lane=lane):
            sent.peer = lane.entry()
            rings.post(sent)

        lane.submit(post, 1, sent)
        if number % 32 == 31:
            try:
                wait_for(lambda ep=ep: ep.idle or ep.failure is not None, sender, victim)
            except Exception as error:
                raise AssertionError(f"attack(adapters, {seed}, {number + 1}) has failed") from error
            victim.receive(friend.worker.uid)
            victim.check()
            if ep.failure is not None or ep.closed:
                ep = sender.connect(victim)
                ep.wire()
    wait_for(lambda: ep.idle, sender, victim)
    # others are served as before
    assert finish(ucp.ucp_stream_send_nbx(good, b"friend", 6, None), friend, victim) is ucp.UCS_OK
    victim.ep = victim.connect(friend)
    got, more = receive_stream(victim, 6)
    wait_for(more, friend, victim)
    assert got == b"friend"
    victim.check()
    dropped, seen = victim.worker.wireup.malformed, victim.messages
    for entity in (sender, friend):
        entity.context.close()
    ucp.ucp_mem_unmap(victim.context, victim.mapped)
    victim.context.close()
    return dropped, seen


@pytest.mark.parametrize("seed", range(3))
def test_messages_that_make_no_sense_are_dropped_and_counted(seed):
    with open_adapters() as models:
        dropped, seen = attack(models, seed, 1500)
    assert dropped > 400
    assert seen > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_ten_thousand_such_messages_at_a_time(seed):
    with open_adapters() as models:
        dropped, seen = attack(models, seed, 10_000)
    assert dropped > 3000
    assert seen > 0


@pytest.mark.long
def test_ten_thousand_such_messages_to_hardware():
    with open_adapters(("model", "rtl"), rtl_options={"host_latency": 40}) as pair:
        dropped, seen = attack(pair, 7, 10_000)
    assert dropped > 3000
    assert seen > 0
