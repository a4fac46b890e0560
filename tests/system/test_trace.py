"""The life of a request as the trace tells it, the counters, and a NIC on its own.

Covers ``amoeba_model/trace.py``.
"""

from collections.abc import Callable

from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.trace import Stage, TraceEvent
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import Pair, RawNic
from tests.support.stranger import Stranger

FETCH_ADD = {"opcode": DescriptorOpcode.FETCH_ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "length": 8}


def traced(pair: Pair, **fields: int) -> tuple[list[TraceEvent], list[TraceEvent]]:
    """The events of one request on both sides, with the operand in memory and the interrupt armed."""
    devices = [nic.device for nic in (pair.initiator, pair.target)]
    local, result = pair.initiator.buffer(64), pair.initiator.buffer(64)
    pair.local.doorbell("arm", 0)
    for device in devices:
        assert isinstance(device, SimulatedDevice)
        device.tracing = True
    pair.local.execute(**FETCH_ADD, local=local.address, result=result.address, **fields)
    pair.run(5)
    initiator, target = (device.trace_events() for device in devices if isinstance(device, SimulatedDevice))
    return initiator, target


def test_a_fetching_atomic_passes_every_stage_in_order(device_pair: Pair) -> None:
    region = device_pair.memory()
    initiator, target = traced(device_pair, remote_address=region.address, remote_key=Pair.KEY)
    assert [event.stage for event in initiator] == [
        Stage.DOORBELL,
        Stage.DESCRIPTOR,
        Stage.OPERAND,
        Stage.REQUEST_SENT,
        Stage.RESPONSE_RECEIVED,
        Stage.RESULT_WRITTEN,
        Stage.COMPLETION_WRITTEN,
        Stage.INTERRUPT,
    ]
    assert [event.stage for event in target] == [
        Stage.REQUEST_RECEIVED,
        Stage.REQUEST_CHECKED,
        Stage.LINE_READ,
        Stage.EXECUTED,
        Stage.LINE_WRITTEN,
        Stage.RESPONSE_SENT,
    ]
    cycles = [event.cycle for event in (*initiator[:4], *target, *initiator[4:])]
    assert cycles == sorted(cycles)
    at = {event.stage: event for event in (*initiator, *target)}
    assert at[Stage.DOORBELL].psn == 1
    for stage in (Stage.REQUEST_SENT, Stage.REQUEST_RECEIVED, Stage.RESPONSE_SENT, Stage.RESPONSE_RECEIVED):
        assert at[stage].psn == 0x1000
    line = region.address & ~31 & 0xFFFF_FFFF
    assert at[Stage.LINE_READ].psn == at[Stage.LINE_WRITTEN].psn == line
    assert at[Stage.REQUEST_CHECKED].status == at[Stage.COMPLETION_WRITTEN].status == ReturnCode.OK


def test_events_say_whom_they_concern(device_pair: Pair) -> None:
    """(stage, context, pdc, psn, status) of all events, as Stage describes them."""
    region = device_pair.memory()
    device_pair.initiator.peer(5, device_pair.remote, initial_psn=0x3000)
    Stranger(device_pair).ask()  # has the target's PDC 0
    events = traced(device_pair, peer=5, remote_address=region.address, remote_key=Pair.KEY)
    initiator, target = (
        [(event.stage, event.context, event.pdc, event.psn, event.status) for event in side] for side in events
    )
    assert initiator == [
        (Stage.DOORBELL, 0, 0, 1, 0),
        (Stage.DESCRIPTOR, 0, 5, 0, 0),
        (Stage.OPERAND, 0, 5, 0x3000, 0),
        (Stage.REQUEST_SENT, 0, 5, 0x3000, 0),
        (Stage.RESPONSE_RECEIVED, 0xFF, 5, 0x3000, ReturnCode.OK),
        (Stage.RESULT_WRITTEN, 0, 5, 0x3000, 0),
        (Stage.COMPLETION_WRITTEN, 0, 5, 0, ReturnCode.OK),
        (Stage.INTERRUPT, 0, 0, 0, 0),
    ]
    line = region.address & 0xFFFF_FFFF
    assert target == [
        (Stage.REQUEST_RECEIVED, 0, 0xFFFF, 0x3000, 0),
        (Stage.REQUEST_CHECKED, 0, 1, 0x3000, ReturnCode.OK),
        (Stage.LINE_READ, 0xFF, 1, line, 0),
        (Stage.EXECUTED, 0xFF, 1, 0x3000, 0),
        (Stage.LINE_WRITTEN, 0xFF, 0, line, 0),
        (Stage.RESPONSE_SENT, 0xFF, 1, 0x3000, ReturnCode.OK),
    ]


