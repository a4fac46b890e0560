"""The packages that are published: what is in them, and that one alone is enough to use the driver."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]


def tracked(*folders):
    """Files of the repository below these folders, from the root; those that are new count, too."""
    if not (ROOT / ".git").exists():
        pytest.skip("not in a repository, which says what belongs to it")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_version_is_said_in_one_place_and_repeated_rightly():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(VERSION)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Source distribution and wheel, built as for publication: the wheel from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT], capture_output=True, text=True, timeout=300
    )
    if done.returncode and ("No matching distribution" in done.stdout + done.stderr or "Connection" in done.stdout):
        pytest.skip("hatchling, which builds the packages, could not be had from PyPI")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (source,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return source, wheel


@pytest.mark.long
def test_the_source_distribution_has_all_that_is_tracked_and_nothing_else(packages):
    with tarfile.open(packages[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = tracked("model", "hw", "sim", "driver", "tools", "tests", "docs", "examples", "bench", "scripts")
    assert wanted - names == set()
    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= names
    strange = {name for name in names - tracked() if (ROOT / name).is_file()}
    assert strange <= {"PKG-INFO", ".gitignore"}


@pytest.mark.long
def test_the_wheel_has_the_five_packages_with_types_and_harness_and_nothing_else(packages):
    with zipfile.ZipFile(packages[1]) as archive:
        names = set(archive.namelist())
    packaged = {
        "model/amoeba_model": "amoeba_model", "hw/amoeba_hw": "amoeba_hw", "sim/amoeba_sim": "amoeba_sim",
        "driver/amoeba": "amoeba", "tools/amoeba_tools": "amoeba_tools", "sim/harness": "amoeba_sim/harness",
    }  # fmt: skip
    wanted = {
        target + name.removeprefix(folder) for folder, target in packaged.items() for name in tracked(folder)
    }
    told = {name for name in names if ".dist-info/" not in name}
    assert told == wanted
    assert {"amoeba/py.typed", "amoeba_model/py.typed", "amoeba_tools/py.typed", "amoeba_sim/harness/nic.cpp"} <= told


@pytest.mark.long
def test_the_wheel_alone_is_enough_for_the_driver_and_the_model(packages, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"

    def run(*command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env={"PATH": ""})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(programs / "python", "-m", "pip", "install", "--quiet", packages[1])
    assert run(programs / "amoeba", "--version") == f"amoeba {VERSION}\n"
    assert "domain: amoeba0" in run(programs / "amoeba", "info")
    assert "the counter is now 211" in run(programs / "python", ROOT / "examples" / "counter.py")
    done = subprocess.run(
        [programs / "amoeba", "gups", "--device", "rtl"], capture_output=True, text=True, env={"PATH": ""}, timeout=60
    )
    assert done.returncode == 1
    assert "run pip install '.[sim]'" in done.stderr
