"""Extras: groups of optional dependencies, as ``pyproject.toml`` lists them."""

__all__ = ["installation"]


def installation(extra: str) -> str:
    """Return how to install an extra. No index has the package: pip installs it from a checkout."""
    return f"in a checkout of Amoeba, run pip install '.[{extra}]'"
