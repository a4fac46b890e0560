"""The pairs of devices on which the same driver program must do the same."""

PAIRS = ("model,model", "rtl,rtl", "model,rtl", "rtl,model")
"""Kinds of initiator and target."""
