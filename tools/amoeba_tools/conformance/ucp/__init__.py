"""The conformance kit of UCX's API: ``ucp.h``, function by function and sentence by sentence.

The kit shares the runner and the reports of :mod:`amoeba_tools.conformance`::

    import amoeba_tools.conformance
    import amoeba_tools.conformance.ucp

    with amoeba_tools.conformance.ucp.open_pair(["model", "rtl"]) as pair:
        report = amoeba_tools.conformance.run(pair, amoeba_tools.conformance.ucp.checks())

A check tests a sentence of the header, quoted with its line in release 1.12.1. A check uses the pair's workers or
creates its own, closes what it opens, and leaves the pair as before. Checks are registered in the modules of
:mod:`amoeba_tools.conformance.ucp.functions`, which also list the functions and sentences without a check.
"""

from amoeba_tools.conformance.ucp.expectations import expect_status
from amoeba_tools.conformance.ucp.functions import checks, select, unchecked
from amoeba_tools.conformance.ucp.pair import Entity, Pair, Region, open_pair
from amoeba_tools.conformance.ucp.registry import Function, across

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
