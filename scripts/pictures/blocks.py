"""The block diagram: the NIC's components and the streams between them, as its own ``elaborate`` joins them."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from amaranth.hdl import Module
from amaranth.lib import wiring
from amoeba_hw.nic import Nic
from amoeba_model.parameters import NicParameters
from svg import Drawing

__all__ = ["block_diagram", "hierarchy"]

GROUPS = {
    "registers": ("registers", ("registers_bus", "registers", "interrupt_merger", "counters")),
    "initiator": ("Initiator", ("initiator",)),
    "wire": ("frames", ("transmitter", "receiver")),
    "target": ("Target", ("target",)),
    "memory": ("MemoryEngine", ("memory",)),
    "host": (
        "host memory",
        ("read_hub", "write_hub", "operand_reader", "compare_reader", "result_writer", "line_order", "dma"),
    ),
}
"""The diagram's boxes: title, and the names of what stands in each. A block without a place is an error."""
GLUE = ("HalfRateSlice", "SkidBuffer", "Queue", "RegisteredQueue", "RegisteredArbiter", "RoundRobinArbiter")
"""Components between blocks that are not worth a box."""
OUTSIDE = "outside"
LEFT, MIDDLE, RIGHT = 20, 290, 850
WIDE, SIDE = 390, 150
WIDTH = 1020
LINE = 15


class Block(NamedTuple):
    """A component: the name that it has in a waveform, what it is, and what stands in it."""

    name: str
    kind: str
    inside: list["Block"]


class Stream(NamedTuple):
    """A connection between two blocks of one level; "outside" is the level's own border."""

    source: str
    target: str
    name: str


def hierarchy(component: Any, name: str = "nic") -> tuple[Block, list[Stream]]:
    """Return a component with all below it, and the streams between the blocks right below it."""
    found: list[tuple[Any, Any]] = []
    with _watched(found):
        module = component.elaborate(None)
    below = dict(_submodules(module))
    ports = {port: (inner, member) for inner, block in below.items() for member, port in _ports(block)}
    ports |= {port: (OUTSIDE, member) for member, port in _ports(component)}
    streams = []
    for producer, consumer in found:
        source, target = ports.get(id(producer)), ports.get(id(consumer))
        if source and target:
            streams.append(Stream(source[0], target[0], source[1] if source[0] != OUTSIDE else target[1]))
    blocks = [hierarchy(block, inner)[0] for inner, block in below.items() if hasattr(block, "elaborate")]
    return Block(name, type(component).__name__, blocks), streams


@contextlib.contextmanager
def _watched(found: list[tuple[Any, Any]]) -> Iterator[None]:
    """Note the interfaces that are connected meanwhile."""
    connect = wiring.connect

    def noting(module: Any, *interfaces: Any, **named: Any) -> None:
        if len(interfaces) == 2:
            found.append((_plain(interfaces[0]), _plain(interfaces[1])))
        connect(module, *interfaces, **named)

    wiring.connect = noting
    try:
        yield
    finally:
        wiring.connect = connect


def _plain(interface: Any) -> Any:
    return wiring.flipped(interface) if isinstance(interface, wiring.FlippedInterface) else interface


