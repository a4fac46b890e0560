"""``python -m amoeba_model.generate [--check] [folder]``: write or check the generated files."""

import argparse
import sys
from pathlib import Path

from amoeba_model.generate import generated_files
from amoeba_model.generate.files import write_or_check

_FOLDER = Path(__file__).resolve().parents[3] / "docs" / "generated"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files, and return the exit status: 1 if ``--check`` finds one missing or stale, else 0."""
    parser = argparse.ArgumentParser(prog="python -m amoeba_model.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument("folder", nargs="?", type=Path, default=_FOLDER, help="where the files are (docs/generated)")
    options = parser.parse_args(arguments)
    command = "python -m amoeba_model.generate"
    return write_or_check(dict(generated_files()), options.folder, check=options.check, command=command)


if __name__ == "__main__":
    sys.exit(main())
