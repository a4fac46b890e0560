"""Runs a cocotb testbench on one Amaranth component, in Verilator or in Icarus Verilog."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from xml.etree import ElementTree

from amaranth.hdl import Elaboratable
from cocotb_tools import config

from amoeba_sim.verilate import build_bench, cache_directory, remembered_verilog

__all__ = ["BenchFailure", "bench_parameters", "run_bench", "run_bench_from_random_values", "run_bench_in_icarus"]

_TOP = "dut"


class BenchFailure(Exception):
    """A testbench failed, crashed or ran out of time. The message ends with the line that repeats it."""


def bench_parameters() -> dict:
    """Inside a testbench: the ``parameters`` that :func:`run_bench` was given."""
    return json.loads(os.environ["AMOEBA_BENCH_PARAMETERS"])


def run_bench(
    component: Elaboratable | partial,
    bench_module: str,
    *,
    seed: int = 1,
    timeout: float = 120,
    parameters: Mapping[str, object] | None = None,
    extra_env: Mapping[str, str] | None = None,
    waves: bool = False,
) -> None:
    """Build ``component`` for cocotb, unless it was built before, and run every test of a testbench on it.

    Parameters
    ----------
    component : Elaboratable or partial
        The design; its ports are all that the bench sees, as ``dut.<port>``. A ``functools.partial`` of its class is
        elaborated once for all benches, and not again until a source changes.
    bench_module : str
        Full name of the testbench's module, as the calling process would import it.
    seed : int
        Seeds Python's ``random`` in the bench. The environment variable ``AMOEBA_SEED`` overrides it.
    timeout : float
        Seconds of real time, the build not included.
    parameters : mapping
        JSON-able values for the bench (:func:`bench_parameters`).
    extra_env : mapping
        Environment variables for the bench.
    waves : bool
        Whether to write ``dump.vcd``, in the folder that the message names if the bench fails.

    Raises
    ------
    BenchFailure
        If a test fails, none runs, or the time is over. Says which test, why, and how to repeat it; the folder
        with the full log is kept.
    BuildError
        If the component cannot be built.
    """
    executable = build_bench(component, _TOP, waves=waves)
    bench = _Bench(bench_module, int(os.environ.get("AMOEBA_SEED", seed)), timeout)
    environment = {**_VERILATOR, **_parameters_of(parameters), **(extra_env or {})}
    bench.run(component, [str(executable), *(["--trace"] if waves else [])], environment, keeps_folder=waves)


def run_bench_from_random_values(
    component: Elaboratable | partial,
    bench_module: str,
    *,
    seed: int,
    timeout: float,
    parameters: Mapping[str, object],
) -> None:
    """Run a testbench as :func:`run_bench` does, where all that nothing initialises begins with random values.

    Inputs begin so, too: the testbench must drive them all.
    """
    executable = build_bench(component, _TOP)
    values = ["+verilator+rand+reset+2", f"+verilator+seed+{seed}"]
    bench = _Bench(bench_module, seed, timeout)
    bench.run(component, [str(executable), *values], {**_VERILATOR, **_parameters_of(parameters)})


def run_bench_in_icarus(
    component: partial, bench_module: str, *, standard: str, timeout: float, parameters: Mapping[str, object]
) -> None:
    """Run a testbench as :func:`run_bench` does, in Icarus Verilog.

    ``standard`` is the year of the Verilog that Icarus reads: ``2005`` or ``2012``. Raises CalledProcessError if it
    cannot.
    """
    with tempfile.TemporaryDirectory() as build:
        design, options, compiled = (str(Path(build) / name) for name in ("design.v", "options", "design.vvp"))
        Path(design).write_text(remembered_verilog(component, _TOP))
        Path(options).write_text("+timescale+1ns/1ps\n")
        subprocess.run(["iverilog", f"-g{standard}", "-f", options, "-s", _TOP, "-o", compiled, design], check=True)
        command = ["vvp", "-M", str(config.libs_dir), "-m", config.lib_entry("vpi", "icarus"), compiled]
        _Bench(bench_module, 1, timeout).run(component, command, _parameters_of(parameters))


# Verilator applies cocotb's writes after the edge that triggered them, as cocotb expects.
_VERILATOR = {"COCOTB_TRUST_INERTIAL_WRITES": "1"}


def _parameters_of(parameters: Mapping[str, object] | None) -> dict[str, str]:
    return {"AMOEBA_BENCH_PARAMETERS": json.dumps(dict(parameters or {}))}


@dataclass(frozen=True)
class _Bench:
    """A run of a testbench, with the arguments of :func:`run_bench`."""

    module: str
    seed: int
    timeout: float

    def run(
        self, component: object, command: list[str], environment: Mapping[str, str], *, keeps_folder: bool = False
    ) -> None:
        """Run a simulator; raises BenchFailure."""
        runs = _runs_directory()
        runs.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{self.module}-", dir=runs))
        cocotb = _cocotb_environment(self.module, folder, self.seed)
        problem = _execute(command, folder, {**os.environ, **cocotb, **environment}, self.timeout)
        problem = problem or _failed_tests(folder / "results.xml")
        if problem is None:
            if not keeps_folder:
                shutil.rmtree(folder)
            return
        name = component.func.__name__ if isinstance(component, partial) else type(component).__name__
        raise BenchFailure(f"{self.module} on {name}: {problem}\n{_reproducer(self.seed, folder)}")


def _runs_directory() -> Path:
    """Where logs and waveforms of failed runs stay."""
    return cache_directory().parent / "benches"


@cache
def _libpython() -> str:
    """Find the shared library of this Python, which the simulator loads; raises BenchFailure without one."""
    command = [sys.executable, "-m", "cocotb_tools.config", "--libpython"]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode != 0:
        raise BenchFailure("cocotb needs Python's shared library; found none (Debian package: libpython3-dev)")
    return found.stdout.strip()


def _cocotb_environment(bench_module: str, folder: Path, seed: int) -> dict[str, str]:
    """Return the variables that cocotb's entry point, which the simulator loads, reads."""
    return {
        "COCOTB_TEST_MODULES": bench_module,
        "COCOTB_TOPLEVEL": _TOP,
        "COCOTB_RANDOM_SEED": str(seed),
        "COCOTB_RESULTS_FILE": str(folder / "results.xml"),
        "GPI_USERS": f"{_libpython()};{config.pygpi_entry_point()}",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TOPLEVEL_LANG": "verilog",
    }


def _execute(command: list[str], folder: Path, environment: dict[str, str], timeout: float) -> str | None:
    """Run the simulator; return a description of the process's failure, if it failed."""
    with (folder / "log").open("w") as log:
        try:
            subprocess.run(
                command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return f"no end after {timeout} seconds\n{_tail(folder)}"
    if not (folder / "results.xml").exists():
        return f"the simulation ended without results\n{_tail(folder)}"
    return None


def _failed_tests(results: Path) -> str | None:
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    if not cases:
        return "no test was found"
    lines = []
    for case in cases:
        for kind in ("failure", "error"):
            for failure in case.findall(kind):
                lines.append(f"{case.get('name')}: {failure.get('error_msg') or failure.get('message')}")
    return f"{len(lines)} of {len(cases)} tests failed: " + "; ".join(lines) if lines else None


def _tail(folder: Path) -> str:
    return "\n".join((folder / "log").read_text().splitlines()[-20:])


def _reproducer(seed: int, folder: Path) -> str:
    # pytest sets this to "file::test (call)".
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", 1)[0]
    command = f"pytest '{test}'" if test else "the same call"
    return f"Repeat with: AMOEBA_SEED={seed} {command}   (log: {folder / 'log'})"
