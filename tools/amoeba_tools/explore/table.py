"""Results of an exploration."""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba_model.extras import installation

from amoeba_tools.plots import Mark, scatter_plot

__all__ = ["Exploration"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Exploration:
    """A table with a row for each NIC and workload."""

    rows: tuple[Row, ...]
    """By column: the axes; ``workload``, ``operations``, ``cycles`` (of the first NIC), ``cycles_per_operation`` and
    ``operations_per_second`` (at ``clock_hz``); ``block``, ``luts``, ``registers``, ``dsps`` and ``block_rams``;
    ``error``.

    Empty cells are None.
    """
    axes: tuple[str, ...]
    """Names of the axes."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names, in the order of tables."""
        return tuple(self.rows[0])

    @property
    def failures(self) -> tuple[Row, ...]:
        """Rows with an error."""
        return tuple(row for row in self.rows if row["error"])

    def front(self, *minimised: str) -> list[Row]:
        """Return the Pareto front of each workload, in the order of the table.

        A row is on the front unless another row of its workload is as small in each of these columns, and smaller in
        one. Rows without numbers there are left out.

        Raises FI_EINVAL for an unknown column, and for one without numbers.
        """
        self._check(minimised)
        known = [row for row in self.rows if all(_is_number(row[name]) for name in minimised)]

        def beaten(row: Row) -> bool:
            own = [row[name] for name in minimised]
            for other in known:
                if other.get("workload") == row.get("workload"):
                    others = [other[name] for name in minimised]
                    if others != own and all(it <= mine for it, mine in zip(others, own, strict=True)):
                        return True
            return False

        return [row for row in known if not beaten(row)]

    def _check(self, columns: Sequence[str]) -> None:
        for name in columns:
            numbers = [row[name] for row in self.rows if row.get(name) is not None]
            if not numbers or not all(map(_is_number, numbers)):
                known = [each for each in self.columns if any(_is_number(row[each]) for row in self.rows)]
                raise fabric_error(
                    Errno.FI_EINVAL, f"expected a column with numbers, of {', '.join(known) or 'none'}; got {name!r}"
                )

    def plot(self, x: str, y: str) -> Any:
        """Plot all rows as points of a matplotlib figure; a line joins the Pareto front of each workload.

        Raises FI_EINVAL as :meth:`front` does, and FI_ENOSYS if matplotlib is not installed: the extra
        ``plot``.
        """
        best = self.front(x, y)
        series: dict[str, list[Mark]] = {}
        for row in self.rows:
            if _is_number(row[x]) and _is_number(row[y]):
                label = ", ".join(f"{axis} {row[axis]}" for axis in self.axes)
                name = str(row.get("workload") or row.get("block"))
                series.setdefault(name, []).append(Mark(row[x], row[y], label, row in best))
        words = {name: name.replace("_", " ") for name in (x, y)}
        return scatter_plot(f"{words[y]} over {words[x]}", series, x_label=words[x], y_label=words[y])

    def to_csv(self) -> str:
        """Comma-separated values with a line of names."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`to_csv` to a file."""
        Path(path).write_text(self.to_csv())

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file. Raises FI_ENOSYS if pyarrow is not installed: the extra ``parquet``."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise fabric_error(
                Errno.FI_ENOSYS, f"Parquet needs pyarrow: {installation('parquet')} ({error})"
            ) from error
        content = io.BytesIO()  # pyarrow would remove a file that it cannot write, also a device
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(self.rows)), content)
        Path(path).write_bytes(content.getvalue())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
