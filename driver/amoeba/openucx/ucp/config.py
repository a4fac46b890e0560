"""A configuration: keys and values from the environment and a file, changed and printed.

A variable of the environment sets the key behind UCX_, or behind ``<env_prefix>_UCX_`` if a prefix is given. A file
has lines as the environment would show them, ``UCX_RNDV_THRESH=64k``, with or without the prefix; empty lines and
those that begin with # are left out. The environment wins over the file, a line with the prefix over one without, a
later line over an earlier one. Keys that are not known are left alone in both: others than UCP read them.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from amoeba.openucx.ucp.config_keys import KEYS, Key
from amoeba.openucx.ucp.constants import ucs_config_print_flags_t
from amoeba.openucx.ucp.kinds import bits_of, text
from amoeba.openucx.ucp.status import UcsNoElemError, invalid_param, ucs_error, wrong_type
from amoeba.openucx.ucp.status import UcsStatus as _Status

__all__ = [
    "ucp_config_modify",
    "ucp_config_print",
    "ucp_config_read",
    "ucp_config_release",
    "ucp_config_t",
]

_PREFIX = "UCX_"
_FLAGS = bits_of(ucs_config_print_flags_t, 32)
_PRINT = ucs_config_print_flags_t


class ucp_config_t:
    """A configuration, made by :func:`ucp_config_read`. What is made with it keeps a copy, so that many may be."""

    def __init__(self, env_prefix: str | None, given: Mapping[str, str]) -> None:
        self.env_prefix = env_prefix
        self.released = False
        self._given: dict[str, str] = {}
        for name, value in given.items():
            self.set(name, value)

    def set(self, name: str, value: str) -> None:
        """Set a key of :data:`KEYS`. Raises UCS_ERR_INVALID_PARAM for a value that its key cannot have."""
        key = _canonical(name)
        key.read(value)
        self._given[key.name] = value.strip()

    def text(self, name: str) -> str:
        """The value of a key, as it was written."""
        key = _canonical(name)
        return self._given.get(key.name, key.default)

    def value(self, name: str) -> Any:
        """What the value of a key means: see :meth:`Key.read`."""
        return _canonical(name).read(self.text(name))

    def is_default(self, name: str) -> bool:
        """Whether nobody has set a key."""
        return _canonical(name).name not in self._given

    def copy(self) -> "ucp_config_t":
        """The same values, which no later change of this one reaches."""
        return ucp_config_t(self.env_prefix, self._given)


def _canonical(name: str) -> Key:
    """The key that a name means, through its old names. Raises UCS_ERR_NO_ELEM."""
    key = KEYS.get(name)
    if key is None:
        raise UcsNoElemError(f"expected a key of UCP without {_PREFIX}, got {name[:60]!r}")
    return key if key.alias_of is None else KEYS[key.alias_of]


def ucp_config_read(env_prefix: str | None = None, filename: str | None = None) -> ucp_config_t:
    """A configuration from the environment, and from a file. A file that does not exist is no error.

    Raises UCS_ERR_INVALID_PARAM for a value that its key cannot have, and for a line that sets nothing;
    UCS_ERR_IO_ERROR for a file that cannot be read.
    """
    prefix = _PREFIX if env_prefix is None else f"{text('env_prefix', env_prefix)}_{_PREFIX}"
    from_file = {} if filename is None else _read_file(filename)
    given = _known(from_file, _PREFIX) | _known(from_file, prefix) | _known(os.environ, prefix)
    return ucp_config_t(env_prefix, given)


def _known(variables: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Values by key, of those variables that set one. An old name gives way to the one it stands for."""
    named = {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}
    old = {name: value for name, value in named.items() if name in KEYS and KEYS[name].alias_of not in (None, *named)}
    return {_canonical(name).name: value for name, value in old.items()} | {
        name: value for name, value in named.items() if name in KEYS and KEYS[name].alias_of is None
    }


def _read_file(filename: str) -> dict[str, str]:
    try:
        with open(text("filename", filename), encoding="utf-8") as file:
            return dict(_variables(filename, file))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        raise ucs_error(_Status.UCS_ERR_IO_ERROR, f"{filename}: cannot be read: {error}") from error


def _variables(filename: str, lines: TextIO) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals:
            raise invalid_param(f"{filename}, line {number}: expected UCX_NAME=value, got {line.strip()[:60]!r}")
        yield name.strip(), value


def taken_config(config: ucp_config_t | None) -> ucp_config_t:
    """A copy of a configuration; of None, of what :func:`ucp_config_read` finds."""
    return ucp_config_read(None, None) if config is None else _alive(config).copy()


def ucp_config_release(config: ucp_config_t) -> None:
    """Give a configuration up; what was made with it goes on. Raises UCS_ERR_INVALID_PARAM the second time."""
    _alive(config).released = True


def ucp_config_modify(config: ucp_config_t, name: str, value: str) -> None:
    """Set one key; its name has no ``UCX_`` in front.

    Raises UCS_ERR_NO_ELEM for a key that is not known, UCS_ERR_INVALID_PARAM for a value that the key cannot have;
    then nothing has changed.
    """
    _alive(config).set(text("name", name), text("value", value))


def ucp_config_print(config: ucp_config_t, stream: TextIO, title: str | None, print_flags: int) -> None:
    """Print a configuration; ``print_flags`` are of :class:`ucs_config_print_flags_t`, and say what of it.

    What is printed with CONFIG alone, or with DOC, :func:`ucp_config_read` reads again as a file.
    """
    _alive(config)
    flags = _FLAGS("print_flags", print_flags)
    if not callable(getattr(stream, "write", None)):
        raise wrong_type("stream", "a text file", stream)
    lines = []
    if flags & _PRINT.UCS_CONFIG_PRINT_DOC:
        lines += ["# UCX library configuration file", "# Uncomment to modify values"]
    if flags & _PRINT.UCS_CONFIG_PRINT_HEADER:
        lines += ["", "#", f"# {'' if title is None else text('title', title)}", "#", ""]
    if flags & _PRINT.UCS_CONFIG_PRINT_CONFIG:
        for key in KEYS.values():
            if key.alias_of is None or flags & _PRINT.UCS_CONFIG_PRINT_HIDDEN:
                lines += _printed(config, key, flags)
    if flags & _PRINT.UCS_CONFIG_PRINT_HEADER:
        lines.append("")
    stream.write("".join(f"{line}\n" for line in lines))


def _printed(config: ucp_config_t, key: Key, flags: int) -> list[str]:
    commented = flags & _PRINT.UCS_CONFIG_PRINT_COMMENT_DEFAULT and config.is_default(key.name)
    line = f"{'# ' if commented else ''}{_PREFIX}{key.name}={config.text(key.name)}"
    if not flags & _PRINT.UCS_CONFIG_PRINT_DOC:
        return [line]
    doc = [key.doc] if key.alias_of is None else [f"alias of: {_PREFIX}{key.alias_of}"]
    if key.inert:
        doc.append("Changes nothing on this NIC.")
    return ["#", *(f"# {each}" for each in doc), "#", f"# syntax: {key.syntax.words}", "#", line, ""]


def _alive(config: ucp_config_t) -> ucp_config_t:
    if not isinstance(config, ucp_config_t):
        raise wrong_type("config", "a ucp_config_t", config)
    if config.released:
        raise invalid_param("config: expected a configuration in use, got a released one")
    return config
