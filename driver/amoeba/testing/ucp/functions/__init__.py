"""One module or more per group of ``ucp.h``; each registers the checks of its functions."""

__all__ = ["MODULES"]

MODULES = (
    "tag_sends",
    "tag_receives",
    "tag_probes",
    "active_messages",
    "streams",
    "rma",
    "atomics",
    "flushes",
    "endpoints",
    "listeners",
    "workers",
    "wakeup",
    "memory",
    "requests",
    "contexts",
    "config",
)
"""In the order in which their checks are listed and run."""
