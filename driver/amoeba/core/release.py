"""Which release of Amoeba this is, as its package says."""

from importlib import metadata

__all__ = ["RELEASE"]


def _release() -> str:
    try:
        return metadata.version("amoeba-nic")
    except metadata.PackageNotFoundError:  # a tree that is on the path, but not installed
        return "0.0.0"


RELEASE = _release()
"""Such as ``0.1.0``; ``0.0.0`` if it is not installed."""
