"""``amoeba trace``: the life of one fetching atomic, or of all operations of a program."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from amoeba.devices.devices import has_waveforms, speaks_packets
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.trace import Stage
from amoeba_model.wire.render import layers, summary
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from amoeba_tools.capture import write_pcapng
from amoeba_tools.cli.common import BuildOption, DeviceOption, check_writable, device_kinds, writes, writing
from amoeba_tools.cli.errors import readable_errors
from amoeba_tools.tracing import (
    MAX_EVENTS,
    Recorder,
    Recording,
    Traced,
    operations_of,
    packets_of,
    trace_fetch_atomic,
)
from amoeba_tools.tracing.durations import durations
from amoeba_tools.tracing.html import write_page
from amoeba_tools.tracing.perfetto import write_perfetto
from amoeba_tools.tracing.scripts import run_script
from amoeba_tools.tracing.waveforms import waveforms

__all__ = ["PROGRAM_FOLLOWS", "trace"]

PROGRAM_FOLLOWS = {"allow_interspersed_args": False, "ignore_unknown_options": False}
"""Settings of the command: options behind the program's name belong to the program."""
_INTERRUPTED = 130


class _Files(NamedTuple):
    """Files to write from the recordings."""

    html: Path | None
    perfetto: Path | None
    pcapng: Path | None


def trace(
    context: typer.Context,
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROGRAM [ARGUMENTS]",
            help="Program to trace: a Python file or an amoeba command such as gups, with its arguments.",
        ),
    ] = None,
    device: DeviceOption = ["model"],  # noqa: B006  typer's way to write a default; it is never changed
    build: BuildOption = None,
    html: Annotated[
        Path | None, typer.Option(callback=writes(".html"), help="Write the trace as a page for a browser.")
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", callback=writes(".json"), help="Write the trace for ui.perfetto.dev and chrome://tracing."
        ),
    ] = None,
    pcapng: Annotated[
        Path | None, typer.Option(callback=writes(".pcapng"), help="Write the frames to this file, for Wireshark.")
    ] = None,
    vcd: Annotated[
        Path | None, typer.Option(callback=writes(".vcd"), help="Write waveforms of the RTL NICs to this file.")
    ] = None,
    fst: Annotated[
        Path | None, typer.Option(callback=writes(".fst"), help="Write them in FST, a much smaller format.")
    ] = None,
    tlps: Annotated[bool, typer.Option("--tlps", help="Print the PCI Express packets of rtl+pcie.")] = False,
    events: Annotated[
        int, typer.Option(min=1, help="Maximum number of events to record of a program.")
    ] = MAX_EVENTS,
) -> None:
    """Print the life of one fetching atomic between two NICs, stage by stage, with the frames it causes.

    With a PROGRAM: run the program, and print how long its operations took from stage to stage.

    The program opens its own NICs. Options of trace stand before the program.

    Example: amoeba trace --html gups.html gups --device rtl
    """
    if vcd is not None and fst is not None:
        raise typer.BadParameter("expected --vcd or --fst, got both", param_hint="--fst")
    files = _Files(html, perfetto, pcapng)
    if program:
        if tlps:
            raise typer.BadParameter("--tlps prints the packets of one atomic: omit the program",
                                     param_hint="--tlps")  # fmt: skip
        source = context.get_parameter_source("device")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter("expected the program's own --device, behind its name", param_hint="--device")
        raise typer.Exit(_trace_program(context, program, files, vcd, fst, events))
    kinds = device_kinds(device, 2 if len(device) == 1 and "," not in device[0] else None)
    rtl = sum(map(has_waveforms, kinds))
    for option, path in (("--vcd", vcd), ("--fst", fst)):
        if path is not None and not rtl:
            raise typer.BadParameter("only an RTL NIC has waveforms: add --device rtl", param_hint=option)
    if tlps and not any(map(speaks_packets, kinds)):
        raise typer.BadParameter("only a NIC on PCI Express has packets: add --device rtl+pcie", param_hint="--tlps")
    console = Console()
    with waveforms(vcd or fst, "vcd" if fst is None else "fst", rtl) as written:
        check_writable(*files)
        with open_cluster(kinds) as fabric:
            traced = trace_fetch_atomic(fabric)
            names = [nic.device.name for nic in fabric.nics]
        console.print(
            f"fetch_atomic(FI_SUM, FI_UINT64) by NIC 0 on memory of NIC {len(names) - 1}: "
            f"found {traced.fetched}, left {traced.stored}"
        )
        for number, name in enumerate(names):
            console.print(f"NIC {number}: {name}")
        console.print(_stages(traced))
        if tlps:
            console.print(_packets(traced))
        for frame in _frames(traced):
            console.print(frame)
        _write(console, [traced.recording], "the life of an atomic", files, written)


def _trace_program(
    context: typer.Context, program: Sequence[str], files: _Files, vcd: Path | None, fst: Path | None, events: int
) -> int:
    """Run a program, print a summary of its operations, and return its exit status."""
    console, recorder = Console(), Recorder(limit=events)
    run = _runner(context, program)
    with waveforms(vcd or fst, "vcd" if fst is None else "fst") as written:
        check_writable(*files)
        with recorder:
            status = _status_of(run)
        if recorder.foreign:  # a child process of the program ends here
            raise typer.Exit(status)
        recordings = recorder.recordings
        if not recordings:
            console.print("no simulated NIC of this process was active")
        if (vcd or fst) is not None and not written:
            console.print("no waveform: no RTL NIC was opened in this process")
        for recording in recordings:
            for number, name in enumerate(recording.names):
                console.print(f"NIC {number}: {name}")
            if recording.cut_off is not None:
                console.print(f"recording ended in cycle {recording.cut_off:,}: --events is {events:,}")
            console.print(_durations(recording))
        title = " ".join([Path(program[0]).name, *program[1:]])
        _write(console, recordings, title, files, written)
    return status


