"""Everything a NIC refuses: with which code, that nothing was written, and that the next operation works.

Covers ``amoeba_model/nic/capabilities.py``.
"""

from collections.abc import Callable
from typing import Any

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, KeyFlags
from amoeba_model.wire.uet import AtomicDatatype, AtomicOpcode, NackCode, RequestOpcode, ReturnCode, SesFlags

from tests.support.raw_driver import ALL_RIGHTS, Buffer, Pair
from tests.support.stranger import WHOLE, Stranger

INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
ATOMIC = {"opcode": RequestOpcode.ATOMIC, "atomic_opcode": AtomicOpcode.SUM, "atomic_datatype": AtomicDatatype.UINT64}
FETCH = {**ATOMIC, "opcode": RequestOpcode.FETCHING_ATOMIC}
CSWAP = {**FETCH, "atomic_opcode": AtomicOpcode.CSWAP}
VENDOR = {**CSWAP, "opcode": RequestOpcode.AMOEBA_COMPARE_ATOMIC}
READ_ATOMIC = {**FETCH, "atomic_opcode": AtomicOpcode.READ}
EIGHT, SIXTEEN, THIRTY_TWO = b"\x11" * 8, b"\x11" * 16, b"\x11" * 32
SIZE = 4096


@pytest.fixture
def stranger(device_pair: Pair) -> Stranger:
    return Stranger(device_pair)


def assert_usable(stranger: Stranger, region: Buffer) -> None:
    """A good WRITE in the same PDC still does what it should, and only that."""
    answer = stranger.ask(EIGHT, buffer_offset=region.address, request_length=8)
    assert answer.header.return_code == ReturnCode.OK
    assert region[:] == EIGHT + b"\xa5" * (SIZE - 8)


