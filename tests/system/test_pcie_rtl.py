"""The RTL on PCI Express: pairs of small NICs whose hosts speak transaction layer packets, whatever is set."""

import random
from collections.abc import Iterator

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.device import DeviceError
from amoeba_model.network import SimulatedDevice
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.uet import ReturnCode

from tests.support.pcie_rtl import LINKS, SMALL
from tests.support.raw_driver import Buffer, Pair, RawNic, connect

REGION = 1 << 14

pytestmark = pytest.mark.long


def nic_on(link: str, *, stall: float = 0.0, seed: int = 1) -> SimulatedDevice:
    # Imported when it is needed: tests of the model run without the simulator.
    from amoeba_sim.rtl import PcieLink, open_rtl

    return open_rtl(SMALL, host="pcie", link=PcieLink(**LINKS[link]), host_latency=40, stall=stall, seed=seed)


def pair_of(link: str, *, stall: float = 0.0, seed: int = 1) -> Pair:
    def make(parameters: NicParameters) -> SimulatedDevice:
        return nic_on(link, stall=stall, seed=seed)

    return connect(make, make, SMALL)


@pytest.fixture(params=list(LINKS))
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = pair_of(request.param)
    yield pair
    for nic in (pair.initiator, pair.target):
        assert nic.device.faults() == []
        nic.device.close()


def transfer(opcode: DescriptorOpcode, local: int, remote: int, length: int) -> dict[str, int]:
    """A descriptor of a WRITE from, or a READ to ``local``."""
    where = "result" if opcode == DescriptorOpcode.READ else "local"
    return {"opcode": opcode, where: local, "remote_address": remote, "length": length, "remote_key": Pair.KEY}


def do_transfers(pair: Pair, count: int, seed: int) -> None:
    """Writes and reads of any length at any alignment; no byte but theirs changes."""
    random.seed(seed)
    pair.target.answer_memory()
    target, local = pair.memory(REGION), pair.initiator.buffer(REGION)
    theirs, ours = bytearray(random.randbytes(REGION)), bytearray(random.randbytes(REGION))
    target[0], local[0] = bytes(theirs), bytes(ours)
    for _ in range(count):
        length = random.choice([1, 3, 8, 16, 17, 64, 130, 1000, 1024, random.randint(1, 5000)])
        here, there = (random.randrange(REGION - length) for _ in range(2))
        opcode = random.choice([DescriptorOpcode.READ, DescriptorOpcode.WRITE])
        completion = pair.local.execute(**transfer(opcode, local.address + here, target.address + there, length))
        assert completion["status"] == ReturnCode.OK
        if opcode == DescriptorOpcode.READ:
            ours[here : here + length] = theirs[there : there + length]
        else:
            theirs[there : there + length] = ours[here : here + length]
        pair.run(2)
        assert local[:] == bytes(ours), f"{opcode.name} of {length} bytes at {here:#x} from {there:#x}"
        assert target[:] == bytes(theirs), f"{opcode.name} of {length} bytes at {there:#x} from {here:#x}"


def test_transfers_move_their_bytes_and_no_others(pair: Pair) -> None:
    do_transfers(pair, 40, 7)


@pytest.mark.parametrize("seed", [1, 2])
def test_transfers_survive_a_link_that_stalls(seed: int) -> None:
    pair = pair_of("smallest", stall=0.4, seed=seed)
    do_transfers(pair, 12, seed)
    for nic in (pair.initiator, pair.target):
        nic.device.close()


def test_atomics_add_up_and_fetch_what_was_there(pair: Pair) -> None:
    pair.target.answer_memory()
    memory, results = pair.memory(), pair.initiator.buffer(4096)
    posted = [0] * 8
    for number in range(60):
        word = number * 5 % 8
        completion = pair.local.execute(
            opcode=DescriptorOpcode.FETCH_ATOMIC, op=Op.FI_SUM, datatype=Datatype.FI_UINT64, length=8, local=number,
            flags=DescriptorFlags.COMPLETION | DescriptorFlags.INLINE, result=results.address + 8 * number,
            remote_address=memory.address + 8 * word, remote_key=Pair.KEY,
        )  # fmt: skip
        assert completion["status"] == ReturnCode.OK
        assert results.integer(8 * number) == posted[word]
        posted[word] += number
    pair.run()
    assert [memory.integer(8 * word) for word in range(8)] == posted


@pytest.mark.parametrize("link", list(LINKS))
def test_an_interrupt_comes_behind_its_completion(link: str) -> None:
    device = nic_on(link, stall=0.2)
    context = RawNic(device, 0x0200_0000_0009, 0x0A00_0009, SMALL).context(1)
    for index in range(20):
        context.doorbell("arm", index)
        context.post(opcode=DescriptorOpcode.NOP, context=index)
        for _ in range(20_000):
            if device.take_interrupts():
                break
            device.run_until(device.cycles + 1)
        else:
            raise AssertionError(f"no interrupt for completion {index}")
        # The cycle in which its packet came.
        completion = context.poll()
        assert completion is not None, f"interrupt {index} came before its completion"
        assert completion["context"] == index
    device.close()


def test_a_page_that_the_host_refuses_is_an_error_of_its_operation() -> None:
    pair = pair_of("usual")
    memory, local = pair.memory(), pair.initiator.buffer(4096)
    closed = Buffer(3 * 4096)
    refused = transfer(DescriptorOpcode.WRITE, closed.address + 4096, memory.address, 2000)
    assert pair.local.execute(**refused)["status"] == ReturnCode.LOCAL_DMA_FAULT
    assert pair.initiator.counter(Counter.DMA_READ_ERRORS) > 0
    good = transfer(DescriptorOpcode.WRITE, local.address, memory.address, 2000)
    assert pair.local.execute(**good)["status"] == ReturnCode.OK
    assert {fault.write for fault in pair.initiator.device.faults()} == {False}
    for nic in (pair.initiator, pair.target):
        nic.device.close()


def test_a_reset_leaves_a_nic_that_can_be_set_up_again(pair: Pair) -> None:
    do_transfers(pair, 3, 3)
    device = pair.initiator.device
    device.function_reset()
    context = pair.initiator.context(1)
    assert context.execute(opcode=DescriptorOpcode.NOP, context=5)["context"] == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_payload": 64}, "max_payload is one of"),
        ({"max_read_request": 300}, "max_read_request is one of"),
        ({"read_completion_boundary": 32}, "64 or 128 bytes, got 32"),
    ],
)
def test_a_link_has_sizes_that_pcie_has(options: dict[str, int], message: str) -> None:
    from amoeba_sim.rtl import PcieLink

    with pytest.raises(DeviceError, match=message):
        PcieLink(**options)


def test_a_host_is_axi_or_pcie() -> None:
    from amoeba_sim.rtl import PcieLink, open_rtl

    with pytest.raises(DeviceError, match="axi or pcie as host, got 'usb'"):
        open_rtl(SMALL, host="usb")  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="has no PCI Express link"):
        open_rtl(SMALL, link=PcieLink())
