"""An earlier state of the project beside the present one: checked out into ``build/``, run in its own process.

A bench times a small program in both, which uses only functions that both have, and prints its figures.
"""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = ["BASELINE", "PRESENT", "checkout", "command", "environment", "run"]

BASELINE = "2dc3963"
"""The commit that the driver's and the model's speed are compared with."""
PRESENT = Path(__file__).resolve().parents[1]
"""Root of the tree that this file is in."""

_PACKAGES = ("model", "hw", "sim", "driver", "tools")


def checkout(commit: str = BASELINE) -> Path | None:
    """Return the root of the tree at ``commit``, under ``build/history``; None without that history.

    The tree is unpacked once. A release or a shallow clone has no history, and a machine may have no git.
    """
    git = ["git", "-C", str(PRESENT)]
    try:
        name = ["rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
        full = subprocess.run([*git, *name], capture_output=True, text=True, check=True).stdout.strip()
        root = PRESENT / "build" / "history" / full
        if root.is_dir():
            return root
        archive = subprocess.run([*git, "archive", "--format=tar", full], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as directory:
        # Renamed when it is whole: two benches may do this at the same time, and either may be interrupted.
        unpacked = Path(directory) / "tree"
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(unpacked, filter="data")
        try:
            unpacked.rename(root)
        except OSError:
            if not root.is_dir():
                raise
    return root


def run(root: Path, program: Path | str, *arguments: str) -> str:
    """Run a Python program in a process of its own with the packages of the tree at ``root``; return its output.

    ``program`` is a script's path or a module's name; ``arguments`` are the program's. A script does not import from
    its own folder.

    Raises subprocess.CalledProcessError if the program fails; its standard error goes to that of this process.
    """
    line = command(program, *arguments)
    return subprocess.run(line, env=environment(root), stdout=subprocess.PIPE, text=True, check=True).stdout


def command(program: Path | str, *arguments: str) -> list[str]:
    """Return the command line of a Python program: a script's path or a module's name."""
    what = [str(program)] if isinstance(program, Path) else ["-m", program]
    # -P: neither a script's folder nor the present one comes before the tree.
    return [sys.executable, "-P", *what, *arguments]


def environment(root: Path) -> dict[str, str]:
    """Return the environment of a process that imports the packages of the tree at ``root``."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(root / name) for name in (*_PACKAGES, ""))}
