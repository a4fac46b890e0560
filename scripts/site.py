"""Build the documentation's site into build/site/html: the pages of docs/, and the API from its docstrings.

Needs nothing from the network. Warnings are errors. `make docs` calls it.
"""

import argparse
import functools
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
import types
from pathlib import Path

from rich.console import Console
from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
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
CONTENTS = {
    "Tutorial": ["tutorial/remote-counter", "tutorial/hash-table", "tutorial/rtl"],
    "How to": ["how-to", "pcie", "faq"],
    "APIs": ["libfabric", "ucp", "programs", "api/index"],
    "How it works": ["architecture", "life-of-an-atomic", "wire", "security", "verification"],
    "Blocks": ["blocks/hw", "blocks/host", "blocks/initiator", "blocks/wire", "blocks/target", "blocks/messages",
               "blocks/memory", "blocks/atomic", "blocks/pcie", "blocks/boards", "blocks/model", "blocks/sim",
               "blocks/driver", "blocks/libfabric", "blocks/openucx"],
    "Figures": ["benchmarks", "synthesis"],
    "Layouts": ["generated/registers", "generated/descriptors", "generated/completions", "generated/events",
                "generated/receives", "generated/wire", "generated/trace", "generated/ucp"],
    "Reports": ["conformance", "testplan", "atomic-coverage"],
    "Project": ["glossary", "changelog", "contributing", "reporting"],
}  # fmt: skip
"""The site's sections and their pages, in the order in which they are read. Each page is in one."""
PAGES_OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "hw/amoeba_hw/README.md": "blocks/hw.md",
    **{f"hw/amoeba_hw/{block}/README.md": f"blocks/{block}.md"
       for block in ("host", "initiator", "wire", "target", "messages", "memory", "atomic", "pcie", "boards")},
    "model/amoeba_model/README.md": "blocks/model.md",
    "sim/README.md": "blocks/sim.md",
    "driver/amoeba/README.md": "blocks/driver.md",
    "driver/amoeba/libfabric/README.md": "blocks/libfabric.md",
    "driver/amoeba/openucx/README.md": "blocks/openucx.md",
}  # fmt: skip
"""Pages outside docs/, and their place in the site."""
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="[default: build/site]")
    output = parser.parse_args().output
    console = Console(stderr=True)
    started = time.monotonic()
    source = output / "source"
    with console.status("reading pages and docstrings"):
        assemble(source)
    with console.status("building pages: about a minute"):
        status = build(source, output / "html", output / "doctrees")
    if status:
        sys.exit(f"the site was not built: Sphinx ended with {status}")
    console.print(f"{output / 'html' / 'index.html'}, in {time.monotonic() - started:.0f} s")


def build(source: Path, html: Path, doctrees: Path) -> int:
    """Run Sphinx; its exit status."""
    jobs = str(len(os.sched_getaffinity(0)))
    options = ["-q", "-W", "--keep-going", "-j", jobs, "-d", str(doctrees), "-b", "html"]
    return subprocess.run([sys.executable, "-m", "sphinx", *options, str(source), str(html)]).returncode


