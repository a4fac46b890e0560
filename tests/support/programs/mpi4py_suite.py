"""mpi4py's own tests: in its source package, of the release whose wheel is installed."""

import contextlib
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.support.programs.missing import BUILT, MissingError

__all__ = ["mpi4py_tests"]

_SHA256 = {"4.1.2": "56860286dc45f20e8821e93cb06669e30462348bf866f685553fa4b712d58d02"}
"""Of the source package, by release."""


def mpi4py_tests() -> Path:
    """The folder of the tests, fetched from PyPI unless this was done before. Raises MissingError."""
    release = version("mpi4py")
    if release not in _SHA256:
        raise MissingError(f"expected mpi4py {' or '.join(_SHA256)}, whose tests are known, got {release}")
    folder = BUILT / f"mpi4py-{release}-tests"
    if not folder.is_dir():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as work:
            archive = _download(release, Path(work))
            with tarfile.open(archive) as opened:
                opened.extractall(work, filter="data")
            with contextlib.suppress(OSError):  # another process has fetched the same
                (Path(work) / f"mpi4py-{release}" / "test").rename(folder)
    return folder


def _download(release: str, folder: Path) -> Path:
    asked = ["download", "--quiet", "--no-deps", "--no-binary", "mpi4py", f"mpi4py=={release}"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", *asked, "--dest", str(folder)], capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired as error:
        raise MissingError("mpi4py's source package could not be had from PyPI in two minutes") from error
    if done.returncode:
        raise MissingError(f"mpi4py's source package cannot be had from PyPI: {done.stderr.strip()[-300:]}")
    (found,) = folder.glob("mpi4py-*.tar.gz")
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    if digest != _SHA256[release]:
        raise RuntimeError(f"{found.name}: expected SHA-256 {_SHA256[release]}, got {digest}")
    return found
