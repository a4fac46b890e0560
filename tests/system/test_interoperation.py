"""A NIC and an independent UET endpoint: what each understands of the other.

Tests of docs/wire.md's rows that do not work yet are expected to fail, with the row as their reason.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind, ReceiveFlags
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.nic import ModelDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import BUILDS, NicParameters
from amoeba_model.registers import ContextControl, Counter, KeyFlags, PeerFlags
from amoeba_model.wire.uet import ReturnCode

from tests.support import uet_packets as uet
from tests.support.raw_driver import RawNic
from tests.support.uet_endpoint import Initiator, Target
from tests.support.uet_packets import Address, EndpointError, Station

OFFSETS = KeyFlags.VALID | KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE
KEY = 0x00AB_CDEF_0000_1234
JOB, PID = 0x0A0B0C, 0x123
SIZE = 1 << 14
CONTENT = bytes(number * 7 % 256 for number in range(SIZE))
NUMBER = 0x0102_0304_0506_0708
STEPS = 400
"""Of the network: longer than a timeout of the NIC."""
ECN_MARKED, CE, EXPEDITED = 0x20, 3, 46


@dataclass
class Bench:
    """One NIC with a context, a region of memory under ``KEY``, a receive ring, and an endpoint as its peer 0."""

    network: Network
    nic: RawNic
    station: Station

    def __post_init__(self) -> None:
        nic = self.nic
        self.context = nic.context(0, event_size=6, receive_size=3, job_id=JOB, pid_on_fep=PID)
        self.region = nic.buffer(SIZE)
        self.source = nic.buffer(SIZE)
        self.result = nic.buffer(SIZE)
        self.source[0] = CONTENT
        nic.key(KEY, self.region.address, SIZE, flags=OFFSETS)
        self.address = Address(nic.mac, nic.ip, JOB, PID, 0)
        mac = self.station.mac
        nic.set(
            "peers", mac_low=mac & 0xFFFF_FFFF, mac_high=mac >> 32, ip=self.station.ip, job_id=0xE0E0E0, pid_on_fep=1,
            resource_index=2, initial_psn=0x4000_0000, entropy=0xC000, flags=PeerFlags.VALID, context=0, initiator=0,
        )  # fmt: skip
        nic.set("peers", store=0)
        nic.settle()

    def initiator(self) -> Initiator:
        """The endpoint as the initiator of a PDC to the NIC."""
        return Initiator(self.station, self.address)

    def target(self) -> Target:
        """The endpoint as the target of the NIC's PDC."""
        return Target(self.station, bytearray(CONTENT))

    def receive(self, place: int, length: int, tag: int | None = None) -> None:
        flags = 0 if tag is None else ReceiveFlags.TAGGED
        self.context.receive(address=self.result.address + place, length=length, flags=flags, tag=tag or 0)
        for _ in range(Initiator.STEPS):  # the NIC reads the descriptor before any message comes
            self.station.step()

    def execute(self, target: Target, opcode: DescriptorOpcode, **fields: int) -> int:
        """Let the NIC execute one descriptor towards the endpoint; the status of its completion."""
        fields.setdefault("local", self.source.address)
        fields.setdefault("result", self.result.address)
        self.context.post(opcode=opcode, remote_key=KEY, **fields)
        return self.status(target)

    def status(self, target: Target) -> int:
        for _ in range(STEPS):
            target.serve()
            entry = self.context.poll()
            if entry is not None:
                return entry["status"]
        raise EndpointError("the NIC's request did not complete")

    def swap(self, target: Target, **fields: int) -> int:
        """Compare and swap the UINT64 at 0x40 of the endpoint's memory."""
        return self.execute(
            target, DescriptorOpcode.COMPARE_ATOMIC, op=Op.FI_CSWAP, datatype=Datatype.FI_UINT64, length=8,
            flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, remote_address=0x40, **fields,
        )  # fmt: skip

    def add(self, target: Target, opcode: DescriptorOpcode, value: int) -> int:
        """Add to the UINT64 at 0x40 of the endpoint's memory."""
        return self.execute(
            target, opcode, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, length=8, local=value, remote_address=0x40,
            flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE,
        )  # fmt: skip


def _model() -> tuple[SimulatedDevice, NicParameters]:
    return ModelDevice(BUILDS["full"]), BUILDS["full"]


def _tiny() -> tuple[SimulatedDevice, NicParameters]:
    from amoeba_sim.rtl import open_rtl

    return open_rtl(BUILDS["tiny"], host_latency=40), BUILDS["tiny"]


