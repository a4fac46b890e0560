"""A configuration: keys and values from the environment and a file, changed and printed.

A variable of the environment sets the key behind UCX_, or behind ``<env_prefix>_UCX_`` if a prefix is given. A file
has lines such as ``UCX_RNDV_THRESH=64k``, with or without the prefix; empty lines and lines that begin with # are
ignored. The environment wins over the file, a line with the prefix over one without, a later line over an earlier
one. Unknown keys are ignored in both, because other libraries than UCP read them.
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
    """A configuration, made by :func:`ucp_config_read`. Contexts keep a copy, so one configuration serves several."""

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
        """Return the value of a key as it was written."""
        key = _canonical(name)
        return self._given.get(key.name, key.default)

    def value(self, name: str) -> Any:
        """Return the meaning of a key's value: see :meth:`Key.read`."""
        return _canonical(name).read(self.text(name))

    def is_default(self, name: str) -> bool:
        """Return whether nobody has set a key."""
        return _canonical(name).name not in self._given

    def copy(self) -> "ucp_config_t":
        """Return a copy, which no later change of this configuration reaches."""
        return ucp_config_t(self.env_prefix, self._given)


def _canonical(name: str) -> Key:
    """Return the key that a name means, through its old names. Raises UCS_ERR_NO_ELEM."""
    key = KEYS.get(name)
    if key is None:
        raise UcsNoElemError(f"expected a key of UCP without {_PREFIX}, got {name[:60]!r}")
    return key if key.alias_of is None else KEYS[key.alias_of]


def ucp_config_read(env_prefix: str | None = None, filename: str | None = None) -> ucp_config_t:
    """Read a configuration from the environment, and from a file if it exists (ucp.h, group CONFIG).

    ``env_prefix``: for variables ``<env_prefix>_UCX_...``, or None. ``filename``: the file, or None. Raises
    UCS_ERR_INVALID_PARAM for a value that its key cannot have, and for a line that sets nothing; UCS_ERR_IO_ERROR for
    an unreadable file.
    """
    prefix = _PREFIX if env_prefix is None else f"{text('env_prefix', env_prefix)}_{_PREFIX}"
    from_file = {} if filename is None else _read_file(filename)
    given = _known(from_file, _PREFIX) | _known(from_file, prefix) | _known(os.environ, prefix)
    return ucp_config_t(env_prefix, given)


def _known(variables: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return values by key, of those variables that set one. An old name gives way to the one it stands for."""
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
    """Return a copy of a configuration; without one, what :func:`ucp_config_read` finds."""
    return ucp_config_read(None, None) if config is None else _alive(config).copy()


def ucp_config_release(config: ucp_config_t) -> None:
    """Release a configuration; contexts made with it go on (ucp.h, group CONFIG).

    Raises UCS_ERR_INVALID_PARAM the second time.
    """
    _alive(config).released = True


def ucp_config_modify(config: ucp_config_t, name: str, value: str) -> None:
    """Set one key; its name has no ``UCX_`` in front (ucp.h, group CONFIG).

    Raises UCS_ERR_NO_ELEM for an unknown key, UCS_ERR_INVALID_PARAM for a value that the key cannot have; then
    nothing has changed.
    """
    _alive(config).set(text("name", name), text("value", value))


def ucp_config_print(config: ucp_config_t, stream: TextIO, title: str | None, print_flags: int) -> None:
    """Print a configuration to ``stream``, under ``title`` (ucp.h, group CONFIG).

    ``print_flags``: the parts to print (:class:`ucs_config_print_flags_t`). :func:`ucp_config_read` can read a print
    with CONFIG alone, or with DOC, as a file.
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
