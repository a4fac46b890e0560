"""Waveforms of RTL NICs, and views for the programs that show them: GTKWave and Surfer."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from amoeba_model.device import Device, DeviceError
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import BAR_SIZE
from amoeba_model.trace import AXI_USER, Stage

from amoeba.devices.devices import rtl_defaults
from amoeba.nic.watching import RingMemory, watching

__all__ = ["FORMATS", "waveforms", "write_views"]

FORMATS = ("vcd", "fst")
_TOP = "TOP.top"
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
                write_views(self.paths[number], parameters)

    def disabled(self, device: Device, context: int) -> None:
        pass

    def finish(self) -> None:
        """End the files of NICs that are still open; closing a NIC has ended the others."""
        for device in self._writing:
            with contextlib.suppress(DeviceError):
                device.stop_waves()


def write_views(waveform: Path, parameters: NicParameters) -> tuple[Path, Path]:
    """Write what GTKWave (``.gtkw``) and Surfer (a command file, ``.sucl``) show of a waveform; returns the paths.

    Both begin with the NIC's ports, bus by bus; ``parameters`` say how wide they are.
    """
    gtkwave, surfer = waveform.with_suffix(".gtkw"), waveform.with_suffix(".sucl")
    groups = _groups(parameters)
    lines = ["[*] Amoeba's ports, bus by bus", f'[dumpfile] "{waveform.resolve()}"', "[treeopen] TOP."]
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


_GTKWAVE_TITLE, _GTKWAVE_HEX, _GTKWAVE_BIT = "@200", "@22", "@28"
"""Flags of a save file's lines that follow: a comment, a number in hexadecimal, a bit."""


def _groups(parameters: NicParameters) -> dict[str, list[tuple[str, int]]]:
    """The NIC's ports by bus, each with its bits: what is worth seeing first."""
    data, strobes, bar = parameters.data_width, parameters.data_width // 8, BAR_SIZE.bit_length() - 1
    handshake = [("valid", 1), ("ready", 1)]
    address = [*handshake, ("addr", 64), ("len", 8), ("user", 8 * AXI_USER.size)]
    stream = [("tvalid", 1), ("tready", 1), ("tdata", data), ("tkeep", strobes), ("tlast", 1)]

    def named(prefix: str, signals: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        return [(f"{prefix}{name}", width) for name, width in signals]

    return {
        "clock, reset, interrupts": [("clk", 1), ("rst", 1), ("irq", parameters.contexts)],
        "stages of requests": [(f"trace__{stage.name.lower()}__valid", 1) for stage in Stage],
        "registers": named(
            "bar__",
            [("awvalid", 1), ("awaddr", bar), ("wvalid", 1), ("wdata", 32), ("arvalid", 1), ("araddr", bar),
             ("rvalid", 1), ("rdata", 32)],
        ),
        "host: read addresses": named("host__ar", address),
        "host: read data": named("host__r", [*handshake, ("data", data), ("resp", 2), ("last", 1)]),
        "host: write addresses": named("host__aw", address),
        "host: write data": named("host__w", [*handshake, ("data", data), ("strb", strobes), ("last", 1)]),
        "host: write responses": named("host__b", [*handshake, ("resp", 2)]),
        "frames received": named("rx__", stream),
        "frames sent": named("tx__", stream),
    }  # fmt: skip
