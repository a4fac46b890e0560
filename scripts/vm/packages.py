"""QEMU, a kernel and busybox from Debian's mirrors, unpacked into a folder without installation and without root."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from debian import OutOfReachError, unpack

__all__ = ["NEEDED_QEMU", "OutOfReachError", "Tools", "find_tools"]

NEEDED_QEMU = (10, 1)
"""The first with ``vfio-user-pci``."""
_SUITE = "trixie"
_PACKAGES = {
    "qemu": ("--target-release", f"{_SUITE}-backports", "qemu-system-x86"),
    "kernel": ("linux-image-cloud-amd64",),
    "busybox": ("busybox-static",),
}
_WANTED = {"kernel": "linux-image-"}
"""How the names of packages begin that are unpacked, where not all are."""


@dataclass(frozen=True)
class Tools:
    """Parts of a virtual machine."""

    qemu: tuple[str, ...]
    """The command, to which options are added."""
    kernel: Path
    modules: Path
    """The folder of the kernel's modules: ``lib/modules/<version>``."""
    busybox: Path


def find_tools(folder: Path) -> Tools:
    """Find the tools, in ``folder`` if they were unpacked there before. Raises OutOfReachError."""
    folder = folder.resolve()
    qemu = _qemu_of_path()
    wanted = [name for name in _PACKAGES if name != "qemu" or qemu is None]
    for name in wanted:
        suites = (_SUITE, f"{_SUITE}-backports")
        unpack(folder, name, _PACKAGES[name], suites=suites, wanted=_WANTED.get(name, ""))
    if qemu is None:
        qemu = _unpacked_qemu(folder / "qemu")
    (kernel,) = (folder / "kernel" / "boot").glob("vmlinuz-*")
    version = kernel.name.removeprefix("vmlinuz-")
    (modules,) = (path for path in (folder / "kernel").glob(f"**/modules/{version}") if path.is_dir())
    (busybox,) = (path for path in (folder / "busybox").glob("**/bin/busybox") if path.is_file())
    return Tools(qemu, kernel, modules, busybox)


def _qemu_of_path() -> tuple[str, ...] | None:
    """QEMU as it is installed, if it is new enough."""
    found = shutil.which("qemu-system-x86_64")
    return (found,) if found and _version((found,)) >= NEEDED_QEMU else None


def _version(command: tuple[str, ...]) -> tuple[int, ...]:
    try:
        printed = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"version (\d+)\.(\d+)", printed)
    return tuple(map(int, found.groups())) if found else ()


def _unpacked_qemu(folder: Path) -> tuple[str, ...]:
    """QEMU from a folder, by the loader and the libraries that came with it."""
    loader = next(path for path in sorted(folder.glob("**/ld-linux-x86-64.so.2")) if path.is_file())
    libraries = sorted({str(path.parent) for path in folder.glob("**/*.so*") if "qemu" not in path.parts[-2]})
    (program,) = folder.glob("usr/bin/qemu-system-x86_64")
    command = (str(loader), "--library-path", ":".join(libraries), str(program))
    if _version(command) < NEEDED_QEMU:
        raise OutOfReachError(f"expected QEMU {NEEDED_QEMU} or later, got {_version(command)} from {program}")
    return (*command, "-L", str(folder / "usr" / "share" / "qemu"), "-L", str(folder / "usr" / "share" / "seabios"))
