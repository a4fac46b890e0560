"""The Python side of a shared library: functions that C calls, without an exception that crosses the border."""

import importlib
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.embed.counts import process_counts
from amoeba.embed.ending import arrange_the_end, let_none_in
from amoeba.embed.fair_lock import FAIR_LOCK
from amoeba.embed.telling import Teller, say, verbose

__all__ = ["Binding", "Status", "load"]

_LOADED = 0x5AFE
"""The greeting that ``start.c`` expects."""
_MARK = "amoeba_py_"

Status = Callable[[BaseException], Any]
"""The value that a function returns after an exception."""


class Binding:
    """A library that has been loaded: ``ffi`` and ``lib`` are cffi's, of its types and helpers."""

    def __init__(self, ffi: Any, lib: Any, name: str, functions: Mapping[str, str]) -> None:
        self.ffi = ffi
        self.lib = lib
        self.name = name
        self.teller = Teller(name)
        """Reports exceptions on standard error; ``start`` says which are expected, and which are mistakes."""
        self._missing = dict(functions)

    @property
    def missing(self) -> frozenset[str]:
        """Functions that have not been defined yet."""
        return frozenset(self._missing)

    def define(self, name: str, function: Callable[..., Any], status: Status) -> None:
        """Have ``function`` called when C calls the library's function of that name.

        Parameters
        ----------
        name : str
            As declared.
        function : callable
            Takes numbers as int and float, pointers as cffi has them, and returns the same; None for 0, NULL or
            nothing. Calls of several threads come one at a time (:mod:`amoeba.embed.fair_lock`).
        status : callable
            Converts an exception, or a result that C cannot have, to a value of C's type. KeyboardInterrupt and
            SystemExit are no different: C decides whether a program ends.

        Raises FI_EINVAL for a function that was not declared, or is defined already.
        """
        if name not in self._missing:
            raise fabric_error(Errno.FI_EINVAL, f"{self.name} has no function {name!r} that is not defined yet")
        returns = self.ffi.typeof(self._missing[name]) if self._missing[name] != "void" else None
        nothing = None if returns is None else self.ffi.NULL if returns.kind == "pointer" else 0
        enter, leave = FAIR_LOCK.__enter__, FAIR_LOCK.__exit__

        def called(*arguments: Any) -> Any:
            try:
                enter()
                try:
                    result = function(*arguments)
                finally:
                    leave()
            except BaseException as error:
                self.teller.tell(name, error)
                return status(error)
            return nothing if result is None else result

        def wrong(_kind: type[BaseException], error: BaseException, _traceback: object) -> Any:
            self.teller.tell(name, error)
            return status(error)

        self.ffi.def_extern(name=_MARK + name, onerror=wrong)(called)
        del self._missing[name]

    def define_all(self, functions: Mapping[str, Callable[..., Any]], status: Status) -> None:
        """Call :meth:`define` for each of these by its name."""
        for name, function in functions.items():
            self.define(name, function, status)


def load(ffi: Any, lib: Any, name: str, entry: str, functions: Mapping[str, str]) -> int:
    """Start the Python side of a library; ``start.c`` calls this once. If it fails, standard error says why."""
    try:
        binding = Binding(ffi, lib, name, functions)
        let_none_in(lib.amoeba_end)
        importlib.import_module(entry).start(binding)
        if binding.missing:
            raise fabric_error(Errno.FI_ENOSYS, f"{entry} does not define {', '.join(sorted(binding.missing))}")
        arrange_the_end()
        process_counts()  # shows the launcher that the program called the library
    except BaseException as error:
        say(f"{name}: cannot start: " + ("".join(traceback.format_exception(error)) if verbose() else repr(error)))
        return 0
    return _LOADED
