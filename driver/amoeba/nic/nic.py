"""The NIC below any API: its registers, its tables, and the users of their entries."""

import logging
import time
import weakref
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass

from amoeba_model.device import Device, DeviceClosedError, DeviceError
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.registers import (
    MAX_ACK_DATA,
    RETRANSMIT_DOUBLINGS,
    RETRANSMIT_LIMIT,
    RETRANSMIT_TIMEOUT,
    Counter,
    PlacedBlock,
)

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.log import logger
from amoeba.nic.context_table import ContextTable
from amoeba.nic.dma import DmaMap
from amoeba.nic.event_counters import EventCounters
from amoeba.nic.free_numbers import FreeNumbers
from amoeba.nic.key_table import KeyTable
from amoeba.nic.peer_table import PeerTable
from amoeba.nic.registers import Registers, doorbell
from amoeba.nic.reset_watchdog import ResetListener
from amoeba.nic.target_pdcs import TargetPdcs

__all__ = ["Nic", "Retransmission"]

_DOMAINS = 256
_DRAIN_TIME = 10.0
"""Seconds that a NIC gets to end the requests it has accepted; it needs microseconds."""
_DRAIN_ROUNDS = 64
"""Network latencies of a simulated NIC that it gets at least."""
_DRAIN_READS = 8
"""Reads of a register that follow each other before a wait lets time pass: most waits take fewer."""
_MAX_DSCP = 63

_log = logger("nic")
_TELLING = ("RETRANS", "TIMEOUT", "FAILED", "DROPPED", "DUPLICATE", "REFUSED", "NACK")
"""Prefixes of the names of counters of unwanted events."""


@dataclass(frozen=True)
class Retransmission:
    """How long a NIC waits for an answer before it retransmits, and how often before it gives the peer up.

    Raises FI_EINVAL for a timeout that is 0 or exceeds 32 bits, and for a limit that exceeds 8 bits.
    """

    timeout: int = RETRANSMIT_TIMEOUT
    """Cycles of the NIC's clock without an answer; doubles from one timeout to the next, five times. Choose
    several round-trip times: less retransmits packets that were not lost. After a loss a quarter is enough, once."""
    limit: int = RETRANSMIT_LIMIT
    """Consecutive timeouts after which one more makes the operations to the peer fail."""

    def __post_init__(self) -> None:
        if not (0 < self.timeout < 1 << 32 and 0 <= self.limit < 1 << 8):
            raise fabric_error(
                Errno.FI_EINVAL,
                f"expected a timeout of 1 to 2**32 - 1 cycles and a limit of 0 to 255, "
                f"got {self.timeout} and {self.limit}",
            )

    def patience(self, clock_hz: int) -> float:
        """Return the seconds without any sign of life after which a peer is given up."""
        doublings = min(self.limit, RETRANSMIT_DOUBLINGS)
        at_most = self.limit - doublings
        return ((2 << doublings) - 1 + (at_most << doublings)) * self.timeout / clock_hz


