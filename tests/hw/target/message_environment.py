"""Messages and receive descriptors of benches of Target, and the numbers that they hold."""

from amoeba_sim.cocotb_streams import start

from tests.hw.target.environment import (
    PACES,
    PARAMETERS,
    Bench,
    event_entry,
    store_keys,
)

SLOT_COUNT, RECEIVE_COUNT = PARAMETERS["unexpected"], PARAMETERS["receives"]
NO_OP, WRITE, READ, SEND, RENDEZVOUS_SEND, TAGGED_SEND, RENDEZVOUS_TSEND = 0, 1, 2, 5, 6, 9, 0xA
TSEND_ATOMIC, TSEND_FETCH, MSG_ERROR = 0xD, 0xE, 0xF
RECEIVE, PEEK, TAKE, CANCEL = 1, 2, 3, 4
TAGGED, MULTI, DIRECTED, ADDRESSED = 1, 2, 4, 8
RECEIVED, UNEXPECTED, NO_MATCH_EVENT, FOUND, TAKEN, CANCELLED, REFUSED, ARRIVED = 4, 5, 8, 9, 10, 11, 12, 13
BAD_INDEX = 0x19
OK, DISABLED, NO_MATCH, NO_RESOURCE, HOST_UNSUCCESS, LOCAL_BAD_DESCRIPTOR = 1, 3, 5, 0xA, 0xE, 0x30
INITIATOR_ERROR = 0x10
# UET's numbers.
SUM, UINT64 = 2, 7
SUM_OF_UINT64 = {"atomic_opcode": SUM, "atomic_datatype": UINT64}
BUFFER = 0x6000_0000
SHARING = (2, 3)
"""Contexts whose messages meet the receives of context 0, where a bench says so."""
CONTEXTS_USED = 8
"""Of the application, in receive descriptors."""


async def prepared(dut, *paces):
    bench = Bench(dut, *(PACES[pace] for pace in paces))
    await start(dut)
    store_keys(bench)
    await bench.sources["key_stores"].sent()
    return bench


def receive(opcode=RECEIVE, length=256, **fields):
    return {"opcode": opcode, "length": length, "address": BUFFER} | fields


def events_of(bench, first, count):
    return [event_entry(bench, 0, index) for index in range(first, first + count)]
