"""Wheels of others from PyPI: each release in a folder of its own, fetched once."""

import contextlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.programs.missing import BUILT, MissingError

__all__ = ["Wheels"]


class Wheels:
    """A folder with these wheels and nothing that they depend upon, beside the tests' own Python.

    Raises MissingError where PyPI cannot be reached, or has no such wheels for this machine.
    """

    def __init__(self, releases: Sequence[str]) -> None:
        of = "+".join(each.replace("==", "-") for each in releases)
        self.folder = BUILT / f"{of}-{sys.implementation.cache_tag}"
        if self.folder.is_dir():
            return
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as work:
            made = Path(work) / "wheels"
            _install(releases, made)
            with contextlib.suppress(OSError):  # another process has fetched the same
                made.rename(self.folder)

    def program(self, name: str) -> str:
        """Return where a program of the wheels lies."""
        return str(self.folder / "bin" / name)

    @property
    def packages(self) -> str:
        """The folder of the Python packages."""
        return sysconfig.get_path("platlib", vars={"platbase": str(self.folder)})

    def found(self, environment: dict[str, str]) -> dict[str, str]:
        """Return ``environment``, with the wheels' libraries and packages before all others."""
        paths = {"LD_LIBRARY_PATH": str(self.folder / "lib"), "PYTHONPATH": self.packages}
        return environment | {
            name: os.pathsep.join([path, *filter(None, [environment.get(name)])]) for name, path in paths.items()
        }


def _install(releases: Sequence[str], folder: Path) -> None:
    asked = ["install", "--quiet", "--retries", "1", "--no-deps", "--ignore-installed", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", *asked, "--prefix", str(folder), *releases]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"{', '.join(releases)} could not be had from PyPI in five minutes") from error
    if done.returncode:
        raise MissingError(f"{', '.join(releases)} cannot be had from PyPI: {done.stderr.strip()[-300:]}")
