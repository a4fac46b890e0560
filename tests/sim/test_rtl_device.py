# amaranth: UnusedElaboratable=no
"""The RTL device over a stand-in NIC: registers, DMA, refusals, latency, frames, interrupts, traces.

Covers ``rtl.py``.
"""


import numpy as np
import pytest
from amoeba_model.device import DeviceClosedError, DeviceError, DmaFault
from amoeba_model.frames import Frame
from amoeba_model.grants import MemoryGrants
from amoeba_model.network import Network
from amoeba_model.trace import BusState, Channel, Stage
from amoeba_sim.rtl import RtlDevice

from tests.sim import copy_engine as engine

MAC = [bytes([2, 0, 0, 0, 0, index]) for index in range(2)]


def aligned(size, boundary=4096, offset=0):
    """A view of ``size`` bytes whose address is ``offset`` past a multiple of ``boundary``."""
    memory = np.zeros(size + 2 * boundary, np.uint8)
    start = -memory.ctypes.data % boundary + offset
    return memory[start : start + size]


def random_bytes(size, seed=1):
    return np.random.default_rng(seed).integers(1, 256, size, np.uint8)


def grant(device, *arrays, writable=True):
    for array in arrays:
        device.grant(array.ctypes.data, array.nbytes, writable=writable)


def begin_copy(device, source, target, length):
    device.write(engine.SOURCE, source & 0xFFFFFFFF)
    device.write(engine.SOURCE_HIGH, source >> 32)
    device.write(engine.TARGET, target & 0xFFFFFFFF)
    device.write(engine.TARGET_HIGH, target >> 32)
    device.write(engine.LENGTH, length)
    device.write(engine.CONTROL, 1)


def copy(device, source, target, length):
    """Copy to the end; returns the interrupts raised."""
    begin_copy(device, source, target, length)
    while device.read(engine.CONTROL) & engine.BUSY:
        device.run_until(device.cycles + 100)
    return device.take_interrupts()


# Registers


def test_a_register_reads_back_what_was_written_before(any_width):
    with RtlDevice(any_width) as device:
        device.write(engine.SCRATCH, 0xDEADBEEF)
        device.write(engine.LENGTH, 7)
        assert device.read(engine.SCRATCH) == 0xDEADBEEF
        assert device.read(engine.LENGTH) == 7


def test_writes_are_posted_and_happen_in_order_as_cycles_run(device):
    for value in range(50):
        device.write(engine.SCRATCH, value)
    assert device.cycles == 0
    assert device.read(engine.SCRATCH) == 49


@pytest.mark.parametrize("offset", [2, -4, 1 << 12])
def test_a_bad_offset_is_refused_before_it_reaches_the_bus(device, offset):
    with pytest.raises(DeviceError, match="expected a multiple of 4 below 0x1000"):
        device.read(offset)
    with pytest.raises(DeviceError, match="expected a multiple of 4 below 0x1000"):
        device.write(offset, 0)
    assert device.cycles == 0


def test_a_value_wider_than_a_register_is_refused(device):
    with pytest.raises(DeviceError, match="32 bits"):
        device.write(engine.SCRATCH, 1 << 32)


def test_a_read_that_the_nic_refuses_raises_and_the_next_works(device):
    with pytest.raises(DeviceError, match="offset 0x40 was refused"):
        device.read(engine.HOLE)
    assert device.read(engine.SCRATCH) == 0


def test_a_write_that_the_nic_refuses_raises_at_the_next_access(device):
    device.write(engine.HOLE, 1)
    with pytest.raises(DeviceError, match="write to register offset 0x40 was refused"):
        device.read(engine.SCRATCH)
    assert device.read(engine.SCRATCH) == 0


def test_a_read_without_an_answer_ends_and_names_the_offset(device):
    with pytest.raises(DeviceError, match="no answer from register offset 0x80"):
        device.read(engine.SILENCE)


# DMA


