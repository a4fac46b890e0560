"""Co-design: a grid of NICs times workloads, with the cycles of each on RTL and the size of its hardware.

::

    from amoeba_tools.explore import explore

    found = explore(
        {"lines": [64, 256], "host_latency": [100, 250]},   # fields of NicParameters, host_latency, link_latency
        ["gups", "rma_bw:size=4096"],                       # or a script of one's own
        area="Target",                                      # by Yosys; without it no sizes
    )
    found.write_csv("found.csv")
    best = found.front("luts", "cycles_per_operation")

Results are kept by their content (:class:`Store`): nothing is measured twice, and an interrupted exploration
continues from its results. ``grid`` has the axes, ``workloads`` the programs to run, ``measure`` the work for one
result, ``run`` the exploration, ``table`` the results.
"""

from amoeba_tools.explore.grid import AXES, DesignPoint, grid, read_axis
from amoeba_tools.explore.run import Progress, explore
from amoeba_tools.explore.store import Store
from amoeba_tools.explore.table import Exploration
from amoeba_tools.explore.workloads import GupsWorkload, PerfWorkload, ScriptWorkload, Workload, read_workload

__all__ = [
    "AXES",
    "DesignPoint",
    "Exploration",
    "GupsWorkload",
    "PerfWorkload",
    "Progress",
    "ScriptWorkload",
    "Store",
    "Workload",
    "explore",
    "grid",
    "read_axis",
    "read_workload",
]
