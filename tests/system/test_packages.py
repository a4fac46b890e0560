"""The packages that are published: their files, and that the wheel alone suffices in an environment of its own."""

import os
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
README = (ROOT / "README.md").read_text()
LICENSE_IN_WHEEL = f"amoeba_nic-{VERSION}.dist-info/licenses/LICENSE"
SMALL = [
    "datatypes=UINT64", "ops=SUM+BXOR", "contexts=2", "keys=16", "peers=4", "target_pdcs=4", "window=16",
    "payload=256", "lines=16", "receives=8", "unexpected=8", "event_counters=16", "out_of_order_entries=8",
]  # fmt: skip
"""Settings of a NIC whose Verilog is written in seconds."""
OUT_OF_REACH = ("No matching distribution found", "Could not find a version", "Connection", "Temporary failure")
"""Messages of pip without a network."""


def tracked(*folders):
    """Files of the repository below these folders, from the root; those that are new count, too."""
    if not (ROOT / ".git").exists():
        pytest.skip("not in a repository, which says what belongs to it")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def from_pypi(*command):
    """Run a command that fetches from PyPI; skip the test where PyPI is out of reach."""
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode and any(sign in said for sign in OUT_OF_REACH):
        pytest.skip(f"PyPI is out of reach: {said.strip().splitlines()[-1]}")
    assert done.returncode == 0, said[-3000:]


def built(folder, *options):
    from_pypi("build", *options, "--outdir", folder, ROOT)


def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Source distribution and wheel, built as for publication: the wheel from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    built(folder)
    (source,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return source, wheel


class Installed:
    """An environment of its own outside the checkout, with the wheel and what it asks for."""

    def __init__(self, folder, wheel, extras=""):
        self.folder = folder
        self.programs = folder / "venv" / "bin"
        venv.create(folder / "venv")
        python = self.programs / "python"
        from_pypi("pip", "--python", python, "install", "--quiet", f"amoeba-nic{extras} @ {wheel.as_uri()}")

    def run(self, program, *arguments, path="", expected=0):
        """Return the output of a program of the environment, which finds no other programs but those of ``path``."""
        home = {"HOME": str(self.folder), "COLUMNS": "100"}
        done = subprocess.run(
            [self.programs / program, *arguments], cwd=self.folder, capture_output=True, text=True,
            env={"PATH": path, **home},
        )  # fmt: skip
        assert done.returncode == expected, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def alone(packages, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("alone"), packages[1])


@pytest.fixture(scope="module")
def extended(packages, tmp_path_factory):
    """The wheel with the extras that generate hardware, and libraries for C programs."""
    return Installed(tmp_path_factory.mktemp("extended"), packages[1], "[hw,c]")


def test_the_version_is_said_in_one_place_and_repeated_rightly():
    assert f"\nversion: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(VERSION)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)


def test_the_source_distribution_has_all_that_is_tracked_and_nothing_else(packages):
    with tarfile.open(packages[0]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert names - {"PKG-INFO"} == tracked()
    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".ci/run"} <= names


def test_the_wheel_has_the_five_packages_with_types_and_harness_and_nothing_else(packages):
    files = contents(packages[1])
    packaged = {
        "model/amoeba_model": "amoeba_model", "hw/amoeba_hw": "amoeba_hw", "sim/amoeba_sim": "amoeba_sim",
        "driver/amoeba": "amoeba", "tools/amoeba_tools": "amoeba_tools", "sim/harness": "amoeba_sim/harness",
    }  # fmt: skip
    wanted = {
        target + name.removeprefix(folder) for folder, target in packaged.items() for name in tracked(folder)
    }
    told = {name for name in files if ".dist-info/" not in name}
    assert told == wanted
    assert {"amoeba/py.typed", "amoeba_model/py.typed", "amoeba_tools/py.typed"} <= told
    assert {"amoeba_sim/harness/nic.cpp", "amoeba_sim/harness/nic.h"} <= told
    assert {"amoeba/libfabric/libfabric-1.17.toml", "amoeba_tools/tracing/page/trace.html"} <= told
    assert files[LICENSE_IN_WHEEL] == (ROOT / "LICENSE").read_bytes()


def test_checkout_and_source_distribution_build_the_same_wheel(packages, tmp_path):
    built(tmp_path, "--wheel")
    (wheel,) = tmp_path.glob("*.whl")
    assert contents(wheel) == contents(packages[1])


def test_the_wheel_alone_runs_the_command_on_models(alone):
    assert alone.run("amoeba", "--version") == f"amoeba {VERSION}\n"
    assert "RandomAccess" in alone.run("amoeba", "--help")
    assert "domain: amoeba0" in alone.run("amoeba", "info")
    assert "errors" in alone.run("amoeba", "gups", "--device", "model")


def test_the_wheel_alone_runs_the_readme_s_eight_lines_and_an_example(alone):
    program, printed = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.S).groups()
    assert alone.run("python", "-c", program) == printed
    assert "the counter is now 211" in alone.run("python", ROOT / "examples" / "counter.py")


def test_the_wheel_alone_says_which_extra_an_rtl_nic_needs(alone):
    said = alone.run("amoeba", "gups", "--device", "rtl", expected=1)
    assert "run pip install '.[sim]'" in " ".join(said.split())


def test_the_wheel_with_extras_writes_verilog(extended):
    settings = [word for setting in SMALL for word in ("--set", setting)]
    options = ["--data-width", "128", "--host", "axi", *settings]
    extended.run("python", "-m", "amoeba_hw.generate", "verilog", *options)
    assert "\nmodule amoeba_nic(" in (extended.folder / "verilog" / "amoeba_nic_128.v").read_text()


@pytest.mark.parametrize(
    ("command", "library"), [("provider", "libamoeba-fi.so"), ("libucp", "libucp.so.0")], ids=["libfabric", "UCX"]
)
def test_the_wheel_with_extras_builds_the_libraries_for_c_programs(extended, command, library):
    said = extended.run("amoeba", command, "build", path=os.environ["PATH"])
    folder = next(Path(path) for path in re.findall(r"=['\"]?([^:'\"\n]+)", said) if (Path(path) / library).exists())
    assert folder.is_relative_to(extended.folder)
