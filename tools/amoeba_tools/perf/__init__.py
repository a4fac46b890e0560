"""Performance tests with the names, options and columns that people know from each API's own program.

``catalog`` names the tests, ``plan`` says what is to be measured, ``meter`` measures, ``report`` prints; ``run`` runs
plans in one process or in two. What an API brings for its tests, as ``sides`` says, is in files of its own: UCP's are
``ucp_tests``, ``ucp_side``, ``ucp_messages`` and ``ucp_memory``; libfabric's ``fi_tests``, ``fi_side`` and
``fi_memory``.
"""

from amoeba_tools.perf.catalog import APIS, PerfTest, TestKind, tests_of
from amoeba_tools.perf.meter import PerfResult
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.run import answer_plans, run_plans

__all__ = ["APIS", "PerfPlan", "PerfResult", "PerfTest", "TestKind", "answer_plans", "run_plans", "tests_of"]