@pytest.mark.parametrize("length", [1, 7, 64, 1000, 5000])
@pytest.mark.parametrize("offset", [0, 5])
def test_a_copy_moves_exactly_the_bytes_asked_for(any_width, length, offset):
    source, target = aligned(6000, offset=offset), aligned(6000, offset=offset)
    source[:] = random_bytes(6000)
    with RtlDevice(any_width, host_latency=20) as device:
        grant(device, source[:length], target[:length])
        assert copy(device, source.ctypes.data, target.ctypes.data, length) == engine.DONE_VECTOR
        assert device.faults() == []
    assert (target[:length] == source[:length]).all()
    assert not target[length:].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_is_right_under_random_stalls_on_every_channel(any_width, seed):
    source, target = aligned(3000, offset=3), aligned(3000, offset=3)
    source[:] = random_bytes(3000)
    frames = [bytes(random_bytes(size, size)) for size in (1, 60, 64, 65, 1500)]
    with RtlDevice(any_width, host_latency=9, stall=0.5, seed=seed) as device:
        grant(device, source, target)
        for frame in frames:
            device.deliver(frame, 0)
        assert copy(device, source.ctypes.data, target.ctypes.data, 2500) == engine.DONE_VECTOR
        device.run_until(device.cycles + 2000)
        assert [frame.data for frame in device.take_frames()] == frames
    assert (target[:2500] == source[:2500]).all()
    assert not target[2500:].any()


def test_equal_seeds_give_equal_runs_and_other_seeds_other_ones(library):
    def cycles(seed):
        source, target = aligned(2000), aligned(2000)
        with RtlDevice(library, stall=0.3, seed=seed) as device:
            grant(device, source, target)
            copy(device, source.ctypes.data, target.ctypes.data, 2000)
            events = device.cycles
            device.deliver(bytes(1000), 0)
            device.run_until(events + 1000)
            return [frame.cycle - events for frame in device.take_frames()]

    assert cycles(1) == cycles(1)
    assert len({tuple(cycles(seed)) for seed in range(8)}) > 1


def test_a_write_outside_granted_memory_is_refused_reported_and_touches_nothing(device):
    source, target = aligned(512), aligned(512)
    source[:] = random_bytes(512)
    # The burst of 8 beats reaches one byte beyond its grant: none of its bytes may be written.
    grant(device, source)
    grant(device, target[:255])
    assert copy(device, source.ctypes.data, target.ctypes.data, 256) == engine.FAILED_VECTOR
    assert device.faults() == [DmaFault(target.ctypes.data, 256, True, "RESULT_WRITER", 0)]
    assert not target.any()
    assert device.faults() == []
    assert copy(device, source.ctypes.data, target.ctypes.data, 255) == engine.DONE_VECTOR
    assert (target[:255] == source[:255]).all()


def test_a_read_outside_granted_memory_is_refused_and_reported(device):
    source, target = aligned(512), aligned(512)
    grant(device, target)
    grant(device, source[:224])
    assert copy(device, source.ctypes.data, target.ctypes.data, 256) == engine.FAILED_VECTOR
    assert device.faults() == [DmaFault(source.ctypes.data, 256, False, "OPERAND_FETCH", 0)]
    assert str(DmaFault(4096, 32, False, "OPERAND_FETCH")).startswith("OPERAND_FETCH read of 32 bytes")
    assert copy(device, source.ctypes.data, target.ctypes.data, 224) == engine.DONE_VECTOR


def test_memory_granted_for_reading_cannot_be_written(device):
    source, target = aligned(64), aligned(64)
    grant(device, source)
    grant(device, target, writable=False)
    source[:] = 1
    assert copy(device, source.ctypes.data, target.ctypes.data, 64) == engine.FAILED_VECTOR
    assert [fault.write for fault in device.faults()] == [True]
    assert not target.any()


def test_a_revoked_range_is_refused_even_for_reads_on_their_way(device):
    source, target = aligned(64), aligned(64)
    grant(device, source, target)
    begin_copy(device, source.ctypes.data, target.ctypes.data, 64)
    device.run_until(100)
    device.revoke(source.ctypes.data, 64)
    device.run_until(1000)
    assert device.take_interrupts() == engine.FAILED_VECTOR
    assert [fault.requester for fault in device.faults()] == ["OPERAND_FETCH"]


