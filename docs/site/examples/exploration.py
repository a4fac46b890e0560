from amoeba_tools import explore

grid = {"lines": [64, 256]}
workload: explore.Workload = explore.GupsWorkload(table_size=4, updates=64)
found: explore.Exploration = explore.explore(grid, [workload], device="model", area=None)
print([row["lines"] for row in found.rows], found.failures)
# Prints:
# [64, 256] ()
