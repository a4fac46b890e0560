"""``python tests/conformance_page.py [--check]``: render the conformance checks and their report."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from amoeba_model.generate.files import write_or_check
from amoeba_tools.conformance import NEEDS, catalogue, checks, unchecked
from amoeba_tools.conformance import ucp as ucp_kit

__all__ = ["PAGE", "RESULTS", "main", "page", "recorded", "table"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "conformance.md"
RESULTS = Path(__file__).resolve().parent / "tools" / "conformance" / "results.json"
"""The results of ``python tests/conformance_report.py``."""
_INTRODUCTION = """\
# Conformance

Generated from `tools/amoeba_tools/conformance/pages/` by tests/conformance_page.py: edit there. A test holds this
page fresh.

[`amoeba_tools.conformance`](../tools/amoeba_tools/conformance/__init__.py) finds out whether two endpoints do what
libfabric's manual pages say. A check stands for a sentence of a page, given here in our words, and is a function that
runs on any pair of endpoints: of one process or two, on any devices, over links as bad as wanted. After each check
the pair must work as before, and have nothing left in its queues.

```
$ amoeba conformance --device model,rtl --loss 0.01 --seed 7
$ amoeba conformance --page fi_rma --page 'fi_cq.*error*' --output results.md
```

In a test of one's own, `amoeba_tools.conformance.checks()` parametrises it, and `check.run(pair)` does it;
`amoeba_tools.conformance.run` makes a report. The project's own tests run all of them on model and RTL, between the
two, over links that lose one frame in a hundred, and between two processes (`tests/conformance/`).

Below each page's checks stand the sentences that have none of their own, and why: what the driver does otherwise on
purpose ([libfabric.md](libfabric.md)), what asks for nothing, what asks something of the application, what other
checks are about as well. A section that begins with another page's name is one of that page, told here of what this
page's calls do.

Some checks need what not every pair offers:

| need | is |
|---|---|
"""
_REPORT = """\
## Report

How many checks have passed on which pair of NICs (initiator to target); where one has failed, of how many. Written by
`python tests/conformance_report.py`, which runs them all.

"""

_UCP = """\
# Conformance to UCX's UCP

`amoeba conformance --api ucp` does the same for UCX's API:
[`amoeba_tools.conformance.ucp`](../tools/amoeba_tools/conformance/ucp/) has checks for all 93 functions of
`ucp.h`. Here a sentence is quoted, from the comment above the function, or above what it takes; the section is the
line in release 1.12.1 where it begins. The structures and enumerations, their sizes, alignment
and the memory that C allocates guarantee nothing that Python shows; tests/driver/openucx/ucp/test_names.py compares
their names, fields and numbers.

```
$ amoeba conformance --api ucp --device model,rtl
$ amoeba conformance --api ucp --page 'ucp_tag_*' --loss 0.01 --output results.md
```

"""


def recorded() -> dict[str, Any]:
    """By pair: when it was tried, and how many checks of each page ended how; empty before that."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def table(results: dict[str, Any]) -> str:
    """Pages by pairs: how many checks have passed, and of how many if not all have; with commits and dates below."""
    pages = dict.fromkeys(page for result in results.values() for page in result["pages"])
    lines = [f"| page | {' | '.join(results)} |", f"|---|{'---:|' * len(results)}"]
    for name in pages:
        cells = [_cell(result["pages"].get(name, {})) for result in results.values()]
        lines.append(f"| {name}(3) | {' | '.join(cells)} |")
    sums = [_cell(_summed(result["pages"])) for result in results.values()]
    lines.append(f"| all | {' | '.join(sums)} |")
    origins: dict[str, list[str]] = {}
    for pair, result in results.items():
        origins.setdefault(result["measured"], []).append(pair)
    tried = "; ".join(f"{origin} ({', '.join(pairs)})" for origin, pairs in origins.items())
    if len(origins) == 1:
        tried = next(iter(origins))
    return "\n".join([*lines, "", f"Tried {tried}.", ""])


def _summed(pages: dict[str, dict[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for states in pages.values():
        for state, count in states.items():
            sums[state] = sums.get(state, 0) + count
    return sums


def _cell(states: dict[str, int]) -> str:
    passed, tried = states.get("passed", 0), sum(states.values()) - states.get("not offered", 0)
    return f"{passed}" if passed == tried else f"**{passed} of {tried}**"


def page() -> str:
    """docs/conformance.md."""
    needs = "".join(f"| {name} | {meaning} |\n" for name, meaning in NEEDS.items())
    results = recorded()
    report = f"{_REPORT}{table(results)}\n" if results else ""
    sentences = f"## Sentences\n\n{catalogue(checks(), unchecked())}"
    of_ucp = catalogue(ucp_kit.checks(), ucp_kit.unchecked())
    return f"{_INTRODUCTION}{needs}\n{report}{sentences}\n{_UCP}{of_ucp}"


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 if, with ``--check``, the page is stale; otherwise 0."""
    parser = argparse.ArgumentParser(prog="python tests/conformance_page.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    options = parser.parse_args(arguments)
    return write_or_check({PAGE.name: page()}, PAGE.parent, check=options.check, command="make generated")


if __name__ == "__main__":
    sys.exit(main())
