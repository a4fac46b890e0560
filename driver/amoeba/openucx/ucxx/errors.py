"""Exceptions under ucxx's names: the classes of ``amoeba.ucp``, one for each status, which is their ``status``."""

from amoeba.openucx.ucp.status import (
    UcsAlreadyExistsError,
    UcsBufferTooSmallError,
    UcsBusyError,
    UcsCanceledError,
    UcsConnectionResetError,
    UcsEndpointTimeoutError,
    UcsError,
    UcsExceedsLimitError,
    UcsInvalidAddrError,
    UcsInvalidParamError,
    UcsIoError,
    UcsMessageTruncatedError,
    UcsNoDeviceError,
    UcsNoElemError,
    UcsNoMemoryError,
    UcsNoMessageError,
    UcsNoProgressError,
    UcsNoResourceError,
    UcsNotConnectedError,
    UcsNotImplementedError,
    UcsOutOfRangeError,
    UcsRejectedError,
    UcsShmemSegmentError,
    UcsSomeConnectsFailedError,
    UcsStatus,
    UcsTimedOutError,
    UcsUnreachableError,
    UcsUnsupportedError,
)

__all__ = [
    "UCXAlreadyExistsError",
    "UCXBufferTooSmallError",
    "UCXBusyError",
    "UCXCanceledError",
    "UCXCloseError",
    "UCXConfigError",
    "UCXConnectionResetError",
    "UCXEndpointTimeoutError",
    "UCXError",
    "UCXExceedsLimitError",
    "UCXIOError",
    "UCXInvalidAddrError",
    "UCXInvalidParamError",
    "UCXMessageTruncatedError",
    "UCXNoDeviceError",
    "UCXNoElemError",
    "UCXNoMemoryError",
    "UCXNoMessageError",
    "UCXNoProgressError",
    "UCXNoResourceError",
    "UCXNotConnectedError",
    "UCXNotImplementedError",
    "UCXOutOfRangeError",
    "UCXRejectedError",
    "UCXShmemSegmentError",
    "UCXSomeConnectsFailedError",
    "UCXTimedOutError",
    "UCXUnreachableError",
    "UCXUnsupportedError",
    "UcsStatus",
]

UCXError = UcsError
UCXNoMessageError = UcsNoMessageError
UCXNoResourceError = UcsNoResourceError
UCXIOError = UcsIoError
UCXNoMemoryError = UcsNoMemoryError
UCXInvalidParamError = UcsInvalidParamError
UCXUnreachableError = UcsUnreachableError
UCXInvalidAddrError = UcsInvalidAddrError
UCXNotImplementedError = UcsNotImplementedError
UCXMessageTruncatedError = UcsMessageTruncatedError
UCXNoProgressError = UcsNoProgressError
UCXBufferTooSmallError = UcsBufferTooSmallError
UCXNoElemError = UcsNoElemError
UCXSomeConnectsFailedError = UcsSomeConnectsFailedError
UCXNoDeviceError = UcsNoDeviceError
UCXBusyError = UcsBusyError
UCXCanceledError = UcsCanceledError
UCXShmemSegmentError = UcsShmemSegmentError
UCXAlreadyExistsError = UcsAlreadyExistsError
UCXOutOfRangeError = UcsOutOfRangeError
UCXTimedOutError = UcsTimedOutError
UCXExceedsLimitError = UcsExceedsLimitError
UCXUnsupportedError = UcsUnsupportedError
UCXRejectedError = UcsRejectedError
UCXNotConnectedError = UcsNotConnectedError
UCXConnectionResetError = UcsConnectionResetError
UCXEndpointTimeoutError = UcsEndpointTimeoutError


class UCXCloseError(UcsNotConnectedError):
    """An endpoint was used after it, or an object that it was made from, had been closed."""


class UCXConfigError(UcsInvalidParamError):
    """A configuration has an unknown key, or a value that its key cannot have."""
