"""The target PDCs of a NIC: the packet delivery contexts by which others reach it."""

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
    """One target PDC as it was when it was read; of one that is FREE all but number and state is 0."""

    number: int
    state: TargetPdcState
    ip: int
    """IPv4 address of its initiator."""
    spdcid: int
    """The entry of the initiator's peer table."""
    job_id: int
    """Of the request that came last, as is :attr:`context`: what the request said, whether it was right or not."""
    context: int
    expected_psn: int
    """The packet sequence number that comes next."""
    silent_cycles: int
    """Since something came of it last."""

    @property
    def _owner(self) -> tuple[int, int]:
        return self.ip, self.spdcid


class TargetPdcs:
    """Those of one NIC, which opens them as requests of others come; numbers run from 0 to len() - 1."""

    def __init__(self, registers: Registers) -> None:
        self._registers = registers
        self._size = registers.parameters.target_pdcs

    def __len__(self) -> int:
        return self._size

    def read(self, number: int) -> TargetPdc:
        """What is there now. Raises FI_EINVAL for a number beyond the table."""
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
        """All that were opened since reset, in the order of their numbers; each is read by itself."""
        pdcs = (self.read(number) for number in range(self._size))
        return [pdc for pdc in pdcs if pdc.state is not TargetPdcState.FREE]

    def close(self, pdc: TargetPdc | int) -> None:
        """Close an open one, whatever its initiator wants: what that sends from then on fails, and nothing of it is
        executed. It learns so when it sends next. What was executed before may be among what fails.

        The place is given to others when nothing has come of it for as long as of one that is idle.

        Raises FI_EINVAL for a number beyond the table, FI_ENOENT if the PDC is free or, given what was read, belongs
        to another initiator by now, FI_EALREADY if it is closed.
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
