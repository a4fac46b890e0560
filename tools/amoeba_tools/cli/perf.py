"""``amoeba perf``: performance tests with the names, options and columns of ucx_perftest and fabtests."""

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from amoeba.core.errors import FabricError
from amoeba.devices.bootstrap import Rendezvous
from amoeba.devices.devices import simulates_hardware
from rich.console import Console
from rich.table import Table

from amoeba_tools.cli.common import (
    BuildOption,
    DeviceOption,
    JsonOption,
    NetworkOption,
    check_writable,
    connecting,
    device_kinds,
    plot_option,
    progress_bar,
    writes,
    writing,
)
from amoeba_tools.perf import APIS, PerfPlan, PerfResult, answer_plans, report, run_plans, tests_of
from amoeba_tools.perf.compare import QUANTITIES, comparison, origin, page_of, plot_of, read_results
from amoeba_tools.perf.plan import MAX_PEERS
from amoeba_tools.plots import check, save

__all__ = ["perf"]

_PORT = 13337
_NAMES = "; ".join(f"{name}: {', '.join(tests_of(name))}" for name in APIS)
_INTERRUPTED = 130
_TIMEOUT = 60.0
"""Seconds for which a client tries to connect."""


def perf(
    server: Annotated[
        str | None, typer.Argument(metavar="SERVER", help="Host of the server process.", show_default=False)
    ] = None,
    api: Annotated[str, typer.Option(help=f"API under test: {', '.join(APIS)}.")] = "ucp",
    test: Annotated[
        list[str] | None,
        typer.Option("--test", "-t", help=f"Test to run; repeatable. {_NAMES}."),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            "-s",
            metavar="SIZE[,SIZE...]",
            help="Bytes of a message, or of each of its pieces; repeatable, with a run per value. 8 if absent.",
        ),
    ] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1, help="Number of iterations.")] = 1000,
    warmup: Annotated[
        int | None, typer.Option("--warmup", "-w", min=0, help="Warm-up iterations. A tenth of -n if absent.")
    ] = None,
    outstanding: Annotated[
        int | None,
        typer.Option(
            "--outstanding", "-O", min=1, help="Outstanding operations. If absent 1, or 32 for most _bw tests."
        ),
    ] = None,
    peers: Annotated[
        list[int] | None,
        typer.Option(
            "--peers",
            metavar="N",
            min=1,
            max=MAX_PEERS,
            help="NICs that the client uses in turn; repeatable, with a run per value. 1 if absent.",
        ),
    ] = None,
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    build: BuildOption = None,
    layout: Annotated[
        str,
        typer.Option(
            "--layout", "-D", metavar="LAYOUT[,LAYOUT]", help="Memory layout of sender and receiver: contig or iov."
        ),
    ] = "contig",
    receive_mode: Annotated[
        str,
        typer.Option("--receive-mode", "-r", help="Receive call of stream tests: recv, or recv_data (by reference)."),
    ] = "recv",
    thread_mode: Annotated[
        str, typer.Option("--thread-mode", "-M", help="Thread mode of the worker: single, serialized or multi.")
    ] = "single",
    wildcard: Annotated[bool, typer.Option("--wildcard", "-C", help="Receive any tag in tag tests.")] = False,
    unexpected: Annotated[
        bool, typer.Option("--unexpected", "-U", help="Probe before each receive in tag tests.")
    ] = False,
    error_handling: Annotated[
        bool, typer.Option("--error-handling", "-e", help="Let endpoints handle peer failure.")
    ] = False,
    nonblocking: Annotated[
        bool, typer.Option("--nonblock", "-B", help="Map memory with UCP_MEM_MAP_NONBLOCK.")
    ] = False,
    op: Annotated[
        str,
        typer.Option(
            "--op", "-o", help="Operation of rma_bw (write, read, writedata) or rdm_atomic (sum, fetch_bxor ...)."
        ),
    ] = "",
    datatype: Annotated[
        str, typer.Option("--datatype", "-z", help="Datatype of rdm_atomic: uint64, int8, float, double ...")
    ] = "uint64",
    header: Annotated[
        int, typer.Option("--header", "-H", min=0, help="Header size of active messages, in bytes.")
    ] = 0,
    percentile: Annotated[
        float, typer.Option("--percentile", "-R", min=0, max=100, help="Percentile to report.")
    ] = 50.0,
    verify: Annotated[bool, typer.Option(help="Check all data; the times include the check.")] = True,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="TCP port of the server.")] = _PORT,
    bind: Annotated[str, typer.Option(metavar="HOST", help="Address on which the server listens.")] = "127.0.0.1",
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Maximum wait for the other process. If absent, 60 for a client; a server waits without limit.",
        ),
    ] = None,
    network: NetworkOption = None,
    thousands: Annotated[bool, typer.Option("--thousands", "-N", help="Print thousands separators.")] = False,
    final: Annotated[bool, typer.Option("--final", "-f", help="Print only the final numbers.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", "-v", help="Print comma-separated values.")] = False,
    as_json: JsonOption = False,
    compare: Annotated[
        Path | None, typer.Option(metavar="OLD.json", help="Print the speedup over this output of --json.")
    ] = None,
    plot: Annotated[Path | None, plot_option(help="Plot --quantity over the sizes, or over --peers")] = None,
    quantity: Annotated[str, typer.Option(help=f"Quantity of --plot: {', '.join(QUANTITIES)}.")] = "bandwidth",
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", callback=writes(".html"), help="Write a page with plots and a table."),
    ] = None,
) -> None:
    """Run the tests of ucx_perftest or of libfabric's fabtests, with their names and ucx_perftest's columns.

    Exit status 1 on any error.

    With a test and no SERVER, both sides run in this process, on two NICs. --device lists the client's NIC first.

    With --peers the client uses several NICs of the second kind in turn.

    With neither test nor SERVER, the process is a server. With a SERVER, the process is a client and sends the tests.

    Times are the host's. RTL NICs in one process also report cycles, and their time at the NIC's clock.

    Example: amoeba perf --test tag_lat --size 8 --device rtl
    """
    if api not in APIS:
        raise typer.BadParameter(f"unknown API {api!r}; expected {' or '.join(APIS)}", param_hint="--api")
    if as_csv and as_json:
        raise typer.BadParameter("expected --csv or --json, got both", param_hint="--json")
    if quantity not in QUANTITIES:
        raise typer.BadParameter(
            f"unknown quantity {quantity!r}; expected {', '.join(QUANTITIES)}", param_hint="--quantity"
        )
    old = None if compare is None else read_results(compare)
    if test:
        check_writable(plot, html)
        if plot is not None or html is not None:
            check(plot)
    counts = peers or [1]
    if server is not None and counts != [1]:
        raise typer.BadParameter("--peers are NICs of this process and exclude a SERVER", param_hint="--peers")
    serving = server is None and not test and not peers
    kinds = device_kinds(device, 2 if server is None and test else 1, hint="--device")
    if serving:
        with (
            _interruptible(),
            Rendezvous.listen(
                bind, port, 2, timeout=math.inf if timeout is None else timeout, ready=_announce
            ) as meeting,
        ):
            answer_plans(kinds[0], meeting, begin=_tell)
        return
    if not test:
        raise typer.BadParameter("expected a test to run", param_hint="--test")
    for name in test:
        for other in APIS:
            if other != api and name in tests_of(other):
                raise typer.BadParameter(f"{name} is a test of --api {other}", param_hint="--test")
    layouts = _layouts(layout)
    with _usage_errors():
        plans = [
            PerfPlan(
                api, name, sizes, iterations, iterations // 10 if warmup is None else warmup, outstanding, verify,
                percentile, layouts, receive_mode, thread_mode, wildcard, unexpected, error_handling,
                nonblocking, header, op.lower(), datatype.lower(), count,
            )
            for count in counts
            for name in test
            for sizes in map(_sizes, size or ["8"])
        ]  # fmt: skip
    cycles = server is None and all(map(simulates_hardware, kinds))
    output = _Output(as_csv, as_json, final, thousands, cycles=cycles, peers=counts != [1])
    with contextlib.ExitStack() as exits:
        wait = _TIMEOUT if timeout is None else timeout
        met = None if server is None else exits.enter_context(connecting(server, port, wait))
        bar = exits.enter_context(progress_bar(Console(stderr=True)))
        task = bar.add_task("", total=None)

        def begin(plan: PerfPlan, devices: tuple[str, ...]) -> None:
            bar.reset(task, total=plan.iterations, description=_task(plan))
            output.begin(plan, devices)

        results = run_plans(
            plans, kinds, rendezvous=met, begin=begin, report=output.on_the_way,
            progress=lambda plan, done: bar.advance(task, done),
        )  # fmt: skip
        with output.kept_on_ctrl_c(len(plans)):
            for result in results:
                output.end(result)
    output.close()
    if old is not None:
        _compare(output.told, old, Console(stderr=as_json or as_csv))
    if plot is not None and output.told:
        with writing(plot):
            save(plot_of(output.told, quantity), plot)
    if html is not None and output.told:
        with writing(html):
            html.write_text(page_of(output.told, origin(sys.argv[1:])))
    if output.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if output.wrong:
        raise typer.Exit(1)


