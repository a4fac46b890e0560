"""Public names of the driver's objects, and the objects that docstrings refer to."""

import ast
import functools
import importlib
import inspect
import types

__all__ = ["FACES", "full_name", "is_shown", "public_names", "sole_names"]

FACES = {
    "amoeba": "libfabric's objects",
    "amoeba.fi": "libfabric's calls, in C's order",
    "amoeba.aio": "libfabric's endpoints for asyncio",
    "amoeba.ucp": "UCX's calls",
    "amoeba.ucx": "UCX's endpoints as objects, under ucxx's names",
    "amoeba_tools.conformance": "conformance checks",
    "amoeba_tools.explore": "co-design: cycles and size of the NICs of a grid",
}
"""Names that programs import, with a description. All else of the driver is behind these names."""
MODEL = "amoeba_model."


@functools.cache
def public_names() -> dict[tuple[str, str], list[str]]:
    """Return the public names of each class and function, by its module and its name there: that name comes first."""
    found: dict[tuple[str, str], list[str]] = {}
    for face in FACES:
        module = importlib.import_module(face)
        for name in module.__all__:
            value = getattr(module, name)
            if hasattr(value, "__qualname__"):
                found.setdefault((value.__module__, value.__qualname__), []).append(f"{face}.{name}")
    for (_, own), names in found.items():
        names.sort(key=lambda name: name.rpartition(".")[2] != own)
    return found


@functools.cache
def sole_names() -> dict[str, list[str]]:
    """Return public names by their last part, where only one object has it."""
    found: dict[str, list[str]] = {}
    for names in public_names().values():
        found.setdefault(names[0].rpartition(".")[2], []).append(names[0])
    return {last: names for last, names in found.items() if len(names) == 1}


def is_shown(value: type) -> bool:
    """Return whether the site, or the documentation of Python and NumPy, has a class."""
    if not value.__module__.startswith(("amoeba.", "amoeba_tools.")):
        return True
    return (value.__module__, value.__qualname__) in public_names()


def full_name(module: str, name: str, page: str) -> str | None:
    """Return the public name of a class or function, or of a member, that a module calls by a shorter name.

    Of several public names, the one in the module that ``page`` describes is taken. None for other objects.
    """
    first, dot, rest = name.partition(".")
    value = _bound(module, first)
    if not isinstance(value, type | types.FunctionType):
        return None
    own = f"{value.__module__}.{value.__qualname__}"
    names = public_names().get((value.__module__, value.__qualname__), [own] if own.startswith(MODEL) else [])
    beside = [each for each in names if page.startswith(each.rpartition(".")[0] + ".")]
    return f"{(beside or names)[0]}{dot}{rest}" if names else None


def _bound(module: str, name: str) -> object:
    """Return the object that a name has in a module, or has for type checkers there."""
    try:
        names = vars(importlib.import_module(module))
    except ImportError:
        return None
    if name not in names and (home := _imported(module).get(name)):
        names = vars(importlib.import_module(home))
    return names.get(name)


@functools.cache
def _imported(module: str) -> dict[str, str]:
    """Return the modules from which a module imports names, by the names."""
    try:
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    except (OSError, TypeError):
        return {}
    lines = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module and not node.level)
    return {alias.name: node.module or "" for node in lines for alias in node.names if not alias.asname}
