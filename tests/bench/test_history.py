"""Benches compare the present with earlier states, each in its own process."""

import subprocess
from pathlib import Path

import pytest

from bench import history


def commits_of(root):
    found = subprocess.run(["git", "-C", str(root), "rev-list", "HEAD"], capture_output=True, text=True)
    return found.stdout.split()


@pytest.fixture(scope="module")
def earlier():
    """(tree, commit) of the commit before the last; skips where there is no history."""
    commits = commits_of(history.PRESENT)
    if len(commits) < 2:
        pytest.skip("no history")
    root = history.checkout(commits[1])
    assert root is not None
    return root, commits[1]


def test_a_checkout_is_the_tree_of_its_commit(earlier):
    root, commit = earlier
    show = ["git", "-C", str(history.PRESENT), "show", f"{commit}:model/amoeba_model/opcodes.py"]
    assert (root / "model/amoeba_model/opcodes.py").read_bytes() == subprocess.check_output(show)
    assert root.is_relative_to(history.PRESENT / "build")


def test_a_checkout_is_made_once(earlier):
    root, commit = earlier
    made = root.stat().st_ino
    assert history.checkout(commit[:12]) == root
    assert root.stat().st_ino == made
    assert [folder for folder in root.parent.iterdir() if len(folder.name) != 40] == []


def test_an_unknown_commit_is_refused():
    assert history.checkout("0" * 40) is None


def test_without_git_there_is_no_history(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert history.checkout() is None


def test_a_program_runs_with_the_packages_of_the_tree(earlier, tmp_path):
    script = tmp_path / "where.py"
    script.write_text(
        "import sys, amoeba, amoeba_model, bench.report\n"
        "print(amoeba.__file__, amoeba_model.__file__, bench.report.__file__, *sys.argv[1:], sep='\\n')\n"
    )
    for root in (earlier[0], history.PRESENT):
        *files, argument = history.run(root, script, "7").splitlines()
        assert [Path(file).relative_to(root).parts[0] for file in files] == ["driver", "model", "bench"]
        assert argument == "7"


def test_what_lies_beside_a_script_is_not_what_it_imports(tmp_path):
    (tmp_path / "struct.py").write_text("raise ImportError('the folder of the script was looked at')\n")
    script = tmp_path / "prints.py"
    script.write_text("import struct; print(struct.calcsize('<I'))\n")
    assert history.run(history.PRESENT, script) == "4\n"


def test_a_module_runs_by_its_name():
    assert "BENCH" in history.run(history.PRESENT, "bench", "--help")


def test_a_program_that_fails_is_an_error(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit(3)\n")
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        history.run(history.PRESENT, script)
