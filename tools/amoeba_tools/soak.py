"""A soak: :mod:`amoeba_tools.workload` for a while, on all NICs, over impaired links."""

import contextlib
import dataclasses
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.bootstrap import Rendezvous, understood
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.nic.nic import Retransmission
from amoeba_model.frames import Traffic
from amoeba_model.impairments import Impairments
from amoeba_model.registers import Counter
from amoeba_model.switch import Switch

from amoeba_tools.exactly_once import Report, verify
from amoeba_tools.workload import Rank

__all__ = ["COUNTED", "MAX_WINDOW", "SoakJob", "SoakResult", "run_soak", "soak_once"]

COUNTED = (
    Counter.REQUESTS_SENT,
    Counter.RETRANSMISSIONS,
    Counter.TIMEOUTS,
    Counter.NACKS_RECEIVED,
    Counter.DUPLICATES,
    Counter.DROPPED_CHECK,
    Counter.DROPPED_MALFORMED,
    Counter.DROPPED_SEQUENCE,
    Counter.DROPPED_RESPONSE,
    Counter.DROPPED_OVERFLOW,
    Counter.EVENTS,
    Counter.MESSAGES_MATCHED,
    Counter.MESSAGES_UNEXPECTED,
    Counter.FAILED_PDCS,
)
"""Counters of the NICs that a result reports."""
MAX_WINDOW = 1024
_PATIENCE = 60.0


@dataclass(frozen=True)
class SoakResult:
    """Outcome of one run."""

    devices: tuple[str, ...]
    seed: int
    operations: dict[str, int]
    """Operations that completed, by kind."""
    posted: int
    """Operations posted by the busiest rank: with as many, a run with the same seed gets as far."""
    problems: tuple[str, ...]
    """Errors of the run; empty in a correct run."""
    traffic: Traffic
    counters: dict[str, int]
    """Sums over all NICs of the counters in COUNTED, by name."""
    cycles: int
    """NIC clock cycles; of rank 0, if clocks are independent."""
    seconds: float
    """Host time."""

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def total(self) -> int:
        """Operations of all kinds."""
        return sum(self.operations.values())


def run_soak(
    fabric: Fabric,
    *,
    seconds: float | None = None,
    operations: int | None = None,
    window: int = 16,
    seed: int = 0,
    patience: float = _PATIENCE,
    rendezvous: Rendezvous | None = None,
    progress: Callable[[int], object] | None = None,
    incast: bool = False,
) -> SoakResult:
    """Run the workload with one rank per NIC of the fabric, or one per process of a rendezvous, and check it.

    The run ends after ``seconds`` of host time, after ``operations`` posted by every rank, or at the first error,
    whichever comes first. The network between the NICs defines the links' impairments.

    Parameters
    ----------
    window : int
        Outstanding operations per rank, 1 to 1024.
    seed : int
        Seed of the workload; in one process, equal runs with equal seeds do the same in the same cycles.
    patience : float
        Seconds of host time without a completion after which the run ends as a hang.
    rendezvous : Rendezvous, optional
        The processes that run the workload together, each with the NIC of :func:`amoeba.join_cluster`. All pass the
        same arguments, and get the same result except ``seconds``.
    progress : callable, optional
        Called with the number of operations of this process that completed since its last call.
    incast : bool
        Whether all ranks' operations target rank 0, instead of any rank.

    Raises FI_EINVAL for an invalid window, for a run without end, and for ranks whose seeds differ. Raises
    FI_ECONNABORTED when another process is gone. The result holds all other errors.
    """
    if not 1 <= window <= MAX_WINDOW or (seconds is None and operations is None):
        raise fabric_error(
            Errno.FI_EINVAL,
            f"expected a window of 1 to {MAX_WINDOW}, and seconds or operations, "
            f"got {window}, {seconds} and {operations}",
        )
    count = len(fabric.nics) if rendezvous is None else rendezvous.ranks
    mine = range(count) if rendezvous is None else range(rendezvous.rank, rendezvous.rank + 1)
    with contextlib.ExitStack() as exits:
        targets = range(1 if incast else count)
        ranks = [Rank(fabric, nic, rank, count, window, seed, exits, targets) for nic, rank in enumerate(mine)]
        _meet(fabric, ranks, seed, rendezvous)
        fabric.settle()
        cycles, begin = fabric.devices[0].cycles, time.monotonic()
        for done in _work(ranks, seconds, operations, patience):
            if progress is not None:
                progress(done)
            if rendezvous is not None:
                rendezvous.check()
        sent = [rank.sent() for rank in ranks]
        if rendezvous is not None:
            # the others may not be done yet: go on to serve them, and to be notified of their data
            told = rendezvous.exchange(sent[0], idle=lambda: [rank.reap() for rank in ranks])
            with understood():
                sent = [[[int(count) for count in lanes] for lanes in counts] for counts in told]
        with understood():
            _hear_out(ranks, sent, patience)
        cycles, elapsed = fabric.devices[0].cycles - cycles, time.monotonic() - begin
        reports = [rank.report() for rank in ranks]
        facts = _facts(fabric, reports, cycles)
        if rendezvous is None:
            return _result([facts], seed, elapsed)
        # served until all have told: what closes a rank needs the others, too
        told = rendezvous.exchange(facts, idle=fabric.devices[0].advance)
        with understood():
            return _result(told, seed, elapsed)


