# amaranth: UnusedElaboratable=no
"""A PDC behind its CLOSE: peer table and response handler together, without the rest of the initiator.

Covers ``initiator/peer_table.py``.
"""

import pytest
from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.initiator.peer_table import PeerTable
from amoeba_hw.initiator.response_handler import ResponseHandler
from amoeba_hw.interfaces import FRAME_HEADER, PEER_STORE
from amoeba_hw.stream import connect_streams
from amoeba_model.nic.first_psns import first_psn
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import NackCode, ResponseOpcode

from tests.support.simulation import simulate

KEY = (0x1234_5678, 0x9ABC_DEF0, 0x0F1E_2D3C)
PEER, IP, PSN = 1, 0x0A00_0002, 0xFFFF_FFFF
"""The entry, and the psn of its CLOSE."""


class Tables(wiring.Component):
    """Peer table and response handler; the only packet ever sent is a CLOSE. ``numbering``: packets of others are."""

    def __init__(self):
        parameters = NicParameters(data_width=128, payload=64, peers=2, contexts=1)
        self.table, self.responses = PeerTable(2), ResponseHandler(parameters)
        super().__init__(
            {
                "stores": In(stream.Signature(PEER_STORE)),
                "headers": In(stream.Signature(FRAME_HEADER)),
                "sent": In(1),
                "sent_index": In(1),
                "sent_psn": In(32),
                "send_index": In(1),
                "send_psn": Out(32),
                "oldest_psn": Out(32),
                "established": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table, m.submodules.responses = table, responses = self.table, self.responses
        connect_streams(m, flipped(self.stores), table.stores)
        connect_streams(m, flipped(self.headers), responses.responses)
        for name in ("storing", "answer_open", "answer_psn", "answer_ip", "answer_job", "answer_state"):
            m.d.comb += Value.cast(getattr(responses, name)).eq(Value.cast(getattr(table, name)))
        for name in ("occupied", "answer_index", "answered", "answered_index", "answered_state", "restarted"):
            m.d.comb += Value.cast(getattr(table, name)).eq(Value.cast(getattr(responses, name)))
        for name in ("sent", "sent_index", "sent_psn", "send_index"):
            m.d.comb += getattr(table, name).eq(getattr(self, name))
        m.d.comb += [
            responses.numbering.eq(self.sent),
            responses.psn_key.eq(KEY[0] << 64 | KEY[1] << 32 | KEY[2]),
            responses.log_entry.is_close.eq(1),
            responses.log_entry.last.eq(1),
            responses.note_granted.eq(1),
            responses.answers.ready.eq(1),
            responses.result_commands.ready.eq(1),
            self.send_psn.eq(table.send_psn),
            self.oldest_psn.eq(table.send_answered.oldest_psn),
            self.established.eq(table.send_answered.established),
        ]
        return m


async def store(ctx, dut, index):
    ctx.set(dut.stores.payload, {"index": index, "peer": {"ip": IP, "initial_psn": PSN, "valid": 1}})
    ctx.set(dut.stores.valid, 1)
    cycles = 0
    while not ctx.get(dut.stores.ready):
        await ctx.tick()
        cycles += 1
    await ctx.tick()
    ctx.set(dut.stores.valid, 0)
    return cycles


async def look(ctx, dut):
    """(next psn, oldest unanswered psn) of the PDC."""
    ctx.set(dut.send_index, PEER)
    await ctx.tick()
    return ctx.get(dut.send_psn), ctx.get(dut.oldest_psn)


async def begin(ctx, dut):
    """Send the CLOSE."""
    await store(ctx, dut, PEER)
    for name, value in (("sent_index", PEER), ("sent_psn", (PSN + 1) & 0xFFFF_FFFF), ("sent", 1)):
        ctx.set(getattr(dut, name), value)
    await ctx.tick()
    ctx.set(dut.sent, 0)
    assert await look(ctx, dut) == ((PSN + 1) & 0xFFFF_FFFF, PSN)


def offer(ctx, dut, **fields):
    header = {"dpdcid": PEER, "ip": IP, "psn": PSN, "cack_psn": PSN, "opcode": ResponseOpcode.NONE, **fields}
    ctx.set(dut.headers.payload, {name: int(value) for name, value in header.items()})
    ctx.set(dut.headers.valid, 1)


async def taken(ctx, dut, limit):
    """Wait until the answer has been taken; after how many cycles."""
    for cycle in range(limit):
        if ctx.get(dut.headers.ready):
            await ctx.tick()
            ctx.set(dut.headers.valid, 0)
            return cycle
        # Somebody else's packets get psns in every other cycle, as often as possible.
        ctx.set(dut.sent_index, 1 - PEER)
        ctx.set(dut.sent, cycle % 2)
        await ctx.tick()
    raise AssertionError(f"not taken in {limit} cycles")


ANEW = first_psn(KEY, PEER, (PSN + 1) & 0xFFFF_FFFF)
ANSWERS = {
    "an ACK": {},
    "CLOSING": {"is_control": 1, "nack_code": NackCode.CLOSING},
    "INV_DPDCID": {"is_control": 1, "nack_code": NackCode.INV_DPDCID},
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_next_and_oldest_psn_move_together_to_where_the_pdc_begins_anew(answer):
    dut = Tables()

    async def testbench(ctx):
        await begin(ctx, dut)
        offer(ctx, dut, **ANSWERS[answer])
        assert 28 < await taken(ctx, dut, 40) < 35
        ctx.set(dut.sent, 0)
        assert await look(ctx, dut) == (ANEW, ANEW)
        assert not ctx.get(dut.established)

    async def watch(ctx):
        """A reader of both psns in one cycle sees none or one packet, never a jump between them."""
        while True:
            await ctx.tick()
            if ctx.get(dut.send_index) == PEER:
                assert (ctx.get(dut.send_psn) - ctx.get(dut.oldest_psn)) % (1 << 32) in (0, 1)

    simulate(dut, testbench, background=[watch])


@pytest.mark.parametrize(
    "wrong",
    [
        {"psn": PSN - 1},
        {"ip": IP + 1},
        {"opcode": ResponseOpcode.RESPONSE},
        {"is_control": 1, "nack_code": NackCode.NO_RESOURCE},
        {"is_control": 1, "nack_code": 0xFF},
    ],
)
def test_what_does_not_answer_the_close_takes_no_time_and_opens_nothing(wrong):
    dut = Tables()

    async def testbench(ctx):
        await begin(ctx, dut)
        offer(ctx, dut, **wrong)
        assert await taken(ctx, dut, 40) < 5
        ctx.set(dut.sent, 0)
        assert await look(ctx, dut) == ((PSN + 1) & 0xFFFF_FFFF, PSN)

    simulate(dut, testbench)


def test_a_store_goes_first_and_the_answer_begins_again():
    dut = Tables()

    async def testbench(ctx):
        await begin(ctx, dut)
        offer(ctx, dut)
        for _ in range(3):
            await ctx.tick().repeat(12)
            assert await store(ctx, dut, 1 - PEER) <= 3
        assert await taken(ctx, dut, 40) > 20
        ctx.set(dut.sent, 0)
        assert await look(ctx, dut) == (ANEW, ANEW)

    simulate(dut, testbench)
