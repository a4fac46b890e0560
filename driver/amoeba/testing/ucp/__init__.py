"""The conformance kit of UCX's API: ``ucp.h``, function by function and sentence by sentence.

As :mod:`amoeba.testing`, whose runner and reports it shares::

    import amoeba.testing
    import amoeba.testing.ucp

    with amoeba.testing.ucp.open_pair(["model", "rtl"]) as pair:
        report = amoeba.testing.run(pair, amoeba.testing.ucp.checks())

A check stands for a sentence of the header, quoted with its line in release 1.12.1. It works with the pair's own
workers, or makes some, closes what it opens, and leaves the pair as it was. Checks are registered in the modules of
:mod:`amoeba.testing.ucp.functions`; there is also said which functions and sentences have none, and why.
"""

from amoeba.testing.ucp.expectations import expect_status
from amoeba.testing.ucp.pair import Entity, Pair, Region, open_pair
from amoeba.testing.ucp.registry import Function, across, checks, select, unchecked

__all__ = [
    "Entity",
    "Function",
    "Pair",
    "Region",
    "across",
    "checks",
    "expect_status",
    "open_pair",
    "select",
    "unchecked",
]
