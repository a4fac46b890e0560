"""libfabric's structures of attributes in Python: frozen dataclasses whose fields all have a default."""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from text import docstring, listed

__all__ = ["attributes"]

Table = dict[str, Any]
_OBJECTS = "amoeba.libfabric.objects"
_DEFAULTS = {"int": "0", "bytes": 'b""', "Any": "None"}
"""By the type in Python, which otherwise takes None, too, or is one of the API's own."""


def attributes(api: Table, doc: str, names: Iterable[str]) -> str:
    """Write a module with these structures of an API."""
    module = _Module(api)
    classes = "\n".join(line for name in names for line in module.structure(api["structures"][name]))
    defined = [api["structures"][name]["class"] for name in names]
    return "\n".join([docstring(doc), module.imports(classes), listed(defined), classes, ""])


class _Module:
    def __init__(self, api: Table) -> None:
        self._enumerations: Table = api["enumerations"]
        self._classes = {each["class"] for each in api["structures"].values()}

    def imports(self, classes: str) -> str:
        """Write import statements for the names that these classes use; ruff sorts them."""
        used = {node.id for node in ast.walk(ast.parse(classes)) if isinstance(node, ast.Name)}
        sources = {
            "dataclasses": ["dataclass", "field"],
            "typing": ["Any"],
            f"{_OBJECTS}.constants": list(self._enumerations),
            f"{_OBJECTS}.printing": ["Printed"],
            f"{_OBJECTS}.queues.wait_set": ["WaitSet"],
        }
        return "\n".join(
            f"from {source} import {', '.join(taken)}"
            for source, names in sources.items()
            if (taken := [name for name in names if name in used])
        )

    def structure(self, structure: Table) -> Iterator[str]:
        """Write a class, line by line."""
        yield "@dataclass(frozen=True)"
        yield f"class {structure['class']}" + (f"({structure['base']}):" if "base" in structure else ":")
        yield docstring(structure["doc"], "    ") + "\n"
        held = [name for name, row in structure["fields"].items() if "holds" in row]
        for name in structure.get("order", held):
            row = structure["fields"][name]
            yield f"    {name}: {row['holds']} = {self._default(row)}"
            if "doc" in row:
                yield docstring(row["doc"], "    ")

    def _default(self, row: Table) -> str:
        """Write the default of a field: that of the row, else zero, as in a zeroed structure of C."""
        kind = row["holds"]
        if kind in self._classes:
            return f"field(default_factory={kind})"
        if kind not in self._enumerations:
            return _DEFAULTS.get(kind, "None")
        if "bits" in self._enumerations[kind]:
            return f"{kind}(0)  # noqa: RUF009  members do not change"
        return f"{kind}.{row.get('default') or _zero(self._enumerations[kind]['values'])}"


def _zero(values: Table) -> str:
    """Find the member that is 0."""
    return next(name for name, row in values.items() if (row["value"] if isinstance(row, dict) else row) == 0)
