"""The library itself: the release of UCP's API, and the threads that may call it.

The release is the one of UCX whose names, numbers and meanings this API has: programs compare it with the headers
that they were written for. Amoeba's own release is ``amoeba.__version__``.
"""

from amoeba.openucx.ucp.constants import ucs_thread_mode_t
from amoeba.openucx.ucp.structures import ucp_lib_attr_t

__all__ = [
    "UCP_API_MAJOR",
    "UCP_API_MINOR",
    "UCP_API_VERSION",
    "UCP_VERSION",
    "ucp_get_version",
    "ucp_get_version_string",
    "ucp_lib_query",
]

_RELEASE = (1, 12, 1)
"""Of UCX."""
_MAJOR_SHIFT = 24
_MINOR_SHIFT = 16


def UCP_VERSION(major: int, minor: int) -> int:
    """Return a version of the API as one number, later ones above earlier ones (ucp_version.h)."""
    return major << _MAJOR_SHIFT | minor << _MINOR_SHIFT


UCP_API_MAJOR, UCP_API_MINOR = _RELEASE[:2]
"""The version that a program gives to ``ucp_init_version``."""
UCP_API_VERSION = UCP_VERSION(UCP_API_MAJOR, UCP_API_MINOR)


def ucp_get_version() -> tuple[int, int, int]:
    """Return (major, minor, release) of the UCX whose API this is (ucp.h, group CONTEXT)."""
    return _RELEASE


def ucp_get_version_string() -> str:
    """Return the release as text: major.minor.release (ucp.h, group CONTEXT)."""
    return ".".join(map(str, _RELEASE))


def ucp_lib_query(attr: ucp_lib_attr_t) -> ucp_lib_attr_t:
    """Fill the fields that ``attr`` asks for, and return it (ucp.h, group CONTEXT).

    All threads may call at once: every object has a lock of its own.
    """
    return ucp_lib_attr_t.expected(attr).fill(max_thread_level=ucs_thread_mode_t.UCS_THREAD_MODE_MULTI)
