"""Results as grids, which the console shows and the pages hold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amoeba_model.opcodes import Datatype, Form, Op
from rich.table import Table

from bench.engine import CellCycles

__all__ = ["Grid", "cycles_grid", "misses_grid", "number", "replace_section"]


def number(value: object) -> str:
    """How a figure is written: no digits that mean nothing, thousands apart."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class Grid:
    """A titled table. Columns that hold only numbers are right-aligned."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def _is_numeric(self, column: int) -> bool:
        return bool(self.rows) and all(isinstance(row[column], int | float) for row in self.rows)

    def markdown(self) -> str:
        """Render the table without its title."""
        aligned = ("---:" if self._is_numeric(column) else "---" for column in range(len(self.header)))
        lines = [self.header, list(aligned), *([number(value) for value in row] for row in self.rows)]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def console(self) -> Table:
        shown = Table(title=self.title, title_justify="left", show_edge=False)
        for column, name in enumerate(self.header):
            shown.add_column(name, justify="right" if self._is_numeric(column) else "left")
        for row in self.rows:
            shown.add_row(*(number(value) for value in row))
        return shown


def _short(members: Iterable[Op | Datatype]) -> str:
    return ", ".join(member.name.removeprefix("FI_") for member in members)


def _pair(cells: Sequence[CellCycles]) -> str:
    """``independent / chain`` of one operation on one datatype; every form that differs by name."""
    texts = {cell.cell.form: f"{number(cell.independent)} / {number(cell.chain)}" for cell in cells}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{form.value} {texts[form]}" for form in Form if form in texts)


def _alike(keys: Iterable[Op | Datatype], lines: dict[Op | Datatype, tuple[str, ...]]) -> list[list[Op | Datatype]]:
    """``keys`` in groups whose lines are equal, in order of each group's first."""
    groups: dict[tuple[str, ...], list[Op | Datatype]] = {}
    for key in keys:
        groups.setdefault(lines[key], []).append(key)
    return list(groups.values())


def cycles_grid(measured: Sequence[CellCycles]) -> Grid:
    """Operations by datatypes; those with the same figures everywhere share a row or a column."""
    by_pair: dict[tuple[Op, Datatype], list[CellCycles]] = {}
    for cell in measured:
        by_pair.setdefault((cell.cell.op, cell.cell.datatype), []).append(cell)
    ops = sorted({op for op, _ in by_pair})
    datatypes = sorted({datatype for _, datatype in by_pair})
    texts = {key: _pair(cells) for key, cells in by_pair.items()}
    rows = _alike(ops, {op: tuple(texts.get((op, datatype), "") for datatype in datatypes) for op in ops})
    columns = _alike(datatypes, {kind: tuple(texts.get((op, kind), "") for op in ops) for kind in datatypes})
    return Grid(
        "cycles per beat of the memory engine: independent / chain (exact)",
        ("operations", *(_short(column) for column in columns)),
        [(_short(row), *(texts.get((Op(row[0]), Datatype(column[0])), "") for column in columns)) for row in rows],
    )


def misses_grid(measured: Sequence[CellCycles]) -> Grid:
    """Operations and datatypes whose cells are above their limit, those that miss it alike in one row."""
    groups: dict[tuple[str, ...], dict[tuple[Op, Datatype], None]] = {}
    for cell in measured:
        if cell.misses:
            groups.setdefault(tuple(cell.misses), {})[cell.cell.op, cell.cell.datatype] = None
    return Grid(
        "above the limit (cycles per beat)",
        ("operations", "datatypes", "missed by"),
        [
            (_short(sorted({op for op, _ in pairs})), _short(sorted({kind for _, kind in pairs})), "; ".join(misses))
            for misses, pairs in groups.items()
        ],
    )


def replace_section(page: str, name: str, text: str) -> str:
    """``page`` with ``text`` between the marks ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.

    Raises ValueError if the page does not have the marks once each, in this order.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"expected one {begin.strip()} and one {end} after it")
    head, rest = page.split(begin)
    return head + begin + text + end + rest.split(end)[1]
