"""Pages of the API for Sphinx: tables of each module's names, and a page for each class."""

import functools
import importlib
import inspect
import pkgutil
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic

from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))

from names import FACES, is_shown  # noqa: E402  Sphinx reads its extensions there

__all__ = ["FACES", "contents", "write_api"]

_KINDS = ("Classes", "Records", "Functions", "Enumerations", "Exceptions")
_LONG = 30
"""Functions that one page holds; those of a module with more are on pages by the file that has them."""


def write_api(folder: Path) -> None:
    """Write the pages into a new folder."""
    folder.mkdir()
    for name, title in FACES.items():
        for file, text in _face(name, title).items():
            (folder / f"{file}.md").write_text(text)
    modules = _model_modules()
    for name in modules:
        (folder / f"{name}.md").write_text(_module(name))
    heading = "# API\n\nThe modules that programs import, and the model's modules.\n"
    trees = [contents(list(FACES), "Driver and tools"), contents(modules, "Model, the specification")]
    (folder / "index.md").write_text("\n".join([heading, *trees]))


def contents(pages: Iterable[str], title: str = "", *, hidden: bool = False) -> str:
    """Make a list of pages, which are thereby part of the site; ``hidden``: in the sidebar alone."""
    options = [f":caption: {title}"] * bool(title) + [":maxdepth: 1", *([":hidden:"] if hidden else [])]
    return "\n".join(["```{toctree}", *options, "", *pages, "```", ""])


def _face(name: str, title: str) -> dict[str, str]:
    """Return the pages of a public module: one with tables, and some with functions if there are many."""
    sorts = _sorted_names(name)
    lines = [f"# {name}", "", f"{title[:1].upper()}{title[1:]}.", ""]
    lines += _rst([f".. automodule:: {name}", "   :no-members:"])
    pages: dict[str, str] = {}
    for kind in _KINDS:
        members = sorts[kind]
        if not members:
            continue
        lines += [f"## {kind}", ""]
        if kind in ("Enumerations", "Exceptions"):
            page = f"{name}.{kind.lower()}"
            lines += _rst([".. autosummary::", "   :nosignatures:", "", *(f"   {member}" for member in members)])
            classes = (f".. autoclass:: {each}\n   :members:\n" for each in members)
            described = _rst([f".. currentmodule:: {name}", *classes])
            pages[page] = "\n".join([f"# {name}: {kind.lower()}", "", *described])
            lines += [contents([page], hidden=True), ""]
        elif kind != "Functions":
            table = [".. autosummary::", "   :toctree: .", "   :nosignatures:", ""]
            lines += _rst([*table, *(f"   {member}" for member in members)])
            pages |= {f"{name}.{member}": _class(name, member) for member in members}
        elif len(members) <= _LONG:
            lines += _rst([f".. autofunction:: {name}.{member}" for member in members])
        else:
            groups = _groups(name, members)
            lines += [contents((f"{name}.{group}" for group in groups), hidden=True), ""]
            for group, (heading, functions) in groups.items():
                table = [".. autosummary::", "   :nosignatures:", ""]
                lines += [f"### {heading}", "", *_rst([*table, *(f"   {each}" for each in functions)])]
                described = _rst([f".. currentmodule:: {name}", *(f".. autofunction:: {each}" for each in functions)])
                pages[f"{name}.{group}"] = "\n".join([f"# {name}: {heading}", "", *described])
    lines += _values("Other names and types", name, sorts["Others"])
    return {name: "\n".join(lines), **pages}


def _class(module: str, name: str) -> str:
    """Return the page of a class. Members of internal bases are the class's own; other bases have their own pages."""
    value = getattr(importlib.import_module(module), name)
    shown = [base for base in value.__mro__[1:] if is_shown(base)]
    lines = [f".. currentmodule:: {module}", f".. autoclass:: {name}\n   :members:"]
    if len(shown) < len(value.__mro__) - 1:
        lines[-1] += f"\n   :inherited-members: {', '.join(base.__name__ for base in shown)}"
    if set(shown) - {object, Generic}:
        lines[-1] += "\n   :show-inheritance:"
    return "\n".join([f"# {module}.{name}", "", *_rst([*lines, ""])])


