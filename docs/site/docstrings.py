"""Sphinx extension: class pages show an example, and references lead to the object that a docstring's module means.

An example is a program in ``examples/``. Its last comment, after a line ``# Prints:``, is its output.
"""

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import numpydoc.docscrape_sphinx
from jinja2.sandbox import SandboxedEnvironment
from names import FACES, full_name, is_shown, public_names, sole_names

__all__ = ["Example", "example_of", "examples", "setup"]

EXAMPLES = Path(__file__).parent / "examples"
_OUTPUT = "\n# Prints:\n"
_DOTTED = re.compile(r"~?\b([a-z_]\w*(?:\.\w+)*)\.(\w+)")
_BARE = re.compile(r"(?<![\w.'\"~*])(?<!= )([A-Z]\w+)(?![\w.'\"(=:])")
"""A type in a signature, without its module."""
_ROLE = re.compile(r":(class|exc|func|meth|attr):`(~?)([A-Za-z_][\w.]*)`")
_PARAMETER = re.compile(r"[\w*]+(?:, [\w*]+)*(?: : .*)?")
"""The line of a parameter, or of several, or the heading of a section."""
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


def paragraphs_first(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Move paragraphs below the parameters above them: numpydoc takes their lines for names of parameters."""
    sections = [at for at, line in enumerate(lines[1:]) if len(line) > 3 and set(line) == {"-"}]
    for at in range(sections[0] + 2, len(lines)) if sections else ():
        if lines[at - 1] or not lines[at] or lines[at][0].isspace() or _PARAMETER.fullmatch(lines[at]):
            continue
        lines[:] = [*lines[: sections[0]], *lines[at:], "", *lines[sections[0] : at]]
        return


def full_references(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Write the full public name of each object that a docstring refers to as its module does."""
    home = _home(name, value)

    def refer(match: re.Match[str]) -> str:
        role, short, target = match.groups()
        is_member = role in ("meth", "attr") and "." not in target  # of the class itself
        own = None if is_member else full_name(home, target, name)
        shown = target.rpartition(".")[2] if short else target
        shown += "()" if role in ("func", "meth") else ""
        return f":{role}:`{shown} <{own}>`" if own else match[0]

    lines[:] = [_ROLE.sub(refer, line) for line in lines]


def _home(name: str, value: Any) -> str:
    """Return the module whose names an object's docstring and signature use: that of its class for a value."""
    value = inspect.unwrap(getattr(value, "fget", None) or value) if not inspect.ismodule(value) else value
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    if isinstance(home, str) and (inspect.isroutine(value) or isinstance(value, type) or inspect.ismodule(value)):
        return home
    owner = name.rpartition(".")[0]
    module, _, last = owner.rpartition(".")
    found = getattr(importlib.import_module(module), last, None) if module in FACES else None
    return found.__module__ if isinstance(found, type) else module


def public_bases(app: Any, name: str, value: Any, options: Any, bases: list[Any]) -> None:
    """Leave internal classes out of the bases of a class."""
    bases[:] = [base for base in bases if is_shown(get_origin(base) or base)] or [object]


def short_names(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Give the types in a signature their public names: their own modules are internal."""

    def public(match: re.Match[str]) -> str:
        names = public_names().get((match[1], match[2]))
        return f"~{names[0]}" if names else match[0]

    def qualified(match: re.Match[str]) -> str:
        own = full_name(home, match[1], name)
        return f"~{own}" if own else match[0]

    home = _home(name, value)

    def shorten(text: str | None) -> str | None:
        if not text:
            return text
        text = _BARE.sub(qualified, text)
        text = _PRIVATE.sub("...", text).replace("<factory>", "...")  # defaults, as stubs write them
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
    for public in public_names().get((module, name), sole_names().get(node["reftarget"], ())):
        domain = env.get_domain("py")
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)
        if found is not None:
            return found
    return None


def compile_templates_once() -> None:
    """Give numpydoc one environment of templates: compiled for each docstring, they take an eighth of a build."""
    made: list[SandboxedEnvironment] = []

    def environment(loader: Any) -> SandboxedEnvironment:
        if not made:
            made.append(SandboxedEnvironment(loader=loader))
        return made[0]

    numpydoc.docscrape_sphinx.SandboxedEnvironment = environment


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    compile_templates_once()
    app.connect("autodoc-process-docstring", add_example, priority=600)  # behind numpydoc, which makes the sections
    app.connect("autodoc-process-docstring", paragraphs_first, priority=400)  # before numpydoc
    app.connect("autodoc-process-docstring", full_references)
    app.connect("autodoc-process-signature", short_names)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("missing-reference", lead_to_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
