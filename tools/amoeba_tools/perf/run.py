"""Runs of tests: both sides in this process, or one here and the other in another process."""

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.devices.bootstrap import Rendezvous, understood
from amoeba.devices.devices import simulates_hardware
from amoeba.devices.linked import own_host
from amoeba.nic.nic import Nic

from amoeba_tools.departures import departures
from amoeba_tools.perf.fi_tests import FiBench
from amoeba_tools.perf.meter import Clock, Meter, PerfResult
from amoeba_tools.perf.plan import PerfPlan
from amoeba_tools.perf.sides import Bench, Side, Steps
from amoeba_tools.perf.ucp_tests import UcpBench

__all__ = ["BENCHES", "PATIENCE", "answer_plans", "run_plans"]

BENCHES: dict[str, type[Bench]] = {"ucp": UcpBench, "libfabric": FiBench}
"""Implementation of the tests per API."""
PATIENCE = 60.0
"""Seconds without any progress until a run is given up."""
_OFTEN = 256
"""Polls without progress between looks at the clock and at the other process."""

Report = Callable[[PerfPlan, PerfResult], object]
Progress = Callable[[PerfPlan, int], object]


def run_plans(
    plans: Sequence[PerfPlan],
    kinds: Sequence[str],
    *,
    rendezvous: Rendezvous | None = None,
    begin: Callable[[PerfPlan, tuple[str, ...]], object] | None = None,
    report: Report | None = None,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
    cycles_of_models: bool = False,
) -> Iterator[PerfResult]:
    """Measure one plan after the other, all of one API, as their client; yield the result of each.

    Parameters
    ----------
    kinds : sequence of str
        Kinds of NIC: two, the client's first, then that of each of its peers; with a rendezvous only this process'
        own.
    rendezvous : Rendezvous, optional
        The server process, in :func:`answer_plans`; without a rendezvous this process runs both sides.
    begin : callable, optional
        Called with each plan, and the names of the NICs, before the plan runs.
    report : callable, optional
        Called each second with the plan and its result so far.
    progress : callable, optional
        Called with the plan and the number of iterations since the last call.
    options : mapping, optional
        Keyword arguments for :func:`amoeba.open_cluster`, such as ``parameters``; of no use with a rendezvous.
    cycles_of_models : bool
        Whether results have cycles on models, too, where they are an estimate.

    KeyboardInterrupt ends the current run, whose result is the last one, and is marked as interrupted. Raises the
    error of a failed operation, FI_EINVAL for a plan of several peers with a rendezvous, FI_ETIMEDOUT after a minute
    without progress, and FI_ECONNABORTED when the other process is gone.
    """
    for plan in plans:
        _check_peers(plan, rendezvous)
    accurate = rendezvous is None and (cycles_of_models or all(map(simulates_hardware, kinds)))

    def measured(bench: Bench, plan: PerfPlan) -> PerfResult:
        meter = Meter(
            plan,
            _clock(bench.nics[0]) if accurate else None,
            None if report is None else lambda result: report(plan, result),
            None if progress is None else lambda done: progress(plan, done),
        )
        try:
            if rendezvous is None:
                errors = _run_both(bench, plan, meter)
            else:
                errors = _run_client(bench, plan, meter, rendezvous)
        except KeyboardInterrupt:
            meter.stop()
            return dataclasses.replace(meter.result(), interrupted=True)
        return dataclasses.replace(meter.result(), verified=plan.verify and not errors, errors=tuple(errors))

    for peers, alike in itertools.groupby(plans, lambda plan: plan.peers):
        with _opened(plans[0].api, [*kinds, *kinds[1:] * (peers - 1)], rendezvous, options or {}) as bench:
            names = tuple(nic.device.name for nic in bench.nics)
            for plan in alike:
                if begin is not None:
                    begin(plan, names)
                result = measured(bench, plan)
                yield result
                if result.interrupted:
                    return
            if rendezvous is not None:
                rendezvous.exchange(None)


def _check_peers(plan: PerfPlan, rendezvous: Rendezvous | None) -> None:
    """Raise FI_EINVAL for several peers in several processes."""
    if rendezvous is not None and plan.peers > 1:
        raise fabric_error(
            Errno.FI_EINVAL, f"peers: expected 1 where the other side is another process, got {plan.peers}"
        )