WIRE_CHECKS: list[tuple[str, ReturnCode, dict[str, Any], bytes]] = [
    ("version", ReturnCode.OP_VIOLATION, {"version": 1, "request_length": 8}, EIGHT),
    ("no START", ReturnCode.OP_VIOLATION, {"flags": SesFlags.END_OF_MESSAGE, "request_length": 8}, EIGHT),
    ("no END", ReturnCode.OP_VIOLATION, {"flags": SesFlags.START_OF_MESSAGE, "request_length": 8}, EIGHT),
    ("index out of range", ReturnCode.BAD_INDEX, {"resource_index": 4, "request_length": 8}, EIGHT),
    ("context off", ReturnCode.BAD_INDEX, {"resource_index": 1, "request_length": 8}, EIGHT),
    ("job", ReturnCode.BAD_JOB_ID, {"job_id": 1, "request_length": 8}, EIGHT),
    ("pid", ReturnCode.BAD_PID, {"pid_on_fep": 1, "request_length": 8}, EIGHT),
    ("DATAGRAM_SEND", ReturnCode.UNSUPPORTED_OP, {"opcode": RequestOpcode.DATAGRAM_SEND, "request_length": 8}, EIGHT),
    ("SEND", ReturnCode.DISABLED, {"opcode": RequestOpcode.SEND, "request_length": 8}, EIGHT),
    ("SEND long", ReturnCode.UNSUPPORTED_SIZE, {"opcode": RequestOpcode.SEND, "request_length": 7}, EIGHT),
    ("RENDEZVOUS_SEND short", ReturnCode.UNSUPPORTED_SIZE,
     {"opcode": RequestOpcode.RENDEZVOUS_SEND, "request_length": 8}, EIGHT),
    ("TSEND_ATOMIC", ReturnCode.DISABLED,
     {**ATOMIC, "opcode": RequestOpcode.TSEND_ATOMIC, "request_length": 8}, EIGHT),
    ("TSEND_FETCH_ATOMIC CSWAP", ReturnCode.AMO_UNSUPPORTED_OP,
     {**CSWAP, "opcode": RequestOpcode.TSEND_FETCH_ATOMIC, "request_length": 8}, bytes(32)),
    ("EXTENDED", ReturnCode.UNSUPPORTED_OP, {"opcode": 0x3F, "request_length": 8}, EIGHT),
    ("unknown op", ReturnCode.AMO_UNSUPPORTED_OP, {**ATOMIC, "atomic_opcode": 0x77, "request_length": 8}, EIGHT),
    ("INVAL", ReturnCode.AMO_UNSUPPORTED_OP, {**ATOMIC, "atomic_opcode": AtomicOpcode.INVAL}, b""),
    ("base READ", ReturnCode.AMO_UNSUPPORTED_OP, {**READ_ATOMIC, "opcode": RequestOpcode.ATOMIC, "request_length": 8},
     b""),
    ("base CSWAP", ReturnCode.AMO_UNSUPPORTED_OP, {**CSWAP, "opcode": RequestOpcode.ATOMIC, "request_length": 8},
     THIRTY_TWO),
    ("compare SUM", ReturnCode.AMO_UNSUPPORTED_OP, {**VENDOR, "atomic_opcode": AtomicOpcode.SUM, "request_length": 8},
     SIXTEEN),
    ("unknown datatype", ReturnCode.AMO_UNSUPPORTED_DT, {**ATOMIC, "atomic_datatype": 0x77, "request_length": 8},
     EIGHT),
    ("BOR of DOUBLE", ReturnCode.AMO_UNSUPPORTED_DT,
     {**ATOMIC, "atomic_opcode": AtomicOpcode.BOR, "atomic_datatype": AtomicDatatype.DOUBLE, "request_length": 8},
     EIGHT),
    ("WRITE above payload", ReturnCode.UNSUPPORTED_SIZE, {"request_length": 4097}, b"\x11" * 4097),
    ("WRITE short", ReturnCode.UNSUPPORTED_SIZE, {"request_length": 9}, EIGHT),
    ("WRITE long", ReturnCode.UNSUPPORTED_SIZE, {"request_length": 7}, EIGHT),
    ("READ above payload", ReturnCode.UNSUPPORTED_SIZE, {"opcode": RequestOpcode.READ, "request_length": 4097}, b""),
    ("READ with payload", ReturnCode.UNSUPPORTED_SIZE, {"opcode": RequestOpcode.READ, "request_length": 8}, EIGHT),
    ("atomic of nothing", ReturnCode.AMO_UNSUPPORTED_SIZE, {**ATOMIC, "request_length": 0}, b""),
    ("half an element", ReturnCode.AMO_UNSUPPORTED_SIZE, {**ATOMIC, "request_length": 12}, EIGHT + EIGHT[:4]),
    ("atomic above payload", ReturnCode.AMO_UNSUPPORTED_SIZE, {**ATOMIC, "request_length": 4104}, b"\x11" * 4096),
    ("atomic short", ReturnCode.AMO_UNSUPPORTED_SIZE, {**ATOMIC, "request_length": 16}, EIGHT),
    ("fetch long", ReturnCode.AMO_UNSUPPORTED_SIZE, {**FETCH, "request_length": 8}, SIXTEEN),
    ("READ with operands", ReturnCode.AMO_UNSUPPORTED_SIZE, {**READ_ATOMIC, "request_length": 8}, EIGHT),
    ("CSWAP of two", ReturnCode.OP_VIOLATION, {**CSWAP, "request_length": 16}, THIRTY_TWO),
    ("CSWAP of one element's length", ReturnCode.OP_VIOLATION, {**CSWAP, "request_length": 8}, THIRTY_TWO),
    ("CSWAP of 16 bytes", ReturnCode.OP_VIOLATION, {**CSWAP, "request_length": 32}, SIXTEEN),
    ("CSWAP of 32-byte element", ReturnCode.AMO_UNSUPPORTED_SIZE,
     {**CSWAP, "atomic_datatype": AtomicDatatype.LONG_DOUBLE_COMPLEX, "request_length": 32}, THIRTY_TWO),
    ("vendor short", ReturnCode.AMO_UNSUPPORTED_SIZE, {**VENDOR, "request_length": 16}, SIXTEEN),
    ("vendor above half", ReturnCode.AMO_UNSUPPORTED_SIZE, {**VENDOR, "request_length": 2056}, b"\x11" * 4096),
    ("key", ReturnCode.BAD_MKEY, {"memory_key": Pair.KEY + 1, "request_length": 8}, EIGHT),
    ("key of nothing", ReturnCode.BAD_MKEY, {"memory_key": 0, "request_length": 0}, b""),
]  # fmt: skip


