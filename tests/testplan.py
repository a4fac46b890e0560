"""``python tests/testplan.py [--check]``: render ``testplan.toml`` as ``docs/testplan.md``, or check it.

Every test that the plan names must exist. Names are looked up in the sources; nothing is run.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from amoeba_model.generate.files import write_or_check

__all__ = ["Feature", "features", "main", "page", "problems", "resolve"]

ROOT = Path(__file__).resolve().parents[1]
PLAN = ROOT / "tests" / "testplan.toml"
PAGE = ROOT / "docs" / "testplan.md"
DEVICES = ("model", "rtl", "driver")
_SHOW = {
    "model": {"model"},
    "hw": {"rtl"},
    "sim": {"rtl"},
    "cocotb": {"rtl"},
    "proof": {"rtl"},
    "system": {"model", "rtl"},
    "driver": {"model", "rtl", "driver"},
    "conformance": {"model", "rtl", "driver"},
    "ucp": {"model", "rtl", "driver"},
    "ucx": {"model", "rtl", "driver"},
    "embed": {"model", "rtl", "driver"},
    "libucp": {"model", "rtl", "driver"},
    "provider": {"model", "rtl", "driver"},
    "programs": {"model", "rtl", "driver"},
}
"""The devices on which the tests of a group run."""


@dataclass(frozen=True)
class Feature:
    """One statement: fields as ``testplan.toml`` explains them."""

    id: str
    statement: str
    source: str
    devices: tuple[str, ...]
    tests: tuple[str, ...]
    coverage: str = ""
    broken: str = ""
    """Why its tests are expected to fail."""
    roadmap: bool = False

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]

    @property
    def state(self) -> str:
        if self.roadmap:
            return "roadmap"
        if self.broken:
            return "broken"
        if not self.tests:
            return "gap"
        return "partly shown" if self.missing else "shown"

    @property
    def missing(self) -> list[str]:
        """The devices on which none of its tests runs."""
        shown = set().union(*(_SHOW.get(reference.partition("/")[0], set()) for reference in self.tests))
        return [device for device in self.devices if device not in shown]


def features(text: str) -> list[Feature]:
    """The plan's features, in order. Raises ValueError for one that is not well-formed."""
    known = set(Feature.__dataclass_fields__)
    found = []
    for entry in tomllib.loads(text)["feature"]:
        if unknown := set(entry) - known:
            raise ValueError(f"{entry.get('id')}: expected fields of {sorted(known)}, got {sorted(unknown)}")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
        feature = Feature(**values)
        if not re.fullmatch(r"[a-z]+\.[a-z_]+", feature.id):
            raise ValueError(f"expected area.name as id, got {feature.id!r}")
        if not feature.devices or set(feature.devices) - set(DEVICES):
            raise ValueError(f"{feature.id}: expected some of {DEVICES} as devices, got {feature.devices}")
        found.append(feature)
    names = [feature.id for feature in found]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"these features stand in the plan twice: {sorted(doubled)}")
    return found


def resolve(reference: str) -> tuple[Path, list[str]]:
    """The file that a reference means, and the tests in it; empty if none matches."""
    place, _, name = reference.partition("::")
    group, _, stem = place.rpartition("/")
    if group == "proof":
        return ROOT / "tests" / "formal" / "catalog.py", [stem] if stem in _proofs() else []
    if group.partition("/")[0] == "cocotb":
        path = ROOT / "tests" / "hw" / group.removeprefix("cocotb").lstrip("/") / f"bench_{stem}.py"
        return path, [test for test in _functions(path, "") if test.startswith(name)]
    path = ROOT / "tests" / group / f"test_{stem}.py"
    return path, [test for test in _functions(path, "test_") if test.startswith(f"test_{name}")]


@cache
def _functions(path: Path, prefix: str) -> list[str]:
    """The tests of a file: functions with that prefix, or those that cocotb's decorator marks."""
    if not path.is_file():
        return []
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marked = any("cocotb" in ast.unparse(decorator) for decorator in node.decorator_list)
            if node.name.startswith(prefix) if prefix else marked:
                found.append(node.name)
    return found


