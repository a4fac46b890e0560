"""READs whose data the NIC, as their target, sends in the return direction to an independent UET endpoint.

Covers ``amoeba_model/nic/return_sender.py`` and ``amoeba_model/nic/return_direction.py``.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode
from amoeba_model.network import Network
from amoeba_model.nic import ModelDevice
from amoeba_model.parameters import BUILDS, NicParameters
from amoeba_model.registers import Counter, TargetPdcState
from amoeba_model.wire.uet import NackCode, ReturnCode

from tests.support import uet_packets as uet
from tests.support.lossy_bench import FIRST_PSN
from tests.support.lossy_bench import Bench as LossyBench
from tests.support.raw_driver import Pair, RawNic, connect
from tests.support.saboteur import chance
from tests.support.uet_endpoint import Initiator
from tests.support.uet_packets import PSNS, EndpointError, Station
from tests.system.test_interoperation import CONTENT, KEY, Bench

START = 0x1234_0000
"""The first psn of the endpoint's PDC, in both directions."""
TARGET = BUILDS["full"].peers + 1
"""The number of the NIC's first target PDC on the wire."""
MTU = 4096
TIMEOUT, LIMIT = 2000, 2


def bench_of(parameters: NicParameters) -> Iterator[Bench]:
    device, network, mac = ModelDevice(parameters), Network(), 0x0200_0000_0001
    network.attach(device, mac.to_bytes(6, "big"))
    nic = RawNic(device, mac, 0x0A00_0001, parameters)
    opened = Bench(network, nic, Station(network))
    nic.answer_memory()
    nic.set("device", max_ack_data=uet.MAX_ACK_DATA, retransmit_timeout=TIMEOUT, retransmit_limit=LIMIT)
    opened.region[0] = CONTENT
    yield opened
    device.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    yield from bench_of(replace(BUILDS["full"], return_data=True))


def settle(bench: Bench, steps: int = 200) -> None:
    for _ in range(steps):
        bench.station.step()


@pytest.mark.parametrize("length", [17, 4096, 10_000])
def test_a_peer_reads_more_than_an_ack_holds(bench: Bench, length: int) -> None:
    peer = bench.initiator()
    assert peer.read_parts(KEY, 0x40, length, MTU) == CONTENT[0x40 : 0x40 + length]
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == bench.nic.counter(Counter.TIMEOUTS) == 0
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == 0


def test_data_up_to_the_limit_stays_in_the_ack(bench: Bench) -> None:
    peer = bench.initiator()
    assert peer.read(KEY, 3, uet.MAX_ACK_DATA) == CONTENT[3 : 3 + uet.MAX_ACK_DATA]
    assert peer.returned == START


