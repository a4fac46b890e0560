"""Input of every generator: the declarations, and short ways to describe them."""

import ast
import enum
import functools
import inspect
import itertools
import re

from amoeba_model import descriptors, opcodes, registers, trace, ucp
from amoeba_model.layout import HEADER_LENGTH, Access, Register
from amoeba_model.wire import uet

__all__ = ["BLOCK_HEADER", "HOST_ENUMS", "WIRE_ENUMS", "member_docs", "notice", "summary"]

HOST_ENUMS: tuple[type[enum.IntEnum] | type[enum.IntFlag], ...] = (
    opcodes.Op,
    opcodes.Datatype,
    descriptors.DescriptorOpcode,
    descriptors.DescriptorFlags,
    descriptors.ReceiveOpcode,
    descriptors.ReceiveFlags,
    descriptors.CompletionFlags,
    descriptors.EventKind,
    descriptors.EventFlags,
    registers.ContextControl,
    registers.KeyFlags,
    registers.PeerFlags,
    registers.Counter,
    trace.Stage,
    trace.Requester,
    ucp.MessageKind,
    ucp.MessageFlags,
)
WIRE_ENUMS: tuple[type[enum.IntEnum] | type[enum.IntFlag], ...] = (
    uet.PdsType,
    uet.PdsFlags,
    uet.AckFlags,
    uet.ControlFlags,
    uet.NextHeader,
    uet.ControlType,
    uet.NackCode,
    uet.RequestOpcode,
    uet.SesFlags,
    uet.ResponseOpcode,
    uet.ReturnCode,
    uet.AtomicOpcode,
    uet.AtomicDatatype,
    uet.SemanticControl,
)

BLOCK_HEADER = (
    Register("type", 0, Access.R, "Type number of the block."),
    Register("version", 4, Access.R, "Version of the block."),
    Register("length", 8, Access.R, "Bytes of the block."),
    Register("next", 12, Access.R, "BAR offset of the next block; 0 in the last one."),
)
assert len(BLOCK_HEADER) * 4 == HEADER_LENGTH


def notice(*modules: str) -> str:
    """Return the sentence that opens every generated file."""
    sources = ", ".join(f"amoeba_model.{module}" for module in modules)
    return f"Generated from {sources} by python -m amoeba_model.generate; do not edit."


def summary(numbers: type[enum.Enum]) -> str:
    """Return the first line of an enumeration's own docstring, without markup; empty if it has none."""
    line = (ast.get_docstring(_class_of(numbers)) or "").split("\n")[0]
    return re.sub(r":\w+:", "", line).replace("`", "")


def member_docs(numbers: type[enum.Enum]) -> dict[str, str]:
    """Read the string that follows each member in an enumeration's source, on one line; some have none."""
    body = _class_of(numbers).body
    docs: dict[str, str] = {}
    for member, doc in itertools.pairwise(body):
        if (
            isinstance(member, ast.Assign)
            and isinstance(member.targets[0], ast.Name)
            and isinstance(doc, ast.Expr)
            and isinstance(doc.value, ast.Constant)
            and isinstance(doc.value.value, str)
        ):
            docs[member.targets[0].id] = " ".join(doc.value.value.split())
    return docs


@functools.cache
def _class_of(numbers: type[enum.Enum]) -> ast.ClassDef:
    definition = ast.parse(inspect.getsource(numbers)).body[0]
    assert isinstance(definition, ast.ClassDef)
    return definition
