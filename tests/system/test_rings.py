"""Registers, rings, doorbells, interrupts and the device's life, told by raw reads and writes."""

import random
import select
from collections.abc import Callable

import pytest
from amoeba_model.descriptors import COMPLETION, DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DeviceClosedError, DeviceError
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.raw_driver import Buffer, Pair, RawNic

OK = ReturnCode.OK
NOP = {"opcode": DescriptorOpcode.NOP}
INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE


def add(target: Buffer, amount: int = 1) -> dict[str, int]:
    """A descriptor that adds to the first word of a region."""
    return {
        "opcode": DescriptorOpcode.ATOMIC, "op": Op.FI_SUM, "datatype": Datatype.FI_UINT64, "flags": INLINE,
        "length": 8, "local": amount, "remote_address": target.address, "remote_key": Pair.KEY,
    }  # fmt: skip


def test_the_bar_is_a_linked_list_of_described_blocks(device_pair: Pair) -> None:
    device = device_pair.initiator.device
    found, offset = [], 0
    while True:
        kind, version, length, following = (device.read(offset + 4 * word) for word in range(4))
        found.append((offset, kind, version, length))
        if not following:
            break
        offset = following
    assert found == [
        (0x0000, 0x414D0001, 1, 0x100),
        (0x1000, 0x414D0002, 1, 0x200),
        (0x2000, 0x414D0003, 1, 0x440),
        (0x3000, 0x414D0004, 1, 0x40),
        (0x4000, 0x414D0005, 1, 0x60),
        (0x5000, 0x414D0006, 1, 0x100),
        (0x6000, 0x414D0007, 1, 0x40),
    ]


def test_a_nic_says_what_it_is(device_pair: Pair) -> None:
    nic = device_pair.initiator
    assert [device_pair.initiator.device.read(0x10 + 4 * word) for word in range(8)] == [
        9, 256, 8, 1024, 128, 256, 4096, 250_000_000
    ]  # fmt: skip
    assert (nic.get("device", "mac_low"), nic.get("device", "mac_high")) == (1, 0x0200)
    assert nic.get("device", "target_pdcs") == 64
    assert [nic.get("device", name) for name in ("receives", "unexpected", "event_counters")] == [64, 64, 64]
    assert (nic.get("device", "retransmit_timeout"), nic.get("device", "retransmit_limit")) == (1 << 14, 8)
    assert nic.get("atomics", "base", Op.FI_SUM) == (1 << 20) - 1
    assert nic.get("atomics", "base", Op.FI_ATOMIC_READ) == 0
    assert nic.get("atomics", "compare", Op.FI_MSWAP) == 0b1100_0000_1111_1111
    assert nic.get("atomics", "fetch", 31) == 0


def test_registers_keep_events_read_zero_and_read_only_ones_stay(device_pair: Pair) -> None:
    nic, device = device_pair.initiator, device_pair.initiator.device
    nic.set("peers", mac_low=0xDEADBEEF)
    assert nic.get("peers", "mac_low") == 0xDEADBEEF
    nic.set("keys", store=63)
    assert nic.get("keys", "store") == 0
    nic.set("device", counter_clear=63)
    assert nic.get("device", "counter_clear") == 0
    device.write(0x10, 99)
    assert device.read(0x10) == 9
    assert device.read(0xFFC) == 0
    assert device.read(0x2_0000) == 0


@pytest.mark.parametrize("offset", [2, -4, 0x4_0000])
def test_offsets_outside_the_bar_or_unaligned_are_errors(device_pair: Pair, offset: int) -> None:
    with pytest.raises(DeviceError):
        device_pair.initiator.device.read(offset)
    with pytest.raises(DeviceError):
        device_pair.initiator.device.write(offset, 0)


@pytest.mark.parametrize("value", [1 << 32, -1])
def test_values_that_no_register_holds_are_errors(device_pair: Pair, value: int) -> None:
    with pytest.raises(DeviceError):
        device_pair.initiator.device.write(0x30, value)


