"""The folder where programs of one user keep what they have built, and load it from."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["is_own", "user_cache"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_cache() -> Path:
    """Return ``$AMOEBA_CACHE``, else ``amoeba`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Libraries in it are executed. A folder that other users may write to is shared: each user then has a folder of
    their own in it, ``user-`` and the user's number.

    Raises
    ------
    PermissionError
        The folder belongs to another user, who may replace its content.
    """
    named = os.environ.get("AMOEBA_CACHE")
    folder = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "amoeba"
    _create(folder)
    try:
        found = folder.stat()
    except OSError:  # no program can have left anything there
        return folder
    if _is_private(found):
        return folder
    if found.st_uid not in (os.geteuid(), 0):
        raise _refused(folder)
    own = folder / f"user-{os.geteuid()}"
    _create(own)
    with suppress(FileNotFoundError):
        if not _is_private(own.lstat()):
            raise _refused(own)
    return own


def is_own(path: Path) -> bool:
    """Return whether a file or folder exists and belongs to the user of this process."""
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _create(folder: Path) -> None:
    # A folder that cannot be created is reported by those who write to it.
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


def _is_private(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE


def _refused(folder: Path) -> PermissionError:
    reason = "other users may replace its libraries; AMOEBA_CACHE names another folder"
    return PermissionError(errno.EACCES, reason, str(folder))
