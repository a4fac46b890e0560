"""``python -m amoeba``: the ``amoeba`` command."""

from amoeba.cli import app

if __name__ == "__main__":
    app(prog_name="amoeba")
