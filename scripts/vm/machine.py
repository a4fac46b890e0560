"""A virtual machine with an IOMMU, whose network cards are NICs behind ``amoeba endpoint``."""

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from initramfs import PACKAGES, write_base, write_job
from packages import OutOfReachError, Tools, find_tools

__all__ = ["ADDRESSES", "Guest", "OutOfReachError", "endpoints", "run_guest"]

ADDRESSES = ("0000:01:00.0", "0000:02:00.0")
"""Where the NICs are found in a guest, in the order of their sockets."""
_ROOT = Path(__file__).resolve().parents[2]
_FOLDER = _ROOT / "build" / "vm"
_MEMORY = "1G"
_BIND = (
    f"cards=; for a in {' '.join(ADDRESSES)}; do [ ! -e /sys/bus/pci/devices/$a ] || cards=\"$cards $a\"; done\n"
    '[ -z "$cards" ] || amoeba pcie bind $cards || exit 99\n'
)
"""All in one process: each takes a quarter of a minute of processor time to start."""


@dataclass(frozen=True)
class Guest:
    """Result of a run."""

    status: int | None
    """Exit status of the command; None if the command did not end."""
    output: str
    """All that the console said."""


@contextmanager
def endpoints(kinds: Sequence[str], folder: Path, *options: str) -> Iterator[list[Path]]:
    """Start ``amoeba endpoint``, and yield its sockets."""
    command = [sys.executable, "-m", "amoeba_tools", "endpoint", "--socket", str(folder), "--device", ",".join(kinds)]
    path = os.pathsep.join([*(str(_ROOT / part) for part in ("model", "hw", "sim", "driver", "tools"))])
    environment = os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    log = (folder / "endpoint.log").open("w")
    with (
        log,
        subprocess.Popen(
            [*command, "--count", str(len(kinds)), *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        ) as server,
    ):
        try:
            assert server.stdout is not None
            yield [Path(server.stdout.readline().split()[1]) for _ in kinds]
        finally:
            server.terminate()


def run_guest(
    command: str, sockets: Sequence[Path], *, files: Mapping[str, bytes] | None = None, timeout: float = 300.0
) -> Guest:
    """Boot, hand the NICs to vfio-pci, run a shell command as root, and switch off.

    ``files`` are found in /tmp, where the command runs. Raises OutOfReachError if QEMU or a kernel cannot be had.
    """
    tools = find_tools(_FOLDER)
    base = _base(tools)
    with tempfile.TemporaryDirectory() as folder:
        job, image = Path(folder) / "job.cpio", Path(folder) / "initrd"
        write_job(job, _BIND + command + "\n", dict(files or {}))
        with image.open("wb") as joined:
            for part in (base, job):
                content = part.read_bytes()
                joined.write(content + bytes(-len(content) % 512))
        try:
            ran = subprocess.run(
                _command(tools, image, sockets), capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout
            )
            output = ran.stdout + ran.stderr
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
    text = output.decode(errors="replace").replace("\r\n", "\n")
    found = re.search(r"^exit status: (\d+)$", text, re.MULTILINE)
    return Guest(int(found[1]) if found else None, text)


def _base(tools: Tools) -> Path:
    """Make the archive of the files that do not change, once."""
    versions = [
        sys.version,
        str(tools.modules),
        *(importlib.metadata.version(one) for one in PACKAGES),
    ]
    recipe = (Path(__file__).with_name("initramfs.py").read_bytes(), repr(versions).encode(), sys.prefix.encode())
    path = _FOLDER / f"base-{hashlib.sha256(b''.join(recipe)).hexdigest()[:16]}.cpio"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        write_base(unfinished, tools.busybox, tools.modules)
        unfinished.rename(path)
    return path


def _command(tools: Tools, image: Path, sockets: Sequence[Path]) -> list[str]:
    cards = []
    for number, path in enumerate(sockets):
        card = {"driver": "vfio-user-pci", "bus": f"port{number}", "socket": {"path": str(path), "type": "unix"}}
        cards += ["-device", f"pcie-root-port,id=port{number},slot={number}", "-device", json.dumps(card)]
    return [
        *tools.qemu, "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio",
        "-machine", "q35,kernel-irqchip=split,memory-backend=memory",
        # Sealed against shrinking, which the endpoints insist on.
        "-object", f"memory-backend-memfd,id=memory,size={_MEMORY},share=on", "-m", _MEMORY,
        "-accel", "tcg", "-cpu", "max",
        "-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=off", *cards,
        "-kernel", str(tools.kernel), "-initrd", str(image),
        # The kernel counts ticks in its first moments, and gives up where a busy machine has stopped it meanwhile.
        "-append", "console=ttyS0 intel_iommu=on panic=-1 no_timer_check quiet",
    ]  # fmt: skip