def test_frames_are_traced_before_anyone_asks_whether_they_were_expected(device_pair: Pair) -> None:
    stranger = Stranger(device_pair)
    stranger.device.tracing = True
    stranger.send(stranger.frame(stranger.header(syn=False, dpdcid=77)))
    stranger.send(stranger.frame(stranger.header(dpdcid=9)))
    answer = stranger.header(is_request=False, opcode=1, version=0, dpdcid=31, return_code=ReturnCode.BAD_MKEY)
    stranger.send(stranger.frame(answer))
    events = stranger.device.trace_events()
    assert [(event.stage, event.context, event.pdc, event.psn, event.status) for event in events] == [
        (Stage.REQUEST_RECEIVED, 0, 77, 500, 0),
        (Stage.RESPONSE_SENT, 0xFF, 0xFFFF, 500, 0),  # INV_DPDCID
        (Stage.REQUEST_RECEIVED, 0, 0xFFFF, 500, 0),
        (Stage.RESPONSE_SENT, 0xFF, 0xFFFF, 491, 0),  # ROD_OOO
        (Stage.RESPONSE_RECEIVED, 0xFF, 31, 500, ReturnCode.BAD_MKEY),
    ]
    assert device_pair.target.counter(Counter.DROPPED_PDC) == 2
    assert device_pair.target.counter(Counter.DROPPED_RESPONSE) == 1


def test_a_refused_request_is_traced_with_its_code_and_reaches_no_line(device_pair: Pair) -> None:
    _, target = traced(device_pair, remote_address=0, remote_key=Pair.KEY)
    assert [(event.stage, event.status) for event in target[1:]] == [
        (Stage.REQUEST_CHECKED, ReturnCode.BAD_MKEY),
        (Stage.RESPONSE_SENT, ReturnCode.BAD_MKEY),
    ]


def test_nothing_is_traced_unless_asked(device_pair: Pair) -> None:
    device = device_pair.initiator.device
    assert isinstance(device, SimulatedDevice)
    device_pair.local.execute(opcode=DescriptorOpcode.NOP)
    assert device.trace_events() == []


def test_counters_add_up(device_pair: Pair) -> None:
    pair = device_pair
    region = pair.memory()
    result = pair.initiator.buffer(64)
    for key in (Pair.KEY, Pair.KEY, Pair.KEY + 1):
        pair.local.execute(
            **FETCH_ADD, flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, result=result.address,
            remote_address=region.address, remote_key=key,
        )  # fmt: skip
    expected = {
        Counter.DESCRIPTORS: (3, 0),
        Counter.COMPLETIONS: (3, 0),
        Counter.ERROR_COMPLETIONS: (1, 0),
        Counter.REQUESTS_SENT: (3, 0),
        Counter.RESPONSES_SENT: (0, 3),
        Counter.FRAMES_RECEIVED: (3, 3),
        Counter.REQUESTS_RECEIVED: (0, 3),
        Counter.RESPONSES_RECEIVED: (3, 0),
        Counter.REFUSED_REQUESTS: (0, 1),
        Counter.ATOMIC_BEATS: (0, 2),
    }
    for counter, values in expected.items():
        assert (pair.initiator.counter(counter), pair.target.counter(counter)) == values, counter.name


def test_atomic_beats_are_what_the_atomic_unit_calculates(device_pair: Pair) -> None:
    pair = device_pair
    region = pair.memory()
    local, result = pair.initiator.buffer(128), pair.initiator.buffer(128)
    address = region.address + -region.address % 32
    uint64, wide = Datatype.FI_UINT64, Datatype.FI_LONG_DOUBLE_COMPLEX
    for op, datatype, offset, length, beats in (
        (Op.FI_SUM, uint64, 24, 8, 1),
        (Op.FI_SUM, uint64, 0, 64, 2),
        (Op.FI_SUM, uint64, 8, 64, 3),
        (Op.FI_SUM, uint64, 1, 64, 8),
        (Op.FI_SUM, uint64, 28, 8, 1),
        (Op.FI_SUM, wide, 0, 64, 2),
        (Op.FI_SUM, wide, 16, 64, 2),
        (Op.FI_ATOMIC_READ, uint64, 0, 64, 0),
        (Op.FI_ATOMIC_READ, uint64, 1, 64, 0),
    ):
        before = pair.target.counter(Counter.ATOMIC_BEATS)
        entry = pair.local.execute(
            opcode=DescriptorOpcode.FETCH_ATOMIC, op=op, datatype=datatype, length=length, local=local.address,
            result=result.address, remote_address=address + offset, remote_key=Pair.KEY,
        )  # fmt: skip
        assert entry["status"] == ReturnCode.OK
        assert pair.target.counter(Counter.ATOMIC_BEATS) - before == beats, (op, datatype, offset)


def test_a_nic_without_a_network_runs_and_its_frames_go_nowhere(
    make_device: Callable[..., SimulatedDevice],
) -> None:
    device = make_device()
    nic = RawNic(device, 0x0200_0000_0009, 0x0A00_0009, NicParameters())
    context = nic.context()
    assert context.execute(opcode=DescriptorOpcode.NOP, context=77)["context"] == 77
    nic.peer(0, context)
    context.post(opcode=DescriptorOpcode.READ, length=8)
    for _ in range(20):
        device.advance()
    assert nic.counter(Counter.REQUESTS_SENT) == 1
    assert device.take_frames() == []
    assert device.cycles >= 2000
