"""Text of settings of a NIC, such as ``lines=16`` or ``datatypes=integers``, for all command lines."""

import dataclasses
from typing import Any

from amoeba_model.atomic.formats import is_complex, is_float
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters

__all__ = ["GROUPS", "read_setting", "shown_setting"]

GROUPS: dict[str, dict[str, tuple[Any, ...]]] = {
    "datatypes": {
        "all": tuple(Datatype),
        "integers": tuple(each for each in Datatype if not is_float(each) and not is_complex(each)),
        "floats": tuple(each for each in Datatype if is_float(each)),
    },
    "ops": {"all": tuple(Op)},
}
"""Names for several datatypes or operations at once."""

_MEMBERS: dict[str, type[Datatype] | type[Op]] = {"datatypes": Datatype, "ops": Op}
_FLAGS = tuple(each.name for each in dataclasses.fields(NicParameters) if isinstance(each.default, bool))


def read_setting(name: str, text: str) -> Any:
    """Read the value of a field of NicParameters, or of another whole number.

    Names of datatypes, operations and their :data:`GROUPS` are joined by ``+``, in upper or lower case, with or
    without ``FI_``. Raises ValueError for other text.
    """
    if name in _MEMBERS:
        return _read_members(name, text)
    if name in _FLAGS:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name}: expected true or false, got {text!r}")
        return text.lower() == "true"
    if not text.isdecimal():
        raise ValueError(f"{name}: expected a whole number, got {text!r}")
    return int(text)


def _read_members(name: str, text: str) -> tuple[Any, ...]:
    kind = _MEMBERS[name]
    found: set[Any] = set()
    for word in text.split("+"):
        if word.lower() in GROUPS[name]:
            found |= set(GROUPS[name][word.lower()])
            continue
        try:
            found.add(kind["FI_" + word.upper().removeprefix("FI_")])
        except KeyError:
            known = ", ".join([*GROUPS[name], *(member.name.removeprefix("FI_") for member in kind)])
            raise ValueError(f"{name}: expected some of {known}, joined by +, got {word!r}") from None
    return tuple(member for member in kind if member in found)


def shown_setting(name: str, value: Any) -> Any:
    """Return the text that :func:`read_setting` reads as this value; numbers stay numbers."""
    if name not in _MEMBERS:
        return value
    for group, members in GROUPS[name].items():
        if set(value) == set(members):
            return group
    return "+".join(member.name.removeprefix("FI_") for member in value)