def _submodules(module: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(module, Module):
        for name, entry in module._named_submodules.items():
            yield name, entry[0] if isinstance(entry, tuple) else entry


def _ports(component: Any) -> Iterator[tuple[str, int]]:
    """(member, identity of its interface) of each port that is an interface, or one of several."""

    def inside(member: str, value: Any) -> Iterator[tuple[str, int]]:
        if isinstance(value, list | tuple):
            for each in value:
                yield from inside(member, each)
        elif hasattr(value, "signature"):
            yield member, id(_plain(value))

    if isinstance(component, wiring.Component):
        for member in component.signature.members:
            yield from inside(member, getattr(component, member))


def block_diagram() -> str:
    """Draw the whole NIC: the components of each block, and the streams from block to block, by name."""
    nic = Nic(NicParameters())
    outer, _ = hierarchy(nic)
    core = next(block for block in outer.inside if block.name == "core")
    _, streams = hierarchy(nic_core(nic))
    inside, within = _without_glue(core.inside, streams)
    placed = {name: group for group, (_, names) in GROUPS.items() for name in names}
    blocks = [*inside, *(block for block in outer.inside if block.name != "core")]
    homeless = [block.name for block in blocks if block.name not in placed]
    if homeless:
        raise SystemExit(f"{', '.join(homeless)}: blocks of the NIC without a place in {__file__}: GROUPS")
    members: dict[str, list[Block]] = defaultdict(list)
    for block in blocks:
        members[placed[block.name]].append(block)
    between: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stream in within:
        ends = placed.get(stream.source, OUTSIDE), placed.get(stream.target, OUTSIDE)
        if OUTSIDE not in ends and ends[0] != ends[1] and stream.name not in between[ends]:
            between[ends].append(stream.name)
    return _drawn(members, between)


def _without_glue(blocks: list[Block], streams: list[Stream]) -> tuple[list[Block], list[Stream]]:
    """Leave out the glue of one level: a stream that passes through it goes on to the block behind."""
    glue = {block.name for block in blocks if block.kind in GLUE}
    behind = {stream.source: stream.target for stream in streams if stream.source in glue}
    whole = [
        stream._replace(target=behind.get(stream.target, stream.target))
        for stream in streams
        if stream.source not in glue
    ]
    return [block for block in blocks if block.name not in glue], whole


def nic_core(nic: Any) -> Any:
    """Find the core that the NIC makes for itself."""
    return dict(_submodules(nic.elaborate(None)))["core"]


def _drawn(members: dict[str, list[Block]], between: dict[tuple[str, str], list[str]]) -> str:
    middle = ("initiator", "wire", "target", "memory")
    heights = {group: _height(group, members, between) for group in middle}
    tops, y = {}, 56.0
    for group in middle:
        tops[group] = y
        y += heights[group] + 46
    bottom = y - 46
    drawing = Drawing(WIDTH, bottom + 30, "Block diagram of the NIC")
    drawing.text(LEFT, 24, "The NIC: blocks, and the streams between them", "title")
    for group, left in (("registers", LEFT), ("host", RIGHT)):
        drawing.box(left, 56, SIDE, bottom - 56)
        drawing.text(left + 8, 74, GROUPS[group][0], "title")
        for number, block in enumerate(members[group]):
            drawing.box(left + 8, 84 + 26 * number, SIDE - 16, 21, "inner", hint=block.name)
            drawing.text(left + SIDE / 2, 98 + 26 * number, block.kind, at="middle")
    for group in middle:
        _middle(drawing, group, members[group], tops[group], heights[group], between)
    for above, below in pairwise(middle):
        _vertical(drawing, above, below, tops[below] - 46, between)
    drawing.text(LEFT + SIDE / 2, bottom - 24, "BAR (AXI4-Lite), irq", "small dim", at="middle")
    drawing.text(RIGHT + SIDE / 2, bottom - 24, "host (AXI4)", "small dim", at="middle")
    return str(drawing)


def _flows(group: str, side: str, between: dict[tuple[str, str], list[str]]) -> list[tuple[str, bool]]:
    """(stream, whether it goes to the group) between a group and one beside it."""
    return [(name, True) for name in between.get((side, group), ())] + [
        (name, False) for name in between.get((group, side), ())
    ]


def _height(group: str, members: dict[str, list[Block]], between: dict[tuple[str, str], list[str]]) -> float:
    chips = len(_chips(members[group]))
    flows = max(len(_flows(group, side, between)) for side in ("registers", "host"))
    return max(34 + 24 * -(-chips // 2), 20 + LINE * flows)


def _chips(blocks: list[Block]) -> list[Block]:
    """List the components of a box: those of its block, but for the glue that is in every one, or several blocks."""
    return blocks if len(blocks) > 1 else [each for each in blocks[0].inside if each.kind not in GLUE]


def _middle(
    drawing: Drawing, group: str, blocks: list[Block], top: float, height: float,
    between: dict[tuple[str, str], list[str]],
) -> None:  # fmt: skip
    drawing.box(MIDDLE, top, WIDE, height)
    drawing.text(MIDDLE + 8, top + 18, GROUPS[group][0], "title")
    if group == "wire":
        drawing.text(MIDDLE + WIDE - 8, top + 17, "link: rx, tx", "small dim", at="end")
    for number, block in enumerate(_chips(blocks)):
        x, y = MIDDLE + 8 + (number % 2) * (WIDE - 12) / 2, top + 26 + 24 * (number // 2)
        drawing.box(x, y, (WIDE - 20) / 2, 20, "inner", hint=block.name)
        drawing.text(x + (WIDE - 20) / 4, y + 14, block.kind, "small" if len(block.kind) > 18 else "", at="middle")
    for side, near, far in (("registers", MIDDLE, LEFT + SIDE), ("host", MIDDLE + WIDE, RIGHT)):
        for number, (name, inwards) in enumerate(_flows(group, side, between)):
            y = top + 14 + LINE * number
            drawing.arrow(*(((far, y), (near, y)) if inwards else ((near, y), (far, y))))
            drawing.text((near + far) / 2, y - 2, name, "tiny dim", at="middle")


def _vertical(
    drawing: Drawing, above: str, below: str, top: float, between: dict[tuple[str, str], list[str]]
) -> None:  # fmt: skip
    flows = _flows(below, above, between)
    for number, (name, down) in enumerate(flows):
        x = MIDDLE + WIDE * (number + 0.5) / len(flows) - 32
        drawing.arrow(*(((x, top), (x, top + 46)) if down else ((x, top + 46), (x, top))))
        drawing.text(x + 4, top + (19 if number % 2 else 33), name, "tiny dim")
