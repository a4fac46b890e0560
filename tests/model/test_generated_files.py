"""Generated files are written where they changed, and checked without writing.

Covers ``generate/files.py``.
"""

from pathlib import Path

import pytest
from amoeba_model.generate.files import write_or_check

TEXTS = {"first.md": "one\n", "inner/second.md": "zwei ü\n"}


def test_a_check_names_missing_and_stale_files_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "first.md").write_text("other\n")
    assert write_or_check(TEXTS, tmp_path, check=True, command="make it") == 1
    assert capsys.readouterr().err == "first.md is stale: run make it\ninner/second.md is stale: run make it\n"
    assert [path.name for path in tmp_path.iterdir()] == ["first.md"]
    assert (tmp_path / "first.md").read_text() == "other\n"


def test_writing_touches_only_the_files_that_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "first.md").write_text("one\n")
    (tmp_path / "first.md").chmod(0o444)
    before = (tmp_path / "first.md").stat().st_mtime_ns
    assert write_or_check(TEXTS, tmp_path, check=False, command="make it") == 0
    assert capsys.readouterr().out == "wrote inner/second.md\n"
    assert (tmp_path / "inner" / "second.md").read_text(encoding="utf-8") == "zwei ü\n"
    assert (tmp_path / "first.md").stat().st_mtime_ns == before
    assert write_or_check(TEXTS, tmp_path, check=True, command="make it") == 0
