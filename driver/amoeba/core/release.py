"""The release of Amoeba, as its package states it."""

import tomllib
from importlib import metadata
from pathlib import Path

__all__ = ["RELEASE"]

_NAME = "amoeba-nic"
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def _release() -> str:
    try:
        return metadata.version(_NAME)
    except metadata.PackageNotFoundError:  # a tree that is on the path, but not installed
        pass
    try:
        project = tomllib.loads(_PROJECT.read_text())["project"]
    except (OSError, ValueError, KeyError):
        return "0.0.0"
    return str(project["version"]) if project.get("name") == _NAME else "0.0.0"


RELEASE = _release()
"""Release such as ``0.1.0``; ``0.0.0`` for code that is neither installed nor in its project's tree."""
