"""docs/security.md: every test that it names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", PAGE)))


def test_many_lines_have_one() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda part: Path(part).name)
def test_a_test_that_the_page_names_exists(file: str, test: str) -> None:
    functions = [
        node.name for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]  # fmt: skip
    assert functions, f"{file} has no tests"
    assert not test or test in functions


@pytest.mark.parametrize(
    "line", [line for line in PAGE.splitlines() if line.startswith("| ") and "not | test" not in line]
)
def test_what_is_guaranteed_or_open_says_which(line: str) -> None:
    """In the tables of who can do what."""
    section = PAGE[: PAGE.index(line)].rpartition("\n## ")[2].partition("\n")[0]
    if section in ("Someone who can send frames", "A peer", "A context", "A process"):
        assert "`tests/" in line or "**open**" in line, line


def test_every_row_of_the_list_is_open_or_closed() -> None:
    section = PAGE.partition("## Open rows")[2]
    open_rows = {int(row) for row in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    closed = {int(row) for row in re.findall(r"\d+", section.partition("are closed:")[2].partition("\n\n")[0])}
    assert open_rows | closed == set(range(1, 19))
    assert open_rows & closed == {3, 5}
