"""The clock of a NIC, in its registers."""

from amoeba_model.device import Device

from amoeba.nic.registers import Registers

__all__ = ["Clock", "read_cycles"]


def read_cycles(registers: Registers) -> int:
    """Read cycles since reset: the high half is read until both reads around the low half agree."""
    high = registers.read("device", "cycles_high")
    while True:
        low = registers.read("device", "cycles_low")
        before, high = high, registers.read("device", "cycles_high")
        if high == before:
            return high << 32 | low


class Clock:
    """Reads a NIC's clock. Raises as :class:`Registers` if the device is no Amoeba."""

    def __init__(self, device: Device) -> None:
        self._registers = Registers(device)

    def read(self) -> int:
        """Cycles since reset."""
        return read_cycles(self._registers)
