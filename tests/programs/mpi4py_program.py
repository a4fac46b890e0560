"""Run mpi4py's own tests: their folder, then what their ``main.py`` takes.

On NumPy's arrays alone: the other kinds that the tests have name the same memory in other ways, and are no matter for
what transfers it.
"""

import os
import runpy
import sys

folder = sys.argv[1]
sys.path.insert(0, folder)
import arrayimpl  # noqa: E402  lies there

arrayimpl.ArrayBackends[:] = [kind for kind in arrayimpl.ArrayBackends if kind.backend == "numpy"]
sys.argv[:] = [os.path.join(folder, "main.py"), *sys.argv[2:]]
runpy.run_path(sys.argv[0], run_name="__main__")
