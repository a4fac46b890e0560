"""Programs on NICs behind a fake kernel: ``python -m tests.support.pcie_scenes FOLDER SCENE`` prints what they
found.

A process of its own, as its memory becomes that of a virtual machine.
"""

import asyncio
import contextlib
import json
import resource
import sys
import threading
import time
from pathlib import Path

import numpy as np
from amoeba import (
    BindFlags,
    CqFormat,
    DeferredWork,
    MrAccess,
    MrMode,
    Msg,
    Op,
    OpCntr,
    OpMsg,
    Progress,
    TriggerOp,
    WaitObj,
    aio,
)
from amoeba.core.buffers import allocate
from amoeba.devices.pcie.device import PcieDevice
from amoeba.libfabric.asyncio import queue as queue_module
from amoeba.libfabric.objects.fabric import Fabric

from tests.support.fake_vfio import FakeKernel
from tests.support.pcie_program import ADDRESSES, endpoints

ACCESS = MrAccess(0)
for _each in MrAccess:
    ACCESS |= _each
ONE = np.uint64(1)
BOTH = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
LONG = 1 << 16


class Scene:
    """Two sides with 1 MiB each, registered."""

    def __init__(self, fabric, kernel, mr_mode=None):
        self.fabric, self.kernel = fabric, kernel
        self.domains = [fabric.domain(nic, mr_mode=mr_mode) for nic in range(2)]
        options = CqFormat.FI_CQ_FORMAT_TAGGED, WaitObj.FI_WAIT_FD
        self.queues = [domain.cq_open(*options) for domain in self.domains]
        self.vectors = [domain.av_open() for domain in self.domains]
        self.endpoints = [
            domain.endpoint(cq=queue, av=vector, cq_flags=BOTH)
            for domain, queue, vector in zip(self.domains, self.queues, self.vectors, strict=True)
        ]
        names = [endpoint.getname() for endpoint in self.endpoints]
        self.peers = [vector.insert(name) for vector, name in zip(self.vectors, reversed(names), strict=True)]
        self.memory = [allocate(1 << 20) for _ in self.domains]
        self.regions = [
            domain.mr_reg(memory, ACCESS) for domain, memory in zip(self.domains, self.memory, strict=True)
        ]
        self.to = self.peers[0], self.regions[1].address, self.regions[1].key

    def words(self, side):
        return np.frombuffer(self.memory[side], np.uint64)


def awaited(fabric, kernel):
    """Tasks that await atomics and long messages; nothing depends on looking again after a while."""
    scene = Scene(fabric, kernel)
    sums = np.zeros(40, np.uint64)
    sent, got = np.arange(LONG // 8, dtype=np.uint64), np.zeros(LONG // 8, np.uint64)

    async def main():
        async with contextlib.AsyncExitStack() as entered:
            near, far = [
                (await entered.enter_async_context(aio.AsyncCompletionQueue(queue))).endpoint(endpoint)
                for queue, endpoint in zip(scene.queues, scene.endpoints, strict=True)
            ]
            beats = 0

            async def beat():
                nonlocal beats
                while True:
                    await asyncio.sleep(0.001)
                    beats += 1

            beating = asyncio.ensure_future(beat())
            await asyncio.gather(
                *(near.fetch_atomic(ONE, sums[n : n + 1], *scene.to, Op.FI_SUM) for n in range(len(sums))),
                far.trecv(got, 7),
                near.tsend(sent, scene.peers[0], 7),
            )
            late = asyncio.ensure_future(far.trecv(bytearray(8), 9))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await late
            cancelled = late.cancelled()
            beating.cancel()
            return {"cancelled": cancelled, "beats": beats}

    found = asyncio.run(asyncio.wait_for(main(), 60))
    return found | {"sums": sorted(int(each) for each in sums), "message": bool((sent == got).all())}


def automatic(fabric, kernel):
    """The progress of devices while the program sleeps, and the cost of sleeping."""
    scene = Scene(fabric, kernel)
    near = scene.endpoints[0]
    counter, done = scene.domains[0].cntr_open(), scene.domains[0].cntr_open()
    buffer = bytearray(b"deferred")
    message = OpMsg(near, Msg([buffer], scene.peers[0]))
    scene.domains[0].queue_work(DeferredWork(1, counter, TriggerOp.FI_OP_SEND, message, done))
    scene.domains[0].queue_work(DeferredWork(2, counter, TriggerOp.FI_OP_CNTR_ADD, OpCntr(done, 10)))
    received = bytearray(8)
    scene.endpoints[1].recv(received)
    counter.add(1)
    entry = scene.queues[1].sread(timeout=30)
    counter.add(1)
    done.wait(11, timeout=30)

    waited = []
    sleeper = threading.Thread(target=lambda: waited.append(scene.queues[0].sread(timeout=30)))
    sleeper.start()
    time.sleep(0.05)
    near.write(scene.memory[0][:LONG], *scene.to, context="from another thread")
    sleeper.join(30)

    counter.close()
    done.close()  # a counter may change without an interrupt: the thread looks now and then
    deadline = time.monotonic() + 10
    while not fabric._auto._asleep and time.monotonic() < deadline:
        time.sleep(0.001)
    before, rounds = resource.getrusage(resource.RUSAGE_SELF), fabric._auto.rounds
    time.sleep(0.3)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "received": received.decode(),
        "entries": len(entry),
        "waited": [each.op_context for each in waited[0]],
        "rounds asleep": fabric._auto.rounds - rounds,
        "idle asleep": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.15,
    }