def answer_plans(
    kind: str, rendezvous: Rendezvous, begin: Callable[[PerfPlan, tuple[str, ...]], object] | None = None
) -> int:
    """Be the server of the client at a rendezvous until that has no more plans; how many there were.

    Raises as :func:`run_plans`, and FI_EINVAL for a plan that makes no sense.
    """
    count = 0
    with contextlib.ExitStack() as exits:
        benches: dict[str, Bench] = {}
        while (told := rendezvous.exchange(None)[1]) is not None:
            plan = PerfPlan.from_told(told)
            _check_peers(plan, rendezvous)
            if plan.api not in benches:
                benches[plan.api] = exits.enter_context(_opened(plan.api, [kind], rendezvous, {}))
            bench = benches[plan.api]
            if begin is not None:
                begin(plan, (bench.nics[0].device.name,))
            _run_server(bench, plan, rendezvous)
            count += 1
    return count


@contextlib.contextmanager
def _opened(
    api: str, kinds: Sequence[str], rendezvous: Rendezvous | None, options: Mapping[str, Any]
) -> Iterator[Bench]:
    host = None if rendezvous is None else own_host(rendezvous.host)
    with contextlib.closing(BENCHES[api].open(kinds, host, **options)) as bench:
        yield bench


def _clock(nic: Nic) -> Clock:
    device: Any = nic.device
    return Clock(lambda: device.cycles, nic.parameters.clock_hz)


def _run_both(bench: Bench, plan: PerfPlan, meter: Meter) -> list[str]:
    """Run all sides in turn; return the errors."""
    with contextlib.ExitStack() as exits:
        client = exits.enter_context(contextlib.closing(bench.client(plan)))
        servers = [exits.enter_context(contextlib.closing(bench.server(plan, index))) for index in range(plan.peers)]
        greeting = client.greeting()
        for server in servers:
            client.connect(server.greeting())
            server.connect(greeting)
        answering = [server.role() for server in servers]
        _run([client, *servers], [client.role(meter), *(role for role in answering if role is not None)])
        found = client.findings.first.copy()
        for index, server in enumerate(servers):
            server.verify()
            found += [f"{_at(index, plan)}{error}" for error in server.findings.first]
        return found


def _at(index: int, plan: PerfPlan) -> str:
    return f"at peer {index}: " if plan.peers > 1 else ""


def _run_client(bench: Bench, plan: PerfPlan, meter: Meter, rendezvous: Rendezvous) -> list[str]:
    """Run the client's side; return the errors of both sides."""
    rendezvous.exchange(plan.told())
    with contextlib.closing(bench.client(plan)) as client:
        with understood():
            client.connect(rendezvous.exchange(client.greeting())[0])
        role = client.role(meter)
        rendezvous.exchange("ready")
        with departures(rendezvous):
            _run([client], [role], rendezvous)
        rendezvous.exchange("over", idle=client.progress)
        with understood():
            found = [*map(str, rendezvous.exchange([], idle=client.progress)[0])]
        return client.findings.first + found


def _run_server(bench: Bench, plan: PerfPlan, rendezvous: Rendezvous) -> None:
    """Run the server's side."""
    with contextlib.closing(bench.server(plan, 0)) as server:
        with understood():
            server.connect(rendezvous.exchange(server.greeting())[1])
        role = server.role()
        rendezvous.exchange("ready")
        if role is not None:
            with departures(rendezvous):
                _run([server], [role], rendezvous)
        rendezvous.exchange("over", idle=server.progress)
        server.verify()
        rendezvous.exchange(server.findings.first, idle=server.progress)


def _run(sides: Sequence[Side], roles: Iterable[Steps], rendezvous: Rendezvous | None = None) -> None:
    """Let all roles come to their ends, while all sides make progress."""
    waiting = list(roles)
    over = object()
    turns, since = 0, time.monotonic()
    while waiting:
        moved = 0
        for side in sides:
            moved += side.progress()
        for role in tuple(waiting):
            if next(role, over) is over:
                waiting.remove(role)
                moved += 1
        if moved:
            turns = 0
            continue
        turns += 1
        if turns == 1:
            since = time.monotonic()
        elif not turns % _OFTEN:
            if rendezvous is not None:
                rendezvous.check()
            if time.monotonic() - since > PATIENCE:
                raise fabric_error(Errno.FI_ETIMEDOUT, f"nothing has happened for {PATIENCE:g} s")
