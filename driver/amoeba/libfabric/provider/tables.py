"""libfabric's tables of functions, from libfabric-1.17.toml: the parameters of each entry, and our code behind it.

Programs look at no entry before they call it, so there is one in every place.
"""

from string import Template
from typing import NamedTuple

from amoeba.embed.library import signature
from amoeba.libfabric.provider.layouts import API

__all__ = ["TABLES", "Entry", "Table", "table_sources"]


class Entry(NamedTuple):
    """One function of a table."""

    name: str
    returns: str
    parameters: str
    """In C."""
    call: str = ""
    """An expression, or statements with ``return``."""


class Table(NamedTuple):
    """``struct fi_ops...``, and the static object of that type which all objects share."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def variable(self) -> str:
        return self.name.removeprefix("fi_")


def _entry(name: str, declared: str, call: str = "") -> Entry:
    """Parse an entry of the file: ``int (struct fid *fid)`` and a call, which may name fragments."""
    declared, call = (Template(each).substitute(API["fragments"]) for each in (declared, call))
    return Entry(name, *signature(declared), call)


TABLES = tuple(
    Table(table, tuple(_entry(name, *parts) for name, parts in entries.items()))
    for table, entries in API["tables"].items()
)


def table_sources() -> str:
    """Write the tables in C: their types, their functions, and one object of each."""
    return "\n".join(_source(table) for table in TABLES)


def _source(table: Table) -> str:
    members = "".join(f" {each.returns} (*{each.name})({each.parameters});" for each in table.entries)
    functions = "\n".join(
        f"static {each.returns} {table.variable}_{each.name}({each.parameters}) {{ {_body(each)} }}"
        for each in table.entries
    )
    values = "".join(f", {table.variable}_{each.name}" for each in table.entries)
    return (
        f"struct {table.name} {{ size_t size;{members} }};\n{functions}\n"
        f"static struct {table.name} {table.variable} = {{ sizeof(struct {table.name}){values} }};"
    )


def _body(entry: Entry) -> str:
    if not entry.call:
        return "return -FI_ENOSYS;"
    return entry.call if "return" in entry.call else f"return {entry.call};"