@pytest.mark.parametrize("address", [0, (1 << 64) - 4096])
def test_the_ends_of_the_address_space_are_refused_like_any_other_place(device, address):
    target = aligned(4096)
    grant(device, target)
    assert copy(device, address, target.ctypes.data, 4096) == engine.FAILED_VECTOR
    assert device.faults()[0].address == address
    assert copy(device, target.ctypes.data, address, 4096) == engine.FAILED_VECTOR
    assert device.faults()[0] == DmaFault(address, 256, True, "RESULT_WRITER", 0)


def test_a_beat_shows_the_bytes_of_every_grant_it_touches_and_nothing_else(device):
    source, target = aligned(32), aligned(32)
    source[:] = 7
    # The engine reads whole beats: it sees two grants in one, and the gap between them as zeros.
    grant(device, source[:8], source[16:20], target)
    assert copy(device, source.ctypes.data, target.ctypes.data, 32) == engine.DONE_VECTOR
    assert target.tolist() == [7] * 8 + [0] * 8 + [7] * 4 + [0] * 12


def test_a_write_may_span_two_adjacent_grants(device):
    source, target = aligned(64), aligned(64)
    source[:] = random_bytes(64)
    grant(device, source, target[:20], target[20:])
    assert copy(device, source.ctypes.data, target.ctypes.data, 64) == engine.DONE_VECTOR
    assert (target == source).all()


def test_grants_translate_as_the_model_of_them_says(device):
    """Random grants, of which some are revoked again: every byte lies where MemoryGrants says, or is refused."""
    rng = np.random.default_rng(5)
    pool, window, base = aligned(8192), aligned(32), 0x5_0000_0000
    pool[:] = random_bytes(8192)
    grant(device, window)
    expected, made = MemoryGrants(), []
    for round_ in range(120):
        if made and rng.random() < 0.4:
            start, length = made.pop(int(rng.integers(len(made))))
            expected.remove(start, length)
            device.revoke(start, length)
        else:
            start, length = base + int(rng.integers(512)) * 8, int(rng.integers(1, 100)) * 8
            host = pool.ctypes.data + (start - base) + (0 if start < base + 2048 else 3072)
            try:
                expected.add(start, length, True, host_address=host)
            except DeviceError:
                continue
            device.grant(start, length, host_address=host)
            made.append((start, length))
        for _ in range(3):
            address = base + int(rng.integers(128)) * 32
            places = [expected.locate(address + at, 1, False) for at in range(32)]
            content = [pool[place[0][0] - pool.ctypes.data] if place else 0 for place in places]
            done = copy(device, address, window.ctypes.data, 32)
            assert done == (engine.DONE_VECTOR if any(places) else engine.FAILED_VECTOR), round_
            if any(places):
                assert window.tolist() == content, round_
            window[:] = 200
            done = copy(device, window.ctypes.data, address, 32)
            assert done == (engine.DONE_VECTOR if all(places) else engine.FAILED_VECTOR), round_
            if all(places):
                assert {int(pool[place[0][0] - pool.ctypes.data]) for place in places} == {200}
    device.faults()


def test_a_grant_that_was_never_made_cannot_be_revoked(device):
    with pytest.raises(DeviceError, match="never granted"):
        device.revoke(0x1000, 8)


@pytest.mark.parametrize("latency", [1, 2, 250])
def test_read_data_comes_exactly_the_latency_after_the_address_one_beat_per_cycle(library, latency):
    source, target = aligned(256), aligned(256)
    with RtlDevice(library, host_latency=latency, trace=True) as device:
        grant(device, source, target)
        copy(device, source.ctypes.data, target.ctypes.data, 256)
        events = device.trace_events()
    address = [event.cycle for event in events if event.stage is Stage.DESCRIPTOR]
    beats = [event.cycle for event in events if event.stage is Stage.OPERAND]
    assert beats == [address[0] + latency + beat for beat in range(8)]


