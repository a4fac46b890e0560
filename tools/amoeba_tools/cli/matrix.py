"""``amoeba matrix``: the atomics that a device executes, read from its capability registers."""

import json
import re
import textwrap
from typing import Annotated

import typer
from amoeba.devices.devices import open_device
from amoeba.libfabric.objects.constants import Datatype, Op
from amoeba.nic.nic import Nic
from amoeba_model.atomic.matrix import cells
from amoeba_model.opcodes import Form
from rich.console import Console

from amoeba_tools.cli.common import BuildOption, DeviceOption, device_kinds

__all__ = ["matrix"]

_ABSENT = "-"
_LETTERS = {Form.BASE: "b", Form.FETCH: "f", Form.COMPARE: "c"}
_SHORT = {
    Datatype.FI_FLOAT: "F",
    Datatype.FI_DOUBLE: "D",
    Datatype.FI_FLOAT_COMPLEX: "FC",
    Datatype.FI_DOUBLE_COMPLEX: "DC",
    Datatype.FI_LONG_DOUBLE: "LD",
    Datatype.FI_LONG_DOUBLE_COMPLEX: "LDC",
    Datatype.FI_FLOAT16: "F16",
    Datatype.FI_BFLOAT16: "BF16",
    Datatype.FI_FLOAT8_E4M3: "E4M3",
    Datatype.FI_FLOAT8_E5M2: "E5M2",
}


def matrix(
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    build: BuildOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the operation x datatype matrix of a device.

    Example: amoeba matrix --device rtl --build full
    """
    console = Console()
    for kind in dict.fromkeys(device_kinds(device, None)):
        with open_device(kind) as opened:
            nic = Nic(opened)
            executed = {
                cell for cell in cells(extensions=True) if nic.atomic_mask(cell.form, cell.op) >> cell.datatype & 1
            }
            named = [cell for cell in cells() if cell in executed]
            if as_json:
                print(json.dumps({"device": opened.name, "cells": sorted(map(str, executed))}, indent=2))
                continue
            print(nic.device.name)
            table = _table(nic)
            if max(map(len, table)) <= console.width:
                print("\n".join(table))
            else:
                _print_list(nic, console)
            console.print(
                f"{len(named)} of {len(cells())} cells of fi_atomic(3), and {len(executed) - len(named)} of "
                f"{len(cells(extensions=True)) - len(cells())} extensions"
            )
            print("b: fi_atomic, f: fi_fetch_atomic, c: fi_compare_atomic")


def _print_list(nic: Nic, console: Console) -> None:
    """Print the content of :func:`_table` for narrow terminals: per operation, the datatypes with equal forms."""
    for op in Op:
        datatypes: dict[str, list[str]] = {}
        for datatype in Datatype:
            forms = _forms(nic, op, datatype)
            if forms:
                datatypes.setdefault(forms, []).append(_short(datatype))
        for forms, names in datatypes.items():
            start = f"{op.name.removeprefix('FI_'):<13}{forms:<4}"
            indent = " " * len(start)
            print(textwrap.fill(" ".join(names), console.width, initial_indent=start, subsequent_indent=indent))


def _table(nic: Nic) -> list[str]:
    """Return the lines of the matrix: a row per operation, a column per datatype."""
    titles = [_title(_short(datatype)) for datatype in Datatype]
    table = [["datatype", *(above for above, _ in titles)], ["", *(below for _, below in titles)]]
    for op in Op:
        forms = (_forms(nic, op, datatype) or _ABSENT for datatype in Datatype)
        table.append([op.name.removeprefix("FI_"), *forms])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [" ".join(map(str.ljust, line, widths)).rstrip() for line in table]


def _title(short: str) -> tuple[str, str]:
    """Return a column's title in two lines: I64 is I above 64, E4M3 is E4 above M3."""
    found = re.fullmatch(r"(E\d|[A-Z]+)(.*)", short)
    assert found is not None
    return found[1], found[2]


def _forms(nic: Nic, op: Op, datatype: Datatype) -> str:
    return "".join(_LETTERS[form] for form in Form if nic.atomic_mask(form, op) >> datatype & 1)


def _short(datatype: Datatype) -> str:
    """Abbreviate a datatype for a column title, as libfabric's users do: I8, U8, F, D, FC, ..."""
    return _SHORT.get(datatype) or datatype.name.removeprefix("FI_").replace("UINT", "U").replace("INT", "I")