NICS: dict[str, Callable[[], tuple[SimulatedDevice, NicParameters]]] = {"model": _model, "tiny": _tiny}
"""The model of a NIC with everything, and the smallest NIC in RTL."""


def bench_of(kind: str) -> Iterator[Bench]:
    device, parameters = NICS[kind]()
    network = Network()
    mac = 0x0200_0000_0001
    network.attach(device, mac.to_bytes(6, "big"))
    station = Station(network)
    yield Bench(network, RawNic(device, mac, 0x0A00_0001, parameters), station)
    device.close()


@pytest.fixture(params=tuple(NICS))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_of(request.param)


@pytest.fixture
def model_bench() -> Iterator[Bench]:
    yield from bench_of("model")


def row(number: int) -> pytest.MarkDecorator:
    """A row of docs/wire.md that does not work yet."""
    return pytest.mark.xfail(strict=True, reason=f"row {number}", raises=(AssertionError, EndpointError))


# Requests of one packet to the NIC


def test_a_peer_writes_and_reads(bench: Bench) -> None:
    peer = bench.initiator()
    peer.write(KEY, 0x10, b"twenty-one bytes long")
    peer.write(KEY, 0x100, CONTENT[:1024])
    assert bench.region[0x10:0x26] == b"twenty-one bytes long\0"
    assert bench.region[0x100:0x500] == CONTENT[:1024]
    assert peer.read(KEY, 0x12, 16) == b"enty-one bytes l"


def test_a_peer_sends_with_and_without_a_tag(bench: Bench) -> None:
    peer = bench.initiator()
    bench.receive(0, 64)
    bench.receive(0x100, 64, tag=0x77)
    peer.send(b"tagged", tag=0x77)
    peer.send(b"untagged")
    assert bench.result[:8] == b"untagged"
    assert bench.result[0x100:0x106] == b"tagged"


def test_a_peer_closes_and_opens_again(bench: Bench) -> None:
    peer = bench.initiator()
    for text in (b"one", b"two", b"six"):
        peer.write(KEY, 0, text)
        peer.close()
        assert bench.region[:3] == text


def test_a_peer_is_refused_with_a_return_code(bench: Bench) -> None:
    peer = bench.initiator()
    answer = peer.ask(peer.header(uet.WRITE, key=KEY + 1, length=4) + b"four")
    assert (answer.opcode, answer.code, answer.modified) == (uet.PLAIN, 0x1C, 0)
    peer.write(KEY, 0, b"four")


def test_a_packet_of_an_unknown_pdc_gets_a_nack(bench: Bench) -> None:
    peer = bench.initiator()
    stranger = uet.prologue(uet.ROD_REQUEST, uet.STANDARD_REQUEST, uet.ACK_REQUEST)
    frame = stranger + struct.pack(">hIHH", -1, 0x1234_0000, 7, 3) + peer.header(uet.WRITE, key=KEY)
    bench.station.send(bench.address, frame)
    assert peer.answer().nack == 0x0E


# Requests of one packet from the NIC


def test_a_peer_is_written_and_read(bench: Bench) -> None:
    target = bench.target()
    assert bench.execute(target, DescriptorOpcode.WRITE, length=1000, remote_address=0x2001) == 1
    assert target.memory[0x2000:0x23EA] == CONTENT[0x2000:0x2001] + CONTENT[:1000] + CONTENT[0x23E9:0x23EA]
    assert bench.execute(target, DescriptorOpcode.READ, length=16, remote_address=0x40) == 1
    assert bench.result[:17] == CONTENT[0x40:0x50] + b"\0"


def test_a_peer_is_sent_messages(bench: Bench) -> None:
    target = bench.target()
    assert bench.execute(target, DescriptorOpcode.SEND, length=5) == 1
    assert bench.execute(target, DescriptorOpcode.TAGGED_SEND, length=6) == 1
    assert target.received == [CONTENT[:5], CONTENT[:6]]
    assert [(r.opcode, r.length) for r in target.requests] == [(uet.SEND, 5), (uet.TAGGED_SEND, 6)]
    assert target.requests[1].key == KEY


def test_a_lost_packet_is_sent_again(bench: Bench) -> None:
    target = bench.target()
    target.lose = 1
    assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1
    assert [request.retx for request in target.requests] == [True]


def test_the_nic_closes_and_opens_again(bench: Bench) -> None:
    target = bench.target()
    for count in (1, 2):
        assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1
        assert bench.execute(target, DescriptorOpcode.CLOSE) == 1
        assert [request.syn for request in target.requests] == [True] * count


# Rows 1 to 3: atomics