def registered(fabric, kernel):
    """Map and unmap calls of the same operations, without FI_MR_LOCAL and with it."""
    calls = []
    for mode in (MrMode.FI_MR_VIRT_ADDR, MrMode.FI_MR_VIRT_ADDR | MrMode.FI_MR_LOCAL):
        scene = Scene(fabric, kernel, mode)
        near, far = scene.endpoints
        buffer, other = allocate(LONG), allocate(LONG)
        local = bool(mode & MrMode.FI_MR_LOCAL)
        desc = scene.domains[0].mr_reg(buffer, ACCESS) if local else None
        far_desc = scene.domains[1].mr_reg(other, ACCESS) if local else None
        before = kernel.ioctls["map"] + kernel.ioctls.get("unmap", 0)
        for tag in range(10):
            buffer[:8] = tag.to_bytes(8, "little")
            near.write(buffer, *scene.to, desc=desc)
            assert scene.queues[0].sread(timeout=30)
            near.read(buffer, *scene.to, desc=desc)
            assert scene.queues[0].sread(timeout=30)
            far.trecv(other[:512], tag, desc=far_desc)
            near.tsend(buffer[:512], scene.peers[0], tag, desc=desc)
            assert scene.queues[1].sread(timeout=30)
            assert scene.queues[0].sread(timeout=30)
            assert bytes(other[:8]) == bytes(scene.memory[1][:8]) == tag.to_bytes(8, "little")
        calls.append(kernel.ioctls["map"] + kernel.ioctls["unmap"] - before)
        for domain in scene.domains:
            domain.close()
    return {"calls": calls}


SCENES = {
    "asyncio": (awaited, Progress.FI_PROGRESS_AUTO),
    "asyncio, manual": (awaited, Progress.FI_PROGRESS_MANUAL),
    "automatic": (automatic, Progress.FI_PROGRESS_AUTO),
    "registered": (registered, Progress.FI_PROGRESS_MANUAL),
}


def main(folder, name):
    scene, progress = SCENES[name]
    with endpoints(folder, "model,model") as sockets:
        kernel = FakeKernel(folder, dict(zip(ADDRESSES, sockets, strict=True)))
        devices = [PcieDevice(address, kernel) for address in ADDRESSES]
        with Fabric(devices) as fabric:
            if progress is Progress.FI_PROGRESS_AUTO:
                fabric.automate()
            if scene is awaited:
                queue_module.WAIT_SLICE = 3600 if progress is Progress.FI_PROGRESS_AUTO else queue_module.WAIT_SLICE
            found = scene(fabric, kernel)
        found["maps left"] = [len(device._maps) for device in devices]
        found["threads left"] = [each.name for each in threading.enumerate() if each.name == "amoeba progress"]
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
