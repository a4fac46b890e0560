"""Pieces of Python."""

import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

__all__ = ["docstring", "formatted", "listed"]

_WIDTH = 118


def docstring(text: str, indent: str = "") -> str:
    """Write a docstring; a text that has one line is wrapped if it is too long."""
    quoted = f'"""{text.strip()}"""'
    if "\n" in quoted:
        quoted = quoted.removesuffix('"""') + '\n"""'
    elif len(indent + quoted) > _WIDTH:
        quoted = "\n".join(textwrap.wrap(quoted, _WIDTH - len(indent), break_on_hyphens=False))
    return textwrap.indent(quoted, indent)


def listed(names: Iterable[str]) -> str:
    """Write ``__all__``, which ruff sorts."""
    return f"__all__ = [{', '.join(map(repr, names))}]"


def formatted(source: str, path: Path) -> str:
    """Sort imports and names of a file's source, and lay it out, as the project's settings say."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--quiet", "--fix-only", "--select", "I,RUF022"], ["format"]):
        whole = [*ruff, *command, "--stdin-filename", str(path), "-"]
        source = subprocess.run(whole, input=source, stdout=subprocess.PIPE, text=True, check=True).stdout
    return source
