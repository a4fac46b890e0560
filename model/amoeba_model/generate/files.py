"""Generated files: write them, or check that they are fresh."""

import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_or_check"]


def write_or_check(texts: Mapping[str, str], folder: Path, *, check: bool, command: str) -> int:
    """Write the generated files whose text has changed, or print which of them are stale.

    Parameters
    ----------
    texts : Mapping[str, str]
        The text of each file, by its path from ``folder``.
    folder : Path
        The folder of the files. Missing folders are made.
    check : bool
        Write nothing, and print the missing and stale files to standard error.
    command : str
        The command that writes the files, for these messages.

    Returns
    -------
    int
        The exit status: 1 if ``check`` has found a stale file, otherwise 0.
    """
    stale = [name for name, text in texts.items() if _read(folder / name) != text]
    for name in stale:
        if check:
            print(f"{name} is stale: run {command}", file=sys.stderr)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(texts[name], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if check and stale else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
