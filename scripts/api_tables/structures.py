"""UCP's structures in Python: dataclasses whose fields say in their annotations with which bit they count."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from text import docstring, listed

__all__ = ["structures"]

Table = dict[str, Any]
Held = tuple[str, str]
"""The type in Python of what a field holds, and its check."""
_FOLDER = Path(__file__).resolve().parents[2] / "driver" / "amoeba" / "openucx" / "ucp"
_PACKAGE = "amoeba.openucx.ucp"
_BITS = {"uint32_t": 32, "unsigned": 32, "uint64_t": 64}

_BY_C: dict[str, Held] = {
    "int": ("int", "INT"),
    "unsigned": ("int", "UINT32"),
    "uint32_t": ("int", "UINT32"),
    "uint64_t": ("int", "UINT64"),
    "uintptr_t": ("int", "SIZE"),
    "size_t": ("int", "SIZE"),
    "double": ("float", "real"),
    "char *": ("str", "NAME"),
    "const char *": ("str", "NAME"),
    "char[32]": ("str", "NAME"),
    "uint8_t[16]": ("bytes", "anything"),
    "ucs_status_t": ("UcsStatus", "one_of(UcsStatus)"),
}
"""By the type in C."""
_BY_NAME: dict[str, Held] = {
    "any": ("Any", "anything"),
    "callback": ("Any", "callback"),
    "buffer": ("Buffer", "anything"),
    "memory": ("Buffer | int", "memory_address"),
    "ucp_address_t": ("ucp_address_t", "packed_address"),
    "ucs_cpu_set_t": ("ucs_cpu_set_t", "cpu_set"),
    "ucs_sock_addr_t": ("ucs_sock_addr_t", "socket_address"),
}
"""By ``holds``, or else by the type in C."""


def structures(api: Table) -> str:
    """Write a module with all structures of an API that have fields."""
    declared = {name: each for name, each in api["types"].items() if "fields" in each}
    aliases = {each["alias"]: name for name, each in declared.items() if "alias" in each}
    module = _Module(api["enumerations"], declared, aliases)
    classes = "\n".join(line for name, each in declared.items() for line in module.structure(name, each))
    parts = [docstring(api["doc"]["structures"]), module.imports(classes), listed([*declared, *aliases]), classes, ""]
    return "\n".join(parts)


class _Module:
    def __init__(self, enumerations: Table, structures: Table, aliases: dict[str, str]) -> None:
        self._enumerations = enumerations
        self._structures = structures
        self._aliases = aliases

    def imports(self, classes: str) -> str:
        """Write import statements for the names that these classes use; ruff sorts them."""
        used = {node.id for node in ast.walk(ast.parse(classes)) if isinstance(node, ast.Name)}
        sources = {
            "dataclasses": ["dataclass"],
            "typing": ["Annotated", "Any", "TypeAlias"],
            "amoeba.core.buffers": ["Buffer"],
            f"{_PACKAGE}.constants": list(self._enumerations),
            **{f"{_PACKAGE}.{name}": _offered(name) for name in ("field_masks", "handles", "kinds")},
        }
        return "\n".join(
            f"from {source} import {', '.join(taken)}"
            for source, names in sources.items()
            if (taken := [name for name in names if name in used])
        )

    def structure(self, name: str, structure: Table) -> Iterator[str]:
        """Write a class and its alias, line by line."""
        masked = "base" in structure
        yield "@dataclass(kw_only=True)" if masked else "@dataclass"
        yield f"class {name}({structure['base']}):" if masked else f"class {name}:"
        yield docstring(structure["doc"], "    ") + "\n"
        for field, row in structure["fields"].items():
            yield f"    {field}: {self._counted(structure['mask'], row) if masked else self._plain(row)}"
            if "doc" in row:
                yield docstring(row["doc"], "    ")
        if "alias" in structure:
            yield f"{structure['alias']}: TypeAlias = {name}"

    def _counted(self, mask: str, row: Table) -> str:
        """Write type and default of a field that counts with its bit; the mask itself has no bit."""
        if "bit" not in row:
            return "int | None = None"
        kind, check = self._held(row["c"], row.get("holds", ""))
        return f"Annotated[{_or_none(kind)}, Counted({mask}.{row['bit']}, {row.get('check', check)})] = None"

    def _plain(self, row: Table) -> str:
        """Write type and default of a field that always counts."""
        kind, _ = self._held(row["c"], row.get("holds", ""))
        if row.get("required"):
            return kind
        if "default" not in row:
            return f"{_or_none(kind)} = None"
        if kind in self._enumerations:
            return f"{kind} = {kind}({row['default']})  # noqa: RUF009  members do not change"
        return f"{kind} = {row['default']}"

    def _held(self, c: str, holds: str) -> Held:
        """Find type and check of a field by its type in C and by ``holds``, which may be empty."""
        name = holds or c
        if name in _BY_NAME:
            return _BY_NAME[name]
        if name in self._enumerations:
            return name, self._enumerated(name, c)
        if name in self._aliases:
            return name, f"optional(instance_of({self._aliases[name]}))"
        if name in self._structures:
            return name, f"handler({name})"
        if name.endswith("_h"):
            return name, f"instance_of({name})"
        if name.endswith(("_callback_t", "_cb_t")):
            return name, "callback"
        kind, check = _BY_C[c]
        return holds or kind, check

    def _enumerated(self, name: str, c: str) -> str:
        enumeration = self._enumerations[name]
        if "bits" in enumeration:
            return f"bits_of({name}, {_BITS[c]})"
        return f"one_of({name}, {name}.{enumeration['end']})" if "end" in enumeration else f"one_of({name})"


def _or_none(kind: str) -> str:
    return kind if kind == "Any" else f"{kind} | None"


def _offered(module: str) -> list[str]:
    """Return the names in ``__all__`` of a module of the driver."""
    for node in ast.parse((_FOLDER / f"{module}.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"{module}.py: expected __all__")
