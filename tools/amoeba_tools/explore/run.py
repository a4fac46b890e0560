"""An exploration: what is not known yet is measured, and everything becomes a table."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.devices import DEVICE_KINDS
from amoeba_model.parameters import NicParameters
from amoeba_model.settings import shown_setting

from amoeba_tools.explore.grid import DesignPoint, grid
from amoeba_tools.explore.measure import AreaTask, CyclesTask, Task, measure, own_content
from amoeba_tools.explore.store import Store
from amoeba_tools.explore.table import Exploration
from amoeba_tools.explore.workloads import Workload, read_workload
from amoeba_tools.spread import Ending, Engine, Job, open_engine, spread

__all__ = ["AREAS", "FAMILIES", "Progress", "explore"]

AREAS = (
    "FastLanes", "ArithmeticPipeline", "MemoryEngine", "Initiator", "Target", "FrameTransmitter", "FrameReceiver",
    "RegisterBank", "Core",
)  # fmt: skip
"""Blocks of the hardware that can be counted."""
FAMILIES = ("ecp5", "ultrascale")


@dataclass(frozen=True)
class Progress:
    """How far an exploration is."""

    done: int
    """Results that there are; those that were known before count."""
    total: int
    known: int
    """Results that were known before."""
    last: str = ""
    """Name of the last measurement."""


def explore(
    axes: Mapping[str, Sequence[Any]],
    workloads: Sequence[str | Workload] = (),
    *,
    base: NicParameters | None = None,
    device: str = "rtl",
    area: str | None = None,
    family: str = "ecp5",
    store: Store | None = None,
    engine: Engine | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Exploration:
    """Measure every workload on every NIC of a grid, and count the hardware of each.

    Parameters
    ----------
    axes : mapping
        Values by name: fields of NicParameters, ``host_latency`` and ``link_latency`` (:data:`AXES`).
    workloads : sequence of str or Workload
        Workloads as for :func:`read_workload`; empty to measure only sizes.
    base : NicParameters, optional
        Parameters that do not vary.
    device : str
        ``rtl``: cycles of the hardware; ``model``: the model's estimate, to try a grid in seconds.
    area : str, optional
        Block that Yosys measures: FastLanes, ArithmeticPipeline, MemoryEngine, Initiator, Target, FrameTransmitter,
        FrameReceiver, RegisterBank or Core. A whole NIC with all operations takes half an hour.
    family : str
        ``ecp5`` or ``ultrascale``.
    store : Store, optional
        Store that keeps the results, and provides earlier ones.
    engine : Engine, optional
        Engine of :func:`amoeba_tools.spread.open_engine`; this process by default.
    progress : callable, optional
        Called at the begin, and with every result.

    Returns
    -------
    Exploration
        A row for each NIC and workload. ``error`` holds the reason of a failure; the next call retries failed rows.

    Raises FI_EINVAL for invalid arguments, FI_ENOSYS if the simulator is needed and not installed, and OSError if the
    store cannot be written to. KeyboardInterrupt loses no result: the same call continues from there.
    """
    points = grid(axes, base)
    programs = [read_workload(each) if isinstance(each, str) else each for each in workloads]
    _check(device, area, family, programs)
    cycles = {
        (point, number): CyclesTask(device, point, program, own_content(device))
        for point in points
        for number, program in enumerate(programs)
    }
    areas = {} if area is None else {
        point.parameters: AreaTask(area, family, point.parameters, own_content("area")) for point in points
    }  # fmt: skip
    names = {task.key: f"{programs[number].name}, {_place(axes, point)}" for (point, number), task in cycles.items()}
    names |= {areas[point.parameters].key: f"size of {area}, {_place(axes, point)}" for point in points if areas}
    tasks: list[Task] = [*cycles.values(), *areas.values()]
    found = _results(tasks, names, store or Store(), engine, progress)
    rows = []
    for point in points:
        counted = found[areas[point.parameters].key] if areas else None
        for number in range(len(programs)) or range(-1, 0):
            measured = found[cycles[point, number].key] if programs else None
            name = programs[number].name if programs else None
            rows.append(_row(axes, point, name, measured, area, counted))
    return Exploration(tuple(rows), tuple(axes))


def _check(device: str, area: str | None, family: str, programs: Sequence[Workload]) -> None:
    for name, given, known in (("device", device, DEVICE_KINDS), ("area", area, AREAS), ("family", family, FAMILIES)):
        if given is not None and given not in known:
            raise fabric_error(Errno.FI_EINVAL, f"{name}: expected one of {', '.join(known)}, got {given!r}")
    if not programs and area is None:
        raise fabric_error(Errno.FI_EINVAL, "expected a workload, a block to count, or both; got neither")
    for name, times in Counter(program.name for program in programs).items():
        if times > 1:
            raise fabric_error(Errno.FI_EINVAL, f"expected different workloads, got {name} {times} times")


_Result = tuple[dict[str, Any], str]
"""The measured columns, and the error, if any."""


def _results(
    tasks: Sequence[Task],
    names: Mapping[str, str],
    store: Store,
    engine: Engine | None,
    progress: Callable[[Progress], object] | None,
) -> dict[str, _Result]:
    """Return the result of every task, by the task's key; ``names`` has the same keys."""
    found: dict[str, _Result] = {}
    missing: dict[str, Task] = {}
    for task in tasks:
        if (kept := store.get(task.key)) is not None:
            found[task.key] = kept, ""
        else:
            missing[task.key] = task
    known, total = len(found), len(found) + len(missing)
    waiting = _first_of_each(list(missing.values()))

    def take(ending: Ending) -> None:
        task = waiting[ending.index]
        if not ending.failure:
            store.put(task.key, repr(task), ending.result)
        found[task.key] = ending.result or {}, ending.failure
        if progress is not None:
            progress(Progress(len(found), total, known, ending.name))

    if progress is not None:
        progress(Progress(known, total, known))
    jobs = [Job(names[task.key], task) for task in waiting]
    if engine is not None:
        spread(measure, jobs, engine, take)
    else:
        with open_engine() as here:
            spread(measure, jobs, here, take)
    return found


def _first_of_each(tasks: list[Task]) -> list[Task]:
    """Tasks so that those with a build of their own come first: workers build side by side, and wait for none."""
    seen: Counter[str] = Counter()
    rank: dict[str, int] = {}
    for task in tasks:
        rank[task.key] = seen[task.needs]
        seen[task.needs] += 1
    return sorted(tasks, key=lambda task: rank[task.key])


def _place(axes: Iterable[str], point: DesignPoint) -> str:
    return ", ".join(f"{axis} {shown_setting(axis, point.value(axis))}" for axis in axes)


def _row(
    axes: Mapping[str, Sequence[Any]],
    point: DesignPoint,
    workload: str | None,
    measured: _Result | None,
    area: str | None,
    counted: _Result | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {axis: shown_setting(axis, point.value(axis)) for axis in axes}
    failures = []
    if measured is not None:
        result, failure = measured
        failures.append(failure)
        operations, cycles = result.get("operations"), result.get("cycles")
        each = None if operations is None or cycles is None else cycles / operations
        row |= {
            "workload": workload,
            "operations": operations,
            "cycles": cycles,
            "cycles_per_operation": each,
            "operations_per_second": None if not each else point.parameters.clock_hz / each,
        }
    if counted is not None:
        result, failure = counted
        failures.append(failure)
        row |= {"block": area} | {name: result.get(name) for name in ("luts", "registers", "dsps", "block_rams")}
    return row | {"error": "; ".join(filter(None, failures)) or None}
