"""One driver program, every pair of devices: the same memory, results, completions and frames."""

import contextlib
from functools import cache

import amoeba
import numpy as np
import pytest
from amoeba.libfabric.objects.constants import MrAccess, MrMode

from tests.support.pairs import PAIRS
from tests.system.programs import Outcome, Session, random_program


def run(kinds: str, program_seed: int, operations: int, **rtl: float) -> Outcome:
    with contextlib.ExitStack() as exits:
        session = Session(kinds, exits, **rtl)
        random_program(session, program_seed, operations)
        return session.finish()


@cache
def expected(seed: int, operations: int) -> Outcome:
    return run("model,model", seed, operations)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kinds", PAIRS[1:])
def test_a_random_program_does_the_same_on_rtl_and_model(kinds, seed):
    reference = expected(seed, 150)
    outcome = run(kinds, seed, 150)
    assert outcome.faults == []
    assert outcome.completions == reference.completions
    assert outcome.results == reference.results
    assert outcome.memory == reference.memory
    assert outcome.counters == reference.counters
    assert len(outcome.frames) == len(reference.frames)
    for ours, theirs in zip(outcome.frames, reference.frames, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("seed", [4, 5])
def test_stalls_on_every_bus_change_nothing(seed):
    reference = expected(seed, 100)
    outcome = run("rtl,rtl", seed, 100, stall=0.3, seed=seed, host_latency=40)
    assert outcome == reference


@cache
def arena() -> np.ndarray:
    """Four pages, the same in each run: addresses are part of what is traced."""
    raw = np.zeros(5 * 4096, np.uint8)
    return raw[-raw.ctypes.data % 4096 :][: 4 * 4096].reshape(4, 4096)


def traffic_of(kinds: str, threads: int, *, shared: bool = False) -> tuple:
    """Every frame with its cycle, every traced event and all memory of a program in which both NICs have work."""
    with amoeba.open_cluster(kinds.split(",")) as fabric:
        network = fabric.network
        network.threads = threads
        network.recording = True
        memory = arena()
        memory[2:] = 0
        memory[:2] = np.arange(8192, dtype=np.uint32).astype(np.uint8).reshape(2, 4096)
        domains = [fabric.domain(number, mr_mode=MrMode.FI_MR_ALLOCATED) for number in range(2)]
        both = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
        whose = [memory[2], memory[2 if shared else 3]]
        regions = [
            domain.mr_reg(rows, both, requested_key=5) for domain, rows in zip(domains, whose, strict=True)
        ]
        queues = [domain.cq_open() for domain in domains]
        tables = [domain.av_open() for domain in domains]
        ends = [
            domain.endpoint(cq=queue, av=table) for domain, queue, table in zip(domains, queues, tables, strict=True)
        ]
        for device in fabric.devices:
            device.tracing = True
        peers = [tables[0].insert(ends[1].getname()), tables[1].insert(ends[0].getname())]
        for turn in range(12):
            for number, end in enumerate(ends):
                source, peer, key = memory[number], peers[number], regions[1 - number].key
                end.write(source[: 64 * turn + 8], peer, 16 * turn, key)
                end.atomic(source[:64].view(np.uint64), peer, 2048, key, amoeba.Op.FI_SUM)
                end.read(source[2048:3000], peer, 64 * number, key)
        for queue in queues:
            for _ in range(36):
                queue.sread()
        events = [device.trace_events() for device in fabric.devices]
        return network.log, events, memory.tobytes(), [device.cycles for device in fabric.devices]


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared memory"])
@pytest.mark.parametrize("kinds", ["rtl,rtl", "model,rtl"])
def test_nics_that_run_in_threads_do_the_same_in_every_cycle(kinds, shared):
    alone, together = (traffic_of(kinds, threads, shared=shared) for threads in (1, 2))
    assert len(alone[0]) > 100
    assert together == alone
