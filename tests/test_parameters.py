"""No function of the driver has many parameters, but where somebody else says which: an API, or C.

A call passes one record (:mod:`amoeba.transport.operation`) down to the ring, not a list of numbers.
"""

import ast
import importlib
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
MOST = 8
DRIVER = ROOT / "driver" / "amoeba"
PUBLIC = ("amoeba", "amoeba.aio", "amoeba.fi", "amoeba.ucp", "amoeba.ucx")
TABLES = DRIVER / "libfabric" / "libfabric-1.17.toml"
"""The C functions of the provider; Python functions of the same names are behind them."""

Place = tuple[Path, int]
"""File and first line of a function."""


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a function has beside the object or class that it belongs to."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _long(path: Path, source: str) -> Iterator[tuple[Place, str]]:
    """Functions with more than MOST parameters; where a function begins, as Python sees it, decorators count."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _parameters(node) > MOST:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield (path, first), f"{path.relative_to(ROOT)}, line {node.lineno}: {node.name}"


def _places(thing: Any) -> Iterator[Place]:
    """Where a public function begins; of a public class its constructor and all public methods."""
    if isinstance(thing, type):
        for name, member in inspect.getmembers(thing):
            if not name.startswith("_") or name == "__init__":
                yield from () if isinstance(member, type) else _places(member)
    code = getattr(inspect.unwrap(thing) if isinstance(thing, FunctionType) else thing, "__code__", None)
    if code is not None:
        yield Path(code.co_filename), code.co_firstlineno


def _public() -> set[Place]:
    modules = [importlib.import_module(name) for name in PUBLIC]
    return {place for module in modules for name in module.__all__ for place in _places(getattr(module, name))}


def test_functions_of_the_driver_have_few_parameters():
    called_by_c = set(tomllib.loads(TABLES.read_text(encoding="utf-8"))["functions"])
    public, found = _public(), []
    for path in sorted(DRIVER.rglob("*.py")):
        callbacks = called_by_c if path.parent == TABLES.parent / "provider" else ()
        for place, what in _long(path, path.read_text(encoding="utf-8")):
            if place not in public and what.split()[-1] not in callbacks:
                found.append(what)
    assert not found, "more than eight parameters: make a record of them"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(a, b, c, d, e, f, g, h): ...", 0),
        ("def f(a, b, c, d, e, f, g, h, i): ...", 1),
        ("class C:\n    def f(self, a, b, c, d, /, e, f, *, g, h): ...", 0),
        ("class C:\n    async def f(self, a, b, c, d, /, e, f, *, g, h, i): ...", 1),
        ("def f():\n    def g(a, b, c, d, e, f, g, h, *, i=0): ...", 1),
    ],
)
def test_parameters_of_all_kinds_count(source, count):
    assert len(list(_long(ROOT / "module.py", source))) == count