@pytest.mark.parametrize(("code", "fields", "payload"), [case[1:] for case in WIRE_CHECKS],
                         ids=[case[0] for case in WIRE_CHECKS])  # fmt: skip
def test_the_target_refuses_a_request_with_its_code_and_touches_nothing(
    stranger: Stranger, region: Buffer, code: ReturnCode, fields: dict[str, Any], payload: bytes
) -> None:
    answer = stranger.ask(payload, buffer_offset=region.address, **fields)
    assert ReturnCode(answer.header.return_code) is code
    assert (answer.header.modified_length, answer.payload) == (0, b"")
    assert answer.header.message_id == (stranger.psn - 1) & 0xFFFF
    assert region[:] == b"\xa5" * SIZE
    assert stranger.pair.target.counter(Counter.REFUSED_REQUESTS) == 1
    assert_usable(stranger, region)


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, 1), (-8, 8), (SIZE - 7, 8), (SIZE, 1), (SIZE + 1, 0), (1 << 40, 8)],
)
def test_bytes_outside_a_region_are_refused(stranger: Stranger, region: Buffer, offset: int, length: int) -> None:
    answer = stranger.ask(b"\x11" * length, buffer_offset=region.address + offset, request_length=length)
    assert answer.header.return_code == ReturnCode.BAD_ADDR
    assert region[:] == b"\xa5" * SIZE
    assert_usable(stranger, region)


def test_a_region_must_not_wrap_around_the_address_space(stranger: Stranger, region: Buffer) -> None:
    top = (1 << 64) - 16
    stranger.pair.target.key(77, top, 64)
    stranger.pair.target.key(78, top, 64, flags=ALL_RIGHTS & ~KeyFlags.VIRTUAL)
    assert stranger.ask(EIGHT, memory_key=77, buffer_offset=0, request_length=8).header.return_code == 0x1D
    assert stranger.ask(EIGHT, memory_key=78, buffer_offset=16, request_length=8).header.return_code == 0x1D
    assert (
        stranger.ask(EIGHT, memory_key=78, buffer_offset=(1 << 64) - 4, request_length=8).header.return_code == 0x1D
    )
    assert stranger.pair.target.device.faults() == []
    assert_usable(stranger, region)


READ, WRITE = KeyFlags.REMOTE_READ, KeyFlags.REMOTE_WRITE
OPERATIONS: dict[str, tuple[dict[str, Any], bytes, KeyFlags]] = {
    "WRITE": ({"request_length": 8}, EIGHT, WRITE),
    "READ": ({"opcode": RequestOpcode.READ, "request_length": 8}, b"", READ),
    "ATOMIC": ({**ATOMIC, "request_length": 8}, EIGHT, WRITE),
    "FETCHING_ATOMIC": ({**FETCH, "request_length": 8}, EIGHT, READ | WRITE),
    "ATOMIC_READ": ({**READ_ATOMIC, "request_length": 8}, b"", READ),
    "compare and swap": ({**CSWAP, "request_length": 32}, THIRTY_TWO, READ | WRITE),
    "vendor compare": ({**VENDOR, "request_length": 8}, SIXTEEN, READ | WRITE),
}


