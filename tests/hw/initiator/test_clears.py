# amaranth: UnusedElaboratable=no
"""CLEARs, and generations of receives: peer table, packet log and response handler together.

Covers ``initiator/nack_rules.py``.
"""

import pytest
from amoeba_hw.initiator.packet_numberer import PacketNumberer
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import NackCode, RequestOpcode, ResponseOpcode, ReturnCode

from tests.hw.initiator.test_return_data import PEER, PSN, PSNS, TARGET_PDC, bench
from tests.support.simulation import simulate

DATA = b"sixteen bytes..."
PLAIN, WITH_DATA = ResponseOpcode.RESPONSE, ResponseOpcode.WITH_DATA


def clear(number):
    """The acknowledgement that clears answers up to packet ``number``, counted as psns are."""
    return number % PSNS, 1, PEER, TARGET_PDC


def test_an_answer_that_asks_for_it_leads_to_one_clear_up_to_its_packet():
    async def program(b):
        for number in range(3):
            await b.send(number)
        await b.answer(0, WITH_DATA, DATA)
        assert not b.acknowledged
        await b.answer(1, WITH_DATA, DATA, wants_clear=1)
        assert b.acknowledged == [clear(1)]
        await b.answer(1, WITH_DATA, DATA, wants_clear=1)  # once more: it answers nothing
        await b.answer(2, WITH_DATA, DATA)
        assert b.acknowledged == [clear(1)]
        assert len(b.statuses) == 3

    bench(program)


def test_behind_a_gap_only_what_is_before_it_is_cleared():
    async def program(b):
        for number in range(4):
            await b.send(number)
        await b.answer(2, WITH_DATA, DATA, wants_clear=1)  # the target's PDC is not known yet
        assert not b.acknowledged
        await b.answer(0, WITH_DATA, DATA)
        await b.answer(3, WITH_DATA, DATA, wants_clear=1)
        assert b.acknowledged == [clear(0)]
        await b.answer(1, WITH_DATA, DATA, wants_clear=1)
        assert b.acknowledged == [clear(0), clear(1)]
        assert len(b.statuses) == 4

    bench(program)


def test_an_answer_by_default_to_a_read_clears_what_was_answered_before():
    async def program(b):
        await b.send(0)
        await b.send(1)
        await b.answer(0, WITH_DATA, DATA)
        await b.answer(1, wants_clear=1)
        assert b.acknowledged == [clear(0)]

    bench(program)


@pytest.mark.parametrize("code", NackCode)
def test_a_nack_that_says_that_the_window_is_full_leads_to_a_clear(code):
    async def program(b):
        for number in range(2):
            await b.send(number)
        await b.answer(1, is_control=1, nack_code=code)
        assert not b.acknowledged  # nothing was answered yet
        await b.answer(0, WITH_DATA, DATA)
        await b.answer(1, is_control=1, nack_code=code)
        assert b.acknowledged == ([clear(0)] if code == NackCode.PSN_OOR_WINDOW else [])

    bench(program)


def test_the_answer_to_a_close_leads_to_no_clear():
    async def program(b):
        await b.send(0)
        await b.answer(0, WITH_DATA, DATA)
        await b.send(1, is_close=1, returns_data=0, length=0)
        await b.answer(1, ResponseOpcode.NONE, wants_clear=1)
        assert len(b.statuses) == 2
        assert not b.acknowledged

    bench(program)


@pytest.mark.parametrize("code", [ReturnCode.OK, ReturnCode.BAD_GENERATION, ReturnCode.NO_MATCH])
@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        (RequestOpcode.SEND, (5, 0)),
        (RequestOpcode.RENDEZVOUS_SEND, (5, 0)),
        (RequestOpcode.TAGGED_SEND, (0, 5)),
        (RequestOpcode.TSEND_ATOMIC, (0, 5)),
        (RequestOpcode.WRITE, (0, 0)),
    ],
)
def test_a_refusal_says_the_right_generation_of_its_kind_of_receives(opcode, expected, code):
    async def program(b):
        message = {"ses_opcode": opcode, "returns_data": 0}
        for number in range(2):
            await b.send(number, **message)
        younger = {"psn": (PSN + 1) % PSNS, "cack_psn": PSN - 1, "message_id": 1, "opcode": PLAIN}
        await b.offer(**younger, return_code=ReturnCode.BAD_GENERATION, ri_generation=9)
        await b.answer(0, PLAIN, return_code=code, ri_generation=5)
        state = b.ctx.get(b.dut.responses.answer_state)
        found = state.receives, state.tagged_receives
        assert found == (expected if code == ReturnCode.BAD_GENERATION else (0, 0))
        assert b.statuses == [code, ReturnCode.BAD_GENERATION]

    bench(program)


@pytest.mark.parametrize(
    ("opcode", "is_close", "expected"),
    [
        (RequestOpcode.SEND, 0, 5),
        (RequestOpcode.RENDEZVOUS_SEND, 0, 5),
        (RequestOpcode.TAGGED_SEND, 0, 9),
        (RequestOpcode.RENDEZVOUS_TSEND, 0, 9),
        (RequestOpcode.TSEND_ATOMIC, 0, 9),
        (RequestOpcode.TSEND_FETCH_ATOMIC, 0, 9),
        (RequestOpcode.WRITE, 0, 0),
        (RequestOpcode.FETCHING_ATOMIC, 0, 0),
        (RequestOpcode.SEND, 1, 0),
    ],
)
def test_a_message_has_the_generation_of_its_kind_of_receives(opcode, is_close, expected):
    dut = PacketNumberer(NicParameters(peers=2, contexts=1, window=16))

    async def testbench(ctx):
        ctx.set(dut.headers.ready, 1)
        ctx.set(dut.space, 1)
        ctx.set(dut.send_answered, {"receives": 5, "tagged_receives": 9})
        ctx.set(dut.i.payload, {"ses_opcode": opcode, "is_close": is_close})
        ctx.set(dut.i.valid, 1)
        while not ctx.get(dut.headers.valid):
            await ctx.tick()
        header = ctx.get(dut.headers.payload)
        assert (header.is_control, header.ri_generation) == (is_close, expected)

    simulate(dut, testbench)
