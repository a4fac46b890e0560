"""Waveforms of RTL NICs, and views for the programs that show them: GTKWave and Surfer."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from amoeba.devices.devices import rtl_defaults
from amoeba.nic.watching import RingMemory, watching
from amoeba_model.device import Device, DeviceError
from amoeba_model.layout import Record
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import BAR_SIZE
from amoeba_model.tlp import COMPLETION_HEADER, REGISTER_COMPLETION, REGISTER_REQUEST, REQUEST_HEADER
from amoeba_model.trace import AXI_USER, Stage

__all__ = ["FORMATS", "waveforms", "write_views"]

FORMATS = ("vcd", "fst")
_TOP = "TOP.boundary.nic"
"""Where Verilator puts the NIC."""


@contextlib.contextmanager
def waveforms(path: Path | None, kind: str, nics: int | None = None) -> Iterator[list[Path]]:
    """Write the waveform of every RTL NIC that is opened meanwhile; yields the files, which fill up as NICs come.

    ``path`` None: nothing happens. ``kind``: one of :data:`FORMATS`. ``nics``: how many RTL NICs there will be, if
    that is known; a single one has the file itself, others have numbers in its name. Beside each lie its views.
    Raises DeviceError if a file cannot be written, and BuildError, of ``amoeba_sim``, where the simulation cannot be
    built.
    """
    if path is None:
        yield []
        return
    writer = _Writer(path, nics)
    with rtl_defaults(waves=kind), watching(writer):
        try:
            yield writer.paths
        finally:
            writer.finish()


class _Writer:
    """Starts a waveform with every NIC that can write one."""

    def __init__(self, path: Path, nics: int | None) -> None:
        self._path, self._nics = path, nics
        self.paths: list[Path] = []
        self._writing: list[Any] = []
        """The NICs of these files."""
        self._with_views: set[int] = set()

    def attached(self, device: Device, network: Network) -> None:
        start = getattr(device, "start_waves", None)
        if start is None:
            return
        number = len(self.paths)
        path = self._path if self._nics == 1 else self._path.with_stem(f"{self._path.stem}-{number}")
        start(path)
        self.paths.append(path)
        self._writing.append(device)

    def enabled(self, device: Device, parameters: NicParameters, context: int, rings: RingMemory) -> None:
        for number, known in enumerate(self._writing):
            if known is device and number not in self._with_views:
                self._with_views.add(number)
                write_views(self.paths[number], parameters, pcie=getattr(device, "on_pcie", False))

    def disabled(self, device: Device, context: int) -> None:
        pass

    def finish(self) -> None:
        """End the files of NICs that are still open; closing a NIC has ended the others."""
        for device in self._writing:
            with contextlib.suppress(DeviceError):
                device.stop_waves()


def write_views(waveform: Path, parameters: NicParameters, *, pcie: bool = False) -> tuple[Path, Path]:
    """Write what GTKWave (``.gtkw``) and Surfer (a command file, ``.sucl``) show of a waveform; returns the paths.

    Both begin with the NIC's ports, bus by bus; ``parameters`` say how wide they are. With ``pcie`` it is the NIC on
    PCI Express, and what its blocks hand to each other follows.
    """
    gtkwave, surfer = waveform.with_suffix(".gtkw"), waveform.with_suffix(".sucl")
    groups = _pcie_groups(parameters) if pcie else _axi_groups(parameters)
    lines = ["[*] Amoeba's ports, bus by bus", f'[dumpfile] "{waveform.resolve()}"', _GTKWAVE_ZOOM, "[treeopen] TOP."]
    commands = []
    for title, signals in groups.items():
        lines += [_GTKWAVE_TITLE, f"-{title}"]
        commands.append(f"divider_add {title}")
        for name, width in signals:
            in_bits = f"[{width - 1}:0]" if width > 1 else ""
            lines += [_GTKWAVE_HEX if width > 1 else _GTKWAVE_BIT, f"{_TOP}.{name}{in_bits}"]
            commands.append(f"variable_add {_TOP}.{name}")
    gtkwave.write_text("\n".join([*lines, ""]))
    surfer.write_text("\n".join([*commands, "zoom_fit", ""]))
    return gtkwave, surfer


_GTKWAVE_ZOOM = "[timestart] 0\n*-1.000000 -1"
"""The first nanosecond, and the negative logarithm to base 2 of nanoseconds in a pixel: 500 cycles of 4 are 1000."""
_GTKWAVE_TITLE, _GTKWAVE_HEX, _GTKWAVE_BIT = "@200", "@22", "@28"
"""Flags of a save file's lines that follow: a comment, a number in hexadecimal, a bit."""


