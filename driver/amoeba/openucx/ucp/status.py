"""Results of UCP's calls: ``ucs_status_t`` (``ucs/type/status.h`` of UCX 1.12.1), and its exceptions.

A call that fails raises a :class:`UcsError`, of which every status has a class of its own with that ``status``::

    Exception
    └── UcsError                             status, prov_errno
        ├── UcsInvalidParamError             UCS_ERR_INVALID_PARAM: nothing was done (a ValueError)
        ├── UcsTimedOutError                 UCS_ERR_TIMED_OUT (a TimeoutError)
        ├── UcsEndpointTimeoutError          UCS_ERR_ENDPOINT_TIMEOUT (a TimeoutError)
        ├── UcsConnectionResetError          UCS_ERR_CONNECTION_RESET (a ConnectionResetError)
        └── UcsCanceledError, UcsMessageTruncatedError, ...

:func:`ucs_error` chooses the class. :data:`RETURN_CODE_STATUS` and :data:`ERRNO_STATUS` translate return codes of the
NIC and errors of ``amoeba.core`` to statuses.
"""

from typing import ClassVar, TypeAlias

from amoeba_model.wire.uet import ReturnCode

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, shown
from amoeba.openucx.ucp.constants import UcsStatus as UcsStatus

__all__ = [
    "UcsAlreadyExistsError",
    "UcsBufferTooSmallError",
    "UcsBusyError",
    "UcsCanceledError",
    "UcsConnectionResetError",
    "UcsEndpointTimeoutError",
    "UcsError",
    "UcsExceedsLimitError",
    "UcsInvalidAddrError",
    "UcsInvalidParamError",
    "UcsIoError",
    "UcsMessageTruncatedError",
    "UcsNoDeviceError",
    "UcsNoElemError",
    "UcsNoMemoryError",
    "UcsNoMessageError",
    "UcsNoProgressError",
    "UcsNoResourceError",
    "UcsNotConnectedError",
    "UcsNotImplementedError",
    "UcsOutOfRangeError",
    "UcsRejectedError",
    "UcsShmemSegmentError",
    "UcsSomeConnectsFailedError",
    "UcsTimedOutError",
    "UcsUnreachableError",
    "UcsUnsupportedError",
    "ucs_status_string",
    "ucs_status_t",
]

ucs_status_t: TypeAlias = UcsStatus
"""Its name in C."""

_WORDS: dict[int, str] = {
    UcsStatus.UCS_OK: "Success",
    UcsStatus.UCS_INPROGRESS: "Operation in progress",
    UcsStatus.UCS_ERR_NO_MESSAGE: "No pending message",
    UcsStatus.UCS_ERR_NO_RESOURCE: "No resources are available to initiate the operation",
    UcsStatus.UCS_ERR_IO_ERROR: "Input/output error",
    UcsStatus.UCS_ERR_NO_MEMORY: "Out of memory",
    UcsStatus.UCS_ERR_INVALID_PARAM: "Invalid parameter",
    UcsStatus.UCS_ERR_UNREACHABLE: "Destination is unreachable",
    UcsStatus.UCS_ERR_INVALID_ADDR: "Address not valid",
    UcsStatus.UCS_ERR_NOT_IMPLEMENTED: "Function not implemented",
    UcsStatus.UCS_ERR_MESSAGE_TRUNCATED: "Message truncated",
    UcsStatus.UCS_ERR_NO_PROGRESS: "No progress",
    UcsStatus.UCS_ERR_BUFFER_TOO_SMALL: "Provided buffer is too small",
    UcsStatus.UCS_ERR_NO_ELEM: "No such element",
    UcsStatus.UCS_ERR_SOME_CONNECTS_FAILED: "Failed to connect some of the requested endpoints",
    UcsStatus.UCS_ERR_NO_DEVICE: "No such device",
    UcsStatus.UCS_ERR_BUSY: "Device is busy",
    UcsStatus.UCS_ERR_CANCELED: "Request canceled",
    UcsStatus.UCS_ERR_SHMEM_SEGMENT: "Shared memory error",
    UcsStatus.UCS_ERR_ALREADY_EXISTS: "Element already exists",
    UcsStatus.UCS_ERR_OUT_OF_RANGE: "Index out of range",
    UcsStatus.UCS_ERR_TIMED_OUT: "Operation timed out",
    UcsStatus.UCS_ERR_EXCEEDS_LIMIT: "User-defined limit was reached",
    UcsStatus.UCS_ERR_UNSUPPORTED: "Unsupported operation",
    UcsStatus.UCS_ERR_REJECTED: "Operation rejected by remote peer",
    UcsStatus.UCS_ERR_NOT_CONNECTED: "Endpoint is not connected",
    UcsStatus.UCS_ERR_CONNECTION_RESET: "Connection reset by remote peer",
    UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT: "Endpoint timeout",
}


