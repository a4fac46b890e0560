"""Build the documentation's site into build/site/html: the pages of docs/, and the API from its docstrings.

Needs nothing from the network. Warnings are errors. `make docs` calls it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from api_pages import contents, write_api
from rich.console import Console

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CONTENTS = {
    "Tutorial": ["tutorial/remote-counter", "tutorial/hash-table", "tutorial/rtl"],
    "How to": ["how-to", "verilog", "testbenches", "pcie", "boards", "faq"],
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
    "hw/rtl/README.md": "verilog.md",
    "examples/verilog/README.md": "testbenches.md",
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
TRACED = ["gups", "--table-size", "5"]
"""The program whose trace readers can play with. It runs on models, which need no simulator."""
TRACE = f"""
The trace of `amoeba trace --html trace.html {' '.join(TRACED)}`. Click an operation to see its stages and frames, and
turn the wheel to zoom:

<iframe class="trace" src="{{root}}_static/trace.html" title="The trace of a program" loading="lazy"></iframe>

<p><a href="{{root}}_static/trace.html">Open the trace as a page</a></p>
"""
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
    with console.status("building pages: about two minutes"):
        status = build(source, output / "html", output / "doctrees")
    if status:
        sys.exit(f"the site was not built: Sphinx ended with {status}")
    console.print(f"{output / 'html' / 'index.html'}, in {time.monotonic() - started:.0f} s")


def build(source: Path, html: Path, doctrees: Path) -> int:
    """Run Sphinx; its exit status. In one process: two take three times the processor time, and longer."""
    options = ["-q", "-W", "--keep-going", "-d", str(doctrees), "-b", "html"]
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
    record_trace(source / "static" / "trace.html")
    index = source / "index.md"
    trees = (contents(pages, title, hidden=True) for title, pages in CONTENTS.items())
    index.write_text("\n".join([index.read_text(), *trees]))
    write_api(source / "api")


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
            return f"[{text.removesuffix('.md')}]({os.path.relpath(place, own.parent)}{anchor})"
        if file.is_relative_to(ROOT) and file.exists():
            named = str(file.relative_to(ROOT))
            return f"`{named}`" if text.strip("`") in named else f"{text} (`{named}`)"
        raise SystemExit(f"{path.relative_to(ROOT)} links to {target}, which is not there")

    text = path.read_text()
    if path == ROOT / "docs" / "index.md":
        text = front_page(text)
    return LINK.sub(lead, text).replace("<!-- trace -->", TRACE.format(root="../" * (len(own.parts) - 1)))


def front_page(text: str) -> str:
    """Put sections of the README, which a forge shows beside this page, where the front page names them."""
    readme = (ROOT / "README.md").read_text()

    def section(match: re.Match[str]) -> str:
        body = readme.partition(f"\n## {match[1]}\n")[2].partition("\n## ")[0]
        if not body:
            raise SystemExit(f"docs/index.md names a section of README.md that is not there: {match[1]}")
        outside = re.sub(r"\]\((?!https?:|#)", "](../", body)
        return f"## {match[1]}\n{cards(outside) if body.lstrip().startswith('|') else outside}"

    return re.sub(r"<!-- README: (.*) -->", section, text)


def cards(table: str) -> str:
    """Turn a table into cards: one for each column, whose header is the card's title."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    titles, _, *bodies = rows
    made = [":::::{grid} 1 1 3 3", ":gutter: 3", ""]
    for column, title in enumerate(titles):
        made += [f"::::{{grid-item-card}} {title}", *(f"{body[column]}\n" for body in bodies), "::::", ""]
    return "\n".join(["", *made, ":::::", ""])


def record_trace(path: Path) -> None:
    """Write the trace that the site shows."""
    command = [sys.executable, "-m", "amoeba_tools", "trace", "--html", str(path), *TRACED]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
