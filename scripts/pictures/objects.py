"""The objects of libfabric's API, and which calls make them: from the signatures of the public classes."""

import inspect
import typing
from collections.abc import Iterator

import amoeba
from svg import Drawing

__all__ = ["api_objects", "makers"]

ROOT = amoeba.Fabric
WIDTH, BOX, ROW = 1030, 210, 40
COLUMNS = (30, 350, 690)


def makers() -> list[tuple[str, str, str]]:
    """(class, method, class of its result) of every method that returns an object that has to be closed."""
    return sorted(set(_made_by(ROOT, set())), key=lambda made: (made[0] != "Fabric", made[0], made[1]))


def _made_by(owner: type, seen: set[type]) -> Iterator[tuple[str, str, str]]:
    seen.add(owner)
    for name, method in inspect.getmembers(owner, inspect.isfunction):
        if name.startswith("_"):
            continue
        for result in _results(method):
            if result is not owner and hasattr(result, "close") and result.__name__ in amoeba.__all__:
                yield owner.__name__, name, result.__name__
                if result not in seen:
                    yield from _made_by(result, seen)


def _results(method: object) -> list[type]:
    """List the classes that a method may return an object of."""
    annotation = inspect.signature(method).return_annotation  # type: ignore[arg-type]
    if isinstance(annotation, str):
        return [value for name, value in vars(amoeba).items() if isinstance(value, type) and name == annotation]
    parts = [annotation, *typing.get_args(annotation)]
    return [typing.get_origin(part) or part for part in parts if isinstance(typing.get_origin(part) or part, type)]


def api_objects() -> str:
    """Draw a tree from the fabric down, each arrow the call that makes an object, and the network below it."""
    found = makers()
    columns: list[list[str]] = [["Fabric"], [], []]
    parents: dict[str, tuple[str, list[str]]] = {}
    for owner, method, made in found:
        if made in parents:
            if parents[made][0] == owner:
                parents[made][1].append(method)
            continue
        if made == "Fabric":
            continue
        parents[made] = (owner, [method])
        depth = next(number for number, column in enumerate(columns) if owner in column)
        columns[min(depth + 1, 2)].append(made)
    rows = max(map(len, columns))
    height = 90 + rows * ROW + 120
    drawing = Drawing(WIDTH, height, "Objects of libfabric's API")
    drawing.text(30, 26, "Objects of libfabric's API, and the calls that make them", "title")
    places = {
        name: (COLUMNS[depth], 50 + row * ROW)
        for depth, column in enumerate(columns)
        for row, name in enumerate(column)
    }
    for name, (x, y) in places.items():
        drawing.box(x, y, BOX, 26)
        drawing.text(x + BOX / 2, y + 17, name, at="middle")
    for name, (owner, methods) in parents.items():
        (x0, y0), (x1, y1) = places[owner], places[name]
        bend = x1 - 105
        if x1 == x0:  # made by what stands in the same column
            drawing.text(x1 + BOX + 4, y1 + 17, f"by {owner}", "tiny dim")
            continue
        drawing.arrow((x0 + BOX, y0 + 13), (bend, y0 + 13), (bend, y1 + 13), (x1, y1 + 13))
        label = methods[0] + (f", {methods[1]}" if len(methods) == 2 else " ..." if len(methods) > 2 else "")
        drawing.text(bend + 4, y1 + 9, label, "tiny dim")
    _network(drawing, 50 + rows * ROW + 30)
    return str(drawing)


def _network(drawing: Drawing, top: float) -> None:
    """Draw the NICs and the network that open_cluster opens."""
    for number, x in enumerate((COLUMNS[0], COLUMNS[2])):
        drawing.box(x, top, BOX, 60)
        drawing.text(x + BOX / 2, top + 22, f"NIC {number}: model or rtl", at="middle")
        addresses = f"02:00:00:00:00:0{number + 1}, 10.0.0.{number + 1}"
        drawing.text(x + BOX / 2, top + 42, addresses, "small dim", at="middle")
    drawing.box(COLUMNS[1], top, BOX, 60, "inner")
    drawing.text(COLUMNS[1] + BOX / 2, top + 22, "Network", at="middle")
    drawing.text(COLUMNS[1] + BOX / 2, top + 42, "loss, delay ..., or UDP to others", "small dim", at="middle")
    for left, right in ((COLUMNS[0] + BOX, COLUMNS[1]), (COLUMNS[1] + BOX, COLUMNS[2])):
        drawing.arrow((left, top + 24), (right, top + 24))
        drawing.arrow((right, top + 38), (left, top + 38))
    drawing.text(30, top - 10, 'open_cluster(["model", "rtl"]): a domain is opened on each NIC', "dim")
