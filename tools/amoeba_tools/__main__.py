"""``python -m amoeba_tools``: the ``amoeba`` command."""

from amoeba_tools.cli import app

if __name__ == "__main__":
    app(prog_name="amoeba")
