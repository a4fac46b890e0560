"""Recordings as one HTML page that needs nothing else: operations as rows, their stages by cycle, frames decoded."""

import base64
import enum
import html
import json
import zlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from amoeba_model.layout import Field, Record
from amoeba_model.trace import Channel, Stage
from amoeba_model.wire.codec import Drop
from amoeba_model.wire.render import records_of, summary_of
from amoeba_model.wire.uet import CRC_SIZE, WIRE_RECORDS, ReturnCode

from amoeba_tools.tracing.atomic import COMPONENTS
from amoeba_tools.tracing.durations import durations
from amoeba_tools.tracing.operations import Operation, operations_of
from amoeba_tools.tracing.recorder import Recording

__all__ = ["GROUPS", "write_page"]

GROUPS = {
    Stage.DOORBELL: "host",
    Stage.DESCRIPTOR: "host",
    Stage.OPERAND: "send",
    Stage.REQUEST_SENT: "send",
    Stage.REQUEST_RECEIVED: "wire",
    Stage.REQUEST_CHECKED: "check",
    Stage.LINE_READ: "memory",
    Stage.EXECUTED: "memory",
    Stage.LINE_WRITTEN: "memory",
    Stage.RESPONSE_SENT: "answer",
    Stage.RESPONSE_RECEIVED: "wire",
    Stage.RESULT_WRITTEN: "finish",
    Stage.COMPLETION_WRITTEN: "finish",
    Stage.INTERRUPT: "finish",
    Stage.EVENT_WRITTEN: "memory",
}
"""Stages by what takes the time until they are reached: each has a colour of its own."""
_RECORDS: dict[str, Record] = {record.name: record for record in WIRE_RECORDS}
_KEPT_PAYLOAD = 32
"""Bytes of each payload that the page has."""


def write_page(path: Path, recordings: Iterable[Recording], title: str) -> int:
    """Write the page of these recordings; return the number of operations on the page.

    The page is self-contained and loads no other files. Raises OSError if the file cannot be written.
    """
    runs, blob, shown = [], bytearray(), 0
    for recording in recordings:
        operations = operations_of(recording)
        shown += len(operations)
        runs.append(_run(recording, operations, blob))
    data = {
        "stages": [
            {"name": _plain(stage), "component": COMPONENTS[stage], "group": GROUPS[stage]} for stage in Stage
        ],
        "atTarget": [stage in _TARGET_STAGES for stage in Stage],
        "channels": [_plain(channel) for channel in Channel],
        "statuses": {int(code): code.name for code in ReturnCode},
        "ok": int(ReturnCode.OK),
        **_layouts(),
        "runs": runs,
    }
    folder = resources.files(__package__) / "page"
    page = (folder / "trace.html").read_text()
    parts = {
        "STYLE": (folder / "trace.css").read_text(),
        "SCRIPT": (folder / "recording.js").read_text() + (folder / "view.js").read_text(),
        "TITLE": html.escape(title),
        "DATA": _packed(json.dumps(data, separators=(",", ":")).encode()),
        "BYTES": _packed(bytes(blob)),
    }
    before, *rest = page.split("@")
    written = [before]
    for number, part in enumerate(rest):  # a name between two signs, then what follows it
        written.append(parts[part] if number % 2 == 0 else part)
    path.write_text("".join(written))
    return shown


_TARGET_STAGES = frozenset(
    {
        Stage.REQUEST_RECEIVED,
        Stage.REQUEST_CHECKED,
        Stage.LINE_READ,
        Stage.EXECUTED,
        Stage.LINE_WRITTEN,
        Stage.RESPONSE_SENT,
        Stage.EVENT_WRITTEN,
    }
)


def _layouts() -> dict[str, Any]:
    """Return the headers' fields and the names of their values, by which the page decodes frames."""
    numbers: dict[str, type[enum.IntEnum] | type[enum.IntFlag]] = {}

    def described(field: Field) -> list[str | int]:
        if field.enum is not None:
            numbers[field.enum.__name__] = field.enum
            return [field.name, field.width, field.enum.__name__]
        return [field.name, field.width, ""]

    records = {name: [described(field) for field in record.fields] for name, record in _RECORDS.items()}
    enums = {
        name: {
            "flags": issubclass(values, enum.IntFlag),
            "members": [[int(member), member.name] for member in values],
        }
        for name, values in numbers.items()
    }
    return {"records": records, "enums": enums}


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _plain(member: enum.IntEnum) -> str:
    return member.name.lower().replace("_", " ")


