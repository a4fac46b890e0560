"""The needs of programs of others, and whether they are here."""

import shutil
import subprocess
from pathlib import Path

__all__ = ["BUILT", "ROOT", "MissingError", "compiler", "program"]

ROOT = Path(__file__).resolve().parents[3]
BUILT = ROOT / "build" / "programs"
"""Builds of others' sources."""


class MissingError(Exception):
    """Something is not here: what, and which package has it."""


def program(name: str, package: str) -> str:
    """Where a program lies. Raises MissingError."""
    found = shutil.which(name)
    if found is None:
        raise MissingError(f"no {name}: apt install {package}")
    return found


def compiler(header: str, package: str) -> str:
    """A C compiler that finds ``header``. Raises MissingError."""
    found = program("cc", "gcc")
    asked = subprocess.run(
        [found, "-E", "-x", "c", "-"], input=f"#include <{header}>\n", capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise MissingError(f"no {header}: apt install {package}")
    return found