def assemble(source: Path) -> None:
    """Write all that Sphinx reads: pages with links that lead somewhere in the site, and a page for each module."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS / "site", source)
    for path in [*DOCS.rglob("*.md"), *DOCS.rglob("*.svg")]:
        copy = source / path.relative_to(DOCS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            copy.write_text(inside(path))
        else:
            shutil.copy(path, copy)
    for name, place in PAGES_OUTSIDE.items():
        copy = source / place
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(inside(ROOT / name))
    index = source / "index.md"
    trees = (contents(pages, title, hidden=True) for title, pages in CONTENTS.items())
    index.write_text("\n".join([index.read_text(), *trees]))
    api = source / "api"
    api.mkdir()
    modules = model_modules()
    described: set[type] = set()
    for name, what in FACES.items():
        (api / f"{name}.md").write_text(page(name, described, what=what))
    for name in modules:
        # The names of a package are on the pages of its modules.
        is_package = hasattr(importlib.import_module(name), "__path__")
        (api / f"{name}.md").write_text(page(name, described, members=not is_package))
    heading = "# API\n\nThe driver's packages, by what programs import, and the model's modules.\n"
    (api / "index.md").write_text(
        "\n".join([heading, contents(list(FACES), "Driver"), contents(modules, "Model, the specification")])
    )


def contents(pages: list[str], title: str, *, hidden: bool = False) -> str:
    """Make a list of pages, which are thereby part of the site; ``hidden``: in the sidebar alone."""
    options = [f":caption: {title}", ":maxdepth: 1", *([":hidden:"] if hidden else [])]
    return "\n".join(["```{toctree}", *options, "", *pages, "```", ""])


def place_of(file: Path) -> Path | None:
    """Return the place of a page or picture in the site, relative to its root."""
    outside = PAGES_OUTSIDE.get(str(file.relative_to(ROOT))) if file.is_relative_to(ROOT) else None
    if outside:
        return Path(outside)
    is_shown = file.is_relative_to(DOCS) and file.suffix in (".md", ".svg") and file.exists()
    return file.relative_to(DOCS) if is_shown else None


def inside(path: Path) -> str:
    """Return a page's text with links for the site. Links to files outside it become the names of the files."""
    own = place_of(path)
    assert own is not None, f"{path} is not in the site"

    def lead(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        file = (path.parent / target).resolve()
        if place := place_of(file):
            return f"[{text}]({os.path.relpath(place, own.parent)}{anchor})"
        if file.is_relative_to(ROOT) and file.exists():
            named = str(file.relative_to(ROOT))
            return f"`{named}`" if text.strip("`") in named else f"{text} (`{named}`)"
        raise SystemExit(f"{path.relative_to(ROOT)} links to {target}, which is not there")

    return LINK.sub(lead, path.read_text())


def public(module: types.ModuleType) -> list[str]:
    """List the public names of a module."""
    return list(getattr(module, "__all__", ()))


def model_modules() -> list[str]:
    """List the modules of the model with public names."""
    package = importlib.import_module("amoeba_model")
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "amoeba_model.")]
    return sorted(name for name in names if not name.endswith("__main__") and public(importlib.import_module(name)))


def page(name: str, described: set[type], *, what: str = "", members: bool = True) -> str:
    """Make a module's page: its docstring, and its public names, sorted into classes, functions, errors and others.

    ``described``: classes that other pages describe; those of this page are added.
    """
    module = importlib.import_module(name)
    sorts: dict[str, list[str]] = {"Classes": [], "Functions": [], "Exceptions": [], "Constants and types": []}
    names = set(public(module))
    for member in sorted(names, key=str.lower) if members else []:
        value = getattr(module, member)
        is_alias = isinstance(value, types.GenericAlias) or getattr(value, "__name__", member) in names - {member}
        if is_alias or (isinstance(value, type) and (value in described or described.add(value))):
            sorts["Constants and types"].append(plain(name, member, value))
        elif isinstance(value, type) and issubclass(value, BaseException):
            sorts["Exceptions"].append(f".. autoexception:: {name}.{member}\n   :members:")
        elif isinstance(value, type):
            sorts["Classes"].append(f".. autoclass:: {name}.{member}\n   :members:")
        elif callable(value):
            sorts["Functions"].append(f".. autofunction:: {name}.{member}")
        else:
            sorts["Constants and types"].append(constant(name, member, value))
    lines = [f"# {name}", "", f"{what[:1].upper()}{what[1:]}.", ""] if what else [f"# {name}", ""]
    lines += ["```{eval-rst}", f".. automodule:: {name}", "   :no-members:", "```", ""]
    for title, entries in sorts.items():
        if entries:
            lines += [f"## {title}", "", "```{eval-rst}", *("\n".join(["", entry]) for entry in entries), "```", ""]
    return "\n".join(lines)


def constant(module: str, name: str, value: object) -> str:
    """Describe a constant with its value and, where its own module has it, its documentation."""
    return f".. autodata:: {module}.{name}" if is_documented(module, name) else plain(module, name, value)


def plain(module: str, name: str, value: object) -> str:
    """Describe a name with its value."""
    text = value.__name__ if isinstance(value, type) and not isinstance(value, types.GenericAlias) else repr(value)
    shown = f"\n   :value: {text}" if "\n" not in text and len(text) < 80 else ""
    return f".. py:data:: {name}\n   :module: {module}{shown}"


@functools.cache
def documented(module: str) -> frozenset[tuple[str, str]]:
    """Find the constants that have a docstring below them in the module's source."""
    return frozenset(ModuleAnalyzer.for_module(module).find_attr_docs())


def is_documented(module: str, name: str) -> bool:
    return ("", name) in documented(module)


if __name__ == "__main__":
    main()