class Nic:
    """One opened device: its registers, the host memory that it may access, and its tables.

    Raises FI_ENODEV if the device is no Amoeba, FI_ENOSYS if its ABI is not this driver's.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.on_doorbell: Callable[[], None] | None = None
        """Called after every doorbell, if set before anything is opened that rings one."""
        self.executed: MutableSequence[int] | None = None
        """Counts of operations of contexts that are opened from now on, by
        :class:`amoeba.transport.executed.Executed`; None: nobody counts."""
        self.advance: Callable[[], None] = device.advance
        """Lets a little time pass for a call that waits."""
        self.reset_listeners: weakref.WeakSet[ResetListener] = weakref.WeakSet()
        """Called once when the NIC is :attr:`lost`."""
        self.registers = Registers(device)
        self.parameters = self.registers.parameters
        self.dma = DmaMap(device)
        self.domains = FreeNumbers(range(_DOMAINS), "protection domains")
        """Free protection domains."""
        self.event_counters = EventCounters(self.registers, self.dma)
        self.contexts = ContextTable(self.registers, self.dma, self.event_counters)
        self.peers = PeerTable(self.registers)
        self.keys = KeyTable(self.registers)
        self.target_pdcs = TargetPdcs(self.registers)
        """The peers that reach this NIC; can be read and closed at any time, with automatic progress within
        ``Fabric.frozen``."""
        high, low = (self.registers.read("device", name) for name in ("mac_high", "mac_low"))
        self.mac = (high << 32 | low).to_bytes(6, "big")
        """Read once, as is :attr:`ip`: several threads may ask for the address, but only one may ask the NIC."""
        self.ip = self.registers.read("device", "ip")
        self._masks = {form: tuple(self.registers.read("atomics", form.value, op) for op in Op) for form in Form}
        _log.info("opened %s, address %s", device.name, self.mac.hex(":"))

    @property
    def blocks(self) -> tuple[PlacedBlock, ...]:
        """The register blocks that this driver knows, in the order of their list."""
        return self.registers.blocks

    # Doorbells

    @staticmethod
    def doorbell(context: int, register: str) -> int:
        """Return the argument of :attr:`ring`: a register of a context's doorbell page."""
        return doorbell(context, register)

    @property
    def ring(self) -> Callable[[int, int], None]:
        """Function that rings a doorbell: takes the register that :meth:`doorbell` names, and the value."""
        return self.device.write if self.on_doorbell is None else self._ring_and_tell

    def _ring_and_tell(self, register: int, value: int) -> None:
        assert self.on_doorbell is not None
        self.device.write(register, value)
        self.on_doorbell()

    def kick(self) -> None:
        """Kick the observer of doorbells, so that it sees new work, or work that waits for a doorbell."""
        if self.on_doorbell is not None:
            self.on_doorbell()

    # Capabilities and activity

    def atomic_mask(self, form: Form, op: int) -> int:
        """Return the datatypes of ``op`` in ``form`` as a bit mask of the capability registers; 0 if unknown."""
        masks = self._masks[form]
        return masks[op] if 0 <= op < len(masks) else 0

    @property
    def retransmission(self) -> Retransmission:
        """Timeouts of the NIC's retransmission. Setting them concerns all peers, from their next wait on."""
        timeout, limit = (self.registers.read("device", f"retransmit_{name}") for name in ("timeout", "limit"))
        return Retransmission(timeout, limit)

    @retransmission.setter
    def retransmission(self, wanted: Retransmission) -> None:
        self.registers.write("device", "retransmit_timeout", wanted.timeout)
        self.registers.write("device", "retransmit_limit", wanted.limit)

    @property
    def dscp(self) -> int:
        """DSCP in the IP header of requests, 0 by default. Answers always have 46, Expedited Forwarding.

        Setting it concerns all frames from now on. Raises FI_EINVAL unless the number has 6 bits.
        """
        return self.registers.read("device", "dscp")

    @dscp.setter
    def dscp(self, wanted: int) -> None:
        if not 0 <= wanted <= _MAX_DSCP:
            raise fabric_error(Errno.FI_EINVAL, f"expected a DSCP of 0 to {_MAX_DSCP}, got {wanted}")
        self.registers.write("device", "dscp", wanted)

    @property
    def max_ack_data(self) -> int:
        """Maximum bytes of data of a READ that the NIC puts in an ACK, by default its ``payload``.

        Peers that are no Amoebas take 16 (UET's ``Max_ACK_Data``). The NIC sends longer data in the return direction,
        to all peers. Setting it concerns READs that come from now on. Raises FI_EINVAL unless the number is 16 to
        ``payload``, and FI_EOPNOTSUPP for less than ``payload`` if the NIC cannot send in the return direction.
        """
        return min(self.registers.read("device", "max_ack_data"), self.parameters.payload)

    @max_ack_data.setter
    def max_ack_data(self, wanted: int) -> None:
        least, payload = MAX_ACK_DATA[0], self.parameters.payload
        if not least <= wanted <= payload:
            raise fabric_error(Errno.FI_EINVAL, f"expected {least} to {payload} bytes in an ACK, got {wanted}")
        if wanted < payload and not self.parameters.return_data:
            raise fabric_error(
                Errno.FI_EOPNOTSUPP,
                f"{self.device.name} sends no data in the return direction: expected {payload} bytes in an ACK, "
                f"got {wanted}",
            )
        self.registers.write("device", "max_ack_data", wanted)

    def supports(self, form: Form, op: int, datatype: int) -> bool:
        return datatype >= 0 and bool(self.atomic_mask(form, op) >> datatype & 1)

    def counters(self) -> dict[Counter, int]:
        """Return the NIC's counters since reset."""
        return {counter: self.counter(counter) for counter in Counter}

    def counter(self, counter: Counter) -> int:
        """Return one of the NIC's counters since reset."""
        return self.registers.read("counters", "value", counter)

    def require_messages(self) -> None:
        """Raise FI_EOPNOTSUPP if the NIC receives no messages."""
        if not self.parameters.has_messages:
            raise fabric_error(
                Errno.FI_EOPNOTSUPP, f"{self.device.name} has no receives: it refuses the messages that peers send"
            )

    def set_address(self, mac: bytes, ip: int) -> None:
        self.registers.write_wide("device", "mac", int.from_bytes(mac, "big"))
        self.registers.write("device", "ip", ip)
        self.mac, self.ip = mac, ip

    def supported_datatypes(self, form: Form, op: Op) -> list[Datatype]:
        mask = self.atomic_mask(form, op)
        return [datatype for datatype in Datatype if mask >> datatype & 1]

    def check_open(self) -> None:
        """Raise DeviceClosedError if the device has been closed."""
        self.device.cycles  # noqa: B018  as everything that is asked of it

    @property
    def lost(self) -> bool:
        """Whether the NIC was reset, or is gone: outstanding operations never complete."""
        return self.contexts.lost

    def find_lost(self) -> bool:
        """Ask the NIC whether it still has its state: see :attr:`lost`."""
        if not self.lost and self.contexts.find_lost():
            _log.error("%s was reset, or is gone: outstanding operations end with an error", self.device.name)
            for listener in list(self.reset_listeners):
                listener.nic_lost()
        return self.lost

    def drain(self) -> None:
        """Wait until the requests that the NIC has accepted have ended, with all their accesses to memory.

        After a key was withdrawn or a context was disabled, the NIC then touches the memory behind it no more. The
        wait is not for requests that are accepted meanwhile. A NIC that is :attr:`lost` has ended all.

        Raises FI_ETIMEDOUT if the NIC takes more than :data:`_DRAIN_TIME`: :attr:`drained` tells when it is over.
        """
        if self.lost:
            return
        try:
            self.registers.write("device", "drain", 1)
            self._wait_drained()
        except DeviceClosedError:
            raise
        except DeviceError:
            if not self.find_lost():
                raise

    def _wait_drained(self) -> None:
        deadline, rounds = time.monotonic() + _DRAIN_TIME, _DRAIN_ROUNDS
        while not self.drained:
            if rounds <= 0 and time.monotonic() >= deadline:
                raise fabric_error(
                    Errno.FI_ETIMEDOUT,
                    f"{self.device.name} has not ended its peers' requests within {_DRAIN_TIME:g} seconds, and may "
                    "still use the memory, which stays registered: close again",
                )
            self.advance()
            rounds -= 1

    @property
    def drained(self) -> bool:
        """Whether what :meth:`drain` waits for is over, or the NIC is lost."""
        return self.lost or not all(self.registers.read("device", "draining") for _ in range(_DRAIN_READS))

    def close(self) -> None:
        """Close the device; the tables die with it. Idempotent."""
        if _log.isEnabledFor(logging.DEBUG):
            self._tell_counters()
        self.device.close()

    def _tell_counters(self) -> None:
        """Log the NIC's counters: first those of repeats, drops, refusals and peers that were given up, then all."""
        try:
            counted = {counter.name: value for counter, value in self.counters().items() if value}
        except DeviceError:  # closed before, or gone
            return
        wrong = {name: value for name, value in counted.items() if name.startswith(_TELLING)}
        _log.debug("closing %s: %s", self.device.name, wrong or "nothing was repeated, dropped or refused")
        _log.debug("counted by %s: %s", self.device.name, counted)

    def __repr__(self) -> str:
        return f"<Nic {self.device.name}>"