def _compare(facts: list[dict[str, Any]], old: list[dict[str, Any]], console: Console) -> None:
    table = Table("test", "before", "now", "times as fast")
    for name, now, then, ratio in comparison(facts, old):
        table.add_row(
            name, "-" if then is None else f"{then:.3f}", f"{now:.3f}", "-" if ratio is None else f"{ratio:.2f}"
        )
    console.print(table)


class _Output:
    """Print results: rows of the table or comma-separated values as they come, JSON at the end."""

    def __init__(
        self, as_csv: bool, as_json: bool, final: bool, thousands: bool, *, cycles: bool, peers: bool
    ) -> None:
        self._as_csv = as_csv
        self._as_json = as_json
        self._final = final
        self._thousands = thousands
        self._cycles, self._peers, self._narrow = cycles, peers, report.is_narrow(cycles=cycles)
        self._plan: PerfPlan | None = None
        self._devices: tuple[str, ...] = ()
        self.told: list[dict[str, Any]] = []
        """Results so far, in the form of --json."""
        self._headed = False
        self.wrong = False
        self.interrupted = False

    def begin(self, plan: PerfPlan, devices: tuple[str, ...]) -> None:
        """Print the header of a plan that begins."""
        self._plan, self._devices = plan, devices
        if self._as_csv and not self._headed:
            self._print(report.csv_header(plan.percentile, cycles=self._cycles, peers=self._peers))
            self._headed = True
        elif not self._as_csv and not self._as_json:
            self._print(
                report.header(plan, devices, cycles=self._cycles, final_only=self._final, narrow=self._narrow)
            )

    def on_the_way(self, plan: PerfPlan, result: PerfResult) -> None:
        """Print an interim row, once a second."""
        if not self._final:
            self._row(result, final=False)

    def end(self, result: PerfResult) -> None:
        """Record and print the result of a plan, with its errors."""
        assert self._plan is not None
        self.told.append(report.facts(self._plan, self._devices, result))
        self._row(result, final=True)
        self.interrupted = self.interrupted or result.interrupted
        if result.interrupted:
            typer.echo(f"interrupted after {result.iterations} of {self._plan.iterations} iterations", err=True)
        for error in result.errors:
            self.wrong = True
            typer.echo(f"wrong: {error}", err=True)

    @contextlib.contextmanager
    def kept_on_ctrl_c(self, runs: int) -> Iterator[None]:
        """Let Ctrl-C between two runs end the loop with the results so far. Within a run, its own result says so."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True
            typer.echo(f"interrupted after {len(self.told)} of {runs} runs", err=True)

    def close(self) -> None:
        """Print all results, if the output is JSON."""
        if self._as_json:
            print(json.dumps(self.told, indent=2))

    def _row(self, result: PerfResult, *, final: bool) -> None:
        if self._as_csv:
            self._print(report.csv_row(result, peers=self._peers))
        elif not self._as_json:
            self._print(
                report.row(
                    result, final=final, final_only=self._final, thousands=self._thousands, narrow=self._narrow
                )
            )

    @staticmethod
    def _print(text: str) -> None:
        print(text, flush=True)


def _announce(host: str, port: int) -> None:
    typer.echo(f"Waiting for connection at {host}:{port}", err=True)


def _task(plan: PerfPlan) -> str:
    return f"{plan.test} {plan.size}{f', {plan.peers} peers' if plan.peers > 1 else ''}"


def _tell(plan: PerfPlan, devices: tuple[str, ...]) -> None:
    typer.echo(f"{plan.test}, {plan.size} bytes, on {', '.join(devices)}", err=True)


def _sizes(given: str) -> tuple[int, ...]:
    parts = given.split(",")
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"expected sizes such as 8 or 16,48, got {given!r}", param_hint="--size")
    return tuple(map(int, parts))


def _layouts(given: str) -> tuple[str, str]:
    sender, *more = given.split(",")
    if len(more) > 1:
        raise typer.BadParameter(f"expected one layout or two, got {given!r}", param_hint="--layout")
    return sender, more[0] if more else sender


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """Report an invalid plan as a usage error."""
    try:
        yield
    except FabricError as error:
        raise typer.BadParameter(str(error)) from None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
