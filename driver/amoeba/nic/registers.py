"""The register blocks of a NIC, discovered by following their list, and its registers by name."""

from collections.abc import Mapping

from amoeba_model.device import Device
from amoeba_model.layout import RegisterBlock
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import (
    ABI_VERSION,
    BAR_SIZE,
    DOORBELL_PAGE,
    DOORBELL_PAGE_SIZE,
    DOORBELL_REGISTERS,
    PlacedBlock,
    bar_blocks,
)

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["Registers", "doorbell", "register_at"]

_BLOCK_HEADER = 0x10
"""Bytes at the start of every register block: type, version, length and the next block's offset."""
_DOORBELLS: Mapping[str, int] = {register.name: register.offset for register in DOORBELL_REGISTERS}


def doorbell(context: int, register: str) -> int:
    """BAR offset of a register of a context's doorbell page."""
    return DOORBELL_PAGE + context * DOORBELL_PAGE_SIZE + _DOORBELLS[register]


def register_at(offset: int, parameters: NicParameters) -> tuple[str, int | None]:
    """Describe the register at a BAR offset, and return the context of a doorbell page, else None."""
    if DOORBELL_PAGE <= offset < BAR_SIZE:
        context, within = divmod(offset - DOORBELL_PAGE, DOORBELL_PAGE_SIZE)
        return next((name for name, at in _DOORBELLS.items() if at == within), "no register"), context
    for placed in bar_blocks(parameters):
        for register in placed.block.registers:
            for index in range(register.count):
                if placed.address(register.name, index) == offset:
                    return f"{placed.block.name}.{register.name}", None
        if 0 <= offset - placed.offset < _BLOCK_HEADER:
            return f"{placed.block.name}: what block it is", None
    return "no register", None


class Registers:
    """Registers of an opened device by block and name; ``index`` selects an element of an array.

    Raises FI_ENODEV if the device is no Amoeba, FI_ENOSYS if its ABI is not this driver's.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.blocks: tuple[PlacedBlock, ...] = ()
        """The blocks that this driver knows, in the order of the list."""
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        """(BAR offset, bytes to the next of an array) by block and register."""
        layouts = {placed.block.kind: placed.block for placed in bar_blocks(NicParameters())}
        found = self._discover()
        device_kind = next(kind for kind, block in layouts.items() if block.name == "device")
        if device_kind not in found:
            raise fabric_error(Errno.FI_ENODEV, f"{device.name}: no Amoeba register block at BAR offset 0")
        self._place(layouts[device_kind], found)
        abi = self.read("device", "abi_version")
        if abi != ABI_VERSION:
            raise fabric_error(
                Errno.FI_ENOSYS,
                f"{device.name} has ABI version {abi}, this driver speaks {ABI_VERSION}: "
                "install the driver and the NIC of the same release",
            )
        self.parameters = self._read_parameters()
        for placed in bar_blocks(self.parameters):
            if placed.block.name != "device":
                self._place(placed.block, found)

    def _discover(self) -> dict[int, tuple[int, int, int]]:
        """Return (BAR offset, version, following) of every block by kind. The list only ever runs upwards."""
        found: dict[int, tuple[int, int, int]] = {}
        offset = 0
        while True:
            kind, version, _, following = (self.device.read(offset + at) for at in (0, 4, 8, 12))
            found.setdefault(kind, (offset, version, following))
            if following == 0:
                return found
            if not offset < following < BAR_SIZE or following % 4:
                raise fabric_error(
                    Errno.FI_ENODEV, f"{self.device.name}: register block at {offset:#x} continues at {following:#x}"
                )
            offset = following

    def _place(self, layout: RegisterBlock, found: dict[int, tuple[int, int, int]]) -> None:
        if layout.kind not in found:
            raise fabric_error(Errno.FI_ENOSYS, f"{self.device.name} has no register block {layout.name!r}")
        offset, version, following = found[layout.kind]
        if version != layout.version:
            block = f"{self.device.name}: register block {layout.name!r}"
            raise fabric_error(Errno.FI_ENOSYS, f"{block} has version {version}, expected {layout.version}")
        placed = PlacedBlock(offset, layout, following)
        self.blocks += (placed,)
        for register in layout.registers:
            self._places[layout.name, register.name] = placed.address(register.name), register.stride

    def _read_parameters(self) -> NicParameters:
        try:
            return NicParameters(
                data_width=self.read("device", "data_width"),
                contexts=self.read("device", "contexts"),
                keys=self.read("device", "keys"),
                peers=self.read("device", "peers"),
                window=self.read("device", "window"),
                payload=self.read("device", "payload"),
                target_pdcs=self.read("device", "target_pdcs"),
                receives=self.read("device", "receives"),
                unexpected=self.read("device", "unexpected"),
                event_rings=bool(self.read("device", "event_rings")),
                return_data=bool(self.read("device", "return_data")),
                event_counters=self.read("device", "event_counters"),
                clock_hz=self.read("device", "clock_hz"),
            )
        except ValueError as error:
            raise fabric_error(Errno.FI_ENODEV, f"{self.device.name} makes no sense: {error}") from None

    def read(self, block: str, register: str, index: int = 0) -> int:
        offset, stride = self._places[block, register]
        return self.device.read(offset + index * stride)

    def write(self, block: str, register: str, value: int, index: int = 0) -> None:
        offset, stride = self._places[block, register]
        self.device.write(offset + index * stride, int(value))

    def write_wide(self, block: str, register: str, value: int, index: int = 0) -> None:
        """Write 64 bits into two registers; the name is that of the first."""
        self.write(block, f"{register}_low", value & 0xFFFF_FFFF, index)
        self.write(block, f"{register}_high", value >> 32, index)

    def flush(self) -> None:
        """Wait until all register writes have arrived: writes are posted, and performed before a later read."""
        self.read("device", "abi_version")