def _meet(fabric: Fabric, ranks: list[Rank], seed: int, rendezvous: Rendezvous | None) -> None:
    introductions = [[seed, *rank.introduction()] for rank in ranks]
    if rendezvous is not None:
        introductions = rendezvous.exchange(introductions[0])
    with understood():
        seeds = [introduction[0] for introduction in introductions]
        if len(set(seeds)) > 1:
            raise fabric_error(Errno.FI_EINVAL, f"all ranks need the same seed, got {seeds}")
        for rank in ranks:
            rank.meet([introduction[1:] for introduction in introductions])


def _work(ranks: list[Rank], seconds: float | None, operations: int | None, patience: float) -> Iterator[int]:
    """Let the ranks work; yield now and then the number of operations done since the last time."""
    most = 1 << 63 if operations is None else operations
    begin = since = time.monotonic()
    while not any(rank.problems for rank in ranks):
        now = time.monotonic()
        if seconds is not None and now - begin >= seconds:
            most = 0
        for rank in ranks:
            rank.post(most)
        done = sum(rank.reap() for rank in ranks)
        if done:
            since = now
        elif not any(rank.outstanding for rank in ranks):
            return
        elif now - since > patience:
            for rank in ranks:
                rank.hang(patience)
        yield done


def _hear_out(ranks: list[Rank], sent: list[list[list[int]]], patience: float) -> None:
    """Let the ranks take the sent messages that still wait for a receive. The final check misses lost messages."""
    end = time.monotonic() + patience
    for rank in ranks:
        rank.reap()
    while (
        any(rank.misses(sent) for rank in ranks)
        and not any(rank.problems for rank in ranks)
        and time.monotonic() < end
    ):
        for rank in ranks:
            rank.reap()


def _facts(fabric: Fabric, reports: list[Report], cycles: int) -> dict[str, Any]:
    """Return the facts of one process, in a form that JSON can carry."""
    network = fabric.network
    counters = [nic.counters() for nic in fabric.nics]
    return {
        "devices": [device.name for device in fabric.devices],
        "reports": reports,
        "faults": [str(fault) for device in fabric.devices for fault in device.faults()],
        "traffic": dataclasses.asdict(Traffic() if network is None else network.traffic),
        "counters": {counter.name: sum(each[counter] for each in counters) for counter in COUNTED},
        "cycles": cycles,
    }


def _result(told: list[dict[str, Any]], seed: int, seconds: float) -> SoakResult:
    reports = [report for facts in told for report in facts["reports"]]
    operations: Tally[str] = Tally()
    for report in reports:
        operations.update({str(kind): int(count) for kind, count in report["done"].items()})
    return SoakResult(
        devices=tuple(str(device) for facts in told for device in facts["devices"]),
        seed=seed,
        operations=dict(sorted(operations.items())),
        posted=max(int(report["posted"]) for report in reports),
        problems=(*verify(reports), *(f"refused DMA: {fault}" for facts in told for fault in facts["faults"])),
        traffic=Traffic(**{name: sum(facts["traffic"][name] for facts in told) for name in told[0]["traffic"]}),
        counters={counter.name: sum(facts["counters"][counter.name] for facts in told) for counter in COUNTED},
        cycles=int(told[0]["cycles"]),
        seconds=seconds,
    )


@dataclass(frozen=True)
class SoakJob:
    """One run of several, for :func:`soak_once` in any process: the arguments of :func:`run_soak`."""

    kinds: Sequence[str]
    links: Impairments
    """Impairments of the links, whose seed is also the workload's."""
    retransmission: Retransmission
    seconds: float | None
    operations: int | None
    window: int
    patience: float
    switch: Switch | None = None
    incast: bool = False


def soak_once(job: SoakJob) -> SoakResult:
    """Open NICs, and run the workload on them."""
    with open_cluster(
        job.kinds, impairments=job.links, retransmission=job.retransmission, switch=job.switch
    ) as fabric:
        return run_soak(
            fabric,
            seconds=job.seconds,
            operations=job.operations,
            window=job.window,
            seed=job.links.seed,
            patience=job.patience,
            incast=job.incast,
        )
