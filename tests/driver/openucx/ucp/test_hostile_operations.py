"""Operations that no driver of UCP would send to a worker: it goes on, and its application hears nothing of them."""

import amoeba.ucp as ucp
import numpy as np
import pytest
from amoeba.core.buffers import address_of
from amoeba.openucx.ucp.requests import Quiet
from amoeba.transport.requests import Kind
from amoeba_model.descriptors import RENDEZVOUS, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op

from tests.driver.openucx.ucp.entities import Entity, finish, wait_for

IMMEDIATE = int(DescriptorFlags.IMMEDIATE)
INLINE = int(DescriptorFlags.INLINE)
UINT64 = int(Datatype.FI_UINT64)


def post(entity, lane, opcode, flags=0, *, op=0, datatype=0, length=8, key=0, local=0, result=0, compare=0, at=0):
    """One descriptor as it stands, and wait for its end."""
    sent = Quiet(lane, int(Kind.OWN), length)
    sent.opcode, sent.flags, sent.op, sent.datatype = int(opcode), flags, op, datatype
    sent.remote_address, sent.remote_key = at, key
    sent.local, sent.result, sent.compare = local, result, compare

    def send():
        sent.peer = lane.entry()
        entity.worker.rings.post(sent)

    lane.submit(send, 1, sent)


def served(sender, receiver):
    """Whether messages of all kinds, and memory operations, still go from the one to the other."""
    got = np.zeros(8, np.uint8)
    tagged = ucp.ucp_tag_recv_nbx(receiver.worker, got, 8, 7, 2**64 - 1, None)
    assert finish(ucp.ucp_tag_send_nbx(sender.ep, b"a letter", 8, 7, None), sender, receiver) is ucp.UCS_OK
    assert finish(tagged, sender, receiver) is ucp.UCS_OK
    assert bytes(got) == b"a letter"
    assert finish(ucp.ucp_stream_send_nbx(sender.ep, b"a stream", 8, None), sender, receiver) is ucp.UCS_OK
    got, _ = ucp.ucp_stream_recv_nbx(receiver.ep, place := bytearray(8), 8, None)
    assert finish(got, sender, receiver) is ucp.UCS_OK
    return bytes(place) == b"a stream"


@pytest.fixture
def mapped(pair):
    """(key, address) of memory of the receiver's that the sender may use."""
    _, receiver = pair
    memory = np.zeros(8, np.uint64)
    handle = ucp.ucp_mem_map(receiver.context, ucp.ucp_mem_map_params_t(address=memory, length=64))
    packed, _ = ucp.ucp_rkey_pack(receiver.context, handle)
    rkey = ucp.ucp_ep_rkey_unpack(pair[0].ep, packed)
    yield rkey.key, address_of(memoryview(memory)), memory
    ucp.ucp_rkey_destroy(rkey)
    ucp.ucp_mem_unmap(receiver.context, handle)


@pytest.mark.parametrize("lane", ["memory", "messages"])
@pytest.mark.parametrize("what", ["write", "read", "atomic"])
def test_immediate_data_that_nobody_expects_is_dropped(pair, mapped, lane, what):
    sender, receiver = pair
    key, address, _ = mapped
    lane = getattr(sender.ep, lane)
    result = np.zeros(1, np.uint64)
    place = address_of(memoryview(result))
    sender.worker.nic.dma.grant(place, 8, writable=True, whose=None)
    for data in (0, 1, 2**64 - 1):
        if what == "write":
            post(sender, lane, DescriptorOpcode.WRITE, IMMEDIATE | INLINE, key=key, at=address, compare=data)
        elif what == "read":
            post(sender, lane, DescriptorOpcode.READ, IMMEDIATE, key=key, at=address, result=place, compare=data)
        else:
            post(
                sender, lane, DescriptorOpcode.ATOMIC, IMMEDIATE | INLINE, op=int(Op.FI_SUM), datatype=UINT64,
                key=key, at=address, local=1, compare=data,
            )  # fmt: skip
    wait_for(lambda: lane.idle, sender, receiver)
    for _ in range(20):
        receiver.progress()
    assert served(sender, receiver)
    sender.worker.nic.dma.revoke(place, 8, None)


def test_messages_of_the_other_kind_do_not_stop_a_worker(pair):
    sender, receiver = pair
    for number in range(3):
        post(sender, sender.ep.messages, DescriptorOpcode.TAGGED_SEND, INLINE, key=number, local=number)
        post(sender, sender.ep.tagged, DescriptorOpcode.SEND, INLINE, local=number)
        post(sender, sender.ep.tagged, DescriptorOpcode.SEND, INLINE | IMMEDIATE, local=number, compare=number)
    wait_for(lambda: sender.ep.messages.idle and sender.ep.tagged.idle, sender, receiver)
    assert served(sender, receiver)


def test_records_of_long_messages_that_lead_nowhere_do_not_stop_a_worker(models):
    sender, receiver = Entity(models[0]), Entity(models[1])
    sender.connect(receiver)
    receiver.connect(sender)
    own = sender.worker.main.address
    record = np.frombuffer(
        RENDEZVOUS.pack(
            key=12345, token=6, mac_low=0, mac_high=0, resource_index=own.resource_index, job_id=own.job_id,
            pid_on_fep=own.pid_on_fep,
        ),
        np.uint8,
    ).copy()  # fmt: skip
    place = address_of(memoryview(record))
    sender.worker.nic.dma.grant(place, record.nbytes, writable=False, whose=None)
    for lane, opcode, tag in (
        (sender.ep.messages, DescriptorOpcode.RENDEZVOUS_SEND, 0),
        (sender.ep.tagged, DescriptorOpcode.RENDEZVOUS_TAGGED_SEND, 99),
    ):
        for length in (0, 40, 4096, 1 << 20, (1 << 32) - 1):
            post(sender, lane, opcode, length=record.nbytes, key=tag, local=place, at=length)
    wait_for(lambda: sender.ep.messages.idle and sender.ep.tagged.idle, sender, receiver)
    assert served(sender, receiver)
    sender.worker.nic.dma.revoke(place, record.nbytes, None)
