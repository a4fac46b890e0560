"""A C library that contains Amoeba, as data."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["CFunction", "CLibrary", "signature"]

_NAME = re.compile(r"[A-Za-z_]\w*")
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[\w*\])?\s*$")


def signature(declared: str) -> tuple[str, str]:
    """Split a function's type in C, ``int (int a)``, into its result and its parameters."""
    returns, _, parameters = declared.removesuffix(")").partition("(")
    return returns.rstrip(), parameters


@dataclass(frozen=True)
class CFunction:
    """A function that C calls and Python executes.

    Raises FI_EINVAL for an invalid name, parameters without names, and ``busy`` without exactly one parameter.
    """

    name: str
    returns: str
    """Return type, in C: a scalar, a pointer, or ``void``."""
    parameters: str = ""
    """Parameters in C, each with a name: ``int fd, const void *buf``. A function pointer needs a typedef."""
    ended: str = "0"
    """Result after Python has ended, or when Python could not be started: an expression in C."""
    busy: str = ""
    """Result for a C thread in a program that runs Python, if Python's lock cannot be had soon: an expression in
    C, evaluated only then. Empty: the thread waits for the lock, for ever if the program waits for the thread.

    For functions with one parameter, an integer, that may proceed when their caller has stopped waiting."""
    exported: bool = True
    """Whether programs find it in the library; otherwise the library's own C alone calls it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise fabric_error(Errno.FI_EINVAL, f"expected the name of a C function, got {self.name!r}")
        if len(tuple(self.arguments)) != 1 and self.busy:
            raise fabric_error(Errno.FI_EINVAL, f"{self.name}: a function that may be busy has one parameter")

    @property
    def arguments(self) -> Iterator[str]:
        """Return the parameters' names."""
        if self.parameters in ("", "void"):
            return
        for parameter in self.parameters.split(","):
            found = _LAST_NAME.search(parameter)
            if found is None or len(_NAME.findall(parameter)) < 2:
                raise fabric_error(
                    Errno.FI_EINVAL, f"{self.name}: expected a type and a name, got {parameter.strip()!r}"
                )
            yield found[1]

    @property
    def prototype(self) -> str:
        """Return ``int name(int a)``, with ``%s`` in place of the name."""
        return f"{self.returns} %s({self.parameters or 'void'})"


@dataclass(frozen=True)
class CLibrary:
    """A shared library: its C side, and the module of its Python side.

    :func:`amoeba.embed.build.build` makes it.
    """

    name: str
    """Name of the file: ``libamoeba-fi.so``, ``libucp.so.0``; its soname, too."""
    entry: str
    """A module of Python with ``start(binding: Binding)``, which is called before the first call and defines all
    functions."""
    functions: tuple[CFunction, ...]
    types: str = ""
    """Structures, enumerations and typedefs, in C that both the compiler and cffi understand: no preprocessor."""
    helpers: str = ""
    """Declarations of C functions in ``source`` that Python calls, as ``binding.lib.name(...)``."""
    includes: str = ""
    """C before ``types``, for the compiler alone."""
    included: str = ""
    """C before ``types``, for cffi alone: the needed parts of ``includes``, with ``...`` for the rest."""
    source: str = ""
    """C behind the functions, which it may call by their names: tables of function pointers and the like."""
    libraries: tuple[str, ...] = ()
    """Libraries that it is linked with besides Python: ``fabric``."""
    links: tuple[str, ...] = ()
    """Other names of the file, beside it: ``libucp.so``, by which linkers and programs look for it."""
    needed: tuple[str, ...] = ()
    """Libraries that are loaded with it, as programs expect, where the loader finds them: ``libucs.so.0``."""

    @property
    def module(self) -> str:
        """Return the name of the Python module inside the library."""
        return "_" + re.sub(r"\W", "_", self.name.split(".so")[0])
