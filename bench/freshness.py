"""How much of the code that a table of ``docs/benchmarks.md`` measures has changed since the measurement.

``docs/benchmarks.json`` has a sample of each table's code as it was at the measurement: hashes of one in ``_ONE_IN``
different lines, without blank lines, comments and docstrings. ``python -m bench --publish`` writes it with the table.
Moves of files change nothing. A table is stale if more than ``LIMIT`` of its sample differs.
"""

import ast
import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ASSERTED", "LIMIT", "SOURCES", "Record", "changed", "read_records", "sample", "stale", "written"]

LIMIT = 0.3
"""Share of the lines that may differ."""

ASSERTED = {
    "cells": ("tests/hw/memory/test_engine.py", "tests/bench/test_bench.py"),
    "memory": ("tests/hw/memory/test_engine.py",),
    "nic": ("tests/bench/test_bench.py",),
    "node": ("tests/bench/test_bench.py",),
    "pcie": ("tests/bench/test_pcie_rates.py", "tests/hw/pcie/test_speed.py"),
    "loss": ("tests/bench/test_loss_curve.py",),
    "bounds": ("tests/bench/test_bounds.py",),
    "messages": ("tests/bench/test_bench.py",),
    "ucp": ("tests/bench/test_bench.py",),
}
"""Benches of exact cycles, whose limits these tests assert on the present code."""

_NIC_MODEL = tuple(
    f"model/amoeba_model/{name}" for name in ("atomic", "nic", "wire", "network.py", "frames.py", "descriptors.py")
)
_ENGINE = ("driver/amoeba/core", "driver/amoeba/nic", "driver/amoeba/transport")
_LIBFABRIC = (*_ENGINE, "driver/amoeba/libfabric/objects")
_UCP = (*_ENGINE, "driver/amoeba/openucx/ucp")
_NETWORKS = ("model/amoeba_model/outside_network.py", "model/amoeba_model/udp_network.py")
_PROCESSES = (*_NIC_MODEL, *_NETWORKS, *_LIBFABRIC, "driver/amoeba/devices/linked.py")
_PROVIDER = (*_PROCESSES, "driver/amoeba/embed", "driver/amoeba/libfabric/provider")

SOURCES = {
    "latency": ("hw/amoeba_hw/initiator", "hw/amoeba_hw/target", "hw/amoeba_hw/memory", "hw/amoeba_hw/wire"),
    "simulation": ("hw/amoeba_hw", "sim/harness", "sim/amoeba_sim/verilate.py", "sim/amoeba_sim/rtl.py"),
    "netlist": ("hw/amoeba_hw", "sim/harness", "sim/amoeba_sim/verilate.py", "sim/amoeba_sim/netlist"),
    "model": _NIC_MODEL,
    "calls": (*_LIBFABRIC, "driver/amoeba/openucx/ucp"),
    "driver": (*_NIC_MODEL, *_LIBFABRIC),
    "batches": ("driver/amoeba/transport", "driver/amoeba/libfabric/objects/operations"),
    "ucp_memory": (*_UCP, "driver/amoeba/libfabric/objects/operations"),
    "processes": _PROCESSES,
    "ranks": _PROVIDER,
    "programs": (*_PROVIDER, "driver/amoeba/openucx/libucp"),
}
"""By the name of each other bench: the files and folders whose speed it measures."""

_SUFFIXES = (".py", ".c", ".h", ".cpp")
_ONE_IN = 32


@dataclass(frozen=True)
class Record:
    """State of the code that a table was measured on."""

    measured: str
    """Date and commit."""
    lines: frozenset[str]
    """The sample."""


def _docstring_lines(text: str) -> set[int]:
    """Return the numbers of the lines of all docstrings, also of those below attributes."""
    texts = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {number for node in texts for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _code(path: Path) -> set[str]:
    """Return the lines of a file that are code, without indentation: the same for every version of Python."""
    text = path.read_text(encoding="utf-8")
    texts = _docstring_lines(text) if path.suffix == ".py" else set()
    lines = (line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in texts)
    return {line for line in lines if line and not line.startswith(("#", "//"))}


def sample(root: Path, sources: Iterable[str]) -> frozenset[str]:
    """Return the sampled lines, as hashes, of files and of all code in folders below ``root``."""
    lines: set[str] = set()
    for source in sources:
        path = root / source
        for file in path.rglob("*") if path.is_dir() else [path]:
            if file.suffix in _SUFFIXES:
                lines |= _code(file)
    hashes = (hashlib.sha256(line.encode()).digest() for line in lines)
    return frozenset(each[:3].hex() for each in hashes if each[-1] % _ONE_IN == 0)


def changed(then: frozenset[str], now: frozenset[str]) -> float:
    """Return the share of the lines that came or went."""
    return 1 - len(then & now) / max(len(then), len(now), 1)


def read_records(text: str) -> dict[str, Record]:
    """Return the records by bench, from the text of ``docs/benchmarks.json``."""
    return {
        name: Record(entry["measured"], frozenset(" ".join(entry["lines"]).split()))
        for name, entry in json.loads(text).items()
    }


def written(records: Mapping[str, Record]) -> str:
    """Return the text of ``docs/benchmarks.json``."""
    entries = {
        name: {"measured": record.measured, "lines": textwrap.wrap(" ".join(sorted(record.lines)), 104)}
        for name, record in sorted(records.items())
    }
    return json.dumps(entries, indent=1) + "\n"


def stale(page: str, records: Mapping[str, Record], root: Path) -> list[str]:
    """Return a line for each table that is older than the code that it measures, with the command that renews it."""
    lines = []
    for name, sources in SOURCES.items():
        record = records.get(name)
        begin, end = (page.find(f"<!-- {edge} {name} -->") for edge in ("begin", "end"))
        if record is None or f"Measured {record.measured}.\n" not in page[begin:end]:
            lines.append(f"{name}: the table does not say when its record in docs/benchmarks.json was measured")
        elif (share := changed(record.lines, sample(root, sources))) > LIMIT:
            lines.append(f"{name}: {share:.0%} of the code that it measures has changed, at most {LIMIT:.0%} may")
    return [f"{line}; renew it: python -m bench {line.partition(':')[0]} --publish" for line in lines]