def ucs_status_string(status: int) -> str:
    """Return a status in words, as UCX has them; "Unknown error -61" for a number without any."""
    if not isinstance(status, int):
        raise wrong_type("status", "a status", status)
    return _WORDS.get(status) or f"Unknown error {int(status)}"


class UcsError(Exception):
    """A call, or an operation that it had started, failed. :func:`ucs_error` chooses the class."""

    status: ClassVar[UcsStatus]

    def __init__(self, message: str = "", prov_errno: int = 0) -> None:
        super().__init__(message or ucs_status_string(self.status))
        self.prov_errno = prov_errno
        """The NIC's return code (:class:`amoeba_model.wire.uet.ReturnCode`), 0 if the NIC was not asked."""

    def __str__(self) -> str:
        return f"{self.status.name}: {self.args[0]}"


class UcsNoMessageError(UcsError):
    status = UcsStatus.UCS_ERR_NO_MESSAGE


class UcsNoResourceError(UcsError):
    status = UcsStatus.UCS_ERR_NO_RESOURCE


class UcsIoError(UcsError):
    status = UcsStatus.UCS_ERR_IO_ERROR


class UcsNoMemoryError(UcsError):
    status = UcsStatus.UCS_ERR_NO_MEMORY


class UcsInvalidParamError(UcsError, ValueError):
    status = UcsStatus.UCS_ERR_INVALID_PARAM


class UcsUnreachableError(UcsError):
    status = UcsStatus.UCS_ERR_UNREACHABLE


class UcsInvalidAddrError(UcsError):
    status = UcsStatus.UCS_ERR_INVALID_ADDR


class UcsNotImplementedError(UcsError):
    status = UcsStatus.UCS_ERR_NOT_IMPLEMENTED


class UcsMessageTruncatedError(UcsError):
    status = UcsStatus.UCS_ERR_MESSAGE_TRUNCATED


class UcsNoProgressError(UcsError):
    status = UcsStatus.UCS_ERR_NO_PROGRESS


class UcsBufferTooSmallError(UcsError):
    status = UcsStatus.UCS_ERR_BUFFER_TOO_SMALL


class UcsNoElemError(UcsError):
    status = UcsStatus.UCS_ERR_NO_ELEM


class UcsSomeConnectsFailedError(UcsError):
    status = UcsStatus.UCS_ERR_SOME_CONNECTS_FAILED


class UcsNoDeviceError(UcsError):
    status = UcsStatus.UCS_ERR_NO_DEVICE


class UcsBusyError(UcsError):
    status = UcsStatus.UCS_ERR_BUSY


class UcsCanceledError(UcsError):
    status = UcsStatus.UCS_ERR_CANCELED


class UcsShmemSegmentError(UcsError):
    status = UcsStatus.UCS_ERR_SHMEM_SEGMENT


class UcsAlreadyExistsError(UcsError):
    status = UcsStatus.UCS_ERR_ALREADY_EXISTS


class UcsOutOfRangeError(UcsError):
    status = UcsStatus.UCS_ERR_OUT_OF_RANGE


class UcsTimedOutError(UcsError, TimeoutError):
    status = UcsStatus.UCS_ERR_TIMED_OUT


class UcsExceedsLimitError(UcsError):
    status = UcsStatus.UCS_ERR_EXCEEDS_LIMIT


class UcsUnsupportedError(UcsError):
    status = UcsStatus.UCS_ERR_UNSUPPORTED


class UcsRejectedError(UcsError):
    status = UcsStatus.UCS_ERR_REJECTED


class UcsNotConnectedError(UcsError):
    status = UcsStatus.UCS_ERR_NOT_CONNECTED


class UcsConnectionResetError(UcsError, ConnectionResetError):
    status = UcsStatus.UCS_ERR_CONNECTION_RESET


class UcsEndpointTimeoutError(UcsError, TimeoutError):
    status = UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT


_CLASSES: dict[int, type[UcsError]] = {kind.status: kind for kind in UcsError.__subclasses__()}


def ucs_error(status: int, message: str = "", prov_errno: int = 0) -> UcsError:
    """Make the exception for a status, to be raised by the caller. Raises KeyError for a status that is no error."""
    return _CLASSES[status](message, prov_errno)


