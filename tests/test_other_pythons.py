"""The checks on other Pythons: what they install, which versions they take, and how they end."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import other_pythons  # noqa: E402
from debian import OutOfReachError  # noqa: E402

PROJECT = """
[project]
dependencies = ["numpy>=2.2,<3"]
[project.optional-dependencies]
hw = ["amaranth==0.5"]
c = ["cffi==2"]
dev = ["amoeba-nic[hw]", "hypothesis==6", "ml_dtypes==1", "pytest==9", "pytest-timeout==2", "scapy==2", "x==1"]
"""


@pytest.fixture
def interpreter(tmp_path):
    """A function that makes a Python whose checks fail if their arguments contain a word."""

    def make(word):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\ncase "$*" in *{word}*) exit 1;; esac\n')
        path.chmod(0o755)
        return path

    return make


def test_pins_are_those_of_the_project():
    pins = ["amaranth==0.5", "cffi==2", "hypothesis==6", "ml_dtypes==1", "pytest==9", "pytest-timeout==2", "scapy==2"]
    assert other_pythons.requirements(PROJECT) == ["numpy>=2.2,<3", *pins]


def test_what_is_installed_is_of_this_project():
    wanted = other_pythons.requirements((ROOT / "pyproject.toml").read_text())
    assert all("==" in entry for entry in wanted[-len(other_pythons.EXTRAS) :])


def test_the_versions_are_the_oldest_that_is_supported_and_the_newest_of_debian():
    text = (ROOT / "pyproject.toml").read_text()
    oldest, newest = other_pythons.DEFAULT
    assert f'requires-python = ">={oldest}"' in text
    assert newest == max(other_pythons.SUITES, key=lambda version: int(version.partition(".")[2]))
    for version in other_pythons.SUITES:
        assert f'"Programming Language :: Python :: {version}"' in text


def test_the_tests_that_it_runs_exist():
    assert all((ROOT / path).is_dir() for path in other_pythons.TESTS)


@pytest.mark.parametrize(
    ("word", "failed"),
    [("SyntaxWarning", ["imports"]), ("conformance", ["conformance"]), ("pytest", ["tests"]), ("never", [])],
)
def test_checks_that_fail_are_named(interpreter, word, failed):
    assert other_pythons.check(interpreter(word)) == failed


@pytest.mark.parametrize(("word", "status"), [("pytest", 1), ("never", 0)])
def test_the_status_says_whether_a_check_failed(monkeypatch, capfd, interpreter, word, status):
    monkeypatch.setattr(other_pythons, "fetch_python", lambda version: interpreter(word))
    assert other_pythons.main(["3.15"]) == status
    assert capfd.readouterr().out == ("Python 3.15: tests failed\n" if status else "No check failed.\n")


def test_a_version_that_cannot_be_had_is_named_and_no_failure(monkeypatch, capsys):
    def fetch(version):
        raise OutOfReachError("apt-get failed: no network")

    monkeypatch.setattr(other_pythons, "fetch_python", fetch)
    assert other_pythons.main(["3.13"]) == 0
    assert capsys.readouterr().out.startswith("Python 3.13 was not checked: apt-get failed: no network\n")


def test_the_running_python_is_not_fetched(monkeypatch, interpreter):
    asked = []
    monkeypatch.setattr(other_pythons, "fetch_python", lambda version: asked.append(version) or interpreter("never"))
    other_pythons.main([])
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert asked == [version for version in other_pythons.DEFAULT if version != running]


def test_a_version_that_no_suite_has_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        other_pythons.main(["3.9"])
    assert "expected 3.11, 3.13, 3.14, 3.15, got 3.9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "error"),
    [("ERROR: No matching distribution found for numpy", OutOfReachError), ("error: disk full", RuntimeError)],
)
def test_a_step_without_a_network_is_told_from_one_that_failed(said, error):
    with pytest.raises(error, match=said.partition(": ")[2]):
        other_pythons._run("sh", "-c", f"echo '{said}'; exit 1")


def test_a_whole_installation_is_not_done_twice(monkeypatch, tmp_path):
    folder = tmp_path / "3.15"
    folder.mkdir()
    (folder / "installed").write_text("\n".join(other_pythons.requirements((ROOT / "pyproject.toml").read_text())))
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    assert other_pythons.fetch_python("3.15", tmp_path) == folder / "venv" / "bin" / "python"
