"""Times of iterations, and what they come to: the columns of ``ucx_perftest``, and cycles where there are any."""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from amoeba_tools.perf.plan import PerfPlan

__all__ = ["Clock", "Meter", "PerfResult"]

REPORT_INTERVAL = 1.0
"""Seconds between results on the way."""


@dataclass(frozen=True)
class Clock:
    """A NIC's, whose cycles mean something: that of hardware, which this process alone drives."""

    cycles: Callable[[], int]
    hz: int


@dataclass(frozen=True)
class PerfResult:
    """Result of a run, so far or at its end. Times are the host's in microseconds; MB are 2**20 bytes."""

    test: str
    size: int
    iterations: int
    percentile_rank: float
    percentile: float
    """Percentile of an operation's time; a ping-pong has two operations."""
    average: float
    """Since the last report."""
    overall: float
    bandwidth_average: float
    bandwidth_overall: float
    rate_average: float
    """Messages per second."""
    rate_overall: float
    cycles: float | None = None
    """Cycles of an operation, by the clock of the client's NIC."""
    modelled: float | None = None
    """Microseconds of an operation at the NIC's clock."""
    verified: bool = False
    """All data was checked, and was right."""
    errors: tuple[str, ...] = ()
    """The first few errors."""
    interrupted: bool = False
    peers: int = 1


class Meter:
    """Measures one run: :meth:`start` when those iterations begin that count, :meth:`update` after each."""

    def __init__(
        self,
        plan: PerfPlan,
        clock: Clock | None = None,
        report: Callable[[PerfResult], object] | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._report = report
        self._progress = progress
        self._told = 0
        self.start()

    def start(self) -> None:
        self._times = array("d")
        self._cycles = self._first_cycle = 0 if self._clock is None else self._clock.cycles()
        self._start = self._now = self._since = time.perf_counter()
        self._iterations_since = 0

    def update(self) -> None:
        """Record the end of an iteration."""
        now = time.perf_counter()
        self._times.append(now - self._now)
        self._now = now
        if now - self._since >= REPORT_INTERVAL:
            self._take_cycles()
            if self._report is not None:
                self._report(self.result())
            self._since, self._iterations_since = now, len(self._times)
            self._tell()

    def finish(self) -> None:
        """Record the end of the run, when all sent data has arrived."""
        self._now = time.perf_counter()
        self._take_cycles()
        self._tell()

    def stop(self) -> None:
        """End the run here, after the last complete iteration."""
        self._take_cycles()
        self._tell()

    def _take_cycles(self) -> None:
        if self._clock is not None:
            self._cycles = self._clock.cycles()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(len(self._times) - self._told)
        self._told = len(self._times)

    @property
    def iterations(self) -> int:
        return len(self._times)

    def result(self) -> PerfResult:
        """Return the result, which is all 0 without iterations."""
        plan, factor, count = self._plan, self._plan.entry.factor, len(self._times)
        elapsed = max(self._now - self._start, 1e-9)
        recent = count - self._iterations_since
        recent_time = max(self._now - self._since, 1e-9) if recent else elapsed
        recent = recent or count
        cycles = modelled = None
        if self._clock is not None and count:
            cycles = (self._cycles - self._first_cycle) / count / factor
            modelled = 1e6 * cycles / self._clock.hz
        megabytes = plan.size / (1 << 20)
        return PerfResult(
            test=plan.test,
            size=plan.size,
            iterations=count,
            percentile_rank=plan.percentile,
            percentile=1e6 * _percentile(self._times, plan.percentile) / factor,
            average=1e6 * recent_time / recent / factor if count else 0.0,
            overall=1e6 * elapsed / count / factor if count else 0.0,
            bandwidth_average=recent * factor * megabytes / recent_time,
            bandwidth_overall=count * factor * megabytes / elapsed,
            rate_average=recent * factor / recent_time,
            rate_overall=count * factor / elapsed,
            cycles=cycles,
            modelled=modelled,
            peers=plan.peers,
        )


def _percentile(times: "array[float]", rank: float) -> float:
    """Return the time at this rank, as ``ucx_perftest`` does: the element at rank / 100 of the last index."""
    return sorted(times)[int((len(times) - 1) * rank / 100)] if times else 0.0