def invalid_param(message: str) -> UcsInvalidParamError:
    """Make the exception for an impossible argument: nothing was done."""
    return UcsInvalidParamError(message)


def wrong_type(name: str, expected: str, given: object) -> UcsInvalidParamError:
    """Make the exception for an argument of a wrong type: the expected type, and the given value."""
    return UcsInvalidParamError(f"{name}: expected {expected}, got {type(given).__name__} {shown(given)}")


RETURN_CODE_STATUS: dict[ReturnCode, UcsStatus] = {
    ReturnCode.NULL: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.OK: UcsStatus.UCS_OK,
    ReturnCode.BAD_GENERATION: UcsStatus.UCS_ERR_CONNECTION_RESET,
    ReturnCode.DISABLED: UcsStatus.UCS_ERR_CONNECTION_RESET,
    ReturnCode.DISABLED_GEN: UcsStatus.UCS_ERR_CONNECTION_RESET,
    ReturnCode.NO_MATCH: UcsStatus.UCS_ERR_NO_RESOURCE,
    ReturnCode.UNSUPPORTED_OP: UcsStatus.UCS_ERR_UNSUPPORTED,
    ReturnCode.UNSUPPORTED_SIZE: UcsStatus.UCS_ERR_EXCEEDS_LIMIT,
    ReturnCode.AT_INVALID: UcsStatus.UCS_ERR_INVALID_ADDR,
    ReturnCode.AT_PERM: UcsStatus.UCS_ERR_REJECTED,
    ReturnCode.AT_ATS_ERROR: UcsStatus.UCS_ERR_INVALID_ADDR,
    ReturnCode.AT_NO_TRANS: UcsStatus.UCS_ERR_INVALID_ADDR,
    ReturnCode.AT_OUT_OF_RANGE: UcsStatus.UCS_ERR_INVALID_ADDR,
    ReturnCode.HOST_POISONED: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.HOST_UNSUCCESS_CMPL: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.AMO_UNSUPPORTED_OP: UcsStatus.UCS_ERR_UNSUPPORTED,
    ReturnCode.AMO_UNSUPPORTED_DT: UcsStatus.UCS_ERR_UNSUPPORTED,
    ReturnCode.AMO_UNSUPPORTED_SIZE: UcsStatus.UCS_ERR_UNSUPPORTED,
    ReturnCode.AMO_UNALIGNED: UcsStatus.UCS_ERR_INVALID_PARAM,
    ReturnCode.AMO_FP_NAN: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.AMO_FP_UNDERFLOW: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.AMO_FP_OVERFLOW: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.AMO_FP_INEXACT: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.PERM_VIOLATION: UcsStatus.UCS_ERR_REJECTED,
    ReturnCode.OP_VIOLATION: UcsStatus.UCS_ERR_INVALID_PARAM,
    ReturnCode.BAD_INDEX: UcsStatus.UCS_ERR_CONNECTION_RESET,
    ReturnCode.BAD_PID: UcsStatus.UCS_ERR_UNREACHABLE,
    ReturnCode.BAD_JOB_ID: UcsStatus.UCS_ERR_UNREACHABLE,
    ReturnCode.BAD_MKEY: UcsStatus.UCS_ERR_REJECTED,
    ReturnCode.BAD_ADDR: UcsStatus.UCS_ERR_INVALID_ADDR,
    ReturnCode.CANCELLED: UcsStatus.UCS_ERR_CANCELED,
    ReturnCode.UNDELIVERABLE: UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT,
    ReturnCode.UNCOR: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.UNCOR_TRNSNT: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.TOO_LONG: UcsStatus.UCS_ERR_MESSAGE_TRUNCATED,
    ReturnCode.INITIATOR_ERROR: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.DROPPED: UcsStatus.UCS_ERR_IO_ERROR,
    ReturnCode.LOCAL_BAD_DESCRIPTOR: UcsStatus.UCS_ERR_INVALID_PARAM,
    ReturnCode.LOCAL_BAD_PEER: UcsStatus.UCS_ERR_NOT_CONNECTED,
    ReturnCode.LOCAL_DMA_FAULT: UcsStatus.UCS_ERR_INVALID_ADDR,
    ReturnCode.LOCAL_PDC_FAILED: UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT,
    ReturnCode.LOCAL_NIC_RESET: UcsStatus.UCS_ERR_NO_DEVICE,
    ReturnCode.LOCAL_PEER_PDC_TABLE_FULL: UcsStatus.UCS_ERR_NO_RESOURCE,
}
"""The status of every return code of the NIC.

The target's refusals of keys, rights or bounds are REJECTED and INVALID_ADDR. A context that is gone, or has another
one's number now, has been reset. A peer that does not answer is known by its timeout alone.
"""

