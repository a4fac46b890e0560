"""The exceptions of the driver.

::

    OSError
    └── FabricError                      errno, prov_errno
        ├── TryAgainError                FI_EAGAIN: read completions, then repeat (a BlockingIOError)
        ├── ErrorAvailableError          FI_EAVAIL: the completion queue holds an error entry: readerr()
                ├── ArgumentError                a wrong argument; nothing was done
                │   └── ArgumentTypeError        FI_EINVAL: an argument of a wrong type (a TypeError)
        ├── UnsupportedError             this device or build does not do that
        ├── StateError                   right call, wrong moment
        │   └── ClosedError              FI_EBADF: used after close()
        ├── ResourceError                a table or memory is full
        ├── ProtectionError              key, rights or bounds (a PermissionError)
                │   └── PartialError             refused, or a wrong argument; other parts may have been done
        ├── TruncatedError               FI_ETRUNC: the target buffer is too short
        ├── CanceledError                FI_ECANCELED
        ├── TimedOutError                FI_ETIMEDOUT (a TimeoutError)
                ├── PeerError                    the peer is absent, or refuses
        └── DeviceFailureError           hardware, host memory or link failed

The class says how a program can react; ``errno`` is libfabric's number, ``prov_errno`` the NIC's own
return code (:class:`amoeba_model.wire.uet.ReturnCode`), if the NIC gave one.
"""

import os
import reprlib
from typing import Final

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno

__all__ = [
    "RETURN_CODE_ERRNO",
    "ArgumentError",
    "ArgumentTypeError",
    "CanceledError",
    "ClosedError",
    "DeviceFailureError",
    "ErrorAvailableError",
    "FabricError",
    "PartialError",
    "PeerError",
    "ProtectionError",
    "ResourceError",
    "StateError",
    "TimedOutError",
    "TruncatedError",
    "TryAgainError",
    "UnsupportedError",
    "class_of",
    "completion_error",
    "fabric_error",
    "shown",
    "strerror",
    "type_error",
]


class FabricError(OSError):
    """An operation of the fabric failed. :func:`fabric_error` chooses the class and makes the exception."""

    def __init__(self, fi_errno: Errno, message: str, prov_errno: int = 0) -> None:
        super().__init__(int(fi_errno), message)
        self.fi_errno: Final = fi_errno
        """libfabric's error number, positive; the same as ``errno``."""
        self.prov_errno: Final = prov_errno
        """The NIC's return code; 0 if the NIC was not involved."""

    def __str__(self) -> str:
        return f"{self.fi_errno.name}: {self.strerror}"


class TryAgainError(FabricError, BlockingIOError):
    pass


class ErrorAvailableError(FabricError):
    pass


