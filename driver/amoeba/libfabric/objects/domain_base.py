"""The base of domains, for objects made from one; :class:`amoeba.libfabric.objects.domain.Domain` makes them."""

from dataclasses import dataclass

from amoeba_model.opcodes import Form

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.locking import Locker
from amoeba.libfabric.objects.checks import check_datatype_argument, check_flags, check_op
from amoeba.libfabric.objects.constants import Datatype, MrMode, Op, QueryFlags
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.queues.owner import QueueOwner
from amoeba.nic.records import MAX_MESSAGE
from amoeba.transport.protection_domain import ProtectionDomain

__all__ = ["AtomicAttr", "DomainBase"]

_BASE = QueryFlags(0)


@dataclass(frozen=True)
class AtomicAttr:
    """``struct fi_atomic_attr``."""

    count: int
    """Maximum number of elements of one operation."""
    size: int
    """Bytes of one element."""


class DomainBase(QueueOwner):
    """A protection domain, and its event queue."""

    def __init__(self, fabric: FabricObject, protection: ProtectionDomain, mr_mode: MrMode) -> None:
        self.protection = protection
        self.mr_mode = mr_mode
        self.registers_locally = bool(mr_mode & MrMode.FI_MR_LOCAL)
        """Operations name the regions of their buffers, so that the driver grants the NIC nothing for them."""
        self.job_id = protection.job_id
        self.pid_on_fep = protection.pid_on_fep
        self.relative = protection.relative
        self.cswap_by_bits = protection.cswap_by_bits
        self._eq: EventQueue | None = None
        super().__init__(fabric, protection.nic, protection.number)

    def query_atomic(self, datatype: Datatype, op: Op, flags: QueryFlags = _BASE) -> AtomicAttr:
        """Return the limits of an atomic of the call family in ``flags``, by the NIC's capability registers.

        With FI_TAGGED: on the buffer of a tagged receive.

        Raises FI_EOPNOTSUPP if the NIC does not execute the atomic, FI_EINVAL for both families at once.
        """
        self._check_open()
        datatype, op = check_datatype_argument(datatype), check_op(op)
        flags = check_flags(QueryFlags, flags)
        forms = {
            _BASE: Form.BASE,
            QueryFlags.FI_FETCH_ATOMIC: Form.FETCH,
            QueryFlags.FI_COMPARE_ATOMIC: Form.COMPARE,
        }
        tagged, family = QueryFlags.FI_TAGGED in flags, flags & ~QueryFlags.FI_TAGGED
        if family not in forms:
            raise fabric_error(Errno.FI_EINVAL, f"flags are FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC, got {flags!r}")
        if tagged and forms[family] is Form.COMPARE:
            raise fabric_error(Errno.FI_EOPNOTSUPP, "tagged atomics have no compare form")
        if not self.nic.supports(forms[family], op, datatype):
            raise fabric_error(
                Errno.FI_EOPNOTSUPP, f"{op!r} on {datatype!r} is not among this NIC's {forms[family]} atomics"
            )
        size = datatype.size
        return AtomicAttr((self.nic.parameters.payload if tagged else MAX_MESSAGE) // size, size)

    def _automate(self, auto: Locker) -> None:
        super()._automate(auto)
        auto.attend(self)

    def _attend(self) -> bool:
        """Start operations that wait for counters."""
        if self._deferrals.live:
            self._deferrals.progress()
        return False

    def _arm(self) -> bool | None:
        self._deferrals.arm()
        return None

    def _release(self) -> None:
        self.protection.release()
