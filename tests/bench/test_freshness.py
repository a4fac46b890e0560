"""Tables of docs/benchmarks.md are not older than the code that they measure."""

import re
from pathlib import Path

import pytest

from bench.__main__ import _BENCHES as BENCHES
from bench.freshness import ASSERTED, LIMIT, SOURCES, Record, changed, read_records, sample, stale, written

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
RECORDS = read_records((ROOT / "docs" / "benchmarks.json").read_text())
LINES = [f"value_{number} = {number}" for number in range(3200)]


def test_no_table_is_older_than_the_code_that_it_measures():
    assert stale(PAGE, RECORDS, ROOT) == []


def test_every_table_says_when_it_was_measured():
    for name in BENCHES:
        assert re.search(rf"<!-- begin {name} -->\nMeasured \d{{4}}-\d\d-\d\d, commit [0-9a-f]{{9}}\b", PAGE), name


def test_every_bench_has_tests_that_assert_its_cycles_or_sources_that_exist():
    assert {*ASSERTED, *SOURCES} == set(BENCHES)
    assert not {*ASSERTED} & {*SOURCES}
    paths = [path for paths in (*ASSERTED.values(), *SOURCES.values()) for path in paths]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert min(len(sample(ROOT, sources)) for sources in SOURCES.values()) > 50, "a sample of so few says little"


@pytest.fixture
def tree(tmp_path):
    """A root with two files of code, and the function that samples it."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("\n".join(LINES[:1600]))
    (tmp_path / "code" / "b.py").write_text("\n".join(LINES[1600:]))
    return tmp_path


def test_changed_lines_count_and_new_ones_too(tree):
    before = sample(tree, ["code"])
    (tree / "code" / "b.py").write_text("\n".join(line.upper() for line in LINES[1600:]))
    half = changed(before, sample(tree, ["code"]))
    assert half == pytest.approx(0.5, abs=0.15)
    (tree / "code" / "b.py").unlink()
    assert changed(before, sample(tree, ["code"])) == pytest.approx(half, abs=0.15)


def test_comments_docstrings_blank_lines_and_moves_count_nothing(tree):
    before = sample(tree, ["code"])
    (tree / "code" / "more").mkdir()
    (tree / "code" / "a.py").rename(tree / "code" / "more" / "c.py")
    text = "\n\n".join(f"    {line}\n    # {line}" for line in LINES[1600:])
    (tree / "code" / "b.py").write_text(f'"""A text\n{text}."""\ndef f():\n    """More: {LINES}"""\n{text}\n')
    (tree / "code" / "note.md").write_text("text\n" * 3000)
    assert changed(before, sample(tree, ["code"])) <= 1 / len(before), "at most the line `def f():` is new"


def of_model(page, records, root):
    return [line for line in stale(page, records, root) if line.startswith("model: ")]


def page_of(measured):
    return f"<!-- begin model -->\nMeasured {measured}.\n<!-- end model -->"


def test_a_stale_table_is_named_with_its_command():
    lines = sorted(sample(ROOT, SOURCES["model"]))
    kept = lines[: int(len(lines) * (1 - LIMIT)) - 1]
    (line,) = of_model(page_of("today"), {"model": Record("today", frozenset(kept))}, ROOT)
    assert re.fullmatch(
        r"model: 3\d% of the code that it measures has changed, at most 30% may; "
        r"renew it: python -m bench model --publish",
        line,
    )
    assert of_model(page_of("today"), {"model": Record("today", frozenset(lines))}, ROOT) == []


@pytest.mark.parametrize("records", [{}, {"model": "yesterday"}])
def test_a_table_without_its_record_is_named(records):
    kept = {name: Record(measured, sample(ROOT, SOURCES[name])) for name, measured in records.items()}
    (line,) = of_model(page_of("today"), kept, ROOT)
    assert line.startswith("model: the table does not say when its record in docs/benchmarks.json was measured; ")


def test_records_are_read_as_they_were_written():
    assert read_records(written(RECORDS)) == RECORDS
