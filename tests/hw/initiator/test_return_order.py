# amaranth: UnusedElaboratable=no
"""The order of the return direction, against a list of what was taken.

Covers ``initiator/return_order.py``.
"""

import random

from amoeba_hw.initiator.return_order import PLACES, ReturnOrder
from amoeba_hw.interfaces import FRAME_HEADER

from tests.support.simulation import simulate

PEERS, WINDOW = 4, 8
PSNS = 1 << 32
ROD_OUT_OF_ORDER, DEFAULT, OK = 0x0D, 0, 1
NONE = 3
"""Response opcode of an ACK without a response."""


class Driver:
    """Offers packets to a ReturnOrder, as the ResponseHandler does."""

    def __init__(self, ctx, dut):
        self._ctx, self._dut = ctx, dut
        ctx.set(dut.acknowledgements.ready, 1)

    def _set(self, **values):
        for name, value in values.items():
            self._ctx.set(getattr(self._dut, name), value)

    async def packet(self, peer, state, *, waits=1, accepts=True, **header):
        """The verdict on a packet, and its answer; one that is due is taken if ``accepts``."""
        ctx, dut = self._ctx, self._dut
        self._set(header={"job_id": 5, **header}, look_up=peer)
        await ctx.tick()
        self._set(peer=peer, state=state, name=1, look_up=0)
        await ctx.tick()
        self._set(name=0, judge=1, state={})
        named = ctx.get(dut.named)
        await ctx.tick()
        self._set(judge=0)
        due, whole = ctx.get(dut.due), ctx.get(dut.whole)
        self._set(taken=int(due and accepts), dropped=int(not (due and accepts)), waits=waits)
        await ctx.tick()
        self._set(taken=0, dropped=0)
        return named, due, whole, self.answer()

    def answer(self):
        """The acknowledgement on offer; None without one."""
        if not self._ctx.get(self._dut.acknowledgements.valid):
            return None
        answer = self._ctx.get(self._dut.acknowledgements.payload)
        return {name: int(getattr(answer, name)) for name in ("psn", "cack_psn", "nack_code", "spdcid", "dpdcid")}

    async def pulse(self, **values):
        self._set(**values)
        await self._ctx.tick()
        self._set(**dict.fromkeys(values, 0))


def test_packets_are_taken_in_order_and_acknowledged_as_often_as_they_come():
    dut, rng = ReturnOrder(PEERS, WINDOW), random.Random(3)
    starts = [0xFFFF_FFF0, 7, 0x8000_0000, 0]
    taken, refused = [0] * PEERS, [False] * PEERS

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        for _ in range(600):
            peer = rng.randrange(PEERS)
            distance = rng.choice((0, 0, 1, WINDOW - 1, WINDOW, -1, -WINDOW, -WINDOW - 1, rng.randint(-20, 20)))
            expected = starts[peer] + taken[peer]
            psn, waits = (expected + distance) % PSNS, rng.random() < 0.8
            state = {"start_psn": starts[peer], "oldest_psn": rng.getrandbits(32), "first_message": 3}
            _, due, _, answer = await driver.packet(peer, state, waits=int(waits), psn=psn, spdcid=9)
            assert due == (distance == 0)
            numbers = {"spdcid": peer, "dpdcid": 9}
            if distance == 0:
                taken[peer] += 1
                refused[peer] = False
                assert answer == {"psn": psn, "cack_psn": psn, "nack_code": 0, **numbers}
            elif 0 < -distance <= min(WINDOW, taken[peer]):
                assert answer == {"psn": psn, "cack_psn": (expected - 1) % PSNS, "nack_code": 0, **numbers}
            elif 0 < distance < WINDOW and waits and not refused[peer]:
                refused[peer] = True
                assert answer == {"psn": expected % PSNS, "cack_psn": 0, "nack_code": ROD_OUT_OF_ORDER, **numbers}
            else:
                assert answer is None
            await ctx.tick()
        assert min(taken) > 10

    simulate(dut, testbench)


def test_a_close_request_takes_its_turn_and_is_shown_until_the_pdc_begins_anew():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        state = {"start_psn": 40}
        asks = {"is_control": 1, "asks": 1, "returns": 1}
        for ends in ("forget", "opened"):
            _, due, _, answer = await driver.packet(2, state, psn=41, accepts=False, waits=0, **asks)
            assert (due, answer) == (0, None)
            assert ctx.get(dut.close_requests) == 0
            for _ in range(2):  # the second one comes again
                _, _, _, answer = await driver.packet(2, state, psn=40, spdcid=9, message_id=0, job_id=0, **asks)
                assert answer == {"psn": 40, "cack_psn": 40, "nack_code": 0, "spdcid": 2, "dpdcid": 9}
                found = ctx.get(dut.acknowledgements.payload)
                assert (found.opcode, found.return_code, found.is_control) == (NONE, 0, 0)
                await ctx.tick()
                assert ctx.get(dut.close_requests) == 1 << 2
            _, due, _, answer = await driver.packet(2, state, psn=41)  # data behind it
            assert due
            assert ctx.get(dut.acknowledgements.payload.opcode) == DEFAULT
            await driver.pulse(**({"forget": 1} if ends == "forget" else {"opened": 1, "opened_peer": 2}))
            assert ctx.get(dut.close_requests) == 0

    simulate(dut, testbench)


