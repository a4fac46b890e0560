"""Driver programs that leave behind everything an application or a network can see of them."""

import contextlib
import random
from dataclasses import dataclass, fields
from typing import Any

import amoeba
import numpy as np
from amoeba.libfabric.objects.constants import MrAccess, MrMode
from amoeba_model.atomic.matrix import cells
from amoeba_model.opcodes import Form, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, decode

REGION = 8192
TIMING_FIELDS = {"clear_psn_offset", "cack_psn", "syn", "dpdcid"}
"""Header fields that depend on which answers have arrived when a request leaves."""
TIMING_COUNTERS = {Counter.LINE_READS, Counter.LINE_WRITES, Counter.LINE_HITS, Counter.COUNTER_WRITES}
"""How often memory is accessed depends on what comes close after each other."""


@dataclass
class Outcome:
    """The results of a program: compare two of them with ``==``."""

    memory: bytes
    results: list[bytes]
    completions: list[tuple[Any, ...]]
    frames: list[tuple[Any, ...]]
    faults: list[str]
    counters: list[dict[str, int]]
    """Of each NIC, all but TIMING_COUNTERS."""


def visible(frames: list[tuple[int, Any]]) -> list[tuple[Any, ...]]:
    """Frames by sender and sequence number, without what depends on timing."""
    seen = []
    for sender, frame in frames:
        decoded = decode(frame.data)
        assert isinstance(decoded, DecodedFrame), f"NIC {sender} sent {decoded}: {frame.data.hex()}"
        header = decoded.header
        values = tuple(
            (field.name, getattr(header, field.name)) for field in fields(header) if field.name not in TIMING_FIELDS
        )
        seen.append((sender, not header.is_request, header.spdcid, header.psn, values, bytes(decoded.payload)))
    return sorted(seen)


class Session:
    """Two NICs, an endpoint on each, and memory behind the second."""

    def __init__(self, kinds: str, exits: contextlib.ExitStack, parameters: NicParameters | None = None, **rtl: Any):
        self.fabric = exits.enter_context(amoeba.open_cluster(kinds.split(","), parameters, rtl_options=rtl))
        raw = np.zeros(REGION + 4096, np.uint8)
        start = -raw.ctypes.data % 4096
        self.memory = raw[start : start + REGION]
        # Offsets instead of virtual addresses, so that frames do not depend on where memory lies.
        source, target = self.fabric.domain(0), self.fabric.domain(1, mr_mode=MrMode.FI_MR_ALLOCATED)
        access = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        self.region = target.mr_reg(self.memory, access, requested_key=0x1234_5678_9ABC)
        self.read_only = target.mr_reg(self.memory, MrAccess.FI_REMOTE_READ, requested_key=7)
        self.queue = source.cq_open(amoeba.CqFormat.FI_CQ_FORMAT_MSG)
        self.peers = source.av_open()
        self.endpoint = source.endpoint(tx_size=64, cq=self.queue, av=self.peers)
        self.served = target.endpoint(cq=target.cq_open(), av=target.av_open())
        self.peer = self.peers.insert(self.served.getname())
        self.completions: list[tuple[Any, ...]] = []
        self.results: list[np.ndarray] = []
        self.posted = 0
        self.fabric.settle()
        assert self.fabric.network is not None
        self.fabric.network.recording = True

    def result(self, size: int) -> np.ndarray:
        self.results.append(np.full(size, 0xEE, np.uint8))
        return self.results[-1]

    def post(self, call: Any, *arguments: Any, **keywords: Any) -> None:
        """Post an operation with its number as context, first making space where the ring is full."""
        while True:
            try:
                call(*arguments, context=self.posted, **keywords)
                break
            except amoeba.TryAgainError:
                self.reap()
        self.posted += 1

    def reap(self) -> None:
        try:
            self.completions += [tuple(entry) for entry in self.queue.read(64)]
        except amoeba.ErrorAvailableError:
            entry = self.queue.readerr()
            assert entry is not None
            self.completions.append((entry.op_context, int(entry.flags), entry.len, int(entry.err), entry.prov_errno))

    def finish(self) -> Outcome:
        for _ in range(100_000):
            if len(self.completions) == self.posted:
                break
            self.reap()
        else:
            raise TimeoutError(f"{self.posted} operations, {len(self.completions)} completions")
        network = self.fabric.network
        assert network is not None
        for _ in range(20):
            network.step()
        return Outcome(
            memory=self.memory.tobytes(),
            results=[result.tobytes() for result in self.results],
            completions=sorted(self.completions),
            frames=visible(network.log),
            faults=[str(fault) for device in self.fabric.devices for fault in device.faults()],
            counters=[
                {counter.name: value for counter, value in nic.counters().items() if counter not in TIMING_COUNTERS}
                for nic in self.fabric.nics
            ],
        )


def random_program(session: Session, seed: int, operations: int) -> None:
    """Post a seeded mix of writes, reads and atomics of every cell, some of them wrong."""
    rng = random.Random(seed)
    executable = list(cells(extensions=True))
    endpoint, peer, region = session.endpoint, session.peer, session.region
    for _ in range(operations):
        kind = rng.choices(("write", "read", "atomic", "wrong"), (3, 3, 8, 1))[0]
        if kind in ("write", "read"):
            length = rng.choice((0, 1, 7, 8, 31, 32, 33, 100, 1000, rng.randint(1, 6000)))
            address = region.address + rng.randint(0, REGION - length)
            if kind == "write":
                session.post(endpoint.write, rng.randbytes(length), peer, address, region.key)
            else:
                session.post(endpoint.read, session.result(length), peer, address, region.key)
        elif kind == "atomic":
            cell = rng.choice(executable)
            size = cell.datatype.size
            count = rng.choice((1, 1, 1, 2, 5, rng.randint(1, 600 // size)))
            slots = (REGION - count * size) // size
            address = region.address + size * rng.randint(0, min(slots, rng.choice((3, slots))))
            if rng.random() < 0.2:
                address += rng.randint(0, min(size - 1, REGION - count * size - (address - region.address)))
            length = count * size
            operand, compare = rng.randbytes(length), rng.randbytes(length)
            where = (peer, address, region.key, cell.op, cell.datatype)
            if cell.form is Form.BASE:
                session.post(endpoint.atomic, operand, *where)
            elif cell.form is Form.FETCH:
                given = None if cell.op is Op.FI_ATOMIC_READ else operand
                session.post(endpoint.fetch_atomic, given, session.result(length), *where)
            else:
                session.post(endpoint.compare_atomic, operand, compare, session.result(length), *where)
        else:
            key, address = rng.choice(
                [
                    (0xBAD, region.address),
                    (region.key, region.address + REGION - 4),
                    (session.read_only.key, region.address),
                ]
            )
            session.post(endpoint.write, rng.randbytes(64), peer, address, key)
