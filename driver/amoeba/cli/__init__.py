"""The ``amoeba`` command."""

from amoeba.cli.app import app

__all__ = ["app"]
