"""Structures and flags as ``fi_tostr`` and ``fi_info -v`` print them, and versions of libfabric."""

import dataclasses
import enum
from typing import Any

__all__ = ["API_VERSION", "Printed", "flags_text", "structure_text", "version", "version_text"]

_INDENT = "    "
_VERSIONS = ("prov_version", "api_version")


def version(major: int, minor: int) -> int:
    """Return ``FI_VERSION(major, minor)``."""
    return major << 16 | minor


def version_text(number: int) -> str:
    """Format ``FI_MAJOR`` and ``FI_MINOR`` of a version, as "1.17"."""
    return f"{number >> 16}.{number & 0xFFFF}"


API_VERSION = version(1, 17)
"""The libfabric release that defines names, numbers and meanings."""


class Printed:
    """A structure whose text has a line per field, those of structures in it indented."""

    def __str__(self) -> str:
        return structure_text(self)


def structure_text(structure: Any) -> str:
    """Format a dataclass of this API."""
    return "\n".join(_lines(structure, ""))


def _lines(structure: Any, indent: str) -> list[str]:
    kind = type(structure).__name__
    lines = [f"{indent}fi_{kind.removesuffix('Attr').lower()}{'_attr' if kind.endswith('Attr') else ''}:"]
    for each in dataclasses.fields(structure):
        value = getattr(structure, each.name)
        if dataclasses.is_dataclass(value):
            lines += _lines(value, indent + _INDENT)
        else:
            lines.append(f"{indent}{_INDENT}{each.name}: {_field_text(each.name, value)}")
    return lines


def flags_text(value: enum.IntFlag) -> str:
    """List the names of flags; unknown ones as a number."""
    names = [str(flag.name) for flag in type(value) if flag and flag in value]
    unknown = int(value) & ~sum(type(value))
    if unknown:
        names.append(f"{unknown:#x}")
    return ", ".join(names) or value.name or ""


def _field_text(name: str, value: Any) -> str:
    """Format the value of a field that is no structure."""
    if value is None:
        return "(null)"
    if isinstance(value, enum.IntFlag):
        return f"[ {flags_text(value)} ]"
    if isinstance(value, enum.IntEnum):
        return value.name
    if isinstance(value, bytes):
        return value.hex() or "(null)"
    if name in _VERSIONS:
        return version_text(value)
    return str(value)
