# amaranth: UnusedElaboratable=no
"""Data of READs in the return direction: peer table, packet log and response handler together.

Covers ``initiator/result_router.py``.
"""

import pytest
from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, flipped
from amoeba_hw.initiator.packet_log import PacketLog
from amoeba_hw.initiator.peer_table import PeerTable
from amoeba_hw.initiator.records import ANSWER, LOGGED_PACKET
from amoeba_hw.initiator.response_handler import ResponseHandler
from amoeba_hw.interfaces import DMA_COMMAND, FRAME_HEADER, PEER_STORE, packet_beat
from amoeba_hw.stream import connect_streams
from amoeba_model.parameters import NicParameters
from amoeba_model.wire.uet import ResponseOpcode, ReturnCode

from tests.support.simulation import simulate

WIDTH, WINDOW = 128, 16
PEER, IP, JOB, PSN, TARGET_PDC = 1, 0x0A00_0002, 0x123456, 0xFFFF_FFFE, 6
PSNS = 1 << 32
OK, UNCOR = ReturnCode.OK, ReturnCode.UNCOR


class Tables(wiring.Component):
    """The parts that an answer meets; ``sent`` is a new packet with its ``entry``."""

    def __init__(self):
        parameters = NicParameters(data_width=WIDTH, payload=64, peers=2, contexts=1, window=WINDOW)
        self.table, self.responses = PeerTable(2), ResponseHandler(parameters)
        self.log = PacketLog(2, WINDOW)
        super().__init__(
            {
                "stores": In(stream.Signature(PEER_STORE)),
                "headers": In(stream.Signature(FRAME_HEADER)),
                "payload": In(stream.Signature(packet_beat(WIDTH))),
                "sent": In(1),
                "psn": In(32),
                "entry": In(LOGGED_PACKET),
                "commands": Out(stream.Signature(DMA_COMMAND)),
                "results": Out(stream.Signature(packet_beat(WIDTH))),
                "answers": Out(stream.Signature(ANSWER)),
                "acknowledgements": Out(stream.Signature(FRAME_HEADER)),
                "dropped": Out(1),
                "received": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.table, m.submodules.responses, m.submodules.log = self.table, self.responses, self.log
        table, responses, log = self.table, self.responses, self.log
        for producer, consumer in (
            (flipped(self.stores), table.stores),
            (flipped(self.headers), responses.responses),
            (flipped(self.payload), responses.response_payload),
            (responses.result_commands, flipped(self.commands)),
            (responses.results, flipped(self.results)),
            (responses.answers, flipped(self.answers)),
            (responses.acknowledgements, flipped(self.acknowledgements)),
        ):
            connect_streams(m, producer, consumer)
        for name in ("storing", "answer_open", "answer_psn", "answer_ip", "answer_job", "answer_state"):
            m.d.comb += Value.cast(getattr(responses, name)).eq(Value.cast(getattr(table, name)))
        for name in ("occupied", "answer_index", "answered", "answered_index", "answered_state", "restarted"):
            m.d.comb += Value.cast(getattr(table, name)).eq(Value.cast(getattr(responses, name)))
        for name in ("named_peer", "named_psn", "note", "note_peer", "note_psn", "note_status"):
            m.d.comb += getattr(log, name).eq(getattr(responses, name))
        m.d.comb += [
            responses.opened.eq(table.opened),
            responses.opened_peer.eq(table.opened_peer),
            table.sent.eq(self.sent),
            table.sent_index.eq(PEER),
            table.sent_psn.eq(self.psn + 1),
            log.write.eq(self.sent),
            log.write_peer.eq(PEER),
            log.write_psn.eq(self.psn),
            log.write_entry.eq(self.entry),
            log.write_message_id.eq(self.entry.message_id),
            log.write_new.eq(self.sent),
            log.answer_read.eq(responses.log_read),
            log.answer_peer.eq(responses.log_peer),
            log.answer_psn.eq(responses.log_psn),
            Value.cast(responses.log_entry).eq(Value.cast(log.entry)),
            Value.cast(responses.log_noted).eq(Value.cast(log.noted)),
            responses.named_message_id.eq(log.named_message_id),
            responses.note_granted.eq(log.note_granted),
            self.dropped.eq(responses.count_dropped_response),
            self.received.eq(responses.count_responses_received),
        ]
        return m


class Bench:
    """Drives the tables, and collects what leaves them."""

    def __init__(self, ctx, dut):
        self.ctx, self.dut = ctx, dut
        self.written, self.statuses, self.acknowledged = [], [], []
        self.dropped = self.received = 0
        self.store_waits = None
        """Cycles until an entry is offered to be stored; None: none is."""
        for name in ("commands", "results", "answers", "acknowledgements"):
            ctx.set(getattr(dut, name).ready, 1)

    async def tick(self):
        """Let a cycle pass, and collect what leaves in it."""
        ctx, dut = self.ctx, self.dut
        if ctx.get(dut.results.valid):
            beat = ctx.get(dut.results.payload)
            self.written.append(beat.data.to_bytes(WIDTH // 8, "little")[: beat.count])
        if ctx.get(dut.answers.valid):
            answer = ctx.get(dut.answers.payload)
            if answer.completes:
                self.statuses.append(answer.order.status)
        if ctx.get(dut.acknowledgements.valid):
            header = ctx.get(dut.acknowledgements.payload)
            self.acknowledged.append(((header.psn - PSN) % PSNS, header.is_control, header.spdcid, header.dpdcid))
        self.dropped += ctx.get(dut.dropped)
        self.received += ctx.get(dut.received)
        stored = False
        if self.store_waits is not None:
            peer = {"ip": IP, "job_id": JOB, "initial_psn": PSN, "valid": 1}
            ctx.set(dut.stores.payload, {"index": PEER, "peer": peer})
            ctx.set(dut.stores.valid, self.store_waits <= 0)
            stored = self.store_waits <= 0 and ctx.get(dut.stores.ready)
            self.store_waits -= 1
            assert self.store_waits >= -4, "the store waits for long"
        await ctx.tick()
        if stored:
            self.store_waits = None
            ctx.set(dut.stores.valid, 0)

    async def store(self):
        self.store_waits = 0
        await self.tick()
        while self.store_waits is not None:
            await self.tick()

    async def send(self, number, **entry):
        """Send packet ``number``: a READ of 16 bytes."""
        fields = {"length": 16, "returns_data": 1, "last": 1, "message_id": number, "result": 0x1000 * number}
        self.ctx.set(self.dut.psn, (PSN + number) % PSNS)
        self.ctx.set(self.dut.entry, {**fields, **entry})
        self.ctx.set(self.dut.sent, 1)
        await self.tick()
        self.ctx.set(self.dut.sent, 0)

    async def offer(self, data=b"", **fields):
        """Offer an answer with its data, and wait until it is taken and nothing moves any more."""
        ctx, dut = self.ctx, self.dut
        header = {"dpdcid": PEER, "spdcid": TARGET_PDC, "ip": IP, "job_id": JOB, "return_code": OK}
        header |= {"payload_length": len(data), "modified_length": len(data), **fields}
        ctx.set(dut.headers.payload, {name: int(value) for name, value in header.items()})
        ctx.set(dut.headers.valid, 1)
        beats = [data[at : at + WIDTH // 8] for at in range(0, len(data), WIDTH // 8)]
        taken, idle = False, 0
        while idle < 12:
            beat = beats[0] if beats else None
            ctx.set(dut.payload.valid, beat is not None)
            if beat is not None:
                value = {"data": int.from_bytes(beat, "little"), "count": len(beat), "last": len(beats) == 1}
                ctx.set(dut.payload.payload, value)
            header_taken = not taken and ctx.get(dut.headers.ready)
            beat_taken = beat is not None and ctx.get(dut.payload.ready)
            await self.tick()
            taken |= bool(header_taken)
            ctx.set(dut.headers.valid, not taken)
            beats = beats[1:] if beat_taken else beats
            idle = idle + 1 if taken and not beats else 0

    async def data(self, number, data, *, message=None, **fields):
        """Offer packet ``number`` of the return direction."""
        psn = (PSN + number) % PSNS
        message = number if message is None else message
        await self.offer(data, returns=1, psn=psn, opcode=ResponseOpcode.WITH_DATA, message_id=message, **fields)

    async def answer(self, number, opcode=ResponseOpcode.DEFAULT, data=b"", **fields):
        """Offer the ACK of packet ``number``."""
        psn = (PSN + number) % PSNS
        await self.offer(data, psn=psn, cack_psn=psn, opcode=opcode, message_id=number, **fields)


def bench(program):
    """Run a program of a bench with a stored peer."""
    dut = Tables()

    async def testbench(ctx):
        found = Bench(ctx, dut)
        await found.store()
        await program(found)

    simulate(dut, testbench)


def taken(number):
    return number, 0, PEER, TARGET_PDC


def refused(number):
    return number, 1, PEER, TARGET_PDC


def test_an_answer_by_default_promises_data_that_comes_later():
    async def program(b):
        await b.send(0)
        await b.answer(0)
        assert (b.received, b.dropped, b.statuses) == (1, 0, [])
        await b.data(0, b"sixteen bytes...")
        assert (b.received, b.dropped, b.statuses) == (2, 0, [OK])
        assert b.written == [b"sixteen bytes..."]
        assert b.acknowledged == [taken(0)]

    bench(program)


def test_data_before_its_answer_by_default_completes_the_read():
    async def program(b):
        await b.send(0)
        await b.data(0, b"sixteen bytes...")
        await b.answer(0)
        assert (b.received, b.dropped, b.statuses) == (1, 1, [OK])

    bench(program)


def test_data_in_the_ack_and_a_read_without_data_complete_as_ever():
    async def program(b):
        await b.send(0)
        await b.send(1, length=0)
        await b.answer(0, ResponseOpcode.WITH_DATA, b"sixteen bytes...")
        await b.answer(1)
        assert b.statuses == [OK, OK]
        assert not b.acknowledged

    bench(program)


def test_packets_behind_a_read_wait_for_its_data():
    async def program(b):
        await b.send(0)
        await b.send(1, returns_data=0)
        await b.answer(1)
        assert b.statuses == []
        await b.data(0, b"sixteen bytes...")
        assert b.statuses == [OK, OK]

    bench(program)


def test_data_that_comes_out_of_the_order_of_the_reads_is_kept():
    async def program(b):
        for number in range(3):
            await b.send(number)
        await b.data(0, b"of the third one", message=2)
        assert b.written == [b"of the third one"]
        await b.data(1, b"of the first one", message=0)
        assert b.statuses == [OK]
        await b.data(2, b"of the second on", message=1)
        assert b.statuses == [OK] * 3
        assert b.acknowledged == [taken(0), taken(1), taken(2)]

    bench(program)


def test_data_comes_again_and_early():
    async def program(b):
        for number in range(3):
            await b.send(number)
        await b.data(1, b"e" * 16)
        await b.data(2, b"e" * 16)
        assert b.acknowledged == [refused(0)]
        for number in range(3):
            await b.data(number, bytes([number]) * 16)
        await b.data(1, b"x" * 16)
        assert b.acknowledged == [refused(0), taken(0), taken(1), taken(2), taken(1)]
        assert b.written == [bytes([number]) * 16 for number in range(3)]
        assert b.dropped == 3

    bench(program)


def test_data_of_another_length_ends_the_read_and_is_not_written():
    async def program(b):
        wrong = (
            (b"x" * 17, {}), (b"x" * 15, {}), (b"x" * 16, {"modified_length": 17}), (b"x" * 16, {"buffer_offset": 8}),
        )  # fmt: skip
        for number, (data, fields) in enumerate(wrong):
            await b.send(number)
            await b.data(number, data, **fields)
        assert b.statuses == [UNCOR] * len(wrong)
        assert not b.written
        assert b.acknowledged == [taken(number) for number in range(len(wrong))]

    bench(program)


def test_data_for_what_is_no_read_is_dropped():
    async def program(b):
        await b.send(0, is_atomic=1, length=16)
        await b.send(1, returns_data=0)
        await b.data(0, b"x" * 16)
        await b.data(0, b"x" * 16, message=1)
        await b.data(0, b"x" * 16, message=2)
        for fields in ({"ip": IP + 1}, {"job_id": 5}, {"dpdcid": 0}, {"dpdcid": 9}, {"dpdcid": 0xFFFF}):
            await b.data(0, b"x" * 16, **fields)
        assert (b.dropped, b.received, b.statuses, b.written, b.acknowledged) == (8, 0, [], [], [])

    bench(program)


def test_data_answers_no_packet_before_its_read():
    async def program(b):
        await b.send(0, returns_data=0)
        await b.send(1)
        await b.data(0, b"sixteen bytes...", message=1)
        assert b.statuses == []
        await b.answer(0)
        assert b.statuses == [OK, OK]

    bench(program)


def test_data_that_comes_again_for_another_job_or_behind_a_close_is_not_acknowledged():
    async def program(b):
        await b.send(0)
        await b.data(0, b"sixteen bytes...")
        await b.data(0, b"sixteen bytes...", job_id=JOB + 1)
        await b.send(1, returns_data=0, is_close=1)
        await b.answer(1, ResponseOpcode.NONE)
        assert b.statuses == [OK, OK]
        await b.data(0, b"sixteen bytes...")
        assert (b.acknowledged, b.dropped) == ([taken(0)], 2)

    bench(program)


def test_the_target_s_pdc_is_the_one_that_answered():
    async def program(b):
        await b.send(0)
        await b.send(1)
        await b.data(0, b"sixteen bytes...")
        await b.data(1, b"x" * 16, spdcid=TARGET_PDC + 1)
        assert (b.dropped, len(b.acknowledged)) == (1, 1)
        await b.data(1, b"sixteen bytes...")
        assert b.statuses == [OK, OK]

    bench(program)


@pytest.mark.parametrize("cycles", range(8))
def test_a_store_goes_first_and_leaves_nothing_of_the_packet_in_hand(cycles):
    async def program(b):
        await b.send(0)
        b.store_waits = cycles
        await b.data(0, b"sixteen bytes...")
        assert (len(b.statuses), b.dropped) in ((1, 0), (0, 1))
        before = len(b.statuses)
        await b.send(0)
        await b.data(0, b"sixteen bytes...")
        assert len(b.statuses) == before + 1

    bench(program)


def test_a_pdc_that_is_stored_anew_takes_its_first_psn_again():
    async def program(b):
        for _ in range(2):
            await b.send(0)
            await b.data(0, b"sixteen bytes...")
            await b.store()
        assert b.statuses == [OK, OK]

    bench(program)
