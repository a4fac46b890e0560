"""``libamoeba-fi.so`` as data: the functions of numbers and pointers behind libfabric's tables.

libfabric-1.17.toml declares them. Objects are numbers here: the addresses of their ``struct fid``.
"""

import re
from pathlib import Path

from amoeba.core.errno import Errno
from amoeba.embed import CFunction, CLibrary
from amoeba.embed.library import signature
from amoeba.libfabric.objects.info import PROVIDER_VERSION
from amoeba.libfabric.provider.layouts import API, TYPES
from amoeba.libfabric.provider.tables import table_sources

__all__ = ["ADD", "ADD_ERRORS", "COMPARE", "DATA", "FETCH", "GIVEN", "INJECT", "LIBRARY", "SET", "TAGGED", "WRITE"]

TAGGED, WRITE, DATA, INJECT, GIVEN = 1, 1, 2, 4, 8
"""Flags of a transfer call: tagged messages, writes; with immediate data; injected; with flags in force."""
BASE, FETCH, COMPARE = 0, 1, 2
"""Flags of a call of fi_atomic(3), with the last two above."""
ADD, SET, ADD_ERRORS, SET_ERRORS = range(4)
"""Changes of a counter."""

_SIDE_C = Path(__file__).with_name("provider.c")
_KINDS = {
    "TAGGED": TAGGED,
    "WRITE": WRITE,
    "DATA": DATA,
    "INJECT": INJECT,
    "GIVEN": GIVEN,
    "BASE": BASE,
    "FETCH": FETCH,
    "COMPARE": COMPARE,
    "ADD": ADD,
    "SET": SET,
    "ADD_ERRORS": ADD_ERRORS,
    "SET_ERRORS": SET_ERRORS,
    "FI_EINVAL": int(Errno.FI_EINVAL),
    "FI_ENOSYS": int(Errno.FI_ENOSYS),
    "AMOEBA_VERSION": PROVIDER_VERSION,
}
_ENUMERATIONS = "\n".join(
    f"enum {name} {{ {name.upper()}_LAST = 0x7FFFFFFF }};" for name in ("fi_datatype", "fi_op", "fi_collective_op")
)
_INCLUDES = "#define _GNU_SOURCE\n#include <sys/uio.h>"
_IOVEC = "struct iovec { void *iov_base; size_t iov_len; ...; };"


def _function(name: str, row: str | dict[str, str]) -> CFunction:
    """Read a function of the file: its type in C, and the result after Python has ended."""
    declared, ended = (row, "-FI_ESHUTDOWN") if isinstance(row, str) else (row["c"], row["ended"])
    returns, parameters = signature(declared)
    ended = re.sub(r"FI_\w+", lambda error: str(int(Errno[error[0]])), ended)
    return CFunction(name, returns, parameters, ended=ended, exported=False)


def _source() -> str:
    numbers = "\n".join(f"#define {name} {value}" for name, value in _KINDS.items())
    return "\n".join(
        [numbers, _ENUMERATIONS, "#define N(pointer) ((uintptr_t)(pointer))", table_sources(), _SIDE_C.read_text()]
    )


LIBRARY = CLibrary(
    name="libamoeba-fi.so",
    entry="amoeba.libfabric.provider.provider",
    functions=tuple(_function(name, row) for name, row in API["functions"].items()),
    types=TYPES,
    includes=_INCLUDES,
    included=_IOVEC,
    helpers="""
        struct amoeba_fid *object_new(int class, uintptr_t context);
        void object_free(struct amoeba_fid *object);
        void *copy(const void *bytes, size_t size);
        struct fi_info *info_new(void);
        void info_free(struct fi_info *info);
    """,
    source=_source(),
)
