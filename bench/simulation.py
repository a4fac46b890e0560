"""The speed of the simulations on this machine, beside Amaranth's own simulator in the same run.

Seconds are CPU time, so that the machine's load counts little. The gain of two processors is an exception: it shows
only on an idle machine.
"""

import time
from pathlib import Path

import amoeba
import numpy as np
from amaranth.hdl import Const, Value
from amaranth.sim import Simulator, SimulatorContext
from amoeba_hw.interfaces import MemoryKind
from amoeba_hw.memory import MemoryEngine
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim.vector_bench import VectorBench
from amoeba_tools.random_access import run_gups

from bench import history

__all__ = ["ENGINE", "IDLE_GAIN", "IDLE_LIMIT", "idle_rates", "simulation_speed"]

ENGINE = NicParameters(datatypes=(Datatype.FI_UINT64,), ops=(Op.FI_SUM,))
"""The block that runs in both simulators, small enough for Amaranth's."""

IDLE_GAIN = "an idle RTL NIC, now / then"
IDLE_LIMIT = 1.7
"""How many times as fast as at BASELINE an idle NIC is to be at least: 90,000 cycles per second, of 52,000 then."""

_IDLE_PROGRAM = Path(__file__).with_name("idle_program.py")
_SECONDS = 3.0
_BEFORE_DATA = 80
"""Cycles after which the engine has asked for its line; as few are lost until it runs at its rate."""


def _nics(count: int) -> float:
    """Cycles per second of host time, each NIC's added up, of RTL NICs that run RandomAccess with each other."""
    with amoeba.open_cluster(["rtl"] * count) as fabric:
        run_gups(fabric, table_bits=10, updates=64)  # what is loaded and cached at the first use
        before = [nic.device.cycles for nic in fabric.nics]
        started = time.process_time()
        while time.process_time() - started < _SECONDS:
            run_gups(fabric, table_bits=10, updates=1024)
        seconds = time.process_time() - started
        return sum(nic.device.cycles - first for nic, first in zip(fabric.nics, before, strict=True)) / seconds


def idle_rates(rounds: int = 4, runs: int = 4, cycles: int = 20_000) -> tuple[float, float | None]:
    """Cycles per second of an RTL NIC that has nothing to do: now, and at BASELINE; of that none without history.

    Both states run in turn, a process each, several times; the best counts. The first of each may build a NIC.
    """
    roots = [history.PRESENT]
    earlier = history.checkout()
    if earlier is not None:
        roots.append(earlier)
    rates = [0.0 for _ in roots]
    for _ in range(rounds):
        for place, root in enumerate(roots):
            rates[place] = max(rates[place], float(history.run(root, _IDLE_PROGRAM, str(runs), str(cycles))))
    return rates[0], rates[1] if earlier is not None else None


def _pair_seconds(threads: int) -> float:
    """Seconds of the clock that two RTL NICs take for the same run of RandomAccess, so many of them at a time."""
    with amoeba.open_cluster(["rtl", "rtl"]) as fabric:
        assert fabric.network is not None
        fabric.network.threads = threads
        run_gups(fabric, table_bits=10, updates=64)
        started = time.perf_counter()
        run_gups(fabric, table_bits=10, updates=4096)
        return time.perf_counter() - started


def _side_by_side() -> float:
    """Time that two NICs in two threads take of what they take in one; the best of three each, in turn."""
    runs = [(_pair_seconds(1), _pair_seconds(2)) for _ in range(3)]
    return min(two for _, two in runs) / min(one for one, _ in runs)


def _stimulus(engine: MemoryEngine) -> dict[str, Const]:
    """Return inputs that make the engine sum on one address at one per cycle: constants, by port."""
    request, operand = engine.requests.p.shape(), engine.operands.p.shape()
    one = Const(1, 1)
    return {
        "requests__payload": request.const(
            {
                "address": 4096, "length": 8, "kind": MemoryKind.ATOMIC, "op": Op.FI_SUM,
                "datatype": Datatype.FI_UINT64, "has_operand": 1,
            }
        ).as_value(),
        "operands__payload": operand.const({"data": 1, "count": 8, "last": 1}).as_value(),
        "requests__valid": one, "operands__valid": one, "results__ready": one, "line_reads__ready": one,
        "line_writes__ready": one,
    }  # fmt: skip


def _verilated_engine(cycles: int = 100_000) -> float:
    """Cycles per second of the memory engine in Verilator."""
    engine = MemoryEngine(ENGINE)
    inputs = {name: _port_value(value) for name, value in _stimulus(engine).items()}
    with VectorBench(engine, "speed") as bench:
        before = bench.run(_BEFORE_DATA, **_rows(inputs, _BEFORE_DATA))
        assert before["line_reads__valid"].sum() == 1
        data = bench.run(1, line_data__valid=1, **_rows(inputs, 1))
        assert data["line_data__ready"][0]
        rows = _rows(inputs, cycles)
        started = time.process_time()
        outcome = bench.run(cycles, **rows)
        seconds = time.process_time() - started
        assert outcome["count_atomic_beats"].sum() > cycles - _BEFORE_DATA
    return cycles / seconds


def _port_value(value: Const) -> int | bytes:
    return value.value if len(value) <= 64 else value.value.to_bytes(-(-len(value) // 8), "little")


def _rows(inputs: dict[str, int | bytes], cycles: int) -> dict[str, object]:
    return {
        name: value if isinstance(value, int) else np.tile(np.frombuffer(value, np.uint8), (cycles, 1))
        for name, value in inputs.items()
    }


def _amaranth_engine(cycles: int = 200) -> float:
    """Cycles per second of the same engine, doing the same, in Amaranth's simulator."""
    engine = MemoryEngine(ENGINE)
    ports = {"__".join(map(str, path)): port for path, _, port in engine.signature.flatten(engine)}
    simulator = Simulator(engine)
    simulator.add_clock(1e-8)
    seconds = 0.0

    async def drive(ctx: SimulatorContext) -> None:
        nonlocal seconds
        for name, value in _stimulus(engine).items():
            ctx.set(Value.cast(ports[name]), value.value)
        await ctx.tick().repeat(_BEFORE_DATA)
        ctx.set(engine.line_data.valid, 1)
        await ctx.tick()
        ctx.set(engine.line_data.valid, 0)
        executed = 0
        started = time.process_time()
        for _ in range(cycles):
            *_, beat = await ctx.tick().sample(engine.count_atomic_beats)
            executed += beat
        seconds = time.process_time() - started
        assert executed > cycles - _BEFORE_DATA

    simulator.add_testbench(drive)
    simulator.run()
    return cycles / seconds


def simulation_speed() -> dict[str, float | None]:
    """Measure simulated cycles per second, and the ratio of Verilator to Amaranth's simulator on one block."""
    verilated, amaranth = _verilated_engine(), _amaranth_engine()
    idle, earlier = idle_rates()
    return {
        "one RTL NIC, idle": idle,
        f"the same at {history.BASELINE}": earlier,
        IDLE_GAIN: idle / earlier if earlier else None,
        "one RTL NIC, RandomAccess with itself": _nics(1),
        "two RTL NICs, RandomAccess, both added up": _nics(2),
        "time of two RTL NICs in two threads / in one": _side_by_side(),
        "MemoryEngine (FI_SUM on FI_UINT64) in Verilator": verilated,
        "the same in Amaranth's simulator": amaranth,
        "Verilator / Amaranth's simulator": verilated / amaranth,
    }
