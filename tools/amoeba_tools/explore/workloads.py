"""Workloads for the NICs of a grid."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.libfabric.objects.cluster import open_cluster

from amoeba_tools.explore.grid import DesignPoint
from amoeba_tools.perf import APIS, PerfPlan, run_plans, tests_of
from amoeba_tools.random_access import run_gups

__all__ = ["GupsWorkload", "Measured", "PerfWorkload", "ScriptWorkload", "Workload", "read_workload"]


@dataclass(frozen=True)
class Measured:
    """Result of a workload."""

    operations: int
    cycles: int
    """Cycles of the first NIC's clock."""


class Workload(Protocol):
    """A program for some NICs. Can be pickled, and compared; its ``repr`` says all about it."""

    @property
    def name(self) -> str:
        """For people, and in tables."""

    def run(self, device: str, point: DesignPoint) -> Measured:
        """Run it once on fresh NICs of this kind. Raises whatever goes wrong, wrong data included."""


def _options(device: str, point: DesignPoint) -> dict[str, Any]:
    """Keyword arguments for ``open_cluster``."""
    return {
        "parameters": point.parameters,
        "latency": point.link_latency,
        "rtl_options": {"host_latency": point.host_latency},
    }


@dataclass(frozen=True)
class GupsWorkload:
    """HPC Challenge RandomAccess, verified: an operation is an update."""

    ranks: int = 2
    table_size: int = 10
    """log2 of the table's words."""
    updates: int = 2048
    window: int = 64
    """Outstanding updates per rank."""

    @property
    def name(self) -> str:
        return _named("gups", self, GupsWorkload())

    def run(self, device: str, point: DesignPoint) -> Measured:
        with open_cluster([device] * self.ranks, **_options(device, point)) as fabric:
            result = run_gups(fabric, table_bits=self.table_size, updates=self.updates, window=self.window)
        if not result.passed:
            raise fabric_error(Errno.FI_EIO, f"gups: {result.errors} wrong words, {len(result.faults)} refused DMAs")
        return Measured(result.updates, result.cycles)


@dataclass(frozen=True)
class PerfWorkload:
    """A test of ``amoeba perf``, with all data verified unless the plan says otherwise."""

    plan: PerfPlan

    @property
    def name(self) -> str:
        plan = self.plan
        return _named(plan.test, plan, PerfPlan(plan.api, plan.test, iterations=_ITERATIONS, warmup=_WARMUP))

    def run(self, device: str, point: DesignPoint) -> Measured:
        (result,) = run_plans([self.plan], [device] * 2, options=_options(device, point), cycles_of_models=True)
        if result.errors:
            raise fabric_error(Errno.FI_EIO, f"{self.plan.test}: {'; '.join(result.errors)}")
        assert result.cycles is not None  # both NICs are in this process
        operations = result.iterations * self.plan.entry.factor
        return Measured(operations, round(result.cycles * operations))


@dataclass(frozen=True)
class ScriptWorkload:
    """A Python file with ``def workload(fabric)``, which runs something and returns how many operations that was.

    ``fabric`` is an open cluster of ``ranks`` NICs; the cycles are those that pass in the function. The file is all
    that reaches a worker: it may import what is installed there, not what lies beside it.
    """

    path: str
    text: str
    ranks: int = 2

    @property
    def name(self) -> str:
        return Path(self.path).stem + (f":ranks={self.ranks}" if self.ranks != 2 else "")

    def run(self, device: str, point: DesignPoint) -> Measured:
        names: dict[str, Any] = {"__name__": Path(self.path).stem, "__file__": self.path}
        exec(compile(self.text, self.path, "exec"), names)
        function: Callable[[Any], Any] | None = names.get("workload")
        if not callable(function):
            raise fabric_error(Errno.FI_EINVAL, f"{self.path} has no function workload(fabric)")
        with open_cluster([device] * self.ranks, **_options(device, point)) as fabric:
            clock: Any = fabric.devices[0]
            begin = clock.cycles
            operations = function(fabric)
            cycles = clock.cycles - begin
        if type(operations) is not int or operations < 1:
            raise fabric_error(
                Errno.FI_EINVAL,
                f"workload(fabric) of {self.path} is to return how many operations it was, got {operations!r}",
            )
        return Measured(operations, cycles)


_ITERATIONS = 64
_WARMUP = 8
"""Few, as RTL is slow, and always takes the same cycles."""
_TESTS = {name: api for api in APIS for name in tests_of(api)}


def _named(name: str, given: Any, usual: Any) -> str:
    """Return the name with all options that differ from their defaults, as :func:`read_workload` takes it."""
    words = [name]
    for field in dataclasses.fields(given):
        value = getattr(given, field.name)
        if value != getattr(usual, field.name):
            shown = "+".join(map(str, value)) if isinstance(value, tuple) else value
            words.append(f"{_SHORT.get(field.name, field.name)}={shown}")
    return ":".join(words)


_SHORT = {"sizes": "size"}
_GUPS_OPTIONS = {field.name: int for field in dataclasses.fields(GupsWorkload)}
_PERF_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "size": lambda text: tuple(map(int, text.split("+"))),
    "iterations": int,
    "warmup": int,
    "outstanding": int,
    "header": int,
    "peers": int,
    "op": str,
    "datatype": str,
}


def read_workload(text: str) -> Workload:
    """Read a workload from name and options: ``gups:updates=4096``, ``rma_bw:size=4096:op=read``,
    ``mine.py:ranks=3``.

    A name is ``gups``, a test of ``amoeba perf`` (of any API), or a Python file. Options are those of
    :class:`GupsWorkload`; ``size`` (several pieces as 8+16), ``iterations``, ``warmup``, ``outstanding``, ``header``,
    ``peers``, ``op`` and ``datatype`` of a test; and ``ranks`` of a file.

    Raises FI_EINVAL for anything else, and OSError for a file that cannot be read.
    """
    name, *words = text.split(":")
    if name == "gups":
        gups = GupsWorkload(**_read_options(text, words, _GUPS_OPTIONS))
        if min(dataclasses.astuple(gups)) < 1 or not 2 <= gups.ranks <= 32:
            raise fabric_error(Errno.FI_EINVAL, f"{text}: expected numbers of at least 1, and 2 to 32 ranks")
        return gups
    if name in _TESTS:
        options = _read_options(text, words, _PERF_OPTIONS)
        if "size" in options:
            options["sizes"] = options.pop("size")
        plan = PerfPlan(_TESTS[name], name, **{"iterations": _ITERATIONS, "warmup": _WARMUP, **options})
        return PerfWorkload(plan)
    if name.endswith(".py"):
        script = ScriptWorkload(name, Path(name).read_text(), **_read_options(text, words, {"ranks": int}))
        if not 1 <= script.ranks <= 32:
            raise fabric_error(Errno.FI_EINVAL, f"{text}: expected 1 to 32 ranks")
        return script
    raise fabric_error(
        Errno.FI_EINVAL, f"expected gups, a file that ends in .py, or one of {', '.join(_TESTS)}; got {name!r}"
    )


def _read_options(text: str, words: list[str], known: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            raise fabric_error(Errno.FI_EINVAL, f"{text}: expected options of {', '.join(known)}, got {word!r}")
        try:
            options[name] = known[name](value)
        except ValueError:
            raise fabric_error(Errno.FI_EINVAL, f"{text}: expected a number for {name}, got {value!r}") from None
    return options
