"""Results on disk, by their content: a file for each."""

import json
import os
from pathlib import Path
from typing import Any

from amoeba.embed.build import cache_folder

__all__ = ["Store"]


class Store:
    """Results in a folder, which several processes may use at once.

    ``folder``, if it is not given: ``explore`` in ``$AMOEBA_CACHE``, else in ``amoeba`` of ``$XDG_CACHE_HOME`` or
    ``~/.cache``. Files may be deleted at any time.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = cache_folder() / "explore" if folder is None else Path(folder)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result of a key, if any."""
        try:
            kept = json.loads(self._path(key).read_text())
            result = kept["result"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # also what somebody else has written there
            return None
        return result if isinstance(result, dict) else None

    def put(self, key: str, of: str, result: dict[str, Any]) -> None:
        """Keep a result; ``of`` says what it is, for people. Raises OSError where the folder cannot be written to."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        arriving = path.with_name(f"{path.name}.{os.getpid()}")
        arriving.write_text(json.dumps({"of": of, "result": result}, indent=1))
        os.replace(arriving, path)  # readers never see half a file

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"
