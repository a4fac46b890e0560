"""Pieces of Python, in lines that are not too long."""

import textwrap
from collections.abc import Iterable

__all__ = ["WIDTH", "docstring", "listed"]

WIDTH = 118


def docstring(text: str, indent: str = "") -> str:
    """A docstring: on one line, or as it is broken, or broken where it has to be."""
    quoted = f'"""{text.strip()}"""'
    if "\n" not in quoted and len(indent + quoted) > WIDTH:
        quoted = "\n".join(textwrap.wrap(quoted, WIDTH - len(indent), break_on_hyphens=False))
    elif "\n" in quoted:
        quoted = quoted.removesuffix('"""') + '\n"""'
    return textwrap.indent(quoted, indent)


def listed(names: Iterable[str]) -> str:
    """``__all__``, in the order that ruff asks for: constants, classes, functions."""
    ordered = sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
    return "\n".join(["__all__ = [", *(f'    "{name}",' for name in ordered), "]", ""])
