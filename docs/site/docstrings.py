"""Sphinx extension: class pages show an example, and references to internal names lead to public names.

An example is a program in ``examples/``. Its last comment, after a line ``# Prints:``, is its output.
"""

import ast
import functools
import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FACES", "Example", "example_of", "examples", "public_names", "setup"]

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
EXAMPLES = Path(__file__).parent / "examples"
_OUTPUT = "\n# Prints:\n"
_DOTTED = re.compile(r"~?\b([a-z_]\w*(?:\.\w+)*)\.(\w+)")


_PRIVATE = re.compile(r"(?<![\w.])_[A-Z][A-Z0-9_]+\b")
_DTYPE_LIKE = re.compile(
    r"~?(?:typing\.)?(?:type|Type)\[[^|]*\] \|(?: [^|]*_Has\w+\[[^|]*\] \|| [^|]*dtype\[[^|]*\] \|)+.*?\| str\b"
)
"""NumPy's ``DTypeLike``, written out."""


class Example(NamedTuple):
    """A program and its output."""

    path: Path
    text: str
    output: str
    names: frozenset[str]
    """Full public names that the program uses."""


@functools.cache
def examples() -> list[Example]:
    """Return all examples; those that use fewest public names come first."""
    found = []
    for path in sorted(EXAMPLES.glob("*.py")):
        text, _, output = path.read_text().partition(_OUTPUT)
        printed = "\n".join(line.removeprefix("#").removeprefix(" ") for line in output.splitlines())
        found.append(Example(path, text.rstrip() + "\n", printed, frozenset(_names_in(text))))
    return sorted(found, key=lambda each: len(each.names))


def _names_in(text: str) -> set[str]:
    """Return the public names that a program imports, or reaches as attributes of modules that it imports."""
    modules: dict[str, str] = {}
    found = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in FACES:
                    modules[alias.asname or alias.name] = name
                elif node.module in FACES:
                    found.add(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (module := modules.get(ast.unparse(node.value))) in FACES:
            found.add(f"{module}.{node.attr}")
    return found


def example_of(name: str, value: type) -> Example | None:
    """Return the smallest example that uses a class, or that is made for it or for the nearest of its bases.

    A file's name is the class's in small letters, or that of its face and the class, such as ``ucx.endpoint.py``.
    """
    face, _, own = name.rpartition(".")
    for stem in (f"{face.rpartition('.')[2]}.{own.lower()}", own.lower()):
        made = [each for each in examples() if each.path.stem == stem and name in each.names]
        if made:
            return made[0]
    for base in value.__mro__:
        names = public_names().get((base.__module__, base.__qualname__), ())
        for each in examples():
            if each.names.intersection(names):
                return each
    return None


@functools.cache
def public_names() -> dict[tuple[str, str], list[str]]:
    """Return the public names of each class and function, by its module and its name there."""
    found: dict[tuple[str, str], list[str]] = {}
    for face in FACES:
        module = importlib.import_module(face)
        for name in module.__all__:
            value = getattr(module, name)
            if hasattr(value, "__qualname__"):
                found.setdefault((value.__module__, value.__qualname__), []).append(f"{face}.{name}")
    return found


def add_example(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Append the example of a class to its docstring."""
    if what not in ("class", "exception") or name.rpartition(".")[0] not in FACES:
        return
    example = example_of(name, value)
    if example is None:
        return
    lines += ["", ".. rubric:: Example", "", ".. code-block:: python", ""]
    lines += [f"   {line}" for line in example.text.splitlines()]
    if example.output:
        lines += ["", "Output:", "", ".. code-block:: text", "   :class: output", ""]
        lines += [f"   {line}" for line in example.output.splitlines()]
    lines.append("")


def short_names(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Give the types in a signature their public names: their own modules are internal."""

    def public(match: re.Match[str]) -> str:
        names = public_names().get((match[1], match[2]))
        return f"~{names[0]}" if names else match[0]

    def shorten(text: str | None) -> str | None:
        if not text:
            return text
        text = _PRIVATE.sub("...", text)  # defaults, as stubs write them
        text = _DTYPE_LIKE.sub("~numpy.typing.DTypeLike", _DOTTED.sub(public, _without_annotations(text)))
        return text if _is_python(text) else _DOTTED.sub(r"\2", text)

    return shorten(signature), shorten(result)


def _is_python(text: str) -> bool:
    """Return whether Sphinx can parse a signature or a type; it shows any other text as it stands."""
    try:
        ast.parse(f"def f{text}: ..." if text.startswith("(") else text)
    except SyntaxError:
        return False
    return True


def _without_annotations(text: str) -> str:
    """Replace each ``Annotated[type, ...]`` by its type."""
    before, found, rest = text.partition("Annotated[")
    if not found:
        return text
    before = before.removesuffix("~typing.").removesuffix("~types.")
    depth, comma, end = 0, None, len(rest)
    for place, sign in enumerate(rest):
        if sign == "," and not depth and comma is None:
            comma = place
        depth += (sign in "[(") - (sign in "])")
        if depth < 0:
            end = place
            break
    return before + rest[:comma] + _without_annotations(rest[end + 1 :])


def lead_to_public_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve a reference to an internal name as one to its public name."""
    if node.get("refdomain") != "py":
        return None
    module, _, name = node["reftarget"].rpartition(".")
    for public in public_names().get((module, name), _by_last_name().get(node["reftarget"], ())):
        domain = env.get_domain("py")
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)
        if found is not None:
            return found
    return None


@functools.cache
def _by_last_name() -> dict[str, list[str]]:
    """Return public names by their last part, where only one object has it."""
    found: dict[str, list[str]] = {}
    for names in public_names().values():
        found.setdefault(names[0].rpartition(".")[2], []).append(names[0])
    return {last: names for last, names in found.items() if len(names) == 1}


def without_classes(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave the pages of single classes out of the sidebar: the tables of their modules lead there."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: whole(**{**options, "maxdepth": 2})


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("autodoc-process-docstring", add_example, priority=600)  # behind numpydoc, which makes the sections
    app.connect("autodoc-process-signature", short_names)
    app.connect("missing-reference", lead_to_public_name)
    app.connect("html-page-context", without_classes, priority=100)  # before the theme draws the sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}
