"""Boot lists of NICs without a host, from the register writes of a driver."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from amoeba_model.boot_list import BootEntry
from amoeba_model.layout import Access, Register
from amoeba_model.node import NodeSettings
from amoeba_model.registers import PlacedBlock

from amoeba.nic.registers import Registers

__all__ = ["Recording", "boot_list"]

_NOT_OF_A_BUILD = {"clock_hz", "cycles_low", "cycles_high", "draining"}
"""Read-only registers of the device block that differ between boards, or change."""
_RINGS = {"transmit_base_low", "completion_base_low"}
"""Registers of contexts that a NIC without an initiator ignores."""
_LOW, _HIGH = "base_low", "base_high"


class Recording(Protocol):
    """A session of a driver: its register writes in order, and the memory that it let the NIC access."""

    writes: list[tuple[int, int]]
    granted: list[range]


def boot_list(
    registers: Registers, recording: Recording, region: int, settings: NodeSettings
) -> tuple[BootEntry, ...]:
    """Return the entries that do to a NIC without a host what a recorded driver did to the NIC of these registers.

    Waits for the registers of the build come first. Addresses of the driver's memory become those of the node's:
    ``region`` is where the driver has the region. Rings, which a NIC without an initiator ignores, have none.

    Raises ValueError if the driver let the NIC access memory that has no place in the node's.
    """
    halves = _halves(registers)
    writes = recording.writes
    answers = _written(writes, next(low for low, name in halves.items() if name == f"answer_{_LOW}"))
    places = {region: 0, answers: settings.answers}
    moved = [BootEntry(offset, value) for offset, value in writes]
    for index, (offset, low) in enumerate(writes):
        if offset in halves:
            address = writes[index + 1][1] << 32 | low
            place = 0 if halves[offset] in _RINGS else places.get(address, address)
            if place == address and any(address in held for held in recording.granted):
                raise ValueError(f"expected a place in the node's memory for {address:#x}, written at {offset:#x}")
            moved[index] = BootEntry(offset, place & 0xFFFF_FFFF)
            moved[index + 1] = BootEntry(writes[index + 1][0], place >> 32)
    return (*_waits(registers), *moved)


def _waits(registers: Registers) -> Iterator[BootEntry]:
    """Wait for each read-only register of the device block that tells builds apart."""
    device = registers.blocks[0]
    for register in device.block.registers:
        if register.access is Access.R and register.name not in _NOT_OF_A_BUILD:
            value = registers.read("device", register.name)
            yield BootEntry(device.address(register.name), value, waits=True)


def _halves(registers: Registers) -> Mapping[int, str]:
    """Return the names of the registers with the low half of an address by their offsets.

    A driver writes the high half next.
    """
    found: dict[int, str] = {}
    for placed, register in _all(registers.blocks):
        if register.name.endswith(_LOW):
            for index in range(register.count):
                found[placed.address(register.name, index)] = register.name
    return found


def _all(blocks: Sequence[PlacedBlock]) -> Iterator[tuple[PlacedBlock, Register]]:
    return ((placed, register) for placed in blocks for register in placed.block.registers)


def _written(writes: Sequence[tuple[int, int]], low: int) -> int:
    """Return the address whose low half was written to a register, and its high half behind it."""
    index = next(index for index, (offset, _) in enumerate(writes) if offset == low)
    return writes[index + 1][1] << 32 | writes[index][1]
