"""Objects of a forked process, as its child has them: every call raises an error and does nothing."""

import inspect
import os
import types
from typing import Any, NoReturn

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error

__all__ = ["orphaned"]

_ALWAYS_FREE = ("closed", "forked")
_orphaned: dict[type, type] = {}
"""Orphaned classes by the class that they mimic."""


def orphaned(cls: type) -> type:
    """Return a class like this one whose public methods and properties, except ``close``, raise FI_EBADF."""
    if cls not in _orphaned:
        _orphaned[cls] = type(cls.__name__, (cls,), _members(cls))
    return _orphaned[cls]


def _members(cls: type) -> dict[str, Any]:
    members: dict[str, Any] = {name: getattr(cls, name) for name in ("__doc__", "__module__", "__qualname__")}
    for name, member in inspect.getmembers_static(cls):
        if name.startswith("_") or name in _ALWAYS_FREE:
            continue
        if isinstance(member, types.FunctionType):
            members[name] = _refuse
        elif isinstance(member, property):
            members[name] = property(_refuse, _refuse, None, member.__doc__)
    return members | {"_check_open": _refuse, "close": _close}


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise fabric_error(
        Errno.FI_EBADF,
        f"this {type(self).__name__} belongs to process {os.getppid()}, which forked: open a fabric of your own",
    )


def _close(self: object) -> None:
    """Do nothing: the parent owns the object."""