def test_a_write_is_answered_the_latency_after_its_last_beat(library):
    def cycle_of_second_burst(latency):
        source, target = aligned(512), aligned(512)
        with RtlDevice(library, host_latency=latency, trace=True) as device:
            grant(device, source, target)
            copy(device, source.ctypes.data, target.ctypes.data, 512)
            first, second = (event.cycle for event in device.trace_events() if event.stage is Stage.DESCRIPTOR)
            return second - first

    # One read latency and one write latency lie between the addresses of two bursts.
    assert cycle_of_second_burst(101) - cycle_of_second_burst(1) == 200


# Frames


@pytest.mark.parametrize("size", [1, 60, 64, 65, 1500, 4200])
def test_a_frame_passes_both_ways_unchanged(any_width, size):
    frame = bytes(random_bytes(size))
    with RtlDevice(any_width) as device:
        device.deliver(frame, 10)
        device.run_until(10 + size + 10)
        beats = -(-size * 8 // device.data_width)
        assert device.take_frames() == [Frame(10 + beats - 1, frame)]
        assert device.take_frames() == []


def test_frames_arrive_in_order_and_back_to_back(device):
    frames = [bytes([index]) * 64 for index in range(3)]
    for frame in frames:
        device.deliver(frame, 5)
    device.run_until(100)
    assert device.take_frames() == [Frame(6, frames[0]), Frame(8, frames[1]), Frame(10, frames[2])]


def test_a_frame_without_bytes_is_refused(device):
    with pytest.raises(DeviceError, match="at least one byte"):
        device.deliver(b"", 0)


def test_two_nics_in_a_network_exchange_frames_with_its_latency(library):
    with RtlDevice(library) as first, RtlDevice(library) as second:
        network = Network(latency=50)
        network.attach(first, MAC[0])
        network.attach(second, MAC[1])
        network.recording = True
        frame = MAC[1] + MAC[0] + bytes(52)
        # The first NIC echoes what it is given, so the frame leaves for the second, which sends it to itself.
        first.deliver(frame, 0)
        for _ in range(4):
            network.step()
        assert [(index, sent.cycle) for index, sent in network.log] == [(0, 1), (1, 52), (1, 103), (1, 154)]
        assert {sent.data for _, sent in network.log} == {frame}
        assert first.cycles == second.cycles == 200
        second.close()
        assert network.devices == (first,)


# Interrupts, trace, reset, life cycle


def test_wait_returns_the_interrupt_and_acknowledges_it(device):
    memory = aligned(64)
    grant(device, memory)
    begin_copy(device, memory.ctypes.data, memory.ctypes.data, 32)
    assert device.wait(10) == engine.DONE_VECTOR
    assert device.wait(0) == 0


def test_events_are_recorded_only_while_enabled(device):
    memory = aligned(64)
    grant(device, memory)
    copy(device, memory.ctypes.data, memory.ctypes.data, 32)
    assert device.trace_events() == []
    device.tracing = True
    copy(device, memory.ctypes.data, memory.ctypes.data, 48)
    events = device.trace_events()
    assert [event.stage for event in events] == [Stage.DOORBELL, Stage.DESCRIPTOR] + [Stage.OPERAND] * 2
    assert events[0].psn == 48
    assert device.trace_events() == []


def test_reset_forgets_everything_but_the_grants(device):
    source, target = aligned(64), aligned(64)
    grant(device, source, target)
    device.write(engine.SCRATCH, 1)
    begin_copy(device, source.ctypes.data, target.ctypes.data, 64)
    device.deliver(bytes(64), 0)
    device.run_until(100)
    device.reset()
    assert device.cycles == 0
    assert device.read(engine.SCRATCH) == 0
    device.run_until(1000)
    assert (device.take_interrupts(), device.take_frames()) == (0, [])
    assert copy(device, source.ctypes.data, target.ctypes.data, 64) == engine.DONE_VECTOR


def test_a_function_level_reset_keeps_the_clock_and_ends_what_is_in_flight(device):
    source, target = aligned(512), aligned(512)
    grant(device, source, target)
    source[:] = 9
    device.write(engine.SCRATCH, 1)
    begin_copy(device, source.ctypes.data, target.ctypes.data, 512)
    device.run_until(100)
    device.function_reset()
    assert device.cycles == 100
    assert device.read(engine.SCRATCH) == 0
    device.run_until(2000)
    assert (device.take_interrupts(), target.any()) == (0, False)
    assert copy(device, source.ctypes.data, target.ctypes.data, 512) == engine.DONE_VECTOR
    assert (target == 9).all()


def test_the_last_activity_is_that_of_any_bus(device):
    memory = aligned(64)
    grant(device, memory)
    device.run_until(500)
    assert device.last_activity == 0
    copy(device, memory.ctypes.data, memory.ctypes.data, 64)
    ended = device.last_activity
    device.run_until(device.cycles + 1000)
    assert 500 < ended == device.last_activity
    device.deliver(bytes(64), device.cycles + 100)
    arrival = device.cycles + 100
    device.run_until(arrival + 500)
    assert device.last_activity >= arrival
    device.reset()
    assert device.last_activity == 0


def test_a_closed_device_refuses_every_call(library):
    device = RtlDevice(library)
    device.close()
    device.close()
    calls = [
        lambda: device.read(0),
        lambda: device.write(0, 0),
        lambda: device.grant(4096, 8),
        lambda: device.revoke(4096, 8),
        device.advance,
        lambda: device.wait(0),
        lambda: device.cycles,
        device.faults,
        lambda: device.run_until(1),
        device.reset,
        device.function_reset,
        lambda: device.last_activity,
        lambda: device.deliver(b"x", 0),
        device.take_frames,
        device.take_interrupts,
        device.trace_events,
        lambda: setattr(device, "tracing", True),
        lambda: device.start_waves("x.vcd"),
        device.stop_waves,
    ]
    for call in calls:
        with pytest.raises(DeviceClosedError):
            call()


@pytest.mark.parametrize("arguments", [{"host_latency": 0}, {"stall": 1.0}, {"stall": -0.1}])
def test_senseless_parameters_are_refused(library, arguments):
    with pytest.raises(DeviceError, match="got"):
        RtlDevice(library, **arguments)


def test_the_buses_tell_where_beats_move_and_where_they_wait(library):
    """A read of two beats: its address moves in one cycle, its data the latency later in two."""
    with RtlDevice(library, host_latency=30, trace=True) as device:
        source, target = aligned(64), aligned(64)
        grant(device, source, target)
        copy(device, source.ctypes.data, target.ctypes.data, 64)
        events = device.bus_events()
        (asked,) = (event for event in device.trace_events() if event.stage is Stage.DESCRIPTOR)
    at = [(cycle, state) for cycle, channel, state in events if channel is Channel.HOST_READ_DATA]
    first = asked.cycle + 30
    assert at == [(first, BusState.MOVES), (first + 2, BusState.IDLE)]
    assert [event.cycle for event in events] == sorted(event.cycle for event in events)
    assert {event.channel for event in events} >= {Channel.HOST_READ_ADDRESS, Channel.HOST_WRITE_DATA}


def test_beats_wait_where_the_other_side_stalls_and_nothing_is_told_unless_asked(library):
    with RtlDevice(library, host_latency=30, stall=0.7, seed=3, trace=True) as device:
        memory = aligned(512)
        grant(device, memory)
        copy(device, memory.ctypes.data, memory.ctypes.data, 512)
        waits = {event.channel for event in device.bus_events() if event.state is BusState.WAITS}
        assert Channel.HOST_WRITE_DATA in waits
        device.tracing = False
        device.bus_events()  # which ends all that had begun
        copy(device, memory.ctypes.data, memory.ctypes.data, 512)
        assert device.bus_events() == []
