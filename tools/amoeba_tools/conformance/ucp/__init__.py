"""The conformance kit of UCX's API: ``ucp.h``, function by function and sentence by sentence.

As :mod:`amoeba_tools.conformance`, whose runner and reports it shares::

    import amoeba_tools.conformance
    import amoeba_tools.conformance.ucp

    with amoeba_tools.conformance.ucp.open_pair(["model", "rtl"]) as pair:
        report = amoeba_tools.conformance.run(pair, amoeba_tools.conformance.ucp.checks())

A check stands for a sentence of the header, quoted with its line in release 1.12.1. It works with the pair's own
workers, or makes some, closes what it opens, and leaves the pair as it was. Checks are registered in the modules of
:mod:`amoeba_tools.conformance.ucp.functions`; there is also said which functions and sentences have none, and why.
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