def _axi_groups(parameters: NicParameters) -> dict[str, list[tuple[str, int]]]:
    """Return the NIC's ports by bus, each with its bits: the signals to see first."""
    data, strobes, bar = parameters.data_width, parameters.data_width // 8, BAR_SIZE.bit_length() - 1
    address = [*_HANDSHAKE, ("addr", 64), ("len", 8), ("user", 8 * AXI_USER.size)]
    return {
        "clock, reset, interrupts": [("clk", 1), ("rst", 1), ("irq", parameters.contexts)],
        "stages of requests": _stages(),
        "registers": _named(
            "bar__",
            [("awvalid", 1), ("awaddr", bar), ("wvalid", 1), ("wdata", 32), ("arvalid", 1), ("araddr", bar),
             ("rvalid", 1), ("rdata", 32)],
        ),
        "host: read addresses": _named("host__ar", address),
        "host: read data": _named("host__r", [*_HANDSHAKE, ("data", data), ("resp", 2), ("last", 1)]),
        "host: write addresses": _named("host__aw", address),
        "host: write data": _named("host__w", [*_HANDSHAKE, ("data", data), ("strb", strobes), ("last", 1)]),
        "host: write responses": _named("host__b", [*_HANDSHAKE, ("resp", 2)]),
        **_frames(data),
    }  # fmt: skip


def _pcie_groups(parameters: NicParameters) -> dict[str, list[tuple[str, int]]]:
    """Return the ports of the NIC on PCI Express, and the blocks' reads, writes, accesses and interrupts."""
    data = parameters.data_width

    def stream(header: Record, beat: int = 0) -> list[tuple[str, int]]:
        """Return the signals of a packet stream: header, data, first and last; or only a header."""
        return [("__valid", 1), ("__ready", 1), ("__payload", 8 * header.size + (beat and beat + 2))]

    return {
        "clock, resets": [("clk", 1), ("rst", 1), ("reset_request", 1), ("reset_done", 1)],
        "stages of requests": _stages(),
        "configuration": [("link__configuration", 12), ("link__read_credit", 1)],
        "requests to the host": _named("link__requests", stream(REQUEST_HEADER, data)),
        "completions": _named("link__completions", stream(COMPLETION_HEADER, data)),
        "accesses to BARs": _named("link__register_requests", stream(REGISTER_REQUEST)),
        "answers to them": _named("link__register_completions", stream(REGISTER_COMPLETION)),
        "ReadMerger": _named("host.read_merger.", [("reads__valid", 1), ("reads__ready", 1), ("wide__valid", 1)]),
        "ReadRequester": _named("host.read_requester.", [("requests__valid", 1), ("tag", 8)]),
        "CompletionBuffer": _named("host.buffer.", [("answers__valid", 1), ("failed", 1), ("unexpected", 1)]),
        "WriteRequester": _named(
            "host.write_requester.",
            [("writes__valid", 1), ("writes__ready", 1), ("requests__valid", 1), ("requests__ready", 1)],
        ),
        "RequestMerger": _named("host.merger.", [("run", 1), ("idle", 1), ("read_leaves", 1), ("writes__valid", 1)]),
        "Completer": _named("completer.", [("hold", 1), ("accesses__valid", 1), ("table_accesses__valid", 1)]),
        "MsixTable": _named("table.", [("irq", parameters.contexts), ("messages__valid", 1), ("messages__ready", 1)]),
        **_frames(data),
    }


_HANDSHAKE = [("valid", 1), ("ready", 1)]


def _named(prefix: str, signals: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(f"{prefix}{name}", width) for name, width in signals]


def _stages() -> list[tuple[str, int]]:
    return [(f"trace__{stage.name.lower()}__valid", 1) for stage in Stage]


def _frames(data: int) -> dict[str, list[tuple[str, int]]]:
    stream = [("tvalid", 1), ("tready", 1), ("tdata", data), ("tkeep", data // 8), ("tlast", 1)]
    return {"frames received": _named("rx__", stream), "frames sent": _named("tx__", stream)}
