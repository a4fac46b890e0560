"""Discovery: what the driver accepts as an Amoeba; and the tables of the NIC, full and empty.

Covers ``nic/context_table.py``, ``nic/free_numbers.py`` and ``nic/registers.py``.
"""

import numpy as np
import pytest
from amoeba import (
    DeviceFailureError,
    Domain,
    EndpointAddress,
    Errno,
    Fabric,
    FabricError,
    MrAccess,
    MrMode,
    PeerError,
    Retransmission,
    open_cluster,
)
from amoeba.core.errors import class_of
from amoeba.nic.nic import Nic
from amoeba.transport.protection_domain import ProtectionDomain
from amoeba_model.nic.device import ModelDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter, bar_blocks
from amoeba_model.wire.uet import ReturnCode

from tests.driver.endpoints import ALL_ACCESS, connect, make_side


class Doctored(ModelDevice):
    """A model whose registers read as ``values`` says."""

    def __init__(self, values: dict[int, int]) -> None:
        super().__init__()
        self.values = values

    def read(self, offset: int) -> int:
        return self.values[offset] if offset in self.values else super().read(offset)


class Posting(ModelDevice):
    """A model whose register writes arrive before the next read, as posted writes may."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: list[tuple[int, int]] = []

    def write(self, offset: int, value: int) -> None:
        self.posted.append((offset, value))

    def read(self, offset: int) -> int:
        while self.posted:
            super().write(*self.posted.pop(0))
        return super().read(offset)


@pytest.mark.parametrize(
    "parameters",
    [
        NicParameters(),
        NicParameters(contexts=1, keys=8, peers=4, target_pdcs=2),
        NicParameters(contexts=32, data_width=512, payload=8192),
    ],
)
def test_discovery_finds_all_blocks_and_sizes_of_any_build(parameters):
    with ModelDevice(parameters) as device:
        nic = Nic(device)
        assert nic.blocks == bar_blocks(parameters)
        assert repr(nic) == f"<Nic {device.name}>"
        for name in ("data_width", "contexts", "keys", "peers", "window", "payload", "target_pdcs", "clock_hz"):
            assert getattr(nic.parameters, name) == getattr(parameters, name)


@pytest.mark.parametrize(
    ("values", "number", "message"),
    [
        pytest.param({0: 0, 12: 0}, Errno.FI_ENODEV, "no Amoeba", id="nothing there"),
        pytest.param({0: 0xFFFFFFFF, 12: 0xFFFFFFFF}, Errno.FI_ENODEV, "continues at 0xffffffff", id="dead bus"),
        pytest.param({0x10: 1}, Errno.FI_ENOSYS, "ABI version 1, this driver speaks 9", id="other ABI"),
        pytest.param({0x100C: 0x1000}, Errno.FI_ENODEV, "0x1000 continues at 0x1000", id="list in a circle"),
        pytest.param({0x100C: 0}, Errno.FI_ENOSYS, "no register block 'contexts'", id="block missing"),
        pytest.param({0x3004: 9}, Errno.FI_ENOSYS, "'keys' has version 9, expected 1", id="other block version"),
        pytest.param({0x14: 77}, Errno.FI_ENODEV, "data_width", id="senseless size"),
    ],
)
def test_what_is_not_our_nic_is_refused_with_the_reason(values, number, message):
    with Doctored(values) as device, pytest.raises(FabricError, match=message) as caught:
        Fabric([device])
    assert caught.value.errno == number


def test_unknown_blocks_are_skipped():
    # a later release puts a block of a kind that this driver does not know behind the last one
    unknown = {0x600C: 0x7000, 0x7000: 0x414D_7777, 0x7004: 1, 0x7008: 0x40, 0x700C: 0}
    with Doctored(unknown) as device:
        assert [placed.block.name for placed in Nic(device).blocks][-1] == "target_pdcs"


def test_what_peers_are_told_of_has_arrived_at_the_nic():
    with Posting() as device, Fabric([device]) as fabric:
        domain = fabric.domain()
        kept = []
        for make in (make_side, Domain.srx_context, lambda domain: domain.mr_reg(bytearray(8), ALL_ACCESS)):
            kept.append(make(domain))
            assert device.posted == [], kept[-1]


def test_single_contexts_leave_space_for_several_side_by_side():
    with ModelDevice(NicParameters(contexts=8)) as device:
        nic = Nic(device)
        assert [nic.contexts.take() for _ in range(4)] == [0, 1, 2, 3]
        for context in (2, 0):
            nic.contexts.release(context)
        # 0 and 2 are alone, and 2 was unused longer; then come the ends of 4 to 7
        assert nic.contexts.take() == 2
        assert nic.contexts.take_block(4) == 4
        assert nic.contexts.take() == 0
        for context in (5, 6, 4):
            nic.contexts.release(context)
        assert nic.contexts.take() == 6
        assert nic.contexts.take_block(2) == 4


def test_protection_domains_have_numbers_and_names_of_their_own():
    with ModelDevice() as device:
        nic = Nic(device)
        nic.set_address(bytes([2, 0, 0, 0, 0, 9]), 0x0A000009)
        first, second = (ProtectionDomain(nic, job_id=5, pid_on_fep=pid) for pid in (6, 7))
        assert first.number != second.number
        assert second.address_of(3, 2) == EndpointAddress(bytes([2, 0, 0, 0, 0, 9]), 0x0A000009, 5, 7, 3, 2)
        free = len(nic.domains.free)
        first.release()
        assert len(nic.domains.free) == free + 1
        assert first.number not in {ProtectionDomain(nic, job_id=1, pid_on_fep=1).number for _ in range(free)}
        assert ProtectionDomain(nic, job_id=1, pid_on_fep=1).number == first.number
        with pytest.raises(FabricError, match="all 256 protection domains are in use") as none_left:
            ProtectionDomain(nic, job_id=1, pid_on_fep=1)
        assert none_left.value.fi_errno is Errno.FI_ENOSPC


def test_registers_are_known_by_block_and_name():
    with Posting() as device:
        registers = Nic(device).registers
        places = {placed.block.name: placed for placed in bar_blocks(NicParameters())}
        registers.write("contexts", "job_id", 7, 3)
        registers.write_wide("peers", "mac", 0x0203_0405_0607)
        peers = places["peers"]
        assert device.posted == [
            (places["contexts"].address("job_id", 3), 7),
            (peers.address("mac_low"), 0x0405_0607),
            (peers.address("mac_high"), 0x0203),
        ]
        registers.flush()
        assert device.posted == []
        assert registers.read("contexts", "job_id", 3) == 7


def test_own_address_reads_back(fabric):
    assert [nic.mac.hex(":") for nic in fabric.nics] == ["02:00:00:00:00:01", "02:00:00:00:00:02"]
    assert [nic.ip for nic in fabric.nics] == [0x0A000001, 0x0A000002]


def test_counters_count_what_happened(fabric, pair, target):
    _, region = target
    pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key)
    pair[0].finish()
    pair[0].endpoint.write(bytes(8), pair[0].peer, region.address, region.key + 1)
    pair[0].failure()
    sender, receiver = (nic.counters() for nic in fabric.nics)
    assert (sender[Counter.DESCRIPTORS], sender[Counter.COMPLETIONS]) == (2, 2)
    assert sender[Counter.ERROR_COMPLETIONS] == 1
    assert (receiver[Counter.REQUESTS_RECEIVED], receiver[Counter.REFUSED_REQUESTS]) == (2, 1)


def test_a_key_in_use_is_refused_on_the_whole_nic(fabric, keep):
    one, other = keep(fabric.domain(0)), keep(fabric.domain(0))
    keep(one.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=77))
    with pytest.raises(FabricError) as caught:
        other.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=77)
    assert caught.value.errno == Errno.FI_ENOKEY


def test_a_key_whose_slots_are_all_taken_is_refused_and_others_are_not(fabric, keep):
    domain = keep(fabric.domain(0))
    # the halfwords of these keys cancel each other out, so all begin at slot 0, and a key has 8 slots
    for key in range(1, 9):
        keep(domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=key << 16 | key))
    with pytest.raises(FabricError) as caught:
        domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=9 << 16 | 9)
    assert caught.value.errno == Errno.FI_ENOSPC
    assert keep(domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=9)).key == 9


def test_all_slots_of_the_key_table_can_be_used_and_are_returned(fabric, keep):
    """By several domains, as two slots are kept for every other one."""
    domain, other = keep(fabric.domain(0)), keep(fabric.domain(0))
    nic = fabric.nics[0]
    kept = 2 * (nic.parameters.contexts - 1)
    for _ in range(2):
        regions = [domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ) for _ in range(nic.parameters.keys - kept)]
        regions += [other.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ) for _ in range(2)]
        assert len({region.key for region in regions}) == len(regions)
        with pytest.raises(FabricError) as caught:
            domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ)
        assert caught.value.errno == Errno.FI_ENOSPC
        for region in regions:
            region.close()


@pytest.mark.parametrize("key", [-1, 2**64 - 1, 2**64])
def test_impossible_keys_are_refused(fabric, key):
    with pytest.raises(FabricError) as caught, fabric.domain(0) as domain:
        domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=key)
    assert caught.value.errno == Errno.FI_EINVAL


def test_the_domain_chooses_keys_with_prov_key(fabric, keep):
    domain = keep(fabric.domain(0, mr_mode=MrMode.FI_MR_PROV_KEY))
    assert keep(domain.mr_reg(bytearray(8), MrAccess.FI_REMOTE_READ, requested_key=77)).key != 77


def test_contexts_run_out_with_an_error_and_come_back(fabric, keep):
    domain = keep(fabric.domain(0))
    sides = [keep(make_side(domain)) for _ in range(fabric.nics[0].parameters.contexts)]
    with pytest.raises(FabricError, match="endpoint contexts") as caught:
        make_side(domain)
    assert caught.value.errno == Errno.FI_ENOSPC
    sides[0].endpoint.close()
    keep(make_side(domain))


def test_peer_entries_run_out_with_an_error_and_come_back():
    with open_cluster(["model", "model"], NicParameters(peers=2)) as fabric:
        client, server = make_side(fabric.domain(0)), make_side(fabric.domain(1))
        connect(client, server)
        second = client.peers.insert(server.endpoint.getname())
        with pytest.raises(FabricError, match="peer table") as caught:
            client.peers.insert(server.endpoint.getname())
        assert caught.value.errno == Errno.FI_ENOSPC
        assert len(client.peers) == 2
        client.peers.remove(second)
        client.peer = client.peers.insert(server.endpoint.getname())
        region = server.domain.mr_reg(bytearray(8), ALL_ACCESS)
        client.endpoint.write(bytes(8), client.peer, region.address, region.key)
        client.finish()


def test_an_endpoint_that_finds_no_peer_entry_gives_its_context_back():
    with open_cluster(["model"], NicParameters(peers=1, contexts=2)) as fabric:
        domain = fabric.domain(0)
        first = make_side(domain)
        first.peers.insert(first.endpoint.getname())
        queue = domain.cq_open()
        with pytest.raises(FabricError, match="peer table"):
            domain.endpoint(cq=queue, av=first.peers)
        with make_side(domain).endpoint as second:
            assert second.getname() != first.endpoint.getname()


def test_a_device_failure_is_what_a_wrong_completion_raises(pair, target):
    _, region = target
    side = pair[0]
    side.endpoint.write(bytes(8), side.peer, region.address, region.key)
    side.endpoint._rings._pending = [None] * side.endpoint.tx_size
    with pytest.raises(DeviceFailureError, match="never posted"):
        side.queue.sread(timeout=30)
    side.endpoint._rings._free = list(range(side.endpoint.tx_size))  # nothing to wait for at close


def network_without(fabric, lost):
    """Frames for which ``lost`` says so leave no NIC of the fabric."""
    for device in fabric.devices:
        take_frames = device.take_frames
        device.take_frames = lambda take=take_frames: [frame for frame in take() if not lost(frame.data)]


def test_a_long_answer_that_is_lost_comes_again(pair, target, fabric):
    memory, region = target
    side = pair[0]
    lost = []

    def is_first_answer_with_data(frame):
        if len(frame) > 500 and not lost:
            lost.append(frame)
            return True
        return False

    network_without(fabric, is_first_answer_with_data)
    result = np.zeros(64, np.uint64)
    side.endpoint.read(result, side.peer, region.address, region.key)
    side.finish()
    assert len(lost) == 1
    assert (result == memory).all()


def test_a_peer_that_went_away_is_a_peer_error(pair, target, fabric):
    _, region = target
    side = pair[0]
    for nic in fabric.nics:
        nic.retransmission = Retransmission(timeout=1000, limit=1)
        assert nic.retransmission.patience(nic.parameters.clock_hz) == 3000 / 250e6
    network_without(fabric, lambda frame: True)
    side.endpoint.write(bytes(8), side.peer, region.address, region.key)
    entry = side.failure()
    assert (entry.err, entry.prov_errno) == (Errno.FI_ECONNRESET, ReturnCode.LOCAL_PDC_FAILED)
    assert class_of(Errno.FI_ECONNRESET) is PeerError


@pytest.mark.parametrize("wanted", [0, 46, 63])
def test_the_class_of_requests_can_be_chosen(wanted):
    with ModelDevice(NicParameters()) as device:
        nic = Nic(device)
        assert nic.dscp == 0
        nic.dscp = wanted
        assert nic.dscp == wanted


@pytest.mark.parametrize("wanted", [16, 17, 4096])
def test_the_data_in_an_ack_can_be_limited(wanted):
    with ModelDevice(NicParameters(return_data=True)) as device:
        nic = Nic(device)
        assert nic.parameters.return_data
        assert nic.max_ack_data == 4096
        nic.max_ack_data = wanted
        assert nic.max_ack_data == wanted


@pytest.mark.parametrize("wanted", [0, 15, 4097])
def test_a_limit_that_no_ack_can_have_is_refused(wanted):
    with ModelDevice(NicParameters(return_data=True)) as device:
        nic = Nic(device)
        with pytest.raises(FabricError, match=f"expected 16 to 4096 bytes in an ACK, got {wanted}") as caught:
            nic.max_ack_data = wanted
        assert caught.value.errno == Errno.FI_EINVAL
        assert nic.max_ack_data == 4096


def test_a_nic_that_sends_nothing_in_the_return_direction_limits_no_ack():
    with ModelDevice(NicParameters()) as device:
        nic = Nic(device)
        nic.max_ack_data = 4096
        with pytest.raises(FabricError, match="expected 4096 bytes in an ACK, got 16") as caught:
            nic.max_ack_data = 16
        assert caught.value.errno == Errno.FI_EOPNOTSUPP
        assert nic.max_ack_data == 4096


@pytest.mark.parametrize("wanted", [-1, 64])
def test_a_class_that_does_not_fit_is_refused(wanted):
    with ModelDevice(NicParameters()) as device:
        nic = Nic(device)
        with pytest.raises(FabricError, match=f"expected a DSCP of 0 to 63, got {wanted}"):
            nic.dscp = wanted
        assert nic.dscp == 0
