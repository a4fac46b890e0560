"""Performance tests with the names, options and columns of each API's own program.

``catalog`` names the tests, ``plan`` describes a measurement, ``meter`` measures, ``report`` prints, and ``run`` runs
plans in one process or two. ``sides`` is the interface between tests and APIs. UCP implements the interface in
``ucp_tests``, ``ucp_side``, ``ucp_messages`` and ``ucp_memory``; libfabric in ``fi_tests``, ``fi_side`` and
``fi_memory``.
"""

from amoeba_tools.perf.catalog import APIS, PerfTest, TestKind, tests_of
from amoeba_tools.perf.meter import PerfResult
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.run import answer_plans, run_plans

__all__ = ["APIS", "PerfPlan", "PerfResult", "PerfTest", "TestKind", "answer_plans", "run_plans", "tests_of"]