def test_rings_wrap_around_and_the_phase_toggles(device_pair: Pair) -> None:
    pair = device_pair
    context = pair.initiator.context(1, transmit_size=2, completion_size=1)
    phases = []
    for index in range(11):
        assert context.post(**NOP, context=index) == index
        completion = context.completion()
        assert (completion["context"], completion["descriptor"], completion["status"]) == (index, index, OK)
        phases.append(completion["flags"] >> 7)
    assert phases == [1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0]


def test_rings_of_one_entry_work(device_pair: Pair) -> None:
    context = device_pair.initiator.context(1, transmit_size=0, completion_size=0)
    for index in range(5):
        assert context.execute(**NOP, context=index)["context"] == index


def test_indices_wrap_around_at_two_to_the_sixteenth(make_device: Callable[[], SimulatedDevice]) -> None:
    nic = RawNic(make_device(), 0x0200_0000_0009, 0x0A00_0009, NicParameters())
    context = nic.context(1, transmit_size=15, completion_size=15)
    for _ in range(5):
        for index in range(1 << 14):
            context.put(**NOP, flags=DescriptorFlags.COMPLETION, context=index)
        context.ring()
        for index in range(1 << 14):
            entry = context.poll(release=False)
            while entry is None:
                nic.device.advance()
                entry = context.poll(release=False)
            assert entry["context"] == index
        context.release()
    assert (context.tail, context.head) == (1 << 14, 1 << 14)
    assert nic.counter(Counter.COMPLETIONS) == 5 << 14


def test_descriptors_wait_for_a_free_completion_entry(device_pair: Pair) -> None:
    pair = device_pair
    context = pair.initiator.context(1, transmit_size=4, completion_size=2)
    for index in range(10):
        context.put(**NOP, flags=DescriptorFlags.COMPLETION, context=index)
    context.ring()
    pair.run(50)
    assert pair.initiator.counter(Counter.DESCRIPTORS) == 4
    seen = [context.poll(release=False) for _ in range(4)]
    pair.run(50)
    assert pair.initiator.counter(Counter.DESCRIPTORS) == 4
    context.release()
    pair.run(50)
    assert pair.initiator.counter(Counter.DESCRIPTORS) == 8
    seen += [context.completion() for _ in range(6)]
    assert [entry and entry["context"] for entry in seen] == list(range(10))


def test_only_requests_that_want_a_completion_or_fail_have_one(device_pair: Pair) -> None:
    pair = device_pair
    target = pair.memory()
    pair.local.put(**{**add(target), "flags": DescriptorFlags.INLINE, "context": 1})
    pair.local.put(**{**add(target), "flags": DescriptorFlags.INLINE, "context": 2, "remote_key": 3})
    pair.local.put(opcode=DescriptorOpcode.NOP, context=3)
    pair.local.put(**add(target), context=4)
    pair.local.ring()
    entries = [pair.local.completion() for _ in range(2)]
    assert [(entry["context"], entry["status"]) for entry in entries] == [(2, ReturnCode.BAD_MKEY), (4, OK)]
    pair.run(20)
    assert pair.local.poll() is None
    assert target.integer(0) == 2


def test_a_disabled_context_takes_nothing_and_enabling_starts_its_rings_anew(device_pair: Pair) -> None:
    pair = device_pair
    context = pair.initiator.context(1)
    assert context.execute(**NOP, context=7)["context"] == 7
    pair.initiator.set("contexts", 1, control=0)
    context.post(**NOP)
    pair.run(50)
    assert pair.initiator.counter(Counter.DESCRIPTORS) == 1
    again = pair.initiator.context(1)
    pair.run(50)
    assert pair.initiator.counter(Counter.DESCRIPTORS) == 1
    assert again.execute(**NOP, context=8)["descriptor"] == 0