class ArgumentError(FabricError):
    pass


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a wrong type. :func:`type_error` makes the exception; no error number selects this class."""


class UnsupportedError(FabricError):
    pass


class StateError(FabricError):
    pass


class ClosedError(StateError):
    pass


class ResourceError(FabricError):
    pass


class ProtectionError(FabricError, PermissionError):
    pass


class PartialError(ProtectionError):
    """Part of an operation failed. :func:`completion_error` makes it; ``errno`` is that of the first failed part."""


class TruncatedError(FabricError):
    pass


class CanceledError(FabricError):
    pass


class TimedOutError(FabricError, TimeoutError):
    pass


class PeerError(FabricError):
    pass


class DeviceFailureError(FabricError):
    pass


_MEMBERS: dict[type[FabricError], str] = {
    TryAgainError: "EAGAIN",
    ErrorAvailableError: "EAVAIL",
    ArgumentError: "EINVAL EBADFLAGS EMSGSIZE E2BIG ETOOSMALL EOVERFLOW EDOMAIN ENOENT EADDRNOTAVAIL",
    UnsupportedError: "EOPNOTSUPP ENOSYS ENOPROTOOPT",
    StateError: "EOPBADSTATE ENOCQ ENOAV ENOEQ EBUSY EISCONN ENOTCONN EALREADY EINPROGRESS ENOMSG ENODATA EADDRINUSE",
    ClosedError: "EBADF",
    ResourceError: "ENOMEM ENOSPC EMFILE ENOBUFS EOVERRUN ENORX",
    ProtectionError: "EACCES EPERM EFAULT ENOKEY EKEYREJECTED",
    TruncatedError: "ETRUNC",
    CanceledError: "ECANCELED EINTR",
    TimedOutError: "ETIMEDOUT",
    PeerError: "ENETDOWN ENETUNREACH ECONNABORTED ECONNRESET ESHUTDOWN ECONNREFUSED EHOSTDOWN EHOSTUNREACH",
    DeviceFailureError: "EIO ENODEV EREMOTEIO EOTHER ECRC",
}
_CLASSES = {Errno[f"FI_{name}"]: kind for kind, names in _MEMBERS.items() for name in names.split()}


def class_of(fi_errno: Errno) -> type[FabricError]:
    """Return the exception class of an error number. Raises KeyError for FI_SUCCESS."""
    return _CLASSES[fi_errno]


_WORDS = {
    Errno.FI_SUCCESS: "Success",
    Errno.FI_EOTHER: "Unspecified error",
    Errno.FI_ETOOSMALL: "Buffer too small",
    Errno.FI_EOPBADSTATE: "Not permitted in the current state",
    Errno.FI_EAVAIL: "Error available to be read",
    Errno.FI_EBADFLAGS: "Flags not supported",
    Errno.FI_ENOEQ: "No event queue",
    Errno.FI_EDOMAIN: "Invalid resource domain",
    Errno.FI_ENOCQ: "No completion queue",
    Errno.FI_ECRC: "Checksum error",
    Errno.FI_ETRUNC: "Message truncated",
    Errno.FI_ENOKEY: "Key not available",
    Errno.FI_ENOAV: "No address vector",
    Errno.FI_EOVERRUN: "Queue overrun",
    Errno.FI_ENORX: "No receive buffer available",
}
"""Descriptions of libfabric's own numbers; the host describes the others."""


_LONGEST = 128
"""Bits of a wrong number that its error shows."""
_SHORT = reprlib.Repr()
_SHORT.maxother = _SHORT.maxstring = _SHORT.maxlong = 60


def strerror(errnum: int) -> str:
    """Describe an error number of either sign: ``fi_strerror``. Raises FI_EINVAL for an unknown number."""
    if not isinstance(errnum, int) or isinstance(errnum, bool):
        raise type_error("errnum", "an error number", errnum)
    try:
        known = Errno(abs(errnum))
    except ValueError:
        raise fabric_error(Errno.FI_EINVAL, f"{errnum} is no error number") from None
    return _WORDS.get(known) or os.strerror(known)


def fabric_error(fi_errno: Errno, message: str, prov_errno: int = 0) -> FabricError:
    """Make the exception for an error number; the caller raises it."""
    return _CLASSES[fi_errno](fi_errno, message, prov_errno)


def completion_error(fi_errno: Errno, message: str, prov_errno: int, *, divided: bool) -> FabricError:
    """Make the exception for an operation that was posted and failed.

    ``divided``: the peer performs the operation in several parts, and may refuse each part alone. Other parts may
    then have been done, so a refusal becomes a PartialError.
    """
    if divided and issubclass(_CLASSES[fi_errno], ArgumentError | ProtectionError):
        return PartialError(fi_errno, message, prov_errno)
    return fabric_error(fi_errno, message, prov_errno)


def type_error(name: str, expected: str, given: object) -> ArgumentTypeError:
    """Make the exception for an argument of a wrong type: FI_EINVAL, with the expected and the given argument."""
    return ArgumentTypeError(
        Errno.FI_EINVAL, f"{name}: expected {expected}, got {type(given).__name__} {shown(given)}"
    )


def shown(given: object) -> str:
    """Format a wrong argument for its error message: shortened, on one line."""
    if isinstance(given, int) and given.bit_length() > _LONGEST:
        return f"an integer of {given.bit_length()} bits"
    return " ".join(_SHORT.repr(given).split())


