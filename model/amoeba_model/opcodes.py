"""libfabric's atomic vocabulary: operations, datatypes and forms, under their own names and numbers.

Source: fi_atomic(3) of libfabric 1.14 and ``rdma/fi_domain.h`` (numbers as of 1.17; the members marked as
extensions carry their 2.x numbers).
"""

import enum

__all__ = ["Datatype", "Form", "Op"]


class Op(enum.IntEnum):
    """``enum fi_op``. FI_DIFF (2.x) is an extension: no manual page lists it among the operations."""

    FI_MIN = 0
    FI_MAX = 1
    FI_SUM = 2
    FI_PROD = 3
    FI_LOR = 4
    FI_LAND = 5
    FI_BOR = 6
    FI_BAND = 7
    FI_LXOR = 8
    FI_BXOR = 9
    FI_ATOMIC_READ = 10
    FI_ATOMIC_WRITE = 11
    FI_CSWAP = 12
    FI_CSWAP_NE = 13
    FI_CSWAP_LE = 14
    FI_CSWAP_LT = 15
    FI_CSWAP_GE = 16
    FI_CSWAP_GT = 17
    FI_MSWAP = 18
    FI_DIFF = 19


class Datatype(enum.IntEnum):
    """``enum fi_datatype``. Members from FI_FLOAT16 on (2.x) are extensions."""

    FI_INT8 = 0
    FI_UINT8 = 1
    FI_INT16 = 2
    FI_UINT16 = 3
    FI_INT32 = 4
    FI_UINT32 = 5
    FI_INT64 = 6
    FI_UINT64 = 7
    FI_FLOAT = 8
    FI_DOUBLE = 9
    FI_FLOAT_COMPLEX = 10
    FI_DOUBLE_COMPLEX = 11
    FI_LONG_DOUBLE = 12
    FI_LONG_DOUBLE_COMPLEX = 13
    FI_INT128 = 14
    FI_UINT128 = 15
    FI_FLOAT16 = 16
    FI_BFLOAT16 = 17
    FI_FLOAT8_E4M3 = 18
    FI_FLOAT8_E5M2 = 19

    @property
    def size(self) -> int:
        """Bytes that one element occupies in memory."""
        return _SIZES[self]


class Form(enum.StrEnum):
    """The three call families of fi_atomic(3): fi_atomic, fi_fetch_atomic, fi_compare_atomic."""

    BASE = "base"
    FETCH = "fetch"
    COMPARE = "compare"


_SIZES = {
    Datatype.FI_INT8: 1,
    Datatype.FI_UINT8: 1,
    Datatype.FI_INT16: 2,
    Datatype.FI_UINT16: 2,
    Datatype.FI_INT32: 4,
    Datatype.FI_UINT32: 4,
    Datatype.FI_INT64: 8,
    Datatype.FI_UINT64: 8,
    Datatype.FI_FLOAT: 4,
    Datatype.FI_DOUBLE: 8,
    Datatype.FI_FLOAT_COMPLEX: 8,
    Datatype.FI_DOUBLE_COMPLEX: 16,
    Datatype.FI_LONG_DOUBLE: 16,
    Datatype.FI_LONG_DOUBLE_COMPLEX: 32,
    Datatype.FI_INT128: 16,
    Datatype.FI_UINT128: 16,
    Datatype.FI_FLOAT16: 2,
    Datatype.FI_BFLOAT16: 2,
    Datatype.FI_FLOAT8_E4M3: 1,
    Datatype.FI_FLOAT8_E5M2: 1,
}
