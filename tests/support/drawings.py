"""Reads plots back: the points of an SVG's lines."""

import re
import xml.etree.ElementTree as ElementTree

__all__ = ["SVG", "Place", "lines_of"]

SVG = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float]


def lines_of(text: str, kind: str) -> list[list[Place]]:
    """Return the corners of each line whose group's id is ``kind`` and a number."""
    name = re.compile(rf"{kind}-\d+")
    groups = [group for group in ElementTree.fromstring(text).iter(f"{SVG}g") if name.fullmatch(group.get("id", ""))]
    paths = [group.find(f"{SVG}path").get("d") for group in groups]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path)] for path in paths]