RETURN_CODE_ERRNO: dict[ReturnCode, Errno] = {
    ReturnCode.NULL: Errno.FI_EOTHER,
    ReturnCode.OK: Errno.FI_SUCCESS,
    ReturnCode.BAD_GENERATION: Errno.FI_ECONNREFUSED,
    ReturnCode.DISABLED: Errno.FI_ESHUTDOWN,
    ReturnCode.DISABLED_GEN: Errno.FI_ESHUTDOWN,
    ReturnCode.NO_MATCH: Errno.FI_ENORX,
    ReturnCode.UNSUPPORTED_OP: Errno.FI_EOPNOTSUPP,
    ReturnCode.UNSUPPORTED_SIZE: Errno.FI_EMSGSIZE,
    ReturnCode.AT_INVALID: Errno.FI_EFAULT,
    ReturnCode.AT_PERM: Errno.FI_EACCES,
    ReturnCode.AT_ATS_ERROR: Errno.FI_EFAULT,
    ReturnCode.AT_NO_TRANS: Errno.FI_EFAULT,
    ReturnCode.AT_OUT_OF_RANGE: Errno.FI_EFAULT,
    ReturnCode.HOST_POISONED: Errno.FI_EREMOTEIO,
    ReturnCode.HOST_UNSUCCESS_CMPL: Errno.FI_EREMOTEIO,
    ReturnCode.AMO_UNSUPPORTED_OP: Errno.FI_EOPNOTSUPP,
    ReturnCode.AMO_UNSUPPORTED_DT: Errno.FI_EOPNOTSUPP,
    ReturnCode.AMO_UNSUPPORTED_SIZE: Errno.FI_EOPNOTSUPP,
    ReturnCode.AMO_UNALIGNED: Errno.FI_EINVAL,
    ReturnCode.AMO_FP_NAN: Errno.FI_EOTHER,
    ReturnCode.AMO_FP_UNDERFLOW: Errno.FI_EOTHER,
    ReturnCode.AMO_FP_OVERFLOW: Errno.FI_EOTHER,
    ReturnCode.AMO_FP_INEXACT: Errno.FI_EOTHER,
    ReturnCode.PERM_VIOLATION: Errno.FI_EACCES,
    ReturnCode.OP_VIOLATION: Errno.FI_EINVAL,
    ReturnCode.BAD_INDEX: Errno.FI_ECONNREFUSED,
    ReturnCode.BAD_PID: Errno.FI_ECONNREFUSED,
    ReturnCode.BAD_JOB_ID: Errno.FI_ECONNREFUSED,
    ReturnCode.BAD_MKEY: Errno.FI_ENOKEY,
    ReturnCode.BAD_ADDR: Errno.FI_EINVAL,
    ReturnCode.CANCELLED: Errno.FI_ECANCELED,
    ReturnCode.UNDELIVERABLE: Errno.FI_EHOSTUNREACH,
    ReturnCode.UNCOR: Errno.FI_EIO,
    ReturnCode.UNCOR_TRNSNT: Errno.FI_EIO,
    ReturnCode.TOO_LONG: Errno.FI_ETRUNC,
    ReturnCode.INITIATOR_ERROR: Errno.FI_EIO,
    ReturnCode.DROPPED: Errno.FI_EIO,
    ReturnCode.LOCAL_BAD_DESCRIPTOR: Errno.FI_EINVAL,
    ReturnCode.LOCAL_BAD_PEER: Errno.FI_EADDRNOTAVAIL,
    ReturnCode.LOCAL_DMA_FAULT: Errno.FI_EFAULT,
    ReturnCode.LOCAL_PDC_FAILED: Errno.FI_ECONNRESET,
    ReturnCode.LOCAL_NIC_RESET: Errno.FI_ENODEV,
    ReturnCode.LOCAL_PEER_PDC_TABLE_FULL: Errno.FI_ECONNREFUSED,
}
"""libfabric's error number for every return code of the NIC."""