def _runner(context: typer.Context, program: Sequence[str]) -> Callable[[], int]:
    """Return a function that runs an amoeba command or a file. Exits with a usage error for any other name."""
    name, arguments = program[0], list(program[1:])
    assert context.parent is not None
    commands: dict[str, Any] = getattr(context.parent.command, "commands", {})
    if name in commands:
        inner = commands[name].make_context(name, arguments, parent=context.parent)

        def command() -> int:
            with inner, readable_errors():
                inner.command.invoke(inner)
            return 0

        return command
    if not Path(name).is_file():
        known = ", ".join(sorted(set(commands) - {"trace"}))
        raise typer.BadParameter(f"unknown program {name!r}; expected a file or one of {known}", param_hint="PROGRAM")
    return lambda: run_script(Path(name), arguments)


def _status_of(run: Callable[[], int]) -> int:
    """Run a program and return its exit status. Ctrl-C ends the program and keeps the recording."""
    try:
        return run()
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # of readable_errors
        return int(end.code or 0)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _write(
    console: Console, recordings: list[Recording], title: str, files: _Files, waveforms: Sequence[Path]
) -> None:
    """Write the requested files, and print their paths."""
    html, perfetto, pcapng = files
    for path, write, kind in ((html, write_page, "page"), (perfetto, write_perfetto, "trace events")):
        if path is not None:
            started = time.monotonic()
            with _saying(console, f"writing {path.name}"), writing(path):
                shown = write(path, recordings, title)
            took = time.monotonic() - started
            console.print(f"{kind} of {shown:,} operations: {path}" + (f", in {took:.0f} s" if took > 2 else ""))
    if pcapng is not None:
        longest = max(recordings, key=lambda one: len(one.frames), default=None)
        with writing(pcapng):
            write_pcapng(pcapng, longest.frames if longest else [], longest.clock_hz if longest else 1)
        several = f", of the busiest of {len(recordings)} networks" if len(recordings) > 1 else ""
        console.print(f"frames: {pcapng}{several}")
    for path in waveforms:
        console.print(f"waveform: {path}; views: {path.with_suffix('.gtkw').name} for GTKWave, "
                      f"{path.with_suffix('.sucl').name} for Surfer", soft_wrap=True)  # fmt: skip


@contextlib.contextmanager
def _saying(console: Console, what: str) -> Iterator[None]:
    """Show a status line while a slow step runs, at a terminal."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        yield


def _durations(recording: Recording) -> Table:
    """Return the table of cycles from stage to stage. A step far above its minimum had to wait."""
    operations = operations_of(recording)
    title = f"{len(operations):,} operations: cycles from one stage to the next"
    table = Table(title=title, box=SIMPLE, show_edge=False)
    table.add_column("stage", no_wrap=True)
    for title in ("times", "least", "median", "95 %", "most"):
        table.add_column(title, justify="right")
    for stage, *numbers in durations(operations):
        table.add_row(Stage(stage).name.lower().replace("_", " "), *(f"{number:,}" for number in numbers))
    return table


def _stages(traced: Traced) -> Table:
    table = Table(title="stages; cycles count from the doorbell", box=SIMPLE, padding=0, show_edge=False)
    for title in ("cycle", "+"):
        table.add_column(title, justify="right")
    for title in ("NIC", "component", "stage", ""):
        table.add_column(title, no_wrap=bool(title))
    before = 0
    for step in traced.steps:
        table.add_row(
            str(step.cycle),
            str(step.cycle - before),
            f"{step.nic}",
            step.component,
            step.event.stage.name.lower().replace("_", " "),
            step.detail,
        )
        before = step.cycle
    return table


def _packets(traced: Traced) -> Table:
    title = "packets on PCI Express; cycles as above, of their first beats"
    table = Table(title=title, box=SIMPLE, padding=0, show_edge=False)
    table.add_column("cycle", justify="right")
    for title in ("NIC", "from", "packet"):
        table.add_column(title, no_wrap=True)
    for title in ("tag", "address", "bytes"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("for")
    for each in packets_of(traced):
        table.add_row(
            str(each.cycle), str(each.nic), "host" if each.by_host else "NIC", each.kind,
            "" if each.tag is None else str(each.tag), each.place, str(each.size), each.purpose,
        )  # fmt: skip
    return table


def _frames(traced: Traced) -> list[Table]:
    """Return one table per frame, without UET's reserved fields."""
    tables = []
    for sender, frame in traced.frames:
        cycle = frame.cycle - traced.doorbell
        title = f"frame of {len(frame.data)} bytes, has left NIC {sender} by cycle {cycle}"
        table = Table(title=title, box=SIMPLE, show_edge=False)
        table.add_column("layer")
        table.add_column(summary(frame.data), overflow="fold")
        for layer in layers(frame.data):
            fields = ", ".join(f"{name} {value}" for name, value in layer.fields if not name.startswith("reserved"))
            table.add_row(layer.name, fields)
        tables.append(table)
    return tables
