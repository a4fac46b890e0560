"""The target PDCs of a NIC: the packet delivery contexts by which peers reach it."""

from dataclasses import dataclass

from amoeba_model.registers import TargetPdcState

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, shown, type_error
from amoeba.core.log import logger
from amoeba.nic.clock import read_cycles
from amoeba.nic.registers import Registers

__all__ = ["TargetPdc", "TargetPdcs"]

_log = logger("nic.target_pdcs")


@dataclass(frozen=True)
class TargetPdc:
    """One target PDC at the time of reading; in a FREE one all but number and state is 0."""

    number: int
    state: TargetPdcState
    ip: int
    """IPv4 address of its initiator."""
    spdcid: int
    """The entry of the initiator's peer table."""
    job_id: int
    """Job of the last request, as is :attr:`context` its context: as the request states, right or not."""
    context: int
    expected_psn: int
    """The next packet sequence number."""
    silent_cycles: int
    """Cycles since the last packet from the initiator."""

    @property
    def _owner(self) -> tuple[int, int]:
        return self.ip, self.spdcid


class TargetPdcs:
    """The target PDCs of one NIC, which peers' requests open; numbers run from 0 to len() - 1."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        self._size = registers.parameters.target_pdcs

    def __len__(self) -> int:
        return self._size

    def read(self, number: int) -> TargetPdc:
        """Read a target PDC. Raises FI_EINVAL for a number beyond the table."""
        self._check(number)
        registers = self._registers
        registers.write("target_pdcs", "select", number)
        state = TargetPdcState(registers.read("target_pdcs", "state"))
        ip, spdcid, job_id, context, expected, low, high = (
            registers.read("target_pdcs", name)
            for name in ("ip", "spdcid", "job_id", "context", "expected", "came_low", "came_high")
        )
        silent = 0 if state is TargetPdcState.FREE else read_cycles(registers) - (high << 32 | low)
        return TargetPdc(number, state, ip, spdcid, job_id, context, expected, silent)

    def used(self) -> list[TargetPdc]:
        """Read all target PDCs opened since reset, in the order of their numbers; each is read by itself."""
        pdcs = (self.read(number) for number in range(self._size))
        return [pdc for pdc in pdcs if pdc.state is not TargetPdcState.FREE]

    def close(self, pdc: TargetPdc | int) -> None:
        """Close an open PDC against its initiator's will: later requests fail and are not executed.

        The initiator notices at its next request. Requests executed before may be among those that fail for the
        initiator.

        The entry is evictable once nothing has come from the initiator for as long as of an idle PDC.

        Raises FI_EINVAL for a number beyond the table, FI_ENOENT if the PDC is free, and FI_EALREADY if it is closed.
        Given a PDC that was read, raises FI_ENOENT if the entry belongs to another initiator by now.
        """
        number = pdc.number if isinstance(pdc, TargetPdc) else pdc
        now = self.read(number)
        if now.state is TargetPdcState.FREE:
            raise fabric_error(Errno.FI_ENOENT, f"target PDC {number} of {self._name} is free")
        if isinstance(pdc, TargetPdc) and pdc._owner != now._owner:
            raise fabric_error(Errno.FI_ENOENT, f"target PDC {number} of {self._name} is another initiator's by now")
        if now.state is not TargetPdcState.OPEN:
            raise fabric_error(Errno.FI_EALREADY, f"target PDC {number} of {self._name} is {now.state.name}")
        _log.info("target PDC %d: closed by the driver", number)
        self._registers.write("target_pdcs", "close", number)

    @property
    def _name(self) -> str:
        return self._registers.device.name

    def _check(self, number: int) -> None:
        if not isinstance(number, int) or isinstance(number, bool):
            raise type_error("pdc", "a number or what was read", number)
        if not 0 <= number < self._size:
            raise fabric_error(
                Errno.FI_EINVAL, f"{self._name} has {self._size} target PDCs, there is no number {shown(number)}"
            )
