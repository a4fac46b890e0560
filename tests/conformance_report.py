"""``python tests/conformance_report.py [PAIR ...]``: run all conformance checks on pairs of NICs; keep the counts.

Writes them to ``tests/tools/conformance/results.json``, with commit and date, and renders ``docs/conformance.md``
anew. Pairs that are not named keep what was found before. Exits with 1 if a check has failed; minutes on the RTL.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import conformance_page

__all__ = ["PAIRS", "counts", "main"]

_AMOEBA = [sys.executable, "-c", "from amoeba_tools.cli import app; app()", "conformance", "--json"]
_LOSS = ["--loss", "0.01", "--seed", "1", "--retransmit-timeout", "6000"]
_APART = ("--listen", "--connect")
_PCIE = "pcie"
PAIRS: dict[str, list[str]] = {
    "model": ["--device", "model"],
    "model to RTL": ["--device", "model,rtl"],
    "RTL to model": ["--device", "rtl,model"],
    "RTL": ["--device", "rtl"],
    "model, 1 % lost": ["--device", "model", *_LOSS],
    "RTL, 1 % lost": ["--device", "rtl", *_LOSS],
    "model, two processes": ["--device", "model", *_APART],
    "model, two processes, 1 % lost": ["--device", "model", *_LOSS, *_APART],
    "pcie (model)": [_PCIE, "model,model"],
    "pcie (RTL, TLPs)": [_PCIE, "rtl+pcie,rtl+pcie"],
}
"""Columns of the table, and how ``amoeba conformance`` is called for them; behind ``_PCIE``: which NICs the driver
finds on PCI Express, by a fake kernel with VFIO's rules in front of ``amoeba endpoint``."""
_SECONDS = 3000


def _run(options: list[str]) -> dict[str, Any]:
    """The results of the command, in one process or, with ``_APART``, between two; or those on PCI Express."""
    if options[0] == _PCIE:
        return _run_on_pcie(options[1])
    if options[-2:] != [*_APART]:
        ended = subprocess.run([*_AMOEBA, *options], stdout=subprocess.PIPE, text=True, timeout=_SECONDS)
        return json.loads(ended.stdout)
    options = options[:-2]
    listening = [*_AMOEBA, *options, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(listening, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as initiator:
        try:
            address = re.search(r"waiting at (\S+)", initiator.stderr.readline())[1]
            subprocess.run([*_AMOEBA, *options, "--connect", address], timeout=_SECONDS, check=True)
            output, _ = initiator.communicate(timeout=_SECONDS)
        finally:
            initiator.kill()
    return json.loads(output)


def _run_on_pcie(kinds: str) -> dict[str, Any]:
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.support.pcie_program", folder, kinds]
        ended = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


def counts(facts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How many checks of each page ended in which state."""
    found: dict[str, Counter[str]] = {}
    for name, state in facts["checks"].items():
        found.setdefault(name.split(".")[0], Counter())[state] += 1
    return {page: dict(states) for page, states in found.items()}


def _origin() -> str:
    """Date and commit, and whether the tree differs from it."""
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--abbrev=9",
        "--exclude=*",
        "--dirty",
    ]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, commit {commit.replace('-dirty', ', with changes')}"


def main(arguments: list[str] | None = None, run: Callable[[list[str]], dict[str, Any]] = _run) -> int:
    """The exit status: 1 if a check has failed. ``run`` is given the options of a pair."""
    parser = argparse.ArgumentParser(prog="python tests/conformance_report.py", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help=f"of {'; '.join(PAIRS)}. All by default")
    options = parser.parse_args(arguments)
    unknown = set(options.pairs) - set(PAIRS)
    if unknown:
        parser.error(f"expected some of {list(PAIRS)}, got {sorted(unknown)}")
    results, origin = conformance_page.recorded(), _origin()  # before the results themselves are changes
    failures: dict[str, str] = {}
    for name in options.pairs or PAIRS:
        facts = run(PAIRS[name])
        failures |= {f"{name}: {check}": failure for check, failure in facts["failures"].items()}
        results[name] = {"measured": origin, "pages": counts(facts)}
        print(f"{name}: {dict(Counter(facts['checks'].values()))}", flush=True)
        ordered = {pair: results[pair] for pair in PAIRS if pair in results}
        conformance_page.RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    for check, failure in failures.items():
        print(f"{check}: {failure}", file=sys.stderr)
    conformance_page.main([])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
