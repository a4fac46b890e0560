"""``python -m amoeba_model.generate [--check] [folder]``: write or check the generated files."""

import argparse
import sys
from pathlib import Path

from amoeba_model.generate import generated_files

_FOLDER = Path(__file__).resolve().parents[3] / "docs" / "generated"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the files, and return the exit status: 1 if ``--check`` finds one missing or stale, else 0."""
    parser = argparse.ArgumentParser(prog="python -m amoeba_model.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument("folder", nargs="?", type=Path, default=_FOLDER, help="where the files are (docs/generated)")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    stale = False
    for name, text in generated_files().items():
        path = folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale = True
        if options.check:
            print(f"{path} is stale: run python -m amoeba_model.generate", file=sys.stderr)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
