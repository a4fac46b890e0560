"""Running somebody's Python program in this process, so that the NICs that it opens can be watched."""

import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["run_script"]


def run_script(path: Path, arguments: Sequence[str]) -> int:
    """Run a program as ``python path arguments`` would; returns its exit status.

    An exception that it does not catch is printed, and is status 1. Raises OSError if there is no such file, and what
    interrupts it.
    """
    path.stat()
    with _as_main(path, arguments):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            return _status(end)
        except Exception as error:
            # without the lines above the program's own, which are ours and runpy's
            own = error.__traceback__
            while own is not None and own.tb_frame.f_code.co_filename != str(path):
                own = own.tb_next
            traceback.print_exception(error.with_traceback(own or error.__traceback__))
            return 1
    return 0


@contextlib.contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Let a program see its own arguments, and import what lies beside it."""
    argv, path_before = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path_before


def _status(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    print(end.code, file=sys.stderr)
    return 1
