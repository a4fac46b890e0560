"""Observers of NICs as they are attached and programmed: tools that watch a program's own NICs."""

import contextlib
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from amoeba_model.descriptors import COMPLETION, TX_DESCRIPTOR
from amoeba_model.device import Device
from amoeba_model.layout import Record
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters

__all__ = ["RingMemory", "Watcher", "attached", "disabled", "enabled", "watching"]


@dataclass(frozen=True)
class RingMemory:
    """A context's transmit ring and its completion ring in this process."""

    transmit_base: int
    transmit_size: int
    """log2 of entries, as :attr:`completion_size` is."""
    completion_base: int
    completion_size: int

    def descriptor(self, index: int) -> dict[str, int]:
        """Return the fields of the TX_DESCRIPTOR with this producer index, as the entry reads now."""
        return _entry(TX_DESCRIPTOR, self.transmit_base, index, self.transmit_size)

    def completion(self, index: int) -> dict[str, int]:
        """Return the fields of the COMPLETION at this index, as the entry reads now."""
        return _entry(COMPLETION, self.completion_base, index, self.completion_size)


def _entry(record: Record, base: int, index: int, size: int) -> dict[str, int]:
    return record.unpack(ctypes.string_at(base + (index & (1 << size) - 1) * record.size, record.size))


class Watcher(Protocol):
    """An observer. Each call happens in the thread of the event, and must neither read nor write registers."""

    def attached(self, device: Device, network: Network) -> None:
        """Note that a NIC has joined a simulated network."""

    def enabled(self, device: Device, parameters: NicParameters, context: int, rings: RingMemory) -> None:
        """Note that a context of a NIC is about to be started."""

    def disabled(self, device: Device, context: int) -> None:
        """Note that a context has been stopped: the last moment at which its rings can be read."""


_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Notify ``watcher`` of every NIC of this process meanwhile."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def attached(device: Device, network: Network) -> None:
    """Notify observers of a NIC that the caller attaches."""
    for watcher in _watchers:
        watcher.attached(device, network)


def enabled(device: Device, parameters: NicParameters, context: int, rings: RingMemory) -> None:
    """Notify observers of a context that is about to be started."""
    for watcher in _watchers:
        watcher.enabled(device, parameters, context, rings)


def disabled(device: Device, context: int) -> None:
    """Notify observers of a context that was stopped."""
    for watcher in _watchers:
        watcher.disabled(device, context)