def test_requests_of_an_earlier_enabling_write_nothing_into_the_next(make_pair: Callable[..., Pair]) -> None:
    pair = make_pair(latency=1000)  # no answer comes before the context is enabled anew
    target = pair.memory(fill=0xA5)
    context = pair.initiator.context(1)
    pair.initiator.peer(1, pair.remote, context=1)
    result = pair.initiator.buffer(64)
    context.post(
        opcode=DescriptorOpcode.READ, length=8, peer=1, result=result.address, remote_address=target.address,
        remote_key=Pair.KEY,
    )  # fmt: skip
    while pair.initiator.counter(Counter.REQUESTS_SENT) == 0:
        pair.network.step()
    again = pair.initiator.context(1)
    assert pair.initiator.counter(Counter.RESPONSES_RECEIVED) == 0
    pair.run(5)
    assert pair.initiator.counter(Counter.RESPONSES_RECEIVED) == 1
    assert result[:] == bytes(64)
    assert again.poll() is None
    assert again.execute(**NOP, context=5)["context"] == 5


def test_doorbells_of_contexts_that_do_not_exist_do_nothing(device_pair: Pair) -> None:
    for page in range(4, 32):
        for register in range(0, 16, 4):
            device_pair.initiator.device.write(0x2_0000 + 0x1000 * page + register, 1)
    device_pair.run(5)
    assert device_pair.initiator.counter(Counter.DESCRIPTORS) == 0


def test_a_transmit_ring_that_the_host_refuses_gives_an_error_completion(device_pair: Pair) -> None:
    pair = device_pair
    pair.initiator.device.revoke(pair.local.transmit.address, 16 * 64)
    completion = pair.local.execute(**NOP, context=9)
    assert (completion["status"], completion["descriptor"]) == (ReturnCode.LOCAL_DMA_FAULT, 0)
    (fault,) = pair.initiator.device.faults()
    assert (fault.requester, fault.address, fault.size) == ("DESCRIPTOR_FETCH", pair.local.transmit.address, 64)
    pair.initiator.device.grant(pair.local.transmit.address, 16 * 64)
    assert pair.local.execute(**NOP, context=9)["context"] == 9


def test_every_descriptor_of_a_refused_read_has_its_error_completion(device_pair: Pair) -> None:
    pair = device_pair
    pair.initiator.device.revoke(pair.local.transmit.address, 16 * 64)
    for index in range(3):
        pair.local.put(**NOP, context=index)
    pair.local.ring()
    entries = [pair.local.completion() for _ in range(3)]
    assert [(entry["status"], entry["descriptor"], entry["context"]) for entry in entries] == [
        (ReturnCode.LOCAL_DMA_FAULT, index, 0) for index in range(3)
    ]
    assert {fault.requester for fault in pair.initiator.device.faults()} == {"DESCRIPTOR_FETCH"}


def test_a_completion_ring_that_the_host_refuses_is_reported(device_pair: Pair) -> None:
    pair = device_pair
    pair.initiator.device.revoke(pair.local.completions.address, 16 * 32)
    pair.local.post(**NOP)
    pair.run(20)
    (fault,) = pair.initiator.device.faults()
    assert (fault.requester, fault.write) == ("COMPLETION_WRITER", True)
    assert pair.local.completions[:] == bytes(16 * COMPLETION.size)


def vectors(pair: Pair) -> int:
    device = pair.initiator.device
    assert isinstance(device, SimulatedDevice)
    return device.take_interrupts()


def test_an_armed_interrupt_comes_once_with_its_completion(device_pair: Pair) -> None:
    pair = device_pair
    context = pair.initiator.context(2)
    context.execute(**NOP)
    assert vectors(pair) == 0
    context.doorbell("arm", 2)
    context.execute(**NOP)
    assert vectors(pair) == 0
    context.execute(**NOP)
    assert vectors(pair) == 1 << 2
    context.execute(**NOP)
    assert vectors(pair) == 0
    assert pair.initiator.counter(Counter.INTERRUPTS) == 1


def test_arming_for_a_completion_that_is_there_already_interrupts_at_once(device_pair: Pair) -> None:
    pair = device_pair
    pair.local.execute(**NOP)
    pair.local.doorbell("arm", 0)
    pair.run(2)
    assert vectors(pair) == 1
    pair.local.doorbell("arm", 1)
    pair.run(20)
    assert vectors(pair) == 0


