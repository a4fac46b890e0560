"""Sphinx extension: the sidebar leaves out single classes, and long names break between their words."""

import functools
import os
import re
from typing import Any

from sphinx.environment.adapters.toctree import global_toctree_for_doc

__all__ = ["breakable", "setup", "sidebar"]

_SHOWN = re.compile(r'(<span class="pre">(?=[^<]{16})|<h[1-3]>|<a class="[^"]*\binternal\b[^"]*"[^>]*>)([^<\s]{10,})')
"""The text of a heading or a link, or code, if the text is a long word."""
_BREAK = re.compile(r"(?<=[._/])(?=[A-Za-z_])|(?<=[a-z0-9])(?=[A-Z])")
_ENTRY = re.compile(r'<li class="(toctree-l\d)"><a class="reference internal" href="([^"]*)">')


def breakable(html: str) -> str:
    """Allow a line to end between the words of a long name, as in ``amoeba.``, ``Completion``, ``Queue``."""
    return _SHOWN.sub(lambda match: match[1] + _BREAK.sub("<wbr>", match[2]), html)


def sidebar(app: Any, page: str) -> str:
    """Return the sidebar of a page. Tables of modules lead to the pages of classes instead of the sidebar.

    Sphinx resolves the whole tree for each page, the longest part of a build. Here, only links and marks differ.
    """
    above = _above(app.env, page)

    def entry(match: re.Match[str]) -> str:
        level, target = match[1], match[2].removesuffix(".html")
        here = " current" if target in above else ""
        link = "#" if target == page else os.path.relpath(match[2], os.path.dirname(page) or ".")
        own = "current " if target == page else ""
        return f'<li class="{level}{here}"><a class="{own}reference internal" href="{link}">'

    return _ENTRY.sub(entry, _tree(app))


@functools.cache
def _tree(app: Any) -> str:
    """Return the sidebar of the root page, with modules as the last level."""
    root = app.config.root_doc
    tree = global_toctree_for_doc(app.env, root, app.builder, tags=app.tags, maxdepth=2, titles_only=True)
    return breakable(app.builder.render_partial(tree)["fragment"])


def _above(env: Any, page: str) -> set[str]:
    """Return a page and the pages whose tables of contents lead to the page."""
    parents = _parents(env)
    found = {page}
    while page := parents.get(page, ""):
        found.add(page)
    return found


@functools.cache
def _parents(env: Any) -> dict[str, str]:
    return {child: parent for parent, children in env.toctree_includes.items() for child in children}


def narrow(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Draw a page for narrow screens, with its sidebar."""
    context["toctree"] = lambda **options: sidebar(app, page)
    if "body" in context:
        context["body"] = breakable(context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("html-page-context", narrow, priority=100)  # before the theme draws the sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}
