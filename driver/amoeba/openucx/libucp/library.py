"""``libucp.so.0`` as data: the functions of ``ucp/api/ucp.h`` and ``ucp_compat.h`` of UCX 1.19.

ucp-1.12.toml declares the functions. Handles are numbers here (:mod:`amoeba.openucx.libucp.handle_table`), and so
are pointers that C does not follow, such as requests: ``uintptr_t`` is passed as a pointer is.
"""

import re
from pathlib import Path
from string import Template

from amoeba.embed import CFunction, CLibrary
from amoeba.embed.library import signature
from amoeba.openucx.libucp.layouts import API, LATER_TYPES, TYPES
from amoeba.openucx.ucp.status import UcsStatus

__all__ = ["IN_C", "LATER", "LIBRARY", "RELEASE", "REQUEST_SIZE"]

RELEASE = (1, 19, 0)
"""UCX release: the last one whose functions are all here. Since 1.20 there are some for GPUs."""

REQUEST_SIZE = 64
"""Bytes of the library's before a request: the size that ucp_context_query reports."""
IN_C = ("ucp_get_version", "ucp_get_version_string")
"""Functions that need no Python."""

_SIDE_C = Path(__file__).with_name("libucp.c")
_INCLUDES = "#include <stdio.h>\n#include <sys/socket.h>"
_INCLUDED = "struct sockaddr_storage { unsigned short ss_family; ...; };"


def _function(name: str, row: str | dict[str, str]) -> CFunction:
    """Read a function of the file."""
    row = {"c": row} if isinstance(row, str) else row
    returns, parameters = signature(Template(row["c"]).substitute(API["fragments"]))
    ended = _numbers(row.get("ended", "" if returns == "void" else "UCS_ERR_NO_DEVICE"))
    if returns == "ucs_status_ptr_t":
        returns, ended = "uintptr_t", f"(intptr_t){ended}"
    return CFunction(name, returns, parameters, ended=ended, busy=_numbers(row.get("busy", "")))


def _numbers(expression: str) -> str:
    """Replace the names of statuses."""
    return re.sub(r"UCS_\w+", lambda status: str(int(UcsStatus[status[0]])), expression)


_FUNCTIONS, LATER = (
    tuple(_function(name, row) for name, row in API[table].items()) for table in ("functions", "later_functions")
)
"""The functions, and those that 1.12 does not have."""


def _source() -> str:
    numbers = dict(zip(("MAJOR", "MINOR", "RELEASE"), RELEASE, strict=True)) | {"REQUEST_SIZE": REQUEST_SIZE}
    return "\n".join([*(f"#define {name} {value}" for name, value in numbers.items()), _SIDE_C.read_text()])


LIBRARY = CLibrary(
    name="libucp.so.0",
    entry="amoeba.openucx.libucp.start",
    functions=_FUNCTIONS + LATER,
    types=TYPES + LATER_TYPES,
    includes=_INCLUDES,
    included=_INCLUDED,
    helpers="""
        void *memory_new(size_t size);
        void memory_free(uintptr_t address);
        void print_text(FILE *stream, const char *text, size_t size);
        void request_note(uintptr_t request, int status, uint64_t tag, size_t length);
        int request_noted(uintptr_t request, int *status, ucp_tag_recv_info_t *info);
        int amoeba_set_bell(uintptr_t object, int eventfd);
        int amoeba_is_deputy(void);
    """,
    source=_source(),
    links=("libucp.so",),
    needed=("libucs.so.0", "libuct.so.0"),
)
