"""Recorded results of the real libfabric, and how an executor's results compare with them.

A recording is an npz file with keys ``form/OPERATION/DATATYPE/field`` and ``uint8[n, size]`` arrays of
little-endian memory; the fields are target, operand, compare (compare form), after, and fetched (absent where
it equals target in every row). A comparison leaves out three values that a recording cannot tell:

- the padding of a LONG_DOUBLE, which libfabric leaves undefined;
- the NaN of a complex sum or product, which depends on the operand order of libfabric's compiler;
- the fetched values of a base operation, which fetches nothing.

FI_CSWAP on floating point compares by bits in a libfabric built with compiler atomics, and by value in others:
each recorded cell says which.
"""

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from amoeba_model.atomic import softfloat
from amoeba_model.atomic.execute import execute
from amoeba_model.atomic.formats import float_format, is_complex, is_float
from amoeba_model.atomic.limbs import BoolArray
from amoeba_model.atomic.matrix import Cell, is_valid
from amoeba_model.opcodes import Datatype, Form, Op

__all__ = ["CellResult", "Executor", "Mismatch", "RecordedCell", "check", "compare", "execute_model", "load"]

Memory = npt.NDArray[np.uint8]

_FIELDS = frozenset({"target", "operand", "compare", "after", "fetched"})
_OPTIONAL_FIELDS = frozenset({"operand", "compare", "fetched"})
_EXAMPLES = 3
_DAMAGE = (
    ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RuntimeError, SyntaxError,
    TypeError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of NumPy and of the modules below for a file that is cut off, or in which bits are flipped."""


@dataclass(frozen=True, eq=False)
class RecordedCell:
    """Recording of libfabric in one cell: one vector per row of ``uint8[n, datatype.size]`` arrays.

    ``operand`` is None where FI_ATOMIC_READ was recorded without one, ``compare`` outside the compare form,
    ``fetched`` in the base form.
    """

    cell: Cell
    target: Memory
    operand: Memory | None
    compare: Memory | None
    after: Memory
    fetched: Memory | None
    cswap_by_bits: bool = False

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.target)


Executor = Callable[[RecordedCell], "tuple[Memory, Memory | None]"]
"""Given a recorded cell's inputs, the target memory afterwards and what was fetched (None in the base form)."""


@dataclass(frozen=True)
class Mismatch:
    """One vector whose result is not libfabric's; memory as bytes, None for what the form has not."""

    row: int
    target: bytes
    operand: bytes | None
    compare: bytes | None
    expected_after: bytes
    after: bytes
    expected_fetched: bytes | None
    fetched: bytes | None

    def __str__(self) -> str:
        """All of it in one line, most significant byte first."""
        words = [f"row {self.row}:"]
        for name in ("target", "operand", "compare", "after", "expected_after", "fetched", "expected_fetched"):
            memory: bytes | None = getattr(self, name)
            if memory is not None:
                words.append(f"{name} {memory[::-1].hex()}")
        return " ".join(words)


@dataclass(frozen=True)
class CellResult:
    """How many vectors of a cell an executor got wrong, and the first few of them."""

    cell: Cell
    vectors: int
    mismatches: int
    examples: tuple[Mismatch, ...]


def load(path: str | PathLike[str]) -> Iterator[RecordedCell]:
    """Read the cells of a recording, in the order of the file.

    Whether FI_CSWAP compared floating point by bits is found from the recording itself: pairs such as -0 and
    +0, or a NaN and itself, give the build away.

    Raises
    ------
    ValueError
        The file is damaged or no npz file, a key names no cell of the matrix, a field is missing, or an array has the
        wrong shape or type.
    OSError
        The file cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            yield from _cells(file)
        except _DAMAGE as error:
            raise ValueError(f"the file is damaged: {error}") from error


def _cells(file: BinaryIO) -> Iterator[RecordedCell]:
    if not zipfile.is_zipfile(file):
        raise ValueError("expected an npz file, got another format")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        fields: dict[Cell, dict[str, str]] = {}
        for key in archive.files:
            if "/" in key:  # others describe the recording as a whole
                cell, field = _parse(key)
                fields.setdefault(cell, {})[field] = key
        for cell, keys in fields.items():
            yield _recorded(cell, {field: archive[key] for field, key in keys.items()})


def compare(recorded: RecordedCell, after: Memory, fetched: Memory | None) -> BoolArray:
    """Find the rows of an executor's result that differ from the recording, as ``bool[n]``.

    Raises
    ------
    ValueError
        A result has another shape than the recording, or ``fetched`` is missing.
    """
    wrong = ~_same(recorded.cell, after, recorded.after, "after")
    if recorded.fetched is not None:
        if fetched is None:
            raise ValueError(f"{recorded.cell}: expected fetched memory, got None")
        # Fetched values are bits that were moved, never computed: NaNs included.
        read = replace(recorded.cell, op=Op.FI_ATOMIC_READ, form=Form.FETCH)
        wrong |= ~_same(read, fetched, recorded.fetched, "fetched")
    return wrong


def execute_model(recorded: RecordedCell) -> tuple[Memory, Memory | None]:
    """Execute a recorded cell in the golden model."""
    after = execute(
        recorded.cell.op,
        recorded.cell.datatype,
        recorded.target,
        recorded.operand,
        recorded.compare,
        cswap_by_bits=recorded.cswap_by_bits,
    )
    return after, None if recorded.cell.form is Form.BASE else recorded.target


def check(recorded: RecordedCell, executor: Executor = execute_model) -> CellResult:
    """Run an executor on a recorded cell and collect what it got wrong."""
    after, fetched = executor(recorded)
    rows = compare(recorded, after, fetched).nonzero()[0]
    examples = tuple(
        Mismatch(
            row=int(row),
            target=recorded.target[row].tobytes(),
            operand=_row(recorded.operand, row),
            compare=_row(recorded.compare, row),
            expected_after=recorded.after[row].tobytes(),
            after=after[row].tobytes(),
            expected_fetched=_row(recorded.fetched, row),
            fetched=_row(fetched, row),
        )
        for row in rows[:_EXAMPLES]
    )
    return CellResult(recorded.cell, len(recorded), len(rows), examples)


def _parse(key: str) -> tuple[Cell, str]:
    try:
        form, op, datatype, field = key.split("/")
        cell = Cell(Form(form), Op[op], Datatype[datatype])
    except (KeyError, ValueError):
        raise ValueError(f"expected a key form/OPERATION/DATATYPE/field, got {key!r}") from None
    if field not in _FIELDS or not is_valid(cell.op, cell.datatype, cell.form):
        raise ValueError(f"expected a field of a cell of the atomic matrix, got {key!r}")
    return cell, field


def _recorded(cell: Cell, arrays: dict[str, Memory]) -> RecordedCell:
    missing = _FIELDS - _OPTIONAL_FIELDS - set(arrays)
    if missing:
        raise ValueError(f"{cell}: expected the fields target and after, got no {sorted(missing)[0]}")
    rows = len(arrays["target"])
    for field, array in arrays.items():
        if array.dtype != np.uint8 or array.shape != (rows, cell.datatype.size):
            raise ValueError(
                f"{cell}/{field}: expected uint8[{rows}, {cell.datatype.size}], got {array.dtype}{array.shape}"
            )
    recorded = RecordedCell(
        cell,
        target=arrays["target"],
        operand=arrays.get("operand"),
        compare=arrays.get("compare"),
        after=arrays["after"],
        fetched=None if cell.form is Form.BASE else arrays.get("fetched", arrays["target"]),
    )
    if cell.op is Op.FI_CSWAP and is_float(cell.datatype):
        by_bits = replace(recorded, cswap_by_bits=True)
        if check(by_bits).mismatches < check(recorded).mismatches:
            return by_bits
    return recorded


def _row(memory: Memory | None, row: int) -> bytes | None:
    return None if memory is None else memory[row].tobytes()


def _same(cell: Cell, actual: Memory, expected: Memory, field: str) -> BoolArray:
    """Find the rows that agree, as far as a recording of the cell can tell."""
    if actual.shape != expected.shape:
        raise ValueError(f"{cell}/{field}: expected shape {expected.shape}, got {actual.shape}")
    if not is_float(cell.datatype):
        equal: BoolArray = (actual == expected).all(axis=1)
        return equal
    fmt = float_format(cell.datatype)
    parts = [memory.reshape(-1, fmt.storage_bytes) for memory in (actual, expected)]
    same: BoolArray = (parts[0] == parts[1])[:, : fmt.value_bytes].all(axis=1)
    if not is_complex(cell.datatype):
        return same
    if cell.op in (Op.FI_SUM, Op.FI_PROD):
        nans = [softfloat.unpack(fmt, softfloat.split(fmt, memory)).nan for memory in parts]
        same = np.logical_or(same, nans[0] & nans[1])
    return np.logical_and(same[0::2], same[1::2])
