"""The structures that UCX's programs and its UCP library hand each other, in C.

ucp-1.12.toml declares them for compiler and cffi, so that no header of UCX is needed; a test compares them with
Debian's. Later releases of 1.x only append fields, and a mask says which of them count.
"""

import tomllib
from pathlib import Path
from typing import Any

__all__ = ["API", "LATER_TYPES", "TYPES"]


def _declaration(name: str, row: dict[str, Any]) -> str:
    """Declare a type in C: as it is written, or as the structure of its fields."""
    if "fields" not in row:
        return str(row["c"]).strip()
    members = "".join(f"{_member(field, each['c'])}; " for field, each in row["fields"].items())
    return f"typedef struct {{ {members}}} {row.get('alias', name)};"


def _member(name: str, declared: str) -> str:
    """``char name[32]`` of ``char[32]``."""
    kind, bracket, length = declared.partition("[")
    return f"{kind} {name}{bracket}{length}"


API: dict[str, Any] = tomllib.loads(Path(__file__).parents[1].joinpath("ucp-1.12.toml").read_text("utf-8"))
"""The contents of the file."""

_DECLARED = {name: _declaration(name, row) for name, row in API["types"].items()}
LATER_TYPES = _DECLARED.pop("later")
"""Of functions that 1.12 does not have."""
TYPES = "\n".join([*_DECLARED.values(), ""])
