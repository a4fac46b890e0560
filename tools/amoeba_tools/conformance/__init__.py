"""The conformance kit: libfabric's manual pages, sentence by sentence.

Every check is a small function that runs on a :class:`Pair` of endpoints and tests one sentence::

    import amoeba_tools.conformance

    with amoeba_tools.conformance.open_pair(["model", "rtl"]) as pair:
        report = amoeba_tools.conformance.run(pair)
        print([failure.check.id for failure in report.failures])

or, with pytest, one test per sentence::

    @pytest.mark.parametrize("check", amoeba_tools.conformance.checks(), ids=str)
    def test_conformance(pair, check):
        check.run(pair)

``amoeba conformance`` runs the checks from the command line. A check closes what it opens and leaves its pair as
before, so that all checks can share a pair. Register new checks in the module of their page in
:mod:`amoeba_tools.conformance.pages`. The same module lists the sentences without a check, and the reasons.
"""

from amoeba_tools.conformance.expectations import CheckFailedError, expect, expect_equal, expect_error
from amoeba_tools.conformance.pages import checks, select, unchecked
from amoeba_tools.conformance.pair import Initiator, Pair, RemoteMemory, RemoteReceive, Talker, join_pair, open_pair
from amoeba_tools.conformance.registry import NEEDS, Check, Page, Unchecked
from amoeba_tools.conformance.report import catalogue, results
from amoeba_tools.conformance.runner import Outcome, Report, run
from amoeba_tools.conformance.target import Target, TargetSide

__all__ = [
    "NEEDS",
    "Check",
    "CheckFailedError",
    "Initiator",
    "Outcome",
    "Page",
    "Pair",
    "RemoteMemory",
    "RemoteReceive",
    "Report",
    "Talker",
    "Target",
    "TargetSide",
    "Unchecked",
    "catalogue",
    "checks",
    "expect",
    "expect_equal",
    "expect_error",
    "join_pair",
    "open_pair",
    "results",
    "run",
    "select",
    "unchecked",
]
