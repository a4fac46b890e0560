"""Widths of the data path for tests of whole blocks."""

import pytest

__all__ = ["WIDTHS"]

WIDTHS = (256, *(pytest.param(width, marks=pytest.mark.long) for width in (128, 512)))
"""Bits: the default one, and others, which are not about every change."""