def test_a_message_names_the_packet_near_the_oldest_one():
    dut, rng = ReturnOrder(PEERS, WINDOW), random.Random(4)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        for _ in range(100):
            first, oldest, ahead = rng.getrandbits(32), rng.getrandbits(32), rng.randrange(1 << 16)
            psn = (oldest + ahead) % PSNS
            state = {"start_psn": 0, "oldest_psn": oldest, "first_message": first % (1 << 16)}
            named, *_ = await driver.packet(0, state, psn=99, message_id=(psn - first) % (1 << 16))
            assert named == psn

    simulate(dut, testbench)


def test_data_is_whole_without_an_offset_and_with_its_whole_length():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        for fields, expected in (
            ({"modified_length": 64}, 1),
            ({"modified_length": 65}, 0),
            ({"modified_length": 64 | 1 << 31}, 0),
            ({"modified_length": 64, "buffer_offset": 1}, 0),
            ({"modified_length": 64, "buffer_offset": 1 << 31}, 0),
        ):
            _, _, whole, _ = await driver.packet(0, {}, payload_length=64, psn=99, **fields)
            assert whole == expected

    simulate(dut, testbench)


def test_a_packet_of_another_pdc_of_the_target_is_not_due():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        state = {"start_psn": 5, "established": 1, "dpdcid": 8}
        assert (await driver.packet(0, state, psn=5, spdcid=9))[1:] == (0, 1, None)
        assert (await driver.packet(0, state, psn=6, spdcid=9))[3] is None
        assert (await driver.packet(0, state, psn=5, spdcid=8))[1]

    simulate(dut, testbench)


def test_a_target_hears_which_answers_it_need_not_keep():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        answer = {"mac": 3, "ip": 4, "port": 5, "retx": 1, "marked": 1, "psn": 99, "message_id": 7, "spdcid": 6}
        ctx.set(dut.header, answer)
        await driver.pulse(peer=2, clears=1, clear_psn=0xFFFF_FFFE, clear_pdc=9)
        sent = ctx.get(dut.acknowledgements.payload)
        assert ctx.get(dut.acknowledgements.valid)
        found = {name: int(getattr(sent, name)) for name, _ in FRAME_HEADER}
        named = {
            "mac": 3, "ip": 4, "port": 5, "is_request": 1, "is_control": 1, "clears": 1, "psn": 0xFFFF_FFFE,
            "spdcid": 2, "dpdcid": 9, "initiator": 0xFF,
        }  # fmt: skip
        assert found == dict.fromkeys(found, 0) | named

    simulate(dut, testbench)


def test_a_pdc_that_begins_anew_or_is_a_new_one_counts_from_its_start():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        for begin in ({"forget": 1}, {"opened": 1, "opened_peer": 2}):
            for number in range(3):
                assert (await driver.packet(2, {"start_psn": 40}, psn=40 + number))[1]
            await driver.pulse(**begin)
            assert not (await driver.packet(2, {"start_psn": 90}, psn=43))[1]
            assert (await driver.packet(2, {"start_psn": 90}, psn=90))[1]
            await driver.pulse(**begin)

    simulate(dut, testbench)


def test_a_packet_that_its_read_does_not_take_stays_due():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        assert (await driver.packet(1, {"start_psn": 40}, psn=40, accepts=False))[1:] == (1, 1, None)
        _, due, _, answer = await driver.packet(1, {"start_psn": 40}, psn=40)
        assert due
        assert answer["psn"] == 40

    simulate(dut, testbench)


def test_without_a_place_for_its_acknowledgement_no_packet_is_due():
    dut = ReturnOrder(PEERS, WINDOW)

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        ctx.set(dut.acknowledgements.ready, 0)
        due = [(await driver.packet(0, {}, psn=number))[1] for number in range(PLACES)]
        assert due == [1] * PLACES
        assert not (await driver.packet(0, {}, psn=PLACES))[1]
        ctx.set(dut.acknowledgements.ready, 1)
        await ctx.tick()
        assert (await driver.packet(0, {}, psn=PLACES))[1]

    simulate(dut, testbench)


def test_an_acknowledgement_repeats_the_fields_of_its_packet():
    dut = ReturnOrder(PEERS, WINDOW)
    echoed = {
        "mac": 0x0200_0000_0005, "ip": 0x0A00_0005, "port": 0xC005, "retx": 1, "marked": 1, "message_id": 3,
        "job_id": 0x123456, "modified_length": 64,
    }  # fmt: skip

    async def testbench(ctx):
        driver = Driver(ctx, dut)
        await driver.packet(0, {}, psn=0, **echoed)
        answer = ctx.get(dut.acknowledgements.payload)
        assert {name: int(getattr(answer, name)) for name in echoed} == echoed
        assert (answer.is_request, answer.is_control, answer.returns, answer.payload_length) == (0, 0, 1, 0)
        assert (answer.opcode, answer.return_code) == (DEFAULT, OK)

    simulate(dut, testbench)