def test_row_1_the_answer_to_a_compare_and_swap_has_the_length_of_its_request(bench: Bench) -> None:
    assert bench.initiator().swap(KEY, 8, 0, 1).modified == uet.CSWAP_LENGTH


def test_row_2_a_peer_compares_and_swaps(bench: Bench) -> None:
    bench.region[8] = NUMBER.to_bytes(8, "little")
    answer = bench.initiator().swap(KEY, 8, NUMBER, 5)
    assert bench.region.integer(8) == 5
    assert answer.data == NUMBER.to_bytes(8, "big")


def test_row_2_the_nic_compares_and_swaps(bench: Bench) -> None:
    target = bench.target()
    target.memory[0x40:0x48] = NUMBER.to_bytes(8, "little")
    assert bench.swap(target, local=5, compare=NUMBER) == 1
    assert target.memory[0x40:0x48] == (5).to_bytes(8, "little")
    assert bench.result.integer(0) == NUMBER


def test_row_3_a_peer_adds(bench: Bench) -> None:
    peer = bench.initiator()
    bench.region[8] = NUMBER.to_bytes(8, "little")
    peer.add(KEY, 8, 5)
    assert bench.region.integer(8) == NUMBER + 5
    assert peer.fetch_add(KEY, 8, 6) == NUMBER + 5
    assert bench.region.integer(8) == NUMBER + 11


def test_row_3_the_nic_adds(bench: Bench) -> None:
    target = bench.target()
    target.memory[0x40:0x48] = NUMBER.to_bytes(8, "little")
    assert bench.add(target, DescriptorOpcode.ATOMIC, 5) == 1
    assert target.memory[0x40:0x48] == (NUMBER + 5).to_bytes(8, "little")
    assert bench.add(target, DescriptorOpcode.FETCH_ATOMIC, 6) == 1
    assert bench.result.integer(0) == NUMBER + 5


# Rows 4 and 5: more than one packet


@row(4)
def test_row_4_a_peer_reads_more_than_an_ack_holds(bench: Bench) -> None:
    bench.region[0] = CONTENT
    assert bench.initiator().read(KEY, 0x40, 64) == CONTENT[0x40:0x80]


def test_row_4_the_nic_reads_more_than_an_ack_holds(bench: Bench) -> None:
    target = bench.target()
    assert bench.execute(target, DescriptorOpcode.READ, length=64, remote_address=0x40) == 1
    assert bench.result[:64] == CONTENT[0x40:0x80]


def test_row_5_a_peer_writes_a_message_of_three_packets(bench: Bench) -> None:
    payload = bench.nic.parameters.payload
    bench.initiator().message(uet.WRITE, CONTENT[: 2 * payload + 500], payload, key=KEY, offset=0x100)
    assert bench.region[0x100 : 0x100 + 2 * payload + 501] == CONTENT[: 2 * payload + 500] + b"\0"


def test_row_5_a_peer_sends_a_message_of_three_packets(bench: Bench) -> None:
    payload = bench.nic.parameters.payload
    length = 2 * payload + 500
    bench.receive(0, SIZE)
    bench.initiator().message(uet.SEND, CONTENT[:length], payload)
    event = bench.context.event()
    assert (event["kind"], event["length"]) == (EventKind.RECEIVED, length)
    assert bench.result[:length] == CONTENT[:length]


def test_row_5_a_peer_s_tag_and_immediate_data_are_those_of_the_whole_message(bench: Bench) -> None:
    payload = bench.nic.parameters.payload
    length = payload + 20
    bench.receive(0, SIZE, tag=8)
    bench.receive(64, payload + 1, tag=9)
    peer = bench.initiator()
    same = {"key": 9, "message": 50, "length": length}
    first = peer.header(uet.TAGGED_SEND, **same, field=0xDA7A, flags=uet.START | uet.HEADER_DATA)
    last = peer.header(uet.TAGGED_SEND, **same, field=20 << 32 | payload, flags=uet.END)
    parts = first + CONTENT[:payload], last + CONTENT[payload:length]
    assert [peer.ask(part).code for part in parts] == [uet.RC_OK] * 2
    event = bench.context.event()
    assert (event["kind"], event["status"]) == (EventKind.RECEIVED, ReturnCode.TOO_LONG)
    assert (event["tag"], event["data"], event["length"]) == (9, 0xDA7A, length)
    assert bench.result[64 : 64 + payload + 2] == CONTENT[: payload + 1] + b"\0"


