"""The axes of an exploration, and the NICs at its points."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.devices import default_parameters
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.settings import read_setting, shown_setting

__all__ = ["AXES", "HOST_LATENCY", "DesignPoint", "grid", "read_axis"]

HOST_LATENCY = 250
"""Default cycles until host memory answers, as in the RTL device."""
_LATENCIES = ("host_latency", "link_latency")
AXES = (*(each.name for each in dataclasses.fields(NicParameters)), *_LATENCIES)
"""Axes: the fields of NicParameters; ``host_latency``, cycles until host memory answers (RTL only); and
``link_latency``, cycles from NIC to NIC.
"""


@dataclass(frozen=True)
class DesignPoint:
    """One NIC, and what surrounds it."""

    parameters: NicParameters = field(default_factory=NicParameters)
    host_latency: int = HOST_LATENCY
    """Cycles from a read of host memory to its first data, and from a write to its response."""
    link_latency: int = Network.DEFAULT_LATENCY
    """Cycles from one NIC to the other."""

    def value(self, axis: str) -> Any:
        """Return the coordinate of an axis."""
        return getattr(self if axis in _LATENCIES else self.parameters, axis)


def grid(axes: Mapping[str, Sequence[Any]], base: NicParameters | None = None) -> list[DesignPoint]:
    """Return all combinations of these values, in the given order; the last axis varies first.

    ``base`` has the fixed parameters; the default build is the default. Raises FI_EINVAL for an axis outside
    :data:`AXES`, without values or with a duplicate, and for a value that a NIC cannot have.
    """
    for name, values in axes.items():
        if name not in AXES:
            raise _refused(f"expected an axis of {', '.join(AXES)}, got {name!r}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise _refused(f"{name}: expected a sequence of values, got {values!r}")
        try:
            different = len(set(values))
        except TypeError:
            raise _refused(f"{name}: expected numbers, or tuples of members, got {values!r}") from None
        if different < len(values):
            given = ", ".join(str(shown_setting(name, value)) for value in values)
            raise _refused(f"{name}: expected different values, got {given}")
        if name in _LATENCIES and not all(type(value) is int and value >= 1 for value in values):
            raise _refused(f"{name}: expected cycles, at least one, got {', '.join(map(str, values))}")
    points = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        latencies = {name: chosen.pop(name) for name in _LATENCIES if name in chosen}
        try:
            parameters = dataclasses.replace(base or default_parameters(), **chosen)
        except (ValueError, TypeError) as error:
            raise _refused(str(error)) from None
        points.append(DesignPoint(parameters, **latencies))
    return points


def read_axis(text: str) -> tuple[str, tuple[Any, ...]]:
    """Read an axis and its values, such as ``lines=64,256`` or ``single_cycle_products=true,false``.

    Datatypes and operations are joined by ``+``: ``ops=SUM+BXOR,all``; ``integers`` and ``floats`` are some of the
    datatypes. Raises FI_EINVAL for other texts.
    """
    name, equals, values = text.partition("=")
    if not equals or name not in AXES:
        raise _refused(f"expected AXIS=VALUE,VALUE, with an axis of {', '.join(AXES)}, got {text!r}")
    try:
        return name, tuple(read_setting(name, value.strip()) for value in values.split(","))
    except ValueError as error:
        raise _refused(str(error)) from None


def _refused(message: str) -> Exception:
    return fabric_error(Errno.FI_EINVAL, message)
