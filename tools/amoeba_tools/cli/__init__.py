"""The ``amoeba`` command."""

from amoeba_tools.cli.app import app

__all__ = ["app"]
