"""The pairs of devices on which the same must happen."""

__all__ = ["PAIRS"]

PAIRS = ("model,model", "rtl,rtl", "model,rtl", "rtl,model")
"""Kinds of initiator and target."""
