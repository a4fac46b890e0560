"""The life of an atomic, as recorded of two RTL NICs: kept in a file, which a test holds to the RTL."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from amoeba_model.trace import Stage
from amoeba_tools.tracing.html import GROUPS
from svg import Drawing

__all__ = ["DATA", "life_of_an_atomic"]

DATA = Path(__file__).parents[2] / "docs" / "pictures" / "life-of-an-atomic.json"
LEFT, RIGHT, WIDTH = 130, 30, 960
LANES = {0: 118, 1: 200}
HIGH = 30


def life_of_an_atomic() -> str:
    """Draw a lane per NIC; a colour marks the cause of the time before a stage, and slopes are the links."""
    steps: list[dict[str, Any]] = json.loads(DATA.read_text())["steps"]
    end = steps[-1]["cycle"]
    drawing = Drawing(WIDTH, 326, "The life of an atomic, by cycle")
    drawing.text(20, 26, f"One fetching atomic on RTL: {end} cycles from doorbell to interrupt", "title")

    def across(cycle: float) -> float:
        return LEFT + cycle / end * (WIDTH - LEFT - RIGHT)

    for cycle in range(0, end + 1, 100):
        drawing.line((across(cycle), 60), (across(cycle), 272), kind="grid")
        drawing.text(across(cycle), 54, str(cycle), "small dim", at="middle")
    drawing.text(20, 54, "cycle", "small dim")
    for nic, words in ((0, ("NIC 0", "initiator")), (1, ("NIC 1", "target"))):
        for number, line in enumerate(words):
            drawing.text(20, LANES[nic] + 12 + 15 * number, line, "dim" if number else "")
    level = {0: 0, 1: 0}
    marked: dict[int, float] = {0: -100.0, 1: -100.0}
    for before, step in pairwise(steps):
        stage, x0, x1 = Stage[step["stage"]], across(before["cycle"]), across(step["cycle"])
        group = GROUPS[stage]
        if before["nic"] != step["nic"]:
            y0, y1 = LANES[before["nic"]], LANES[step["nic"]]
            drawing.polygon(group, (x0, y0), (x1, y1), (x1, y1 + HIGH), (x0, y0 + HIGH))
        else:
            drawing.box(x0, LANES[step["nic"]], max(x1 - x0, 1), HIGH, group, round=0,
                        hint=f"{_plain(stage)}: +{step['cycle'] - before['cycle']}")  # fmt: skip
    for step in steps:
        nic, x = step["nic"], across(step["cycle"])
        level[nic] = (level[nic] + 1) % 4 if x - marked[nic] < 95 else 0
        marked[nic] = x
        # above the initiator's lane, below the target's: between them are the links
        y = LANES[nic] + HIGH + 14 + 12 * level[nic] if nic else LANES[nic] - 6 - 12 * level[nic]
        drawing.line((x, LANES[nic] + (HIGH if nic else 0)), (x, y - 8 if nic else y + 2), kind="grid")
        late = x > WIDTH - 180
        drawing.text(x + (-2 if late else 2), y, f"{step['cycle']} {_plain(Stage[step['stage']])}", "tiny",
                     at="end" if late else "start")  # fmt: skip
    meanings = {
        "host": "descriptor, from host memory", "send": "made and sent", "wire": "link", "check": "checked",
        "memory": "memory: host and engine", "answer": "answered", "finish": "result and completion",
    }  # fmt: skip
    x = 20.0
    for group, meaning in meanings.items():
        drawing.box(x, 298, 10, 10, group, round=2)
        drawing.text(x + 15, 307, meaning, "small")
        x += 30 + 6.1 * len(meaning)
    return str(drawing)


def _plain(stage: Stage) -> str:
    return stage.name.lower().replace("_", " ")