_ERRNO_NAMES = {
    UcsStatus.UCS_OK: "SUCCESS",
    UcsStatus.UCS_ERR_NO_MESSAGE: "ENOMSG",
    UcsStatus.UCS_ERR_NO_RESOURCE: "EAGAIN ENOSPC EMFILE ENOBUFS EOVERRUN ENORX",
    UcsStatus.UCS_ERR_IO_ERROR: "EIO EREMOTEIO EOTHER ECRC EAVAIL",
    UcsStatus.UCS_ERR_NO_MEMORY: "ENOMEM",
    UcsStatus.UCS_ERR_INVALID_PARAM: "EINVAL EBADFLAGS EBADF EDOMAIN EOPBADSTATE ENOCQ ENOAV ENOEQ",
    UcsStatus.UCS_ERR_UNREACHABLE: "ENETDOWN ENETUNREACH EADDRNOTAVAIL",
    UcsStatus.UCS_ERR_INVALID_ADDR: "EFAULT",
    UcsStatus.UCS_ERR_NOT_IMPLEMENTED: "ENOSYS",
    UcsStatus.UCS_ERR_MESSAGE_TRUNCATED: "ETRUNC",
    UcsStatus.UCS_ERR_BUFFER_TOO_SMALL: "ETOOSMALL",
    UcsStatus.UCS_ERR_NO_ELEM: "ENOENT ENODATA",
    UcsStatus.UCS_ERR_NO_DEVICE: "ENODEV",
    UcsStatus.UCS_ERR_BUSY: "EBUSY EADDRINUSE EINPROGRESS EALREADY",
    UcsStatus.UCS_ERR_CANCELED: "ECANCELED EINTR",
    UcsStatus.UCS_ERR_ALREADY_EXISTS: "EISCONN",
    UcsStatus.UCS_ERR_OUT_OF_RANGE: "EOVERFLOW",
    UcsStatus.UCS_ERR_TIMED_OUT: "ETIMEDOUT",
    UcsStatus.UCS_ERR_EXCEEDS_LIMIT: "EMSGSIZE E2BIG",
    UcsStatus.UCS_ERR_UNSUPPORTED: "EOPNOTSUPP ENOPROTOOPT",
    UcsStatus.UCS_ERR_REJECTED: "EACCES EPERM ENOKEY EKEYREJECTED",
    UcsStatus.UCS_ERR_NOT_CONNECTED: "ENOTCONN",
    UcsStatus.UCS_ERR_CONNECTION_RESET: "ECONNABORTED ECONNRESET ESHUTDOWN ECONNREFUSED",
    UcsStatus.UCS_ERR_ENDPOINT_TIMEOUT: "EHOSTDOWN EHOSTUNREACH",
}
ERRNO_STATUS = {Errno[f"FI_{name}"]: status for status, names in _ERRNO_NAMES.items() for name in names.split()}
"""The status of every error number of ``amoeba.core``."""


def status_of_completion(code: int) -> UcsStatus:
    """Return the status of a completion with this return code; IO_ERROR for a code that Amoeba's NICs never write."""
    try:
        return RETURN_CODE_STATUS[ReturnCode(code)]
    except ValueError:
        return UcsStatus.UCS_ERR_IO_ERROR


def status_of(error: BaseException) -> UcsStatus:
    """Return the status of an exception: its own, that of the engine's error, or NO_MEMORY, or IO_ERROR."""
    if isinstance(error, UcsError):
        return error.status
    if isinstance(error, FabricError):
        return _status_of_fabric(error)
    return UcsStatus.UCS_ERR_NO_MEMORY if isinstance(error, MemoryError) else UcsStatus.UCS_ERR_IO_ERROR


def ucs_error_of(error: FabricError) -> UcsError:
    """Make an exception of this API from an error of the engine, to be raised from it."""
    return ucs_error(_status_of_fabric(error), str(error.strerror), error.prov_errno)


def _status_of_fabric(error: FabricError) -> UcsStatus:
    """Return the status of an engine's error. The NIC's return code says more than the error number made of it."""
    status = status_of_completion(error.prov_errno) if error.prov_errno else UcsStatus.UCS_OK
    return status if status < 0 else ERRNO_STATUS[error.fi_errno]
