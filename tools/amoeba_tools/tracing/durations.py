"""Durations of operations from each stage to the next: where time goes, and where operations wait."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from amoeba_model.trace import Stage

from amoeba_tools.tracing.operations import At, Operation

__all__ = ["Duration", "durations", "spans"]

Duration = tuple[int, int, int, int, int, int]
"""A stage, how often it was reached, and least, median, 95th percentile and most of the cycles until it was."""


def spans(operation: Operation) -> Iterator[tuple[At, At]]:
    """Yield the pairs of consecutive stages: of the descriptor, of each packet, and of the completion."""
    own = sorted(operation.events, key=_cycle)
    if not operation.packets:
        yield from pairwise(own)
        return
    ends = [at for packet in operation.packets for at in packet.events[-1:]]
    last = max(ends, key=_cycle, default=None)
    early = [at for at in own if last is None or at[1].cycle <= last[1].cycle]
    late = own[len(early) :]
    yield from pairwise(early)
    for packet in operation.packets:
        first = packet.events[0][1].cycle if packet.events else 0
        before = [at for at in early if at[1].cycle <= first][-1:]
        chain = [*before, *packet.events]
        yield from pairwise(chain)
    chain = [*([last] if last else []), *late]
    yield from pairwise(chain)


def durations(operations: Iterable[Operation]) -> list[Duration]:
    """Return a row for each stage that has a predecessor, in the order of the stages."""
    taken: dict[Stage, list[int]] = defaultdict(list)
    for operation in operations:
        for (_, before), (_, event) in spans(operation):
            taken[event.stage].append(event.cycle - before.cycle)
    rows = []
    for stage, cycles in sorted(taken.items()):
        cycles.sort()
        count = len(cycles)
        rows.append((int(stage), count, cycles[0], cycles[count // 2], cycles[count * 95 // 100], cycles[-1]))
    return rows


def _cycle(at: At) -> int:
    return at[1].cycle