@pytest.mark.parametrize("rights", [KeyFlags(0), READ, WRITE, READ | WRITE], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_needs_its_rights(stranger: Stranger, region: Buffer, name: str, rights: KeyFlags) -> None:
    fields, payload, needed = OPERATIONS[name]
    stranger.pair.target.key(99, region.address, SIZE, flags=KeyFlags.VALID | KeyFlags.VIRTUAL | rights)
    answer = stranger.ask(payload, memory_key=99, buffer_offset=region.address, **fields)
    if needed & ~rights:
        assert answer.header.return_code == ReturnCode.PERM_VIOLATION
        assert region[:] == b"\xa5" * SIZE
    else:
        assert answer.header.return_code == ReturnCode.OK
        assert answer.header.modified_length == fields["request_length"]


def test_a_key_of_another_domain_or_no_longer_valid_is_refused(stranger: Stranger, region: Buffer) -> None:
    target = stranger.pair.target
    target.key(98, region.address, SIZE, domain=2)
    target.key(99, region.address, SIZE, flags=ALL_RIGHTS & ~KeyFlags.VALID)
    fields = {"buffer_offset": region.address, "request_length": 8}
    assert stranger.ask(EIGHT, memory_key=98, **fields).header.return_code == ReturnCode.PERM_VIOLATION
    assert stranger.ask(EIGHT, memory_key=99, **fields).header.return_code == ReturnCode.BAD_MKEY
    target.key(98, region.address, SIZE)
    assert region[:] == b"\xa5" * SIZE
    assert stranger.ask(EIGHT, memory_key=98, **fields).header.return_code == ReturnCode.OK


def test_keys_that_fold_to_the_same_slot_are_told_apart(stranger: Stranger, region: Buffer) -> None:
    for index in range(8):
        stranger.pair.target.key(5 + (index << 6), region.address + 64 * index, 64)
    for index in range(8):
        fields = {"memory_key": 5 + (index << 6), "request_length": 8}
        answer = stranger.ask(bytes([index]) * 8, buffer_offset=region.address + 64 * index, **fields)
        assert answer.header.return_code == ReturnCode.OK
        assert (
            stranger.ask(EIGHT, buffer_offset=region.address + 64 * index + 57, **fields).header.return_code == 0x1D
        )
    assert [region[64 * index : 64 * index + 1] for index in range(8)] == [bytes([index]) for index in range(8)]


def test_requests_without_anything_to_do_are_answered_for_what_they_are(stranger: Stranger, region: Buffer) -> None:
    failed = {"flags": WHOLE | SesFlags.INITIATOR_ERROR}
    for code, fields in (
        (ReturnCode.OK, {"opcode": RequestOpcode.NO_OP}),
        (ReturnCode.INITIATOR_ERROR, {"opcode": RequestOpcode.NO_OP, **failed}),
        (ReturnCode.INITIATOR_ERROR, {"request_length": 8, **failed}),
    ):
        answer = stranger.ask(EIGHT, buffer_offset=region.address, **fields)
        assert answer.header.return_code == code
        assert answer.payload == b""
    assert region[:] == b"\xa5" * SIZE


def test_the_first_check_that_fails_decides(stranger: Stranger, region: Buffer) -> None:
    """Mend one field after the other: the codes come in the order of the table."""
    fields: dict[str, Any] = {
        "version": 1, "resource_index": 9, "job_id": 1, "pid_on_fep": 1, "opcode": RequestOpcode.DATAGRAM_SEND,
        "memory_key": 1, "request_length": 12,
        "atomic_opcode": 0x77, "atomic_datatype": 0x77, "buffer_offset": region.address - 1,
    }  # fmt: skip
    stranger.pair.target.key(55, region.address, SIZE, domain=2)
    mendings: list[tuple[ReturnCode, dict[str, Any]]] = [
        (ReturnCode.OP_VIOLATION, {"version": 0}),
        (ReturnCode.BAD_INDEX, {"resource_index": 0}),
        (ReturnCode.BAD_JOB_ID, {"job_id": stranger.pair.remote.job_id}),
        (ReturnCode.BAD_PID, {"pid_on_fep": stranger.pair.remote.pid_on_fep}),
        (ReturnCode.UNSUPPORTED_OP, {"opcode": RequestOpcode.ATOMIC}),
        (ReturnCode.AMO_UNSUPPORTED_OP, {"atomic_opcode": AtomicOpcode.SUM}),
        (ReturnCode.AMO_UNSUPPORTED_DT, {"atomic_datatype": AtomicDatatype.UINT64}),
        (ReturnCode.AMO_UNSUPPORTED_SIZE, {"request_length": 8}),
        (ReturnCode.BAD_MKEY, {"memory_key": 55}),
        (ReturnCode.PERM_VIOLATION, {"memory_key": Pair.KEY}),
        (ReturnCode.BAD_ADDR, {"buffer_offset": region.address}),
        (ReturnCode.OK, {}),
    ]
    for code, mending in mendings:
        assert ReturnCode(stranger.ask(EIGHT, **fields).header.return_code) is code
        fields.update(mending)
    assert region[:8] == (0xB6B6B6B6B6B6B6B6).to_bytes(8, "little")


def counted(stranger: Stranger, cause: Counter, frame: bytes, nack: NackCode | None = None) -> None:
    """The frame is dropped, counted as ``cause``, and answered with nothing but the NACK, if there is to be one."""
    before = stranger.pair.target.counter(cause)
    stranger.send(frame)
    assert stranger.pair.target.counter(cause) == before + 1
    answers = [(answer.header.is_control, answer.header.nack_code) for answer in stranger.answers()]
    assert answers == ([] if nack is None else [(True, nack)])


def test_a_frame_longer_than_headers_and_payload_can_be_is_dropped(stranger: Stranger, region: Buffer) -> None:
    fields = {"buffer_offset": region.address, "request_length": 8}
    frame = stranger.frame(stranger.header(**fields), EIGHT)
    longest = 14 + 20 + 8 + 12 + 44 + 4 + 4096 + 4
    counted(stranger, Counter.DROPPED_MALFORMED, frame + bytes(longest + 1 - len(frame)))
    stranger.send(frame + bytes(longest - len(frame)))
    stranger.psn += 1
    assert [answer.header.return_code for answer in stranger.answers()] == [ReturnCode.OK]
    assert_usable(stranger, region)


def test_packets_out_of_sequence_are_not_executed(stranger: Stranger, region: Buffer) -> None:
    good = {"buffer_offset": region.address, "request_length": 8}
    assert stranger.ask(EIGHT, **good).header.return_code == ReturnCode.OK
    early = stranger.frame(stranger.header(psn=502, dpdcid=2, **good), bytes(8))
    stranger.send(early)
    (nack,) = stranger.answers()
    assert (nack.header.nack_code, nack.header.psn, nack.header.missing) == (NackCode.ROD_OOO, 501, 1)
    counted(stranger, Counter.DROPPED_SEQUENCE, early)  # it is kept already
    window = stranger.pair.target.parameters.window
    for psn in (501 + window, 501 + 2 * window):
        nothing_kept = stranger.frame(stranger.header(psn=psn, syn=False, dpdcid=0, **good), bytes(8))
        counted(stranger, Counter.DROPPED_SEQUENCE, nothing_kept, NackCode.ROD_OOO if psn == 501 + window else None)
    stranger.send(stranger.frame(stranger.header(psn=500, dpdcid=0, **good), bytes(8)))
    assert [answer.header.retx for answer in stranger.answers()] == [True]
    assert region[:] == EIGHT + b"\xa5" * (SIZE - 8)
    stranger.send(stranger.frame(stranger.header(psn=501, dpdcid=1, **good), b"\x22" * 8))
    answers = [(answer.header.psn, answer.header.return_code) for answer in stranger.answers()]
    assert answers == [(501, ReturnCode.OK), (502, ReturnCode.OK)]
    assert region[:] == bytes(8) + b"\xa5" * (SIZE - 8)
    stranger.psn = 503
    assert_usable(stranger, region)


def test_another_request_with_the_psn_of_an_earlier_one_gets_the_answer_of_that(
    stranger: Stranger, region: Buffer
) -> None:
    first = stranger.ask(bytes(8), **FETCH, buffer_offset=region.address, request_length=8)
    other = {"message_id": 0x5A5A, "job_id": 0x5A5A, "opcode": RequestOpcode.WRITE, "request_length": 64}
    stranger.send(stranger.frame(stranger.header(psn=500, dpdcid=0, **other), bytes(64)))
    (again,) = stranger.answers()
    assert again.payload == first.payload == b"\xa5" * 8
    for name in ("psn", "opcode", "return_code", "message_id", "job_id", "modified_length"):
        assert getattr(again.header, name) == getattr(first.header, name), name
    assert region[:] == b"\xa5" * SIZE


def test_packets_of_no_pdc_are_dropped(stranger: Stranger, region: Buffer) -> None:
    good = {"buffer_offset": region.address, "request_length": 8}
    late = stranger.frame(stranger.header(dpdcid=1, **good), EIGHT)
    counted(stranger, Counter.DROPPED_PDC, late, NackCode.ROD_OOO)
    unopened = stranger.frame(stranger.header(syn=False, dpdcid=0, **good), EIGHT)
    counted(stranger, Counter.DROPPED_PDC, unopened, NackCode.INV_DPDCID)
    pdc = stranger.ask(EIGHT, **good).header.spdcid
    initiators_own = pdc - stranger.pair.target.parameters.peers
    for wrong in (pdc + 1, initiators_own, 0xFFFF):
        frame = stranger.frame(stranger.header(syn=False, dpdcid=wrong, **good), EIGHT)
        counted(stranger, Counter.DROPPED_PDC, frame, NackCode.INV_DPDCID)
    other = Stranger(stranger.pair, mac=0x0200_0000_00BB, ip=0x0A00_00BB)
    frame = other.frame(other.header(syn=False, dpdcid=pdc, psn=501, **good), EIGHT)
    counted(other, Counter.DROPPED_PDC, frame, NackCode.INV_DPDCID)
    assert stranger.ask(EIGHT, syn=False, dpdcid=pdc, **good).header.return_code == ReturnCode.OK


def test_a_syn_packet_with_offset_zero_opens_a_pdc_beside_another(stranger: Stranger, region: Buffer) -> None:
    good = {"buffer_offset": region.address, "request_length": 8}
    first = stranger.ask(EIGHT, **good).header.spdcid
    stranger.psn = stranger.first_psn = 9000
    again = stranger.ask(EIGHT, **good)
    assert (again.header.return_code, again.header.spdcid, again.header.psn) == (ReturnCode.OK, first + 1, 9000)
    late = stranger.ask(EIGHT, syn=False, dpdcid=first, psn=501, **good)
    assert late.header.return_code == ReturnCode.OK


def test_no_more_pdcs_are_opened_than_there_are(stranger: Stranger, region: Buffer) -> None:
    size = stranger.pair.target.parameters.target_pdcs
    good = {"buffer_offset": region.address}
    for number in range(size):
        stranger.device.deliver(stranger.frame(stranger.header(spdcid=100 + number, **good)), 0)
    stranger.pair.run(100)
    assert sorted(answer.header.dpdcid for answer in stranger.answers()) == [100 + number for number in range(size)]
    one_more = stranger.frame(stranger.header(spdcid=100 + size, **good))
    counted(stranger, Counter.DROPPED_PDC, one_more, NackCode.NO_PDC_AVAIL)
    stranger.spdcid = 100 + size - 1
    stranger.psn = 501
    assert_usable(stranger, region)


@pytest.mark.parametrize("what", ["no key", "no context", "another job", "nothing"])
def test_strangers_take_no_pdc_from_anybody(stranger: Stranger, region: Buffer, what: str) -> None:
    """64 frames without key, job or context took all PDCs for good; three times as many take none now."""
    refused: dict[str, Any] = {
        "no key": {"memory_key": 1 << 40}, "no context": {"resource_index": 0xFFF}, "another job": {"job_id": 0xBAD},
        "nothing": {"opcode": RequestOpcode.NO_OP},
    }[what]  # fmt: skip
    assert stranger.ask(EIGHT, buffer_offset=region.address, request_length=8).header.return_code == ReturnCode.OK
    for number in range(3 * stranger.pair.target.parameters.target_pdcs):
        stranger.device.deliver(stranger.frame(stranger.header(spdcid=1000 + number, psn=7, dpdcid=0, **refused)), 0)
    stranger.pair.run(300)
    stranger.answers()
    newcomer = Stranger(stranger.pair, mac=0x0200_0000_00BB, ip=0x0A00_00BB)
    for one in (stranger, newcomer):
        assert one.ask(EIGHT, buffer_offset=region.address, request_length=8).header.return_code == ReturnCode.OK
    assert stranger.pair.target.counter(Counter.DROPPED_PDC) == 0


def test_answers_that_nobody_waits_for_are_dropped(device_pair: Pair, region: Buffer) -> None:
    pair = device_pair
    result = pair.initiator.buffer(64, fill=0xEE)
    pair.network.recording = True
    fields = {
        "opcode": DescriptorOpcode.READ, "length": 8, "result": result.address, "remote_address": region.address,
        "remote_key": Pair.KEY,
    }  # fmt: skip
    assert pair.local.execute(**fields)["status"] == ReturnCode.OK
    answer = pair.network.log[-1][1].data
    result[0] = b"\xee" * 64
    stranger = Stranger(pair)
    stranger.send(answer)  # not addressed to the target at all
    assert pair.target.counter(Counter.DROPPED_ADDRESS) == 1
    pair.initiator.device.deliver(answer, 0)  # type: ignore[attr-defined]
    pair.run(5)
    assert pair.initiator.counter(Counter.DROPPED_RESPONSE) == 1
    assert result[:] == b"\xee" * 64
    assert pair.local.execute(**fields)["status"] == ReturnCode.OK
    assert result[:16] == b"\xa5" * 8 + b"\xee" * 8


def test_an_answer_comes_from_the_peers_ip_address(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(latency=1000)
    region = pair.memory(SIZE, fill=0xA5)
    result = pair.initiator.buffer(64, fill=0xEE)
    pair.local.post(
        opcode=DescriptorOpcode.READ, length=8, result=result.address, remote_address=region.address,
        remote_key=Pair.KEY,
    )  # fmt: skip
    while pair.initiator.counter(Counter.REQUESTS_SENT) == 0:
        pair.network.step()
    liar = Stranger(pair, mac=pair.target.mac)
    header = liar.header(
        mac=pair.initiator.mac, ip=pair.initiator.ip, is_request=False, opcode=2, version=0, psn=0x1000, dpdcid=0,
        return_code=ReturnCode.OK, modified_length=8,
    )  # fmt: skip
    pair.initiator.device.deliver(liar.frame(header, EIGHT), 0)  # type: ignore[attr-defined]
    assert pair.local.completion()["status"] == ReturnCode.OK
    assert pair.initiator.counter(Counter.DROPPED_RESPONSE) == 1
    assert result[:] == b"\xa5" * 8 + b"\xee" * 56


def test_storing_a_peer_forgets_what_is_outstanding_on_it(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(latency=1000)
    region = pair.memory(SIZE)
    result = pair.initiator.buffer(64, fill=0xEE)
    fields = {
        "opcode": DescriptorOpcode.READ, "length": 8, "result": result.address, "remote_address": region.address,
        "remote_key": Pair.KEY,
    }  # fmt: skip
    pair.local.post(**fields)
    while pair.initiator.counter(Counter.REQUESTS_SENT) == 0:
        pair.network.step()
    pair.initiator.peer(0, pair.remote, initial_psn=0x7000)
    pair.run(5)
    assert pair.initiator.counter(Counter.DROPPED_RESPONSE) == 1
    assert pair.local.poll() is None
    assert result[:] == b"\xee" * 64
    again = pair.initiator.context(0)
    assert again.execute(**fields)["status"] == ReturnCode.OK
    assert result[:] == bytes(8) + b"\xee" * 56


BAD_DESCRIPTORS: list[tuple[str, int, dict[str, int]]] = [
    ("opcode", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"opcode": 13}),
    ("short rendezvous", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"opcode": 9, "flags": 1, "length": 31}),
    ("long tagged atomic", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"opcode": 11, "flags": 1, "length": 4104}),
    ("tagged op of no form", ReturnCode.AMO_UNSUPPORTED_OP, {"opcode": 12, "op": Op.FI_CSWAP}),
    ("flag", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"flags": 0x41}),
    ("immediate data in place of compare values", ReturnCode.LOCAL_BAD_DESCRIPTOR,
     {"opcode": 5, "op": Op.FI_CSWAP, "flags": INLINE | DescriptorFlags.IMMEDIATE}),
    ("inline of 9", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"opcode": 1, "length": 9}),
    ("atomic of nothing", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"length": 0}),
    ("half an element", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"length": 4}),
    ("length", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"opcode": 2, "flags": 1, "length": (1 << 30) + 1}),
    ("bad descriptor before bad op", ReturnCode.LOCAL_BAD_DESCRIPTOR, {"op": 200, "length": 0}),
    ("op", ReturnCode.AMO_UNSUPPORTED_OP, {"op": 20}),
    ("datatype", ReturnCode.AMO_UNSUPPORTED_OP, {"datatype": 20}),
    ("op of no form", ReturnCode.AMO_UNSUPPORTED_OP, {"opcode": 5}),
    ("cell", ReturnCode.AMO_UNSUPPORTED_OP, {"op": Op.FI_BOR, "datatype": Datatype.FI_DOUBLE}),
    ("bad op before bad peer", ReturnCode.AMO_UNSUPPORTED_OP, {"op": 20, "peer": 31}),
    ("peer out of range", ReturnCode.LOCAL_BAD_PEER, {"peer": 32}),
    ("peer not valid", ReturnCode.LOCAL_BAD_PEER, {"peer": 31}),
    ("peer of another context", ReturnCode.LOCAL_BAD_PEER, {"peer": 9}),
    ("close of nobody", ReturnCode.LOCAL_BAD_PEER, {"opcode": 6, "peer": 31}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "changes"), [case[1:] for case in BAD_DESCRIPTORS],
                         ids=[case[0] for case in BAD_DESCRIPTORS])  # fmt: skip