@pytest.mark.parametrize(("length", "frames"), [(17, 4), (4096, 4), (10_000, 12)])
def test_any_frame_may_be_lost(length: int, frames: int, bench: Bench) -> None:
    for lost in range(frames):
        peer = Initiator(bench.station, bench.address, START + (lost << 20), 100 + lost)
        bench.station.lost = {bench.station.frames + lost}
        assert peer.read_parts(KEY, 0x40, length, MTU) == CONTENT[0x40 : 0x40 + length]
        peer.attend()
        assert peer.returned == START + (lost << 20) + -(-length // MTU)
    assert bench.nic.counter(Counter.FAILED_PDCS) == 0


def test_memory_is_read_once(bench: Bench) -> None:
    """A peer reads what was there when its READ was executed, however often the data is sent."""
    peer = unacknowledged(bench)
    bench.region[0x40] = bytes(64)
    peer.deaf = False
    peer.attend()
    assert list(peer.data.values()) == [CONTENT[0x40:0x80]]
    assert bench.nic.counter(Counter.RETRANSMISSIONS)


def run_for(bench: Bench, cycles: int) -> None:
    device = bench.nic.device
    assert isinstance(device, ModelDevice)
    end = device.cycles + cycles
    while device.cycles < end:
        bench.station.step()


def unacknowledged(bench: Bench, count: int = 1) -> Initiator:
    """Have the endpoint READ 64 bytes so many times, and acknowledge none of the data."""
    peer = bench.initiator()
    peer.deaf, peer.PATIENCE = True, 3
    with pytest.raises(EndpointError, match=f"0 answers and the data of {count} READs did not come"):
        peer.read_parts(KEY, 0x40, 64 * count, 64)
    return peer


def test_a_peer_that_never_acknowledges_loses_its_pdc_and_nobody_else(bench: Bench) -> None:
    unacknowledged(bench)
    settle(bench, 1000)
    assert bench.nic.counter(Counter.TIMEOUTS) == LIMIT + 1
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == LIMIT
    assert bench.nic.counter(Counter.FAILED_PDCS) == 1
    bench.nic.set("target_pdcs", select=0)
    assert bench.nic.get("target_pdcs", "state") == TargetPdcState.EXPELLED
    other = Initiator(bench.station, bench.address, spdcid=8)
    bench.station.arrived()
    assert other.read(KEY, 0x40, 64) == CONTENT[0x40:0x80]


def test_an_acknowledgement_covers_all_up_to_its_cack_psn(bench: Bench) -> None:
    peer = unacknowledged(bench, 3)
    peer.returned = START + 3
    peer.acknowledge(START + 2, TARGET, 102, 64)
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == 0


def test_an_acknowledgement_covers_the_oldest_psn_whatever_its_cack_psn_is(bench: Bench) -> None:
    peer = unacknowledged(bench, 2)
    peer.acknowledge(START + 1, TARGET, 101, 64)
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == 0
    settle(bench, 10)
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == 1
    for psn in (START, START + 1):
        peer.acknowledge(psn, TARGET, 100, 64)
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == 0


def test_only_timeouts_in_a_row_give_a_pdc_up(bench: Bench) -> None:
    peer = unacknowledged(bench, 3)
    for number in range(3):
        while bench.nic.counter(Counter.TIMEOUTS) < LIMIT * (number + 1):
            bench.station.step()
        peer.returned = START + number + 1
        peer.acknowledge(START + number, TARGET, 100 + number, 64)
        settle(bench, 10)
    settle(bench, 1000)
    assert bench.nic.counter(Counter.FAILED_PDCS) == 0
    assert bench.nic.counter(Counter.TIMEOUTS) == 3 * LIMIT


FORGED = {
    "another PDC of the sender": {"spdcid": 99},
    "a PDC that is not open": {"target": TARGET + 1},
    "a number of no PDC": {"target": 0},
    "a number beyond all": {"target": 0xFFFF},
    "a psn that was not sent": {"psn": 1},
    "a psn before the first": {"psn": -1},
    "a psn far away": {"psn": 1 << 31},
}


@pytest.mark.parametrize("change", FORGED)
def test_forged_acknowledgements_end_nothing(bench: Bench, change: str) -> None:
    peer = unacknowledged(bench)
    fields = {"psn": 0, "target": TARGET, "spdcid": 7} | FORGED[change]
    peer.returned = START + fields["psn"] + 1
    dropped = bench.nic.counter(Counter.DROPPED_RESPONSE)
    peer.acknowledge((START + fields["psn"]) % PSNS, fields["target"], 100, 64, spdcid=fields["spdcid"])
    settle(bench, 20)
    assert bench.nic.counter(Counter.DROPPED_RESPONSE) == dropped + 1
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS)


def test_an_acknowledgement_of_a_psn_that_was_not_sent_ends_nothing_though_its_cack_psn_was(bench: Bench) -> None:
    peer = unacknowledged(bench)
    peer.returned = START + 1
    peer.acknowledge(START + 1, TARGET, 100, 64)
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS)


@pytest.mark.parametrize("code", [uet.ROD_OUT_OF_ORDER, *uet.LOST])
def test_a_nack_has_the_data_sent_again_once(bench: Bench, code: int) -> None:
    bench.nic.set("device", retransmit_timeout=1 << 30)
    peer = unacknowledged(bench)
    for psn in (START, START, START + 1, START - 1):
        peer.refuse(psn, TARGET, code)
    settle(bench, 50)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == 1
    assert bench.nic.counter(Counter.NACKS_RECEIVED) == bench.nic.counter(Counter.DROPPED_RESPONSE) == 2
    peer.deaf = False
    peer.attend(20)
    assert list(peer.data.values()) == [CONTENT[0x40:0x80]]


@pytest.mark.parametrize("code", [*uet.NO_SPACE, *uet.NO_PDC, 0x18])
def test_a_nack_that_passes_leaves_it_to_the_timeout(bench: Bench, code: int) -> None:
    bench.nic.set("device", retransmit_timeout=1 << 30)
    peer = unacknowledged(bench)
    peer.refuse(START, TARGET, code)
    settle(bench, 50)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == bench.nic.counter(Counter.FAILED_PDCS) == 0


