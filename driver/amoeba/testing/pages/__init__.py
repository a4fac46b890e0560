"""One module or more per manual page, named after it; ``page`` in each registers its checks."""

__all__ = ["MODULES"]

MODULES = (
    "fi_getinfo",
    "fi_rma",
    "fi_rma_flags",
    "fi_atomic",
    "fi_atomic_flags",
    "fi_atomic_completions",
    "fi_atomic_operations",
    "fi_atomic_valid",
    "fi_atomic_tagged",
    "fi_endpoint",
    "fi_endpoint_contexts",
    "fi_endpoint_shared_receives",
    "fi_cq",
    "fi_cntr",
    "fi_mr",
    "fi_av",
    "fi_eq",
    "fi_msg",
    "fi_msg_receives",
    "fi_tagged",
    "fi_trigger",
    "fi_trigger_messages",
)
"""In the order in which their checks are listed and run."""