def test_wait_returns_with_the_vectors_of_all_contexts_or_at_the_timeout(device_pair: Pair) -> None:
    pair = device_pair
    assert pair.initiator.device.wait(0.0) == 0
    for number in (1, 3):
        context = pair.initiator.context(number)
        context.doorbell("arm", 0)
        context.post(**NOP)
    pending = 0b1010
    while pending:
        arrived = pair.initiator.device.wait(10.0)
        assert arrived
        assert arrived & ~pending == 0
        pending &= ~arrived


def test_the_descriptor_is_readable_from_an_interrupt_until_it_is_reported(device_pair: Pair) -> None:
    pair = device_pair
    device = pair.initiator.device

    def is_readable() -> bool:
        return select.select([device], [], [], 0)[0] == [device]

    assert not is_readable()
    assert device.fileno() == device.fileno()
    context = pair.initiator.context(2)
    context.doorbell("arm", 0)
    context.execute(**NOP)
    assert is_readable()
    assert is_readable()
    assert device.wait(0.0) == 1 << 2
    assert not is_readable()
    assert device.wait(0.0) == 0


def test_what_came_before_the_descriptor_was_asked_for_is_told(device_pair: Pair) -> None:
    pair = device_pair
    pair.local.doorbell("arm", 0)
    pair.local.execute(**NOP)
    assert select.select([pair.initiator.device], [], [], 0)[0]