def test_row_5_a_peer_repeats_a_message_that_met_no_receive(bench: Bench) -> None:
    payload, peer = bench.nic.parameters.payload, bench.initiator()
    with pytest.raises(EndpointError, match="packet at 0: return code 0x5"):
        peer.message(uet.SEND, CONTENT[: payload + 1], payload)
    assert bench.context.poll_event() is None
    bench.receive(0, SIZE)
    peer.message(uet.SEND, CONTENT[: payload + 1], payload)
    assert bench.context.event()["length"] == payload + 1
    assert bench.result[: payload + 1] == CONTENT[: payload + 1]


def test_row_5_a_context_of_the_driver_takes_a_message_of_two_packets(bench: Bench) -> None:
    control = ContextControl.ENABLE | ContextControl.ANNOUNCE
    bench.nic.set("contexts", 0, control=0)
    bench.context = bench.nic.context(0, event_size=6, receive_size=3, job_id=JOB, pid_on_fep=PID, control=control)
    payload = bench.nic.parameters.payload
    bench.receive(0, SIZE)
    bench.initiator().message(uet.SEND, CONTENT[: payload + 1], payload)
    assert bench.context.event()["length"] == payload + 1


def test_row_5_a_peer_gives_a_message_up(bench: Bench) -> None:
    payload, peer = bench.nic.parameters.payload, bench.initiator()
    bench.receive(0, SIZE)
    first = peer.header(uet.SEND, message=50, length=payload + 1, flags=uet.START)
    given_up = peer.header(uet.MSG_ERROR, message=50, length=payload + 1, field=payload, flags=uet.END)
    assert [peer.ask(first + CONTENT[:payload]).code, peer.ask(given_up).code] == [uet.RC_OK] * 2
    event = bench.context.event()
    assert (event["kind"], event["status"]) == (EventKind.RECEIVED, ReturnCode.INITIATOR_ERROR)
    bench.receive(0, SIZE)
    peer.send(CONTENT[:9])
    assert bench.context.event()["length"] == 9


def test_row_5_the_nic_sends_a_message_of_three_packets(bench: Bench) -> None:
    target, length = bench.target(), 2 * bench.nic.parameters.payload + 500
    assert bench.execute(target, DescriptorOpcode.SEND, length=length) == 1
    assert target.received == [CONTENT[:length]]
    assert {(request.length, request.message) for request in target.requests} == {(length, 0)}


def test_row_5_immediate_data_is_in_the_first_packet(bench: Bench) -> None:
    target = bench.target()
    flags = DescriptorFlags.COMPLETION | DescriptorFlags.IMMEDIATE
    length = bench.nic.parameters.payload + 1
    write = {"length": length, "remote_address": 0x1001, "flags": flags, "compare": 0xDA7A}
    assert bench.execute(target, DescriptorOpcode.WRITE, **write) == 1
    assert target.memory[0x1001 : 0x1001 + length] == CONTENT[:length]
    assert [bool(request.flags & uet.HEADER_DATA) for request in target.requests] == [True, False]
    assert [request.field for request in target.requests] == [0xDA7A, 1 << 32 | length - 1]
    assert {(request.length, request.message, request.offset) for request in target.requests} == {(length, 0, 0x1001)}


@pytest.mark.parametrize("codes", [uet.LOST, uet.NO_PDC, uet.NO_SPACE], ids=["lost", "no_pdc", "no_space"])
def test_a_packet_is_sent_again_after_each_nack_that_is_not_fatal(bench: Bench, codes: tuple[int, ...]) -> None:
    target = bench.target()
    target.nacks.extend(codes)
    length = 3 * bench.nic.parameters.payload
    assert bench.execute(target, DescriptorOpcode.SEND, length=length) == 1
    assert target.received == [CONTENT[:length]]
    assert not target.nacks


# Row 6. The smallest NIC's window is too small for it.


def test_row_6_more_fetching_atomics_than_the_window_holds_all_complete(model_bench: Bench) -> None:
    bench, target, count = model_bench, model_bench.target(), 2 * uet.WINDOW
    bench.context = bench.nic.context(0, transmit_size=9, completion_size=9, job_id=JOB, pid_on_fep=PID)
    for _ in range(count):
        bench.context.put(
            opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, length=8, local=1,
            flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, result=bench.result.address,
        )  # fmt: skip
    bench.context.ring()
    assert [bench.status(target) for _ in range(count)] == [1] * count
    assert (uet.CONTROL, uet.CLEAR_COMMAND) in [packet.prologue[:2] for packet in target.packets]


# Rows 8 to 12; row 7 is in test_refused_messages.py


@row(8)
def test_row_8_a_request_without_order_is_answered(bench: Bench) -> None:
    peer = bench.initiator()
    pds = peer.pds()
    unordered = struct.pack(">H", struct.unpack(">H", pds[:2])[0] & 0x7FF | 2 << 11) + pds[2:]
    bench.station.send(bench.address, unordered + peer.header(uet.WRITE, key=KEY, length=4) + b"four")
    assert peer.answer().code == uet.RC_OK