def _module(name: str) -> str:
    """Return the page of a module of the model. The names of a package are on the pages of its modules."""
    lines = [f"# {name}", "", *_rst([f".. automodule:: {name}", "   :no-members:"])]
    if hasattr(importlib.import_module(name), "__path__"):
        return "\n".join(lines)
    sorts = _sorted_names(name)
    sorts["Classes"] += sorts["Records"] + sorts["Enumerations"]
    for kind, directive in (("Classes", "autoclass"), ("Functions", "autofunction"), ("Exceptions", "autoexception")):
        if sorts[kind]:
            members = "" if kind == "Functions" else "\n   :members:\n"
            lines += [f"## {kind}", "", *_rst([f".. {directive}:: {name}.{each}{members}" for each in sorts[kind]])]
    return "\n".join([*lines, *_values("Constants and types", name, sorts["Others"])])


def _sorted_names(name: str) -> dict[str, list[str]]:
    """Sort the public names of a module by kind. Second names of an object are among the others."""
    module = importlib.import_module(name)
    sorts: dict[str, list[str]] = {kind: [] for kind in (*_KINDS, "Others")}
    names = set(_public(module))
    for member in sorted(names, key=str.lower):
        value = getattr(module, member)
        is_alias = isinstance(value, types.GenericAlias) or getattr(value, "__name__", member) in names - {member}
        sorts["Others" if is_alias or _is_elsewhere(name, value) else _kind(value)].append(member)
    return sorts


def _kind(value: object) -> str:
    if isinstance(value, type):
        if issubclass(value, BaseException):
            return "Exceptions"
        if hasattr(value, "__members__"):
            return "Enumerations"
        return "Records" if hasattr(value, "__dataclass_fields__") or issubclass(value, tuple) else "Classes"
    return "Functions" if inspect.isroutine(value) else "Others"


def _is_elsewhere(name: str, value: object) -> bool:
    """Return whether an earlier public module has the same class, and so its page."""
    if not isinstance(value, type) or name not in FACES:
        return False
    earlier = map(importlib.import_module, list(FACES)[: list(FACES).index(name)])
    return any(value is getattr(module, each) for module in earlier for each in _public(module))


def _groups(name: str, functions: list[str]) -> dict[str, tuple[str, list[str]]]:
    """Group functions by the file that has them: for each its name, a heading and its functions."""
    module = importlib.import_module(name)
    found: dict[str, list[str]] = {}
    for each in functions:
        found.setdefault(getattr(module, each).__module__, []).append(each)
    headings = {home: (importlib.import_module(home).__doc__ or home).split("\n")[0] for home in found}
    return {
        home.rpartition(".")[2]: (headings[home].split(". ")[0].split(": ")[0].rstrip("."), members)
        for home, members in sorted(found.items(), key=lambda each: headings[each[0]].lower())
    }


def _values(title: str, name: str, members: list[str]) -> list[str]:
    module = importlib.import_module(name)
    entries = [_value(name, member, getattr(module, member)) for member in members]
    return [f"## {title}", "", *_rst(entries)] if entries else []


def _value(module: str, name: str, value: object) -> str:
    """Describe a name with its value and, where its own module has it, its documentation."""
    text = value.__name__ if isinstance(value, type) and not isinstance(value, types.GenericAlias) else repr(value)
    is_short = "\n" not in text and len(text) < 80 and " at 0x" not in text
    lines = [f".. py:data:: {name}", f"   :module: {module}", *([f"   :value: {text}"] if is_short else []), ""]
    return "\n".join([*lines, *(f"   {line}" for line in _documented(module).get(("", name), ())), ""])


@functools.cache
def _documented(module: str) -> dict[tuple[str, str], list[str]]:
    """Find the docstrings below constants in the module's source."""
    return ModuleAnalyzer.for_module(module).find_attr_docs()


def _rst(lines: list[str]) -> list[str]:
    """Return directives for a page of Markdown."""
    return ["```{eval-rst}", *("\n" * line.startswith("..") + line for line in lines), "```", ""]


def _public(module: types.ModuleType) -> list[Any]:
    return list(getattr(module, "__all__", ()))


def _model_modules() -> list[str]:
    """List the modules of the model with public names."""
    package = importlib.import_module("amoeba_model")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "amoeba_model.")]
    return sorted(name for name in names if not name.endswith("__main__") and _public(importlib.import_module(name)))
