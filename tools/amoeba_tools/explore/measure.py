"""One result of an exploration: what it depends on, and how it is come by. Runs on any worker."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.devices import simulates_hardware
from amoeba_model.extras import installation
from amoeba_model.parameters import NicParameters

from amoeba_tools.explore.grid import DesignPoint
from amoeba_tools.explore.workloads import Workload

__all__ = ["AreaTask", "CyclesTask", "Task", "measure", "own_content"]

_MISSING = f"sizes and RTL need the simulator: {installation('sim')}"


@dataclass(frozen=True)
class CyclesTask:
    """A workload on one NIC of the grid."""

    device: str
    point: DesignPoint
    workload: Workload
    content: str
    """Digest of all programs that the result depends on: :func:`own_content`."""

    @property
    def key(self) -> str:
        """Key of the result: equal keys mean equal results."""
        return _digest([repr(self)])

    @property
    def needs(self) -> str:
        """Key of the build that the task needs: of several tasks with the same key, the first on a machine builds."""
        return repr(self.point.parameters)

    def run(self) -> dict[str, Any]:
        """Operations and cycles."""
        return dataclasses.asdict(self.workload.run(self.device, self.point))


@dataclass(frozen=True)
class AreaTask:
    """A block of the hardware at some parameters, counted by Yosys."""

    block: str
    family: str
    parameters: NicParameters
    content: str

    device: ClassVar[str] = "area"

    @property
    def key(self) -> str:
        return _digest([repr(self)])

    @property
    def needs(self) -> str:
        return self.key

    def run(self) -> dict[str, Any]:
        """LUTs, registers, DSPs and block RAMs: :class:`amoeba_sim.area.Area`."""
        try:
            from amoeba_sim.area import count_area
        except ImportError as error:
            raise fabric_error(Errno.FI_ENOSYS, f"{_MISSING} ({error})") from error
        return dataclasses.asdict(count_area(self.block, self.family, self.parameters))


Task = CyclesTask | AreaTask


def measure(task: Task) -> dict[str, Any]:
    """Return the result of a task.

    Raises FI_EINVAL if the local programs differ from those of the task's sender, and any error of the task.
    """
    if own_content(task.device) != task.content:
        raise fabric_error(
            Errno.FI_EINVAL, "the hardware, model or driver of this worker differ from those where it was asked for"
        )
    return task.run()


@functools.cache
def own_content(device: str) -> str:
    """Digest of what results depend on: of a kind of device, or of the size of hardware (``area``).

    Raises FI_ENOSYS where the simulator is needed and not installed.
    """
    if device != AreaTask.device and not simulates_hardware(device):
        return _digest(_files("amoeba", "amoeba_model"))
    try:
        from amoeba_sim.content import simulation_content, synthesis_content
    except ImportError as error:
        raise fabric_error(Errno.FI_ENOSYS, f"{_MISSING} ({error})") from error
    if device == AreaTask.device:
        return synthesis_content()  # type: ignore[no-any-return]
    return _digest([*_files("amoeba", "amoeba_model"), simulation_content()])


def _files(*packages: str) -> Iterable[str | bytes]:
    """Names and contents of all files of packages."""
    for package in packages:
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        folder = Path(found.origin).parent
        for path in sorted(folder.rglob("*.py")):
            yield str(path.relative_to(folder))
            yield path.read_bytes()


def _digest(parts: Iterable[str | bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        total.update(len(encoded).to_bytes(8, "little"))
        total.update(encoded)
    return total.hexdigest()[:32]