@cache
def _proofs() -> frozenset[str]:
    """Names in the catalogue of proofs, which needs the hardware packages."""
    sys.path.insert(0, str(ROOT))
    from tests.formal.catalog import PROOFS

    return frozenset(proof.name for proof in PROOFS)


def problems(plan: list[Feature]) -> Iterator[str]:
    """The plan's references to missing tests, and its wrong statements about itself."""
    for feature in plan:
        for reference in feature.tests:
            path, tests = resolve(reference)
            if not tests:
                yield f"{feature.id}: expected {reference} to be a test; there is none in {path.relative_to(ROOT)}"
        if feature.roadmap and feature.tests:
            yield f"{feature.id}: it is on the roadmap, and yet there are tests: {', '.join(feature.tests)}"


def page(plan: list[Feature]) -> str:
    """docs/testplan.md."""
    return "\n".join(_lines(plan)).rstrip("\n") + "\n"


def _lines(plan: list[Feature]) -> Iterator[str]:
    counts: Mapping[str, int] = {state: sum(feature.state == state for feature in plan) for state in _STATES}
    yield "# Test plan"
    yield ""
    yield "Generated from tests/testplan.toml by tests/testplan.py: edit there. A test holds this page fresh, and"
    yield "sees to it that everything named here exists."
    yield ""
    yield "The features, their sources, and the tests that show them. `cocotb/<folder>/<name>` is the bench"
    yield "`tests/hw/<folder>/bench_<name>.py`, `proof/` an entry of `tests/formal/catalog.py`, all else"
    yield "`tests/<folder>/test_<name>.py`; a name stands for all that begin so."

    yield "Those marked `long` run in `make test-long`, all others in `make test`; both count here."
    yield ""
    yield "| state | features | meaning |"
    yield "|---|---:|---|"
    for state, meaning in _STATES.items():
        yield f"| {state} | {counts[state]} | {meaning} |"
    yield ""
    for area in dict.fromkeys(feature.area for feature in plan):
        yield f"## {_TITLES.get(area, area.capitalize())}"
        yield ""
        yield "| feature | statement | source | devices | shown by | coverage |"
        yield "|---|---|---|---|---|---|"
        for feature in plan:
            if feature.area == area:
                cells = (
                    f"`{feature.id}`", feature.statement, feature.source, ", ".join(feature.devices), _shown(feature),
                    feature.coverage,
                )  # fmt: skip
                yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""


_TITLES = {
    "host": "Host interface",
    "pdc": "PDCs and sequence",
    "check": "Checks and keys",
    "loss": "Loss and failure",
    "ucp": "UCX's UCP",
    "ucx": "UCX for Python",
}
_STATES = {
    "shown": "by the tests named",
    "partly shown": "on some of its devices",
    "broken": "a test shows that it is not kept; it is expected to fail until it is",
    "gap": "built or announced, and no test shows it",
    "roadmap": "not built yet",
}


def _shown(feature: Feature) -> str:
    tests = "<br>".join(reference.replace("::", ": ") for reference in feature.tests)
    if feature.state == "shown":
        return tests
    if feature.state == "partly shown":
        return f"{tests}<br>**gap**: {', '.join(feature.missing)}"
    note = f"**{feature.state}**" + (f": {feature.broken}" if feature.broken else "")
    return f"{note}<br>{tests}" if tests else note


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 1 if something named does not exist or, with ``--check``, the page is stale; otherwise 0."""
    parser = argparse.ArgumentParser(prog="python tests/testplan.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is stale")
    options = parser.parse_args(arguments)
    plan = features(PLAN.read_text(encoding="utf-8"))
    wrong = list(problems(plan))
    for problem in wrong:
        print(problem, file=sys.stderr)
    status = write_or_check({PAGE.name: page(plan)}, PAGE.parent, check=options.check, command="make generated")
    return 1 if wrong else status


if __name__ == "__main__":
    sys.exit(main())