def test_host_memory_may_lie_at_other_addresses_than_the_nic_uses(device_pair: Pair) -> None:
    """Two pages that follow each other for the NIC, and lie apart and in the other order in the process."""
    pair, page = device_pair, 4096
    device, iova = pair.initiator.device, 0x7_0000_0000
    places, remote = Buffer(4 * page, fill=1), pair.memory(2 * page)
    device.grant(iova, page, host_address=places.address + 2 * page, context=pair.local.number)
    device.grant(iova + page, page, writable=False, host_address=places.address)
    content = bytes(range(256)) * 16
    places[2 * page] = content
    places[0] = content[::-1]
    transfer = {"length": page, "local": iova + page // 2, "remote_address": remote.address, "remote_key": Pair.KEY}
    assert pair.local.execute(opcode=DescriptorOpcode.WRITE, **transfer)["status"] == OK
    assert remote[:page] == content[page // 2 :] + content[::-1][: page // 2]
    assert pair.local.execute(opcode=DescriptorOpcode.READ, **transfer | {"length": page // 2})["status"] == OK
    assert places[2 * page + page // 2 : 3 * page] == content[page // 2 :]
    assert places[page : 2 * page] == bytes([1]) * page
    with pytest.raises(DeviceError, match="cannot also lie at"):
        device.grant(iova, 64, host_address=places.address)
    device.revoke(iova + page, page)
    device.faults()
    failed = pair.local.execute(opcode=DescriptorOpcode.WRITE, **transfer)
    assert failed["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert all(fault.address < iova + 2 * page < fault.address + fault.size + page for fault in device.faults())
    own = pair.local.number
    device.revoke(iova, page, context=own)
    with pytest.raises(DeviceError, match="never granted"):
        device.revoke(iova, page, context=own)


def test_the_clock_can_be_read(device_pair: Pair) -> None:
    nic = device_pair.initiator

    def look() -> int:
        """The registers' clock, less the device's own right after."""
        high, low = (nic.get("device", f"cycles_{half}") for half in ("high", "low"))
        return (high << 32 | low) - nic.device.cycles

    before, clock = look(), nic.device.cycles
    pair = device_pair
    pair.run(700)
    assert nic.device.cycles >= clock + 65_000
    assert abs(look() - before) <= 4
    nic.set("device", cycles_low=0)
    assert abs(look() - before) <= 4


def test_a_function_level_reset_stops_everything_and_lets_the_clock_go_on(device_pair: Pair) -> None:
    pair = device_pair
    nic, device = pair.initiator, pair.initiator.device
    local, remote = nic.buffer(4096), pair.memory(4096)
    pair.local.post(
        opcode=DescriptorOpcode.WRITE, length=4096, local=local.address,
        remote_address=remote.address, remote_key=Pair.KEY,
    )  # fmt: skip
    pair.local.doorbell("arm", 0)
    pair.network.step()
    clock, before = device.cycles, nic.get("device", "cycles_low")
    device.function_reset()
    assert device.cycles >= clock
    assert nic.get("device", "cycles_low") < before
    assert [nic.get("device", name) for name in ("mac_low", "ip", "retransmit_timeout")] == [0, 0, 1 << 14]
    assert nic.get("contexts", "control") == 0
    assert nic.get("counters", "value", Counter.DESCRIPTORS) == 0
    pair.run(400)
    assert device.take_interrupts() == 0
    assert nic.get("counters", "value", Counter.REQUESTS_SENT) == 0
    assert device.faults() == []
    # Grants are the host's, and stay.
    device.revoke(local.address, 4096)


def test_a_nic_tells_when_it_last_did_something(device_pair: Pair) -> None:
    pair = device_pair
    device = pair.initiator.device
    pair.local.execute(**NOP)
    pair.run(20)
    rest = device.last_activity
    assert rest < device.cycles
    pair.network.step()
    assert device.last_activity == rest
    pair.local.execute(**NOP)
    assert rest < device.last_activity <= device.cycles


def test_a_nic_that_waits_for_a_peer_rests_until_it_sends_again(device_pair: Pair) -> None:
    pair = device_pair
    device, remote = pair.initiator.device, pair.memory(8)
    pair.network.cut(pair.target.device)
    pair.local.post(**add(remote))
    pair.run(50)
    rest = device.last_activity
    pair.run(100)
    assert device.last_activity == rest
    pair.run(60)
    assert device.last_activity >= rest + 16_000


def test_a_simulated_device_is_stepped_and_traces(device_pair: Pair) -> None:
    first, second = (nic.device for nic in (device_pair.initiator, device_pair.target))
    assert (first.stepped, first.traces) == (True, True)
    assert [device.new_epoch() for device in (first, second, first)] == [1, 2, 3]
    device_pair.network.detach(first)
    assert first.new_epoch() is None


def test_a_closed_device_answers_nothing(device_pair: Pair) -> None:
    device = device_pair.initiator.device
    device.close()
    device.close()
    calls: list[Callable[[], object]] = [
        lambda: device.read(0), lambda: device.write(0x30, 0), lambda: device.grant(0x1000, 1),
        lambda: device.revoke(0x1000, 1), device.advance, lambda: device.wait(0.0), device.faults,
        device.fileno,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(DeviceClosedError):
            call()
    device_pair.network.step()


def test_runs_are_reproducible_to_the_cycle(make_pair: Callable[..., Pair]) -> None:
    def run() -> list[tuple[int, int, int]]:
        pair = make_pair()
        pair.network.recording = True
        target = pair.memory()
        for _ in range(15):
            pair.local.put(**add(target))
        pair.local.ring()
        pair.run(50)
        return [(sender, frame.cycle, len(frame.data)) for sender, frame in pair.network.log]

    first = run()
    assert len(first) == 30
    assert run() == first


def test_random_traffic_of_adds_is_summed_exactly(device_pair: Pair) -> None:
    pair = device_pair
    target = pair.memory()
    generator = random.Random(20)
    total = [0] * 16
    outstanding = 0
    for _ in range(400):
        word, amount = generator.randrange(16), generator.getrandbits(64)
        total[word] = (total[word] + amount) % (1 << 64)
        pair.local.put(**{**add(target, amount), "remote_address": target.address + 8 * word})
        outstanding += 1
        if generator.random() < 0.3 or outstanding == 16:
            pair.local.ring()
            for _ in range(outstanding):
                assert pair.local.completion()["status"] == OK
            outstanding = 0
    pair.local.ring()
    for _ in range(outstanding):
        assert pair.local.completion()["status"] == OK
    assert [target.integer(8 * word) for word in range(16)] == total
