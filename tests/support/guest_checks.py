"""Runs in a virtual machine: what only a kernel can show. Prints ``ok NAME`` or ``failed NAME: REASON`` for each."""

import os
import resource
import signal
import subprocess
import sys
import time
import traceback

import numpy as np
from amoeba import MrAccess, Op, open_cluster
from amoeba.core.errors import FabricError
from amoeba.devices.pcie.device import PcieDevice
from type1_rules import ANSWERS, ask

ADDRESSES = ("0000:01:00.0", "0000:02:00.0")
KINDS = [f"pcie:{address}" for address in ADDRESSES]
ALL = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
PATIENCE = 60


class Party:
    """An endpoint on each NIC; the second one's operations go to the first one's memory."""

    def __init__(self):
        self.fabric = open_cluster(KINDS)
        self.owner, user = self.fabric.domain(0), self.fabric.domain(1)
        self.server = server = self.owner.endpoint(cq=self.owner.cq_open(), av=self.owner.av_open())
        self.queue, self.peers = user.cq_open(), user.av_open()
        self.client = user.endpoint(cq=self.queue, av=self.peers)
        self.peer = self.peers.insert(server.getname())
        self.table = np.full(512, 100, np.uint64)
        self.region = self.owner.mr_reg(self.table, ALL)

    def add(self, region=None):
        """The result of a fetching addition of 5."""
        region = region or self.region
        fetched = np.zeros(1, np.uint64)
        self.client.fetch_atomic(np.full(1, 5, np.uint64), fetched, self.peer, region.address, region.key, Op.FI_SUM)
        (_,) = self.queue.sread(timeout=PATIENCE)
        return int(fetched[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.fabric.close()


def the_rules_of_type_1_are_those_of_the_fake():
    with open("page", "wb") as file:
        file.write(bytes(4096))
    with PcieDevice(ADDRESSES[0]) as device:
        answers = ask(device._function, "page")
    assert answers == ANSWERS, [pair for pair in zip(answers, ANSWERS, strict=True) if pair[0] != pair[1]]


def a_second_process_is_told_that_the_nic_is_in_use():
    with PcieDevice(ADDRESSES[0]):
        ran = subprocess.run(["amoeba", "info", "--device", KINDS[0]], capture_output=True, text=True)
    assert ran.returncode == 1, ran
    assert "in use" in ran.stderr.replace("\n", " "), ran


def a_region_revoked_under_traffic_is_refused_and_nothing_else_breaks():
    with Party() as party:
        other = np.full(512, 7, np.uint64)
        second = party.owner.mr_reg(other, ALL)
        assert party.add() == 100
        start, size = party.table.ctypes.data, party.table.nbytes
        device = party.fabric.devices[0]
        users = [grant for grant in device._maps._grants if grant[0] <= start < sum(grant)]
        for iova, length in users:
            device.revoke(iova, length)
        before = party.table.copy()
        try:
            party.add()
            failed = None
        except FabricError:
            failed = party.queue.readerr()
        assert failed is not None
        assert failed.err
        party.client.write(np.ones(64, np.uint64), party.peer, party.region.address + 64, party.region.key)
        try:
            party.queue.sread(timeout=PATIENCE)  # whether it is an error is the kernel's to say, and it does not
        except FabricError:
            party.queue.readerr()
        assert (party.table == before).all()
        assert party.add(second) == 7
        for iova, length in users:
            device.grant(iova, length)
        assert party.add() == 105
        assert size


def a_nic_reset_under_traffic_is_opened_again():
    with Party() as party:
        for _ in range(8):
            party.client.write(np.ones(256, np.uint64), party.peer, party.region.address, party.region.key)
        party.fabric.devices[1].reset()
        party.fabric.devices[0].reset()
    with Party() as party:
        assert [party.add() for _ in range(3)] == [100, 105, 110]


def a_driver_that_was_killed_leaves_nics_that_work():
    program = "import guest_checks as g\nwith g.Party() as p:\n  while True: p.add(); print('on', flush=True)"
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "on\n"
            process.send_signal(signal.SIGKILL)
        time.sleep(0.2)
        with Party() as party:
            assert party.add() == 100


def a_user_with_little_locked_memory_is_told_how_much_is_needed():
    for group in os.listdir("/dev/vfio"):
        os.chmod(f"/dev/vfio/{group}", 0o666)

    def become_user():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 << 20, 8 << 20))
        os.setgid(1000)
        os.setuid(1000)

    ran = subprocess.run(
        [sys.executable, "-c", "import guest_checks as g\ng.Party()"], preexec_fn=become_user, capture_output=True,
        text=True, env=os.environ | {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:/tmp"},
    )  # fmt: skip
    assert ran.returncode, ran
    assert "FI_ENOMEM" in ran.stderr, ran.stderr[-600:]
    assert "a limit of 8388608 bytes" in ran.stderr, ran.stderr[-600:]


CHECKS = (
    the_rules_of_type_1_are_those_of_the_fake,
    a_second_process_is_told_that_the_nic_is_in_use,
    a_region_revoked_under_traffic_is_refused_and_nothing_else_breaks,
    a_nic_reset_under_traffic_is_opened_again,
    a_driver_that_was_killed_leaves_nics_that_work,
    a_user_with_little_locked_memory_is_told_how_much_is_needed,
)

if __name__ == "__main__":
    for check in CHECKS:
        try:
            check()
            print(f"ok {check.__name__}", flush=True)
        except BaseException as error:
            traceback.print_exc()
            print(f"failed {check.__name__}: {type(error).__name__}: {error}", flush=True)
