"""Error numbers: those of POSIX, and libfabric's own above them (``rdma/fi_errno.h``, 1.17)."""

import enum

__all__ = ["Errno"]


class Errno(enum.IntEnum):
    """``rdma/fi_errno.h``: Linux's numbers below 256, libfabric's own from there on."""

    FI_SUCCESS = 0
    FI_EPERM = 1
    FI_ENOENT = 2
    FI_EINTR = 4
    FI_EIO = 5
    FI_E2BIG = 7
    FI_EBADF = 9
    FI_EAGAIN = 11
    FI_ENOMEM = 12
    FI_EACCES = 13
    FI_EFAULT = 14
    FI_EBUSY = 16
    FI_ENODEV = 19
    FI_EINVAL = 22
    FI_EMFILE = 24
    FI_ENOSPC = 28
    FI_ENOSYS = 38
    FI_ENOMSG = 42
    FI_ENODATA = 61
    FI_EOVERFLOW = 75
    FI_EMSGSIZE = 90
    FI_ENOPROTOOPT = 92
    FI_EOPNOTSUPP = 95
    FI_EADDRINUSE = 98
    FI_EADDRNOTAVAIL = 99
    FI_ENETDOWN = 100
    FI_ENETUNREACH = 101
    FI_ECONNABORTED = 103
    FI_ECONNRESET = 104
    FI_ENOBUFS = 105
    FI_EISCONN = 106
    FI_ENOTCONN = 107
    FI_ESHUTDOWN = 108
    FI_ETIMEDOUT = 110
    FI_ECONNREFUSED = 111
    FI_EHOSTDOWN = 112
    FI_EHOSTUNREACH = 113
    FI_EALREADY = 114
    FI_EINPROGRESS = 115
    FI_EREMOTEIO = 121
    FI_ECANCELED = 125
    FI_EKEYREJECTED = 129
    FI_EOTHER = 256
    FI_ETOOSMALL = 257
    FI_EOPBADSTATE = 258
    FI_EAVAIL = 259
    FI_EBADFLAGS = 260
    FI_ENOEQ = 261
    FI_EDOMAIN = 262
    FI_ENOCQ = 263
    FI_ECRC = 264
    FI_ETRUNC = 265
    FI_ENOKEY = 266
    FI_ENOAV = 267
    FI_EOVERRUN = 268
    FI_ENORX = 269
