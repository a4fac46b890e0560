"""The library itself: which release of UCP's API this is, and which threads may call it.

The release is that whose names, numbers and meanings are taken: programs compare it with the headers that they were
written for. Amoeba's own release is ``amoeba.__version__``.
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
    """A version of the API as one number, later ones above earlier ones."""
    return major << _MAJOR_SHIFT | minor << _MINOR_SHIFT


UCP_API_MAJOR, UCP_API_MINOR = _RELEASE[:2]
"""What a program gives to ``ucp_init_version``."""
UCP_API_VERSION = UCP_VERSION(UCP_API_MAJOR, UCP_API_MINOR)


def ucp_get_version() -> tuple[int, int, int]:
    """(major, minor, release) of UCX whose API this is."""
    return _RELEASE


def ucp_get_version_string() -> str:
    """The same as text: major.minor.release."""
    return ".".join(map(str, _RELEASE))


def ucp_lib_query(attr: ucp_lib_attr_t) -> ucp_lib_attr_t:
    """Fill what is asked for, and return it. Threads may call at once: every object has a lock of its own."""
    return ucp_lib_attr_t.expected(attr).fill(max_thread_level=ucs_thread_mode_t.UCS_THREAD_MODE_MULTI)
