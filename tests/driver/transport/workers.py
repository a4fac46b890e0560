"""Workers: contexts of the engine alone, without an object, a flag or an entry of an API."""

import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from amoeba.core.buffers import address_of
from amoeba.devices.devices import open_device
from amoeba.nic.address import EndpointAddress
from amoeba.nic.event_ring import Event
from amoeba.nic.nic import Nic
from amoeba.transport.context import Context
from amoeba.transport.operation import Operation, filled
from amoeba.transport.posting import Local, grants_of, keep_of
from amoeba.transport.protection_domain import ProtectionDomain
from amoeba.transport.receives import ANYBODY, Receive
from amoeba.transport.requests import NEVER, Kind
from amoeba_model.descriptors import DescriptorFlags, DescriptorOpcode, EventKind
from amoeba_model.network import Network
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.registers import KeyFlags

__all__ = ["PATIENCE", "Worker", "pair_of_workers", "wait", "write_of"]

ALL = KeyFlags.REMOTE_READ | KeyFlags.REMOTE_WRITE
PATIENCE = 60.0
"""Seconds that a test waits for a simulated NIC."""


def write_of(value: int, to: tuple[int, int], peer: int, *, flags: int = 0, **fields: Any) -> Operation:
    """A write of 8 bytes to a place of which the address and the key are known."""
    address, key = to
    return filled(
        fields.pop("kind", Kind.WRITE),
        opcode=DescriptorOpcode.WRITE,
        flags=DescriptorFlags.INLINE | flags,
        length=8,
        peer=peer,
        remote_address=address,
        remote_key=key,
        local=value,
        **{"dest_addr": 0} | fields,
    )


class Worker:
    """A context with everything, and one peer that it knows by number 0."""

    def __init__(self, nic: Nic, *, entries: int = 16, announce: bool | None = None) -> None:
        self.nic = nic
        self.domain = ProtectionDomain(nic, job_id=7, pid_on_fep=1)
        self.context = context = Context(self.domain)
        self.rings = context.open_rings(entries)
        self.peers = context.open_peers()
        self.dispatch = context.open_events(64, lambda ip, number: 0, listening=True)
        context.open_long_sends(lambda: None)
        self.receives = context.open_receives(context.outlet(None, selective=False))
        self.arrived: list[Event] = []
        """Of messages that met no receive, which are the business of the receives if ``announce`` is None."""
        if announce is not None:
            self.dispatch.handlers[EventKind.ARRIVED] = self.arrived.append
        context.enable(announce=announce)
        self.taken: deque[Any] = deque()
        self.memory: list[np.ndarray] = []
        """Kept: the NIC has been granted it."""

    def meet(self, address: EndpointAddress) -> None:
        self.peers.add(0, address)

    def expose(self, memory: np.ndarray) -> tuple[int, int]:
        """(offset of the first byte, key) by which peers reach memory."""
        start = address_of(memoryview(memory))
        self.nic.dma.grant(start, memory.nbytes, writable=True, whose=None)
        self.memory.append(memory)
        return 0, self.nic.keys.store(None, start, memory.nbytes, self.domain.number, ALL)

    def put(self, value: int, to: tuple[int, int], context: Any = None) -> None:
        self.rings.post(write_of(value, to, self.peers.find(0), context=context))

    def fetch_add(self, value: int, found: np.ndarray, at: tuple[int, int], context: Any = None) -> None:
        result = Local(memoryview(found), None, writable=True)
        address, key = at
        self.rings.post(
            filled(
                Kind.FETCH_ATOMIC,
                opcode=DescriptorOpcode.FETCH_ATOMIC,
                op=Op.FI_SUM,
                datatype=Datatype.FI_UINT64,
                flags=DescriptorFlags.INLINE,
                length=8,
                peer=self.peers.find(0),
                remote_address=address,
                remote_key=key,
                local=value,
                result=result.address,
                context=context,
                dest_addr=0,
                buffers=keep_of([result]),
                grants=grants_of([result]),
            )
        )

    def send(self, message: np.ndarray, tag: int, context: Any = None) -> None:
        source = Local(memoryview(message), None, writable=False)
        sent = filled(
            Kind.TAGGED_SEND,
            opcode=DescriptorOpcode.TAGGED_SEND,
            length=source.length,
            peer=self.peers.find(0),
            remote_key=tag,
            local=source.address,
            context=context,
            dest_addr=0,
            buffers=keep_of([source]),
            grants=grants_of([source]),
        )
        if source.length > self.nic.parameters.payload:
            sends = self.context.long_sends
            assert sends is not None
            sent.opcode = DescriptorOpcode.RENDEZVOUS_TAGGED_SEND
            sends.post(sent, source.segment, tag)
            return
        self.rings.post(sent)

    def receive(self, buffer: np.ndarray, tag: int, context: Any = None, ignore: int = 0) -> None:
        view = memoryview(buffer)
        place = Local(view, None, writable=True)
        receive = Receive(True, tag, ignore, ANYBODY, context, False, (view,), buffer)
        receive.address, receive.length = place.address, place.length
        receive.grants = grants_of([place])
        self.receives.post(receive, 0, False)

    def flush(self) -> None:
        """Wait until nothing is in flight to the peer."""
        entry = self.peers.find(0)
        assert self.rings.wait_until(lambda: not self.rings.busy_with(entry), time.monotonic() + PATIENCE)

    def progress(self) -> None:
        for source in (self.rings, self.dispatch):
            source.announce()
            taken: list[Any] = []
            source.poll(sys.maxsize, taken)
            self.taken += [each for each in taken if each.silent != NEVER]

    def close(self) -> None:
        for memory in self.memory:
            self.nic.dma.revoke(address_of(memoryview(memory)), memory.nbytes, None)
        self.context.close()
        self.domain.release()


def wait(workers: tuple[Worker, ...], count: int, worker: Worker) -> list[Any]:
    """The next ``count`` completions of a worker."""
    deadline = time.monotonic() + PATIENCE
    while len(worker.taken) < count:
        for each in workers:
            each.progress()
        worker.nic.advance()
        assert time.monotonic() < deadline, f"{len(worker.taken)} of {count} completions came"
    return [worker.taken.popleft() for _ in range(count)]


@contextmanager
def pair_of_workers(kinds: str, **options: Any) -> Iterator[tuple[Worker, ...]]:
    """Workers on devices of these kinds, which know each other by number 0."""
    network = Network(Network.DEFAULT_LATENCY)
    devices = [open_device(kind) for kind in kinds.split(",")]
    made: list[Worker] = []
    for index, device in enumerate(devices):
        nic = Nic(device)
        mac = (0x0200_0000_0001 + index).to_bytes(6, "big")
        nic.set_address(mac, 0x0A00_0001 + index)
        network.attach(device, mac)
        made.append(Worker(nic, **options))
    made[0].meet(made[1].context.address)
    made[1].meet(made[0].context.address)
    yield tuple(made)
    for worker in made:
        worker.close()
    for device in devices:
        device.close()