@row(8)
def test_row_8_an_idempotent_request_is_answered(bench: Bench) -> None:
    peer = bench.initiator()
    pds = struct.pack(">HHI", 4 << 11 | 3 << 7, 0, 99)
    bench.station.send(bench.address, pds + peer.header(uet.WRITE, key=KEY | 1 << 63, length=4) + b"four")
    for _ in range(Initiator.STEPS):
        bench.station.step()
    assert [packet.prologue[0] for packet in bench.station.arrived()] == [5]


@row(8)
def test_row_8_a_datagram_is_received(bench: Bench) -> None:
    bench.receive(0, 64)
    peer = bench.initiator()
    pds = struct.pack(">HH", 6 << 11 | 3 << 7, 0)
    bench.station.send(bench.address, pds + peer.header(7, message=0, length=4) + b"four")
    for _ in range(Initiator.STEPS):
        bench.station.step()
    assert bench.result[:4] == b"four"


def test_row_12_a_request_for_an_ack_is_answered(bench: Bench) -> None:
    peer = bench.initiator()
    peer.write(KEY, 0, b"four")
    bench.station.send(bench.address, peer.control(uet.ACK_REQUEST_COMMAND, 100, flags=0, psn=0x1234_0000))
    for _ in range(Initiator.STEPS):
        bench.station.step()
    assert [packet.prologue[0] for packet in bench.station.arrived()] == [uet.ACK]


def test_row_12_a_clear_is_understood(bench: Bench) -> None:
    peer = bench.initiator()
    peer.read(KEY, 0, 8)
    bench.station.send(bench.address, peer.control(uet.CLEAR_COMMAND, 0x1234_0000, flags=0, psn=0))
    for _ in range(Initiator.STEPS):
        bench.station.step()
    assert bench.nic.counter(Counter.DROPPED_MALFORMED) == 0


@row(8)
def test_row_8_a_request_in_a_vlan_is_answered(bench: Bench) -> None:
    peer = bench.initiator()
    ses = peer.header(uet.WRITE, key=KEY, length=4) + b"four"
    frame = bench.station.frame(bench.address, peer.pds() + ses)
    bench.station.send_frame(frame[:12] + b"\x81\x00\x00\x05" + frame[12:])
    assert peer.answer().code == uet.RC_OK


def test_row_12_an_acknowledgement_with_congestion_state_completes_a_request(bench: Bench) -> None:
    target = bench.target()
    target.congestion_state = True
    assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1


def test_row_9_a_pdc_that_is_opened_again_begins_far_away(bench: Bench) -> None:
    target = bench.target()
    for _ in range(2):
        assert bench.execute(target, DescriptorOpcode.WRITE, length=8, remote_address=0) == 1
        assert bench.execute(target, DescriptorOpcode.CLOSE) == 1
    first, second = (request.psn for request in target.requests)
    assert 1 << 16 <= (second - first) % uet.PSNS <= uet.PSNS - (1 << 16)


def test_row_10_congestion_marks_are_echoed(bench: Bench) -> None:
    peer = bench.initiator()
    answer = peer.ask(peer.header(uet.WRITE, key=KEY, length=4) + b"four", tos=CE)
    assert answer.flags & ECN_MARKED


def test_row_10_answers_are_expedited(bench: Bench) -> None:
    peer = bench.initiator()
    assert peer.ask(peer.header(uet.WRITE, key=KEY, length=4) + b"four").tos >> 2 == EXPEDITED


def test_row_11_relative_addresses_are_told_from_absolute_ones(bench: Bench) -> None:
    peer = bench.initiator()
    ses = peer.header(uet.WRITE, key=KEY, length=4, flags=uet.START | uet.END | 8)
    assert peer.ask(ses + b"four").code != uet.RC_OK


def expected_failures() -> set[int]:
    """Return the rows whose tests are expected to fail."""
    marks: list[Any] = [
        mark
        for name, function in globals().items()
        if name.startswith("test_")
        for mark in getattr(function, "pytestmark", [])
    ]
    return {int(mark.kwargs["reason"].removeprefix("row ")) for mark in marks if mark.name == "xfail"}


def test_the_page_says_which_rows_work() -> None:
    text = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
    table = text.partition("## Interoperation")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    rows = {int(line[0]): line[-1] for line in cells[2:]}
    assert sorted(rows) == list(range(1, 13))
    assert {number for number, works in rows.items() if works != "yes"} == expected_failures()
