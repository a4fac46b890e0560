"""Recordings in the Trace Event Format, which https://ui.perfetto.dev and chrome://tracing open.

Each NIC is a process. Each operation, and each of its packets, is an asynchronous slice of its initiator. The slices
inside last from one stage to the next. Frames are instants of their senders. Times are microseconds of the NIC.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from amoeba_model.wire.codec import Drop
from amoeba_model.wire.render import summary_of
from amoeba_model.wire.uet import ReturnCode

from amoeba_tools.tracing.atomic import COMPONENTS
from amoeba_tools.tracing.operations import At, Operation, operations_of
from amoeba_tools.tracing.recorder import Recording

__all__ = ["trace_events", "write_perfetto"]

_ELSEWHERE = -1
"""Sender of a frame that another process has sent."""


def write_perfetto(path: Path, recordings: Iterable[Recording], title: str) -> int:
    """Write a JSON file of these recordings; return the number of operations in it.

    Raises OSError if the file cannot be written.
    """
    events: list[dict[str, Any]] = []
    shown = first = 0
    for recording in recordings:
        operations = operations_of(recording)
        events += trace_events(recording, operations, first_process=first)
        shown += len(operations)
        first += len(recording.names)
    with path.open("w") as file:
        json.dump({"displayTimeUnit": "ns", "otherData": {"title": title}, "traceEvents": events}, file)
    return shown


def trace_events(
    recording: Recording, operations: Sequence[Operation], *, first_process: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield the events of one network, whose NIC 0 is process ``first_process``."""
    for number, name in enumerate(recording.names):
        shown = {"name": f"NIC {number}: {name}" if name else f"NIC {number}"}
        yield {"ph": "M", "name": "process_name", "pid": first_process + number, "tid": 0, "args": shown}
    begin = min((event.cycle for _, event in recording.events), default=0)
    clock = _Clock(recording.clock_hz, begin)
    for number, operation in enumerate(operations):
        process = first_process + operation.nic
        yield from _operation(operation, clock, {"pid": process, "tid": 0, "id": f"{process}.{number}"})
    for (sender, frame), decoded in zip(recording.frames, recording.decoded, strict=True):
        if sender != _ELSEWHERE:
            text = f"undecodable: {decoded.cause.name}" if isinstance(decoded, Drop) else summary_of(decoded)
            yield {
                "ph": "i", "s": "p", "cat": "frame", "name": "frame", "pid": first_process + sender, "tid": 0,
                "ts": clock.time(frame.cycle), "args": {"summary": text, "bytes": len(frame.data)},
            }  # fmt: skip


class _Clock:
    """Turns cycles into microseconds since the recording's first event."""

    def __init__(self, hertz: int, begin: int) -> None:
        self._hertz, self._begin = hertz, begin

    def time(self, cycle: int) -> float:
        return round((cycle - self._begin) * 1e6 / self._hertz, 6)


def _operation(operation: Operation, clock: _Clock, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    arguments: dict[str, Any] = {"context": operation.context}
    if operation.status is not None:
        arguments["status"] = ReturnCode(operation.status).name
    cycles = (operation.begin, operation.end)
    own = sorted(operation.events, key=_cycle)
    yield from _slice(operation.text, cycles, clock, {**place, "cat": "operation"}, arguments, own)
    for number, packet in enumerate(operation.packets):
        if packet.events:
            events = sorted(packet.events, key=_cycle)
            cycles = (_cycle(events[0]), _cycle(events[-1]))
            at = {**place, "cat": "packet", "id": f"{place['id']}.{number}"}
            arguments = {"PDC": packet.pdc, "sent again": packet.sent_again}
            yield from _slice(f"packet {packet.psn:#x}", cycles, clock, at, arguments, events)


def _slice(
    name: str, cycles: tuple[int, int], clock: _Clock, place: dict[str, Any], arguments: dict[str, Any],
    events: Sequence[At],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield a slice and those inside, each of which ends when a stage is reached."""
    start, end = cycles
    yield {"ph": "b", "name": name, **place, "ts": clock.time(start), "args": arguments}
    for (_, before), (nic, event) in pairwise(events):
        stage = event.stage.name.lower().replace("_", " ")
        told = {"NIC": nic, "component": COMPONENTS[event.stage], "cycles": event.cycle - before.cycle}
        yield {"ph": "b", "name": stage, **place, "ts": clock.time(before.cycle), "args": told}
        yield {"ph": "e", "name": stage, **place, "ts": clock.time(event.cycle)}
    yield {"ph": "e", "name": name, **place, "ts": clock.time(end)}


def _cycle(at: At) -> int:
    return at[1].cycle