def test_the_initiator_refuses_a_descriptor_before_anything_is_sent(
    device_pair: Pair, region: Buffer, status: int, changes: dict[str, int]
) -> None:
    pair = device_pair
    pair.initiator.peer(9, pair.remote, context=1)
    good = {
        "opcode": DescriptorOpcode.ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "flags": INLINE,
        "length": 8, "local": 1, "remote_address": region.address, "remote_key": Pair.KEY, "context": 0xABC,
    }  # fmt: skip
    completion = pair.local.execute(**{**good, **changes})
    assert (completion["status"], completion["context"]) == (status, 0xABC)
    assert pair.initiator.counter(Counter.REQUESTS_SENT) == 0
    assert pair.initiator.counter(Counter.ERROR_COMPLETIONS) == 1
    assert region[:] == b"\xa5" * SIZE
    assert pair.local.execute(**good)["status"] == ReturnCode.OK
    assert region[:9] == b"\xa6" + b"\xa5" * 8


def test_a_build_without_an_operation_says_so_and_refuses_it_on_both_sides(
    make_model_pair: Callable[..., Pair],
) -> None:
    pair = make_model_pair(NicParameters(ops=(Op.FI_SUM,), datatypes=(Datatype.FI_UINT64, Datatype.FI_DOUBLE)))
    region = pair.memory(SIZE)
    assert [pair.target.get("atomics", "fetch", op) for op in Op] == [0, 0, 1 << 7 | 1 << 9] + [0] * 17
    fields = {"opcode": 4, "flags": INLINE, "length": 8, "remote_address": region.address, "remote_key": Pair.KEY}
    local = pair.local.execute(op=Op.FI_MIN, datatype=Datatype.FI_UINT64, **fields)
    assert local["status"] == ReturnCode.AMO_UNSUPPORTED_OP
    stranger = Stranger(pair)
    place = {"buffer_offset": region.address, "request_length": 8}
    answer = stranger.ask(EIGHT, **{**FETCH, "atomic_opcode": AtomicOpcode.MIN}, **place)
    assert answer.header.return_code == ReturnCode.AMO_UNSUPPORTED_OP
    answer = stranger.ask(EIGHT, **{**FETCH, "atomic_datatype": AtomicDatatype.INT64}, **place)
    assert answer.header.return_code == ReturnCode.AMO_UNSUPPORTED_DT
    assert region[:] == bytes(SIZE)