class _Texts:
    """Texts by number: most are the same many times."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all))


def _run(recording: Recording, operations: list[Operation], blob: bytearray) -> dict[str, Any]:
    begin = min(event.cycle for _, event in recording.events)
    end = max(event.cycle for _, event in recording.events)
    texts = _Texts()
    ops: dict[str, list[int]] = {
        name: [] for name in ("nic", "context", "pdc", "text", "index", "status", "events", "packets")
    }
    packets: dict[str, list[int]] = {name: [] for name in ("psn", "target", "events", "frames")}
    events: dict[str, list[int]] = {name: [] for name in ("cycle", "nic", "stage", "status", "psn")}
    of_packets: list[int] = []

    def add(nic: int, stage: int, cycle: int, status: int, psn: int) -> None:
        for name, value in zip(events, (cycle - begin, nic, stage, status, psn), strict=True):
            events[name].append(value)

    for operation in operations:
        index = -1 if operation.index is None else operation.index
        status = -1 if operation.status is None else operation.status
        row = (operation.nic, operation.context, operation.pdc, texts.number(operation.text), index, status)
        counts = (len(operation.events), len(operation.packets))
        for name, value in zip(ops, (*row, *counts), strict=True):
            ops[name].append(value)
        for nic, event in operation.events:
            add(nic, event.stage, event.cycle, event.status, event.psn)
        for packet in operation.packets:
            facts = (packet.psn, packet.target, len(packet.events), len(packet.frames))
            for name, value in zip(packets, facts, strict=True):
                packets[name].append(value)
            of_packets += packet.frames
            for nic, event in packet.events:
                add(nic, event.stage, event.cycle, event.status, event.psn)
    return {
        "names": recording.names,
        "clockHz": recording.clock_hz,
        "latency": recording.latency,
        "cutOff": recording.cut_off,
        "begin": begin,
        "length": max(end - begin, 1),
        "ops": ops,
        "packets": packets,
        "packetFrames": of_packets,
        "events": events,
        "frames": _frames(recording, begin, texts, blob),
        "buses": _buses(recording, begin),
        "durations": durations(operations),
        "texts": list(texts.all),
    }


def _frames(recording: Recording, begin: int, texts: _Texts, blob: bytearray) -> dict[str, Any]:
    """Return the decoded frames; the blob gets their bytes, without most of each payload."""
    columns: dict[str, list[int]] = {
        name: [] for name in ("cycle", "sender", "kind", "size", "at", "payload", "remark", "summary")
    }
    kinds: dict[tuple[str, ...], int] = {}
    for (sender, frame), decoded in zip(recording.frames, recording.decoded, strict=True):
        size = len(frame.data)
        names: tuple[str, ...]
        if isinstance(decoded, Drop):
            names, payload, kept = (f"undecodable: {decoded.cause.name}",), 0, frame.data
            text = f"{size} bytes, {decoded.cause.name}"
        else:
            names = tuple(record.name for record in records_of(frame.data, decoded.header))
            payload, text = len(decoded.payload), summary_of(decoded)
            end = sum(_RECORDS[name].size for name in names) + payload
            kept = frame.data[: end - max(payload - _KEPT_PAYLOAD, 0)] + frame.data[end : end + CRC_SIZE]
        row = (
            frame.cycle - begin, sender, kinds.setdefault(names, len(kinds)), size, len(blob), payload,
            texts.number(frame.remark), texts.number(text),
        )  # fmt: skip
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
        blob += kept
    return {**columns, "kinds": [list(names) for names in kinds]}


def _buses(recording: Recording, begin: int) -> list[list[dict[str, list[int]]]]:
    """Return the changes of state by NIC and channel, of NICs with buses."""
    found: list[list[dict[str, list[int]]]] = [[{"cycle": [], "state": []} for _ in Channel] for _ in recording.names]
    for nic, event in recording.buses:
        found[nic][event.channel]["cycle"].append(event.cycle - begin)
        found[nic][event.channel]["state"].append(int(event.state))
    return [nic if any(channel["cycle"] for channel in nic) else [] for nic in found]