@pytest.mark.parametrize("code", [NackCode.INV_DPDCID, NackCode.CLOSING, NackCode.CLOSING_IN_ERR])
@pytest.mark.parametrize("ahead", [0, 1, -1])
def test_a_fatal_nack_gives_the_pdc_up_if_its_psn_is_unacknowledged(bench: Bench, code: int, ahead: int) -> None:
    bench.nic.set("device", retransmit_timeout=1 << 30)
    peer = unacknowledged(bench)
    peer.refuse(START + ahead, TARGET, code)
    settle(bench, 20)
    assert bench.nic.counter(Counter.FAILED_PDCS) == (not ahead)
    bench.nic.set("target_pdcs", select=0)
    assert bench.nic.get("target_pdcs", "state") == (TargetPdcState.OPEN if ahead else TargetPdcState.EXPELLED)


def test_an_acknowledgement_from_another_address_ends_nothing(bench: Bench) -> None:
    unacknowledged(bench)
    stranger = Initiator(Station(bench.network, 0xEF), bench.address)
    stranger.returned = START + 1
    stranger.acknowledge(START, TARGET, 100, 64)
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS)


def test_a_close_ends_the_return_direction(bench: Bench) -> None:
    peer = unacknowledged(bench)
    bench.station.arrived()
    peer.close()
    settle(bench, 1000)
    assert bench.nic.counter(Counter.FAILED_PDCS) == 0
    peer.deaf, peer.PATIENCE = False, Initiator.PATIENCE
    assert peer.read(KEY, 0x40, 64) == CONTENT[0x40:0x80]


def test_a_pdc_that_the_host_closes_sends_nothing_more(bench: Bench) -> None:
    unacknowledged(bench)
    bench.nic.set("target_pdcs", close=0)
    settle(bench)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == bench.nic.counter(Counter.FAILED_PDCS) == 0


def test_many_pdcs_that_acknowledge_nothing_keep_none_of_the_table(bench: Bench) -> None:
    for number in range(bench.nic.parameters.target_pdcs):
        peer = Initiator(bench.station, bench.address, START, 100 + number)
        peer.deaf, peer.PATIENCE = True, 2
        with pytest.raises(EndpointError):
            peer.read(KEY, 0x40, 64)
    settle(bench, 1000)
    run_for(bench, 32 * (LIMIT + 1) * TIMEOUT)
    bench.station.arrived()
    assert Initiator(bench.station, bench.address, spdcid=7).read(KEY, 0x40, 64) == CONTENT[0x40:0x80]


def test_reads_beyond_the_window_of_the_return_direction_are_refused_for_now(bench: Bench) -> None:
    bench.nic.set("device", retransmit_timeout=1 << 30)
    peer = unacknowledged(bench)
    codes = []
    for _ in range(uet.WINDOW):
        answer = peer.ask(peer.header(uet.READ, key=KEY, offset=0, length=64))
        codes.append(answer.nack)
    assert codes == [0] * (uet.WINDOW - 1) + [uet.PSN_OUT_OF_WINDOW]


def test_no_request_takes_the_place_of_data_that_is_unacknowledged(bench: Bench) -> None:
    bench.nic.set("device", retransmit_timeout=TIMEOUT << 4)
    window, peer = bench.nic.parameters.window, unacknowledged(bench)
    for _ in range(window - 1):
        peer.write(KEY, 0x1000, b"four")
    refused = peer.ask(peer.header(uet.WRITE, key=KEY, offset=0x1000, length=4) + b"more")
    assert refused.nack == uet.PSN_OUT_OF_WINDOW
    peer.deaf = False
    bench.nic.set("device", retransmit_timeout=TIMEOUT)
    peer.attend(1000)
    assert list(peer.data.values()) == [CONTENT[0x40:0x80]]


def test_a_pdc_that_is_given_away_sends_nothing_to_its_former_initiator(bench: Bench) -> None:
    """A short timeout makes it idle, while the data still waits for a long one."""
    bench.nic.set("device", retransmit_timeout=100_000)
    unacknowledged(bench)
    bench.nic.set("device", retransmit_timeout=10)
    for number in range(bench.nic.parameters.target_pdcs):
        settle(bench, 4)
        bench.station.arrived()
        Initiator(bench.station, bench.address, spdcid=100 + number).write(KEY, 0x1000, b"four")
    bench.nic.set("target_pdcs", select=0)
    assert bench.nic.get("target_pdcs", "spdcid") >= 99
    run_for(bench, 120_000)
    assert bench.nic.counter(Counter.RETRANSMISSIONS) == bench.nic.counter(Counter.TIMEOUTS) == 0


def test_a_nic_without_the_feature_ignores_the_register() -> None:
    for bench in bench_of(BUILDS["full"]):
        assert bench.nic.get("device", "return_data") == 0
        peer = bench.initiator()
        answer = peer.ask(peer.header(uet.READ, key=KEY, offset=0x40, length=64))
        assert (answer.opcode, answer.data) == (uet.WITH_DATA, CONTENT[0x40:0x80])


