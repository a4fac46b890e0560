"""fi_getinfo(3), fi_version(3), fi_errno(3)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, strerror
from amoeba.libfabric.objects.checks import check_enum, check_flags, check_number
from amoeba.libfabric.objects.cluster import getinfo
from amoeba.libfabric.objects.constants import FiType, InfoFlags
from amoeba.libfabric.objects.printing import API_VERSION, version_text
from amoeba.libfabric.objects.structures import Info
from amoeba.libfabric.objects.tostr import tostr

__all__ = ["fi_allocinfo", "fi_dupinfo", "fi_freeinfo", "fi_getinfo", "fi_strerror", "fi_tostr", "fi_version"]


def fi_version() -> int:
    """Return the libfabric release that defines names, numbers and meanings, as FI_VERSION encodes it."""
    return API_VERSION


def fi_getinfo(
    version: int,
    node: str | None,
    service: str | None,
    flags: int,
    hints: Info | None,
    kinds: Sequence[str] = ("model", "model"),
) -> list[Info]:
    """Return the offers of a cluster of NICs of these ``kinds``: :func:`amoeba.getinfo`.

    ``version`` is their ``api_version``.

    Raises FI_ENOSYS for a later version than :func:`fi_version`.
    """
    if check_number("version", version) > API_VERSION:
        raise fabric_error(
            Errno.FI_ENOSYS, f"this is release {version_text(API_VERSION)}, wanted {version:#x}"
        )
    return [
        dataclasses.replace(info, fabric_attr=dataclasses.replace(info.fabric_attr, api_version=version))
        for info in getinfo(hints, node=node, service=service, flags=check_flags(InfoFlags, flags), kinds=kinds)
    ]


def fi_allocinfo() -> Info:
    """Return empty hints; :func:`dataclasses.replace` fills them in."""
    return Info()


def fi_freeinfo(info: Info | Sequence[Info] | None) -> None:
    """Do nothing: Python frees unused objects."""


def fi_dupinfo(info: Info | None) -> Info:
    """Return a copy; of None an empty one."""
    return Info() if info is None else dataclasses.replace(info)


def fi_tostr(data: Any, datatype: int | None = None) -> str:
    """Describe enumerations, flags and structures: :func:`amoeba.tostr`. ``datatype``: that of plain numbers."""
    return tostr(data, None if datatype is None else check_enum(FiType, datatype, "datatype"))


def fi_strerror(errnum: int) -> str:
    """:func:`amoeba.strerror`."""
    return strerror(errnum)
