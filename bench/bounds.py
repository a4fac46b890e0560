"""Cost of one peer's frames for another, and for the NIC's own traffic: cycles of a whole RTL NIC, exact.

A stranger's frames reach the NIC as fast as its link brings them, and right behind them one request of somebody else.
The cost of a frame is the delay of that request's answer for each further frame of the stranger, the time of the link
included.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from amoeba import BindFlags, MrAccess
from amoeba.core.buffers import allocate
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.address import EndpointAddress
from amoeba_model.network import SimulatedDevice
from amoeba_model.registers import Counter
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import AtomicDatatype, AtomicOpcode, RequestOpcode, SesFlags
from amoeba_tools.tracing import trace_fetch_atomic

from bench.nic import cluster
from bench.report import Grid

__all__ = ["BEFORE", "LIMITS", "OWN", "OWN_LIMIT", "bounds_grid", "costs", "own_traffic"]

LIMITS = {
    "tagged atomics that match none of 64 receives": 8,
    "messages that match none, and find no slot": 8,
    "4 KiB READs that are received again": 8,
    "atomics on lines that meet in one set": 8,
    "frames that are refused with a NACK": 8,
}
"""Maximum cycles that each may cost another peer; the link takes 4 for the shortest of these frames."""
BEFORE: dict[str, float] = {
    "tagged atomics that match none of 64 receives": 71,
    "4 KiB READs that are received again": 349,
    "atomics on lines that meet in one set": 31,
}
"""Figures measured at 2dc3963."""
_COUNTED = dict(
    zip(
        LIMITS,
        (
            Counter.REFUSED_REQUESTS, Counter.DROPPED_SEQUENCE, Counter.DUPLICATES, Counter.ATOMIC_BEATS,
            Counter.DROPPED_PDC,
        ),
        strict=True,
    )
)  # fmt: skip
"""Counter of each flood, which shows that its frames are what they are called."""
OWN = "own fetching atomic while 300 tagged atomics come"
OWN_LIMIT, OWN_BEFORE = 1.5, 20
"""Times as long as alone."""

FRAMES = 64
"""Frames of the stranger: first a quarter of this number, then three quarters."""
_FLOOD = 300
_TAG, _OTHER_TAG = 9, 3
_STRIDE = 1 << 14
"""Bytes from line to line, more than the line table has sets for, without a hash."""
_LONG = 4096
_ONE = (1).to_bytes(8, "little")
_SUM = {
    "request_length": 8, "payload_length": 8, "atomic_opcode": AtomicOpcode.SUM,
    "atomic_datatype": AtomicDatatype.UINT64,
}  # fmt: skip
_STEPS = 400
"""Steps of the network, a link latency each: more than any flood needs."""

Message = tuple[FrameHeader, bytes]


def _mac(ip: int) -> int:
    return 0x0200_0000_0000 | ip


@dataclass
class Target:
    """A NIC with an endpoint that has receives posted and memory registered, for requests made by hand."""

    fabric: Fabric
    address: EndpointAddress
    base: int
    key: int
    sent: dict[int, int] = field(default_factory=dict)
    """Packets by sender's address."""

    @property
    def device(self) -> SimulatedDevice:
        return cast(SimulatedDevice, self.fabric.devices[0])

    def packet(self, ip: int, opcode: int, payload: bytes = b"", *, place: int = 0, **fields: int) -> Message:
        """Make the next packet of the one PDC of that sender."""
        number = self.sent.get(ip, 0)
        self.sent[ip] = number + 1
        psn = (ip << 16) + number
        values = {
            "mac": int.from_bytes(self.address.mac, "big"), "ip": self.address.ip, "psn": psn,
            "clear_psn_offset": 0xFFFF, "spdcid": 7, "dpdcid": number, "syn": True, "opcode": opcode,
            "flags": SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE, "message_id": psn & 0xFFFF,
            "job_id": self.address.job_id, "pid_on_fep": self.address.pid_on_fep,
            "resource_index": self.address.resource_index, "memory_key": self.key,
            "buffer_offset": self.base + place, "request_length": len(payload),
        }  # fmt: skip
        return FrameHeader(**{**values, **fields}), payload

    def deliver(self, ip: int, *packets: Message) -> None:
        for header, payload in packets:
            self.device.deliver(encode(header, payload, _mac(ip), ip), 0)

    def answered(self, ip: int, psn: int) -> int:
        """Cycle in which the answer to that packet began to leave."""
        network = self.fabric.network
        assert network is not None
        for _ in range(_STEPS):
            network.step()
            for _, frame in network.log:
                decoded = decode(frame.data)
                is_theirs = frame.data[:6] == _mac(ip).to_bytes(6, "big")
                if is_theirs and isinstance(decoded, DecodedFrame) and decoded.header.psn == psn:
                    return frame.cycle
        raise RuntimeError(f"no answer to {ip}, {psn}")

    def idle(self) -> None:
        """Wait until everything in flight has ended."""
        network = self.fabric.network
        assert network is not None
        for _ in range(_STEPS // 4):
            network.step()
        network.log.clear()


@contextlib.contextmanager
def _target(kind: str) -> Iterator[Target]:
    """Open two NICs, and yield the first as a target."""
    with cluster(kind) as fabric:
        domain = fabric.domain(0)
        assert fabric.network is not None
        fabric.network.recording = True
        memory = np.frombuffer(allocate(_STRIDE * (FRAMES + 1)), np.uint8)
        region = domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
        both = BindFlags.FI_TRANSMIT | BindFlags.FI_RECV
        endpoint = domain.endpoint(cq=domain.cq_open(), av=domain.av_open(), cq_flags=both)
        word = np.zeros(1, np.uint64)
        for _ in range(fabric.nics[0].parameters.receives):
            endpoint.trecv(word, _TAG)
        target = Target(fabric, EndpointAddress.unpack(endpoint.getname()), region.address, region.key)
        target.idle()
        yield target
        endpoint.close()
        region.close()


def _tagged_atomics(target: Target, ip: int, count: int = FRAMES) -> list[Message]:
    """Build tagged atomics without receives."""
    tagged = {**_SUM, "memory_key": _OTHER_TAG}
    return [target.packet(ip, RequestOpcode.TSEND_ATOMIC, _ONE, **tagged) for _ in range(count)]


def _floods() -> dict[str, Callable[[Target, int], list[Message]]]:
    """Return the stranger's frames by name. Asking for them first sends, and completes, the frames they depend on."""

    def without_a_slot(target: Target, ip: int) -> list[Message]:
        slots = target.fabric.nics[0].parameters.unexpected
        messages = [
            target.packet(ip, RequestOpcode.TAGGED_SEND, _ONE, memory_key=_OTHER_TAG) for _ in range(slots + 1)
        ]
        target.deliver(ip, *messages)
        target.idle()
        return messages[-1:] * FRAMES

    def received_again(target: Target, ip: int) -> list[Message]:
        reads = [target.packet(ip, RequestOpcode.READ, request_length=_LONG) for _ in range(FRAMES)]
        target.deliver(ip, *reads)
        target.idle()
        return reads

    def in_one_set(target: Target, ip: int) -> list[Message]:
        return [
            target.packet(ip, RequestOpcode.FETCHING_ATOMIC, _ONE, place=number * _STRIDE, **_SUM)
            for number in range(FRAMES)
        ]

    def refused(target: Target, ip: int) -> list[Message]:
        number = target.fabric.nics[0].parameters.peers + 60
        return [target.packet(ip, RequestOpcode.WRITE, syn=0, dpdcid=number) for _ in range(FRAMES)]

    makers = (_tagged_atomics, without_a_slot, received_again, in_one_set, refused)
    return dict(zip(LIMITS, makers, strict=True))


def _cost(kind: str, name: str, flood: Callable[[Target, int], list[Message]]) -> float:
    """Cycles for each further frame of the stranger that somebody's WRITE is answered later.

    Raises RuntimeError if the NIC does not count each of them as what it is.
    """
    stranger, other = 66, 77
    with _target(kind) as target:
        target.deliver(other, target.packet(other, RequestOpcode.WRITE))  # opens a PDC
        target.idle()
        frames, waits = flood(target, stranger), []
        counts = target.fabric.nics[0].counters
        before = counts()[_COUNTED[name]]
        for some in (frames[: FRAMES // 4], frames[FRAMES // 4 :]):
            write = target.packet(other, RequestOpcode.WRITE)
            begin = target.device.cycles
            target.deliver(stranger, *some)
            target.deliver(other, write)
            waits.append(target.answered(other, write[0].psn) - begin)
            target.idle()
        counted = counts()[_COUNTED[name]] - before
        if counted != FRAMES:
            raise RuntimeError(f"expected {FRAMES} of {name}, the NIC counted {counted}")
        return (waits[1] - waits[0]) / (FRAMES // 2)


def costs(kind: str = "rtl") -> dict[str, float]:
    """Cycles per frame of the stranger."""
    return {name: _cost(kind, name, flood) for name, flood in _floods().items()}


def own_traffic(kind: str = "rtl") -> float:
    """How many times as long as alone a fetching atomic takes of a NIC that is flooded."""
    with _target(kind) as target:
        alone = trace_fetch_atomic(target.fabric).steps[-1].cycle
        target.deliver(66, *_tagged_atomics(target, 66, _FLOOD))
        return trace_fetch_atomic(target.fabric).steps[-1].cycle / alone


def bounds_grid(found: dict[str, float], own: float) -> Grid:
    """Beside what it was, and the limits."""
    rows: list[tuple[object, ...]] = [
        (what, BEFORE.get(what, ""), cycles, f"at most {LIMITS[what]}", "cycles per frame")
        for what, cycles in found.items()
    ]
    rows.append((OWN, OWN_BEFORE, own, f"at most {OWN_LIMIT}", "times as long as alone"))
    title = "cost of a stranger's frames for another peer, and for the NIC itself (exact)"
    return Grid(title, ("measurement", "at 2dc3963", "now", "limit", "unit"), rows)