def test_without_an_answer_memory_all_data_is_in_the_ack(bench: Bench) -> None:
    bench.nic.set_wide("device", answer_base=0)
    peer = bench.initiator()
    answer = peer.ask(peer.header(uet.READ, key=KEY, offset=0x40, length=64))
    assert (answer.opcode, answer.data) == (uet.WITH_DATA, CONTENT[0x40:0x80])


# Two NICs that both put at most 16 bytes of data in an ACK


@pytest.fixture
def both() -> LossyBench:
    pair = connect(ModelDevice, ModelDevice, replace(BUILDS["full"], return_data=True))
    for nic in (pair.initiator, pair.target):
        nic.answer_memory()
        nic.set("device", max_ack_data=uet.MAX_ACK_DATA, retransmit_timeout=TIMEOUT, retransmit_limit=8)
    bench = LossyBench(pair, limit=8)
    bench.region[0] = CONTENT[: bench.region.size]
    return bench


def reads(bench: LossyBench, count: int, length: int = 100) -> list[dict[str, int]]:
    """READs of neighbouring parts of the region, each to its own part of the result."""
    return [
        {
            "opcode": DescriptorOpcode.READ, "flags": DescriptorFlags.COMPLETION, "length": length,
            "result": bench.result.address + length * number, "remote_key": Pair.KEY,
            "remote_address": bench.region.address + length * number,
        }
        for number in range(count)
    ]  # fmt: skip


def test_two_nics_read_each_other_in_the_return_direction(both: LossyBench) -> None:
    both.post(*reads(both, 12))
    assert both.statuses(12) == [ReturnCode.OK] * 12
    both.pair.run()
    assert both.result[:1200] == CONTENT[:1200]
    returned = [header for header in both.frames() if header.returns and header.payload_length]
    assert [header.psn for header in returned] == [FIRST_PSN + number for number in range(12)]
    assert both.there(Counter.RETRANSMISSIONS) == both.here(Counter.RETRANSMISSIONS) == 0
    assert both.here(Counter.DROPPED_RESPONSE) == both.there(Counter.DROPPED_RESPONSE) == 0
    assert both.here(Counter.RESPONSES_RECEIVED) == both.there(Counter.RESPONSES_SENT) == 24
    assert both.there(Counter.RESPONSES_RECEIVED) == both.here(Counter.RESPONSES_SENT) == 12


def test_results_of_atomics_stay_in_the_ack(both: LossyBench) -> None:
    both.post(both.add(length=64, flags=DescriptorFlags.COMPLETION, local=both.region.address + 1024))
    both.pair.initiator.device.grant(both.region.address, both.region.size)
    assert both.statuses(1) == [ReturnCode.OK]
    assert both.result[:64] == CONTENT[:64]
    assert not [header for header in both.frames() if header.returns]


@pytest.mark.parametrize("seed", range(6))
def test_everything_is_done_once_over_a_bad_link(both: LossyBench, seed: int) -> None:
    """A tenth of all frames is lost, a tenth repeated, a tenth delayed and a tenth damaged."""
    generator = random.Random(seed)
    both.requests.fate = both.answers.fate = chance(generator, 0.1)
    for number in range(4):
        both.region[0] = bytes([number]) * 1200
        adds = [both.add(remote_address=both.region.address + 2048) for _ in range(3)]
        both.post(*reads(both, 9), *adds)
        assert both.statuses(12) == [ReturnCode.OK] * 12
        assert both.result[8:900] == bytes([number]) * 892
    assert both.region.integer(2048) == int.from_bytes(CONTENT[2048:2056], "little") + 12


def test_a_connection_that_is_disowned_goes_on_in_the_return_direction(both: LossyBench) -> None:
    """A forged NACK makes the initiator begin anew while the data is in flight: both count from there on."""
    both.post(*reads(both, 1))
    assert both.statuses(1) == [ReturnCode.OK]
    both.post(both.add(result=both.result.address + 2048, remote_address=both.region.address + 2048))
    assert both.statuses(1) == [ReturnCode.OK]
    both.answers.fate = lambda frame: []
    both.post(*reads(both, 3))
    both.pair.run(20)
    both.answers.fate = lambda frame: [(0, frame)]
    both.say(is_control=True, nack_code=NackCode.INV_DPDCID, psn=FIRST_PSN + 2)
    assert both.statuses(3) == [ReturnCode.OK] * 3
    both.pair.run(400)
    assert both.result[:300] == CONTENT[:300]
    assert both.there(Counter.FAILED_PDCS) == both.here(Counter.FAILED_PDCS) == 0
    both.post(*reads(both, 3))
    assert both.statuses(3) == [ReturnCode.OK] * 3
