"""The memory engine alone, in Verilator, between streams of requests and a host memory with latency."""

import ctypes
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from amaranth.lib import data
from amoeba_hw.interfaces import MEMORY_REQUEST, READ_REQUEST, MemoryKind, packet_beat, read_beat, write_beat
from amoeba_hw.memory import MemoryEngine
from amoeba_model.atomic import execute
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import NO_CONTEXT

from amoeba_sim import vector_bench
from amoeba_sim.verilate import remembered_verilog

__all__ = ["MemoryBench", "MemoryRequest", "Outcome", "expected_results"]

_HARNESS = Path(__file__).parents[1] / "harness" / "memory" / "engine.cpp"

_OPERAND_LESS = (Op.FI_ATOMIC_READ,)


@dataclass(frozen=True)
class MemoryRequest:
    """One request to the engine, with its operands."""

    address: int
    length: int
    kind: MemoryKind
    op: Op = Op.FI_ATOMIC_READ
    datatype: Datatype = Datatype.FI_UINT8
    operand: bytes = b""
    compare: bytes = b""
    cswap_by_bits: bool = False
    returns_data: bool = False
    context: int = NO_CONTEXT

    @classmethod
    def read(cls, address, length):
        return cls(address, length, MemoryKind.READ, returns_data=True)

    @classmethod
    def write(cls, address, payload):
        return cls(address, len(payload), MemoryKind.WRITE, operand=payload)

    @classmethod
    def atomic(cls, op, datatype, address, operand, compare=b"", *, count=None, fetch=False, cswap_by_bits=False):
        length = datatype.size * count if count is not None else len(operand)
        return cls(
            address, length, MemoryKind.ATOMIC, op, datatype, operand, compare, cswap_by_bits, fetch or bool(compare)
        )

    def lines(self, line: int) -> range:
        """Addresses of the lines that the request touches."""
        return range(self.address // line * line, self.address + self.length, line) if self.length else range(0)


@dataclass
class Outcome:
    """Results of one run; cycles count from its start."""

    packets: list = field(default_factory=list)  # (bytes, error, cycle of the last beat)
    executed: list = field(default_factory=list)  # cycle of each request's last execution
    writes: list = field(default_factory=list)  # (cycle, line address)
    cycles: int = 0
    most_reads: int = 0
    counts: dict = field(default_factory=dict)


def expected_results(requests, memory, base):
    """Compute the answers of a memory that performs the requests one after the other, and changes with them."""
    answers = []
    for request in requests:
        start = request.address - base
        old = bytes(memory[start : start + request.length])
        if request.kind == MemoryKind.WRITE:
            memory[start : start + request.length] = np.frombuffer(request.operand, np.uint8)
        elif request.kind == MemoryKind.ATOMIC and request.op not in _OPERAND_LESS and request.length:

            def rows(raw, size=request.datatype.size):
                return np.frombuffer(raw, np.uint8).reshape(-1, size)

            compare = rows(request.compare) if request.compare else None
            new = execute(
                request.op, request.datatype, rows(old), rows(request.operand), compare,
                cswap_by_bits=request.cswap_by_bits,
            )  # fmt: skip
            memory[start : start + request.length] = new.reshape(-1)
        answers.append(old if request.returns_data else b"")
    return answers


class _Stream(ctypes.Structure):
    _fields_ = (("beats", ctypes.c_void_p), ("count", ctypes.c_uint64))


class _Setup(ctypes.Structure):
    _fields_ = (
        *((name, _Stream) for name in ("requests", "operands", "compares")),
        ("memory", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in ("base", "size", "refused_from", "refused_to", "latency", "seed")),
        *((f"{name}_chance", ctypes.c_uint32) for name in ("request", "operand", "result", "read", "data", "write")),
        *((name, ctypes.c_uint64) for name in ("writes_blocked_until", "reset_at", "limit", "answers")),
    )


_COUNTS = ("atomic_beats", "line_reads", "line_writes", "line_hits")


class _Report(ctypes.Structure):
    _fields_ = (
        ("results", ctypes.c_void_p),
        ("result_cycles", ctypes.c_void_p),
        ("results_space", ctypes.c_uint64),
        ("results_count", ctypes.c_uint64),
        ("write_cycles", ctypes.c_void_p),
        ("write_lines", ctypes.c_void_p),
        ("writes_space", ctypes.c_uint64),
        ("writes_count", ctypes.c_uint64),
        ("executed_cycles", ctypes.c_void_p),
        ("executed_space", ctypes.c_uint64),
        ("executed_count", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("most_reads", ctypes.c_uint64),
        *((name, ctypes.c_uint64) for name in _COUNTS),
        ("stream_errors", ctypes.c_uint64),
        ("address_errors", ctypes.c_uint64),
    )


def _offset(layout, name):
    return layout[name].offset


def _bytes(layout):
    return (data.Layout.cast(layout).size + 7) // 8


class MemoryBench:
    """A memory engine built for ``parameters``; every run starts it anew.

    Parameters
    ----------
    parameters : NicParameters
    base : int
        Address of the first byte of memory.
    """

    def __init__(self, parameters: NicParameters, base: int = 0x1234_5678_0000):
        self.parameters = parameters
        self.base = base
        source = remembered_verilog(partial(MemoryEngine, parameters), "top")
        library = ctypes.CDLL(str(vector_bench._build(source, self._header() + _HARNESS.read_text(), "memory")))
        self._run = library.memory_engine_run

    def _header(self):
        width = self.parameters.data_width
        beat, read, write = packet_beat(width), read_beat(width), write_beat(width)
        constants = {
            "WIDTH": width,
            "REQUEST_BYTES": _bytes(MEMORY_REQUEST),
            "BEAT_BYTES": _bytes(beat),
            "READ_REQUEST_BYTES": _bytes(READ_REQUEST),
            "WRITE_BEAT_BYTES": _bytes(write),
            "PACKET_BEAT_LAST": _offset(beat, "last"),
            "READ_BEAT_LAST": _offset(read, "last"),
            "READ_BEAT_ERROR": _offset(read, "error"),
            "WRITE_BEAT_DATA": _offset(write, "data"),
            "WRITE_BEAT_STROBE": _offset(write, "strobe"),
            "WRITE_BEAT_FIRST": _offset(write, "first"),
            "WRITE_BEAT_LAST": _offset(write, "last"),
        }
        return "".join(f"static constexpr unsigned {name} = {value};\n" for name, value in constants.items())

    def run(
        self, requests, memory, *, seed=1, latency=20, chance=100, chances=None, refused=(0, 0),
        writes_blocked_until=0, reset_at=0, limit=2_000_000,
    ):  # fmt: skip
        """Put ``requests`` through the engine, on ``memory`` (uint8, changed in place).

        Parameters
        ----------
        latency
            Cycles from a line read to its data.
        chance, chances
            Percentage of cycles in which a stream moves, for all of them and by name: request, operand,
            result, read, data, write.
        refused
            Range of addresses that the host refuses to have read.
        writes_blocked_until
            Cycle before which the host takes no line write.
        reset_at
            Cycle in which the engine is reset; then memory is as before, and the requests come once more.

        Raises
        ------
        AssertionError
            A stream broke its rule, an access left the memory, or an answer did not come in ``limit`` cycles.
        """
        width = self.parameters.data_width
        request_beats = b"".join(self._pack_request(request, index) for index, request in enumerate(requests))
        operand_beats = b"".join(self._pack_beats(request.operand) for request in requests if request.operand)
        compare_beats = b"".join(self._pack_beats(request.compare) for request in requests if request.compare)
        beat_size = _bytes(packet_beat(width))
        space = sum(request.length // (width // 8) + 2 for request in requests)
        executed_space, writes_space = len(requests) + 1, 4 * space + 64
        results = np.zeros((space, beat_size), np.uint8)
        arrays = {
            name: np.zeros(size, np.uint64)
            for name, size in (
                ("result", space),
                ("write", writes_space),
                ("lines", writes_space),
                ("executed", executed_space),
            )
        }
        rates = dict.fromkeys(("request", "operand", "result", "read", "data", "write"), chance) | (chances or {})
        buffers = [
            ctypes.create_string_buffer(beats, max(1, len(beats)))
            for beats in (request_beats, operand_beats, compare_beats)
        ]
        sizes = (_bytes(MEMORY_REQUEST), beat_size, beat_size)
        streams = [
            _Stream(ctypes.addressof(buffer), len(beats) // size)
            for buffer, beats, size in zip(buffers, (request_beats, operand_beats, compare_beats), sizes, strict=True)
        ]
        setup = _Setup(
            *streams, memory.ctypes.data, self.base, len(memory), refused[0], refused[1], latency, seed,
            *rates.values(), writes_blocked_until, reset_at, limit, len(requests),
        )  # fmt: skip
        report = _Report(
            results=results.ctypes.data, result_cycles=arrays["result"].ctypes.data, results_space=space,
            write_cycles=arrays["write"].ctypes.data, write_lines=arrays["lines"].ctypes.data,
            writes_space=writes_space, executed_cycles=arrays["executed"].ctypes.data, executed_space=executed_space,
        )  # fmt: skip
        self._run(ctypes.byref(setup), ctypes.byref(report))
        packets = self._unpack(results, arrays["result"], report.results_count)
        assert not report.stream_errors, f"{report.stream_errors} offers withdrawn or changed, seed {seed}"
        assert not report.address_errors, f"{report.address_errors} line accesses out of place, seed {seed}"
        assert len(packets) == len(requests), f"{len(packets)} of {len(requests)} answers, seed {seed}"
        return Outcome(
            packets=packets,
            executed=arrays["executed"][: report.executed_count].tolist(),
            writes=list(zip(arrays["write"].tolist(), arrays["lines"].tolist(), strict=True))[: report.writes_count],
            cycles=report.cycles,
            most_reads=report.most_reads,
            counts={name: getattr(report, name) for name in _COUNTS},
        )

    def _pack_request(self, request, index):
        fields = {
            "address": request.address, "context": request.context, "length": request.length,
            "kind": request.kind.value, "op": int(request.op),
            "datatype": int(request.datatype), "has_operand": bool(request.operand),
            "has_compare": bool(request.compare), "cswap_by_bits": request.cswap_by_bits,
            "returns_data": request.returns_data, "pdc": index & 0xFFFF, "psn": index,
        }  # fmt: skip
        layout = data.Layout.cast(MEMORY_REQUEST)
        value = sum(int(given) << layout[name].offset for name, given in fields.items())
        return value.to_bytes(_bytes(MEMORY_REQUEST), "little")

    def _pack_beats(self, payload):
        size = self.parameters.beat_bytes
        layout = packet_beat(8 * size)
        packed = b""
        for start in range(0, len(payload), size):
            part = payload[start : start + size]
            filler = random.Random(len(payload) + start).randbytes(size - len(part))
            value = int.from_bytes(part + filler, "little") | len(part) << _offset(layout, "count")
            value |= (start + size >= len(payload)) << _offset(layout, "last")
            packed += value.to_bytes(_bytes(layout), "little")
        return packed

    def _unpack(self, results, cycles, count):
        layout = packet_beat(self.parameters.data_width)
        packets, payload = [], b""
        for beat, cycle in zip(results[:count], cycles[:count].tolist(), strict=True):
            value = int.from_bytes(beat.tobytes(), "little")
            valid = value >> _offset(layout, "count") & (2 * self.parameters.beat_bytes - 1)
            last = value >> _offset(layout, "last") & 1
            assert last or valid == self.parameters.beat_bytes, "a beat before the last is not full"
            payload += beat.tobytes()[:valid]
            if last:
                packets.append((payload, bool(value >> _offset(layout, "error") & 1), cycle))
                payload = b""
        return packets
