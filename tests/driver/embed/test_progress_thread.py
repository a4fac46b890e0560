"""A NIC answers its peers while its program makes no calls."""

import json
import logging
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from amoeba import CqFormat
from amoeba.devices.linked import open_linked
from amoeba.embed import process_nic
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.nic import Nic
from amoeba_model.device import DeviceError

IDLE = """
import json, sys, threading, time
import numpy as np
from amoeba import MrAccess
from amoeba.embed import process_nic
from amoeba.libfabric.objects.fabric import Fabric

mine = process_nic()
fabric = Fabric([mine.nic])
domain, memory = fabric.domain(0), np.zeros(64, np.uint64)
region = domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
endpoint = domain.endpoint(cq=domain.cq_open(), av=domain.av_open())
print(json.dumps([endpoint.getname().hex(), region.address, region.key]), flush=True)
{busy}
sys.stdin.readline()                     # no call of the driver's until somebody says so
assert memory[3] == 42, memory
fabric.close()
mine.release()
for thread in threading.enumerate():
    if thread.name == "amoeba progress":
        thread.join(10)
        assert not thread.is_alive()
print("ended", flush=True)
"""
BUSY = "threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(int, 1)], daemon=True).start()"


@pytest.mark.parametrize("busy", ["", BUSY], ids=["asleep", "computing"])
def test_a_process_that_makes_no_calls_is_written_to(busy):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", IDLE.replace("{busy}", busy)]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True) as other:
        name, address, key = json.loads(other.stdout.readline())
        linked = open_linked()
        try:
            nic = Nic(linked.device)
            linked.name(nic)
            with Fabric([nic]) as fabric:
                domain = fabric.domain(0)
                queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA), domain.av_open()
                endpoint = domain.endpoint(cq=queue, av=peers)
                peer = peers.insert(bytes.fromhex(name))
                for value in (41, 42):
                    endpoint.write(np.array([value], np.uint64), peer, address + 24, key, context=value)
                    assert [entry.op_context for entry in queue.sread(timeout=30)] == [value]
        finally:
            linked.close()
        told, _ = other.communicate("now\n", timeout=30)
        assert other.returncode == 0
    assert told.strip() == "ended", "the thread ends with its NIC"


def test_a_nic_that_is_opened_and_closed_often_leaves_no_threads():
    before = set(threading.enumerate())
    for _ in range(5):
        process_nic().release()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("error", [DeviceError("no"), OSError(1, "no"), ValueError("no"), KeyError(5)], ids=repr)
def test_an_error_while_a_program_computes_is_logged_once_and_its_nic_goes_on(error, monkeypatch, caplog):
    mine = process_nic()
    try:
        failures, steps, goes_on = iter(range(3)), mine.network.step, threading.Event()

        def step(**options):
            if next(failures, None) is not None:
                raise error
            steps(**options)
            goes_on.set()

        with caplog.at_level(logging.ERROR, "amoeba.progress"):
            monkeypatch.setattr(mine.network, "step", step)
            assert goes_on.wait(60), "the thread has ended"
            monkeypatch.undo()
        assert [record.args[0] for record in caplog.records if record.name == "amoeba.progress"] == [error]
    finally:
        mine.release()
