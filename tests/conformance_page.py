"""``python tests/conformance_page.py [--check]``: render the list of conformance checks, ``docs/conformance.md``."""

import argparse
import sys
from pathlib import Path

from amoeba.testing import NEEDS, catalogue, checks, unchecked

__all__ = ["PAGE", "main", "page"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "conformance.md"
_INTRODUCTION = """\
# Conformance

Generated from `driver/amoeba/testing/pages/` by tests/conformance_page.py: edit there. A test holds this page fresh.

[`amoeba.testing`](../driver/amoeba/testing/__init__.py) finds out whether two endpoints do what libfabric's manual
pages say. A check stands for a sentence of a page, given here in our words, and is a function that runs on any pair
of endpoints: of one process or two, on any devices, over links as bad as wanted. After each check the pair must work
as before, and have nothing left in its queues.

```
$ amoeba conformance --device model,rtl --loss 0.01 --seed 7
$ amoeba conformance --page fi_rma --page 'fi_cq.*error*' --output results.md
```

In a test of one's own, `amoeba.testing.checks()` parametrises it, and `check.run(pair)` does it; `amoeba.testing.run`
makes a report. The project's own tests run all of them on model and RTL, between the two, over links that lose one
frame in a hundred, and between two processes (`tests/conformance/`).

Below each page's checks stand the sentences that have none of their own, and why: what the driver does otherwise on
purpose ([libfabric.md](libfabric.md)), what asks for nothing, what asks something of the application, what other
checks are about as well. A section that begins with another page's name is one of that page, told here of what this
page's calls do.

Some checks need what not every pair offers:

| need | is |
|---|---|
"""


def page() -> str:
    """docs/conformance.md."""
    needs = "".join(f"| {name} | {meaning} |\n" for name, meaning in NEEDS.items())
    return f"{_INTRODUCTION}{needs}\n{catalogue(checks(), unchecked())}"


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 if, with ``--check``, the page is stale; otherwise 0."""
    parser = argparse.ArgumentParser(prog="python tests/conformance_page.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    options = parser.parse_args(arguments)
    text = page()
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print(f"{PAGE} is stale: run make generated", file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
