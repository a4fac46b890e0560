"""QEMU, a kernel and busybox from Debian's mirrors, unpacked into a folder without installation and without root.

apt resolves and verifies the packages, in separate directories; ``dpkg-deb`` unpacks them.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NEEDED_QEMU", "OutOfReachError", "Tools", "find_tools"]

NEEDED_QEMU = (10, 1)
"""The first with ``vfio-user-pci``."""
_MIRROR = "http://deb.debian.org/debian"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITE = "trixie"
_PACKAGES = {
    "qemu": ("--target-release", f"{_SUITE}-backports", "qemu-system-x86"),
    "kernel": ("linux-image-cloud-amd64",),
    "busybox": ("busybox-static",),
}
_UNPACKED_FOR_KERNEL = "linux-image-"
_SECONDS = 300


class OutOfReachError(Exception):
    """The tools cannot be had here: why."""


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
        if not (folder / name / "complete").exists():
            _unpack(folder, name)
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


def _unpack(folder: Path, name: str) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise OutOfReachError(f"{tool} is not here, which fetches {name} from Debian")
    if not Path(_KEYRING).exists():
        raise OutOfReachError(f"{_KEYRING} is not here, which Debian's packages are verified with")
    apt = folder / "apt"
    options = _apt_options(apt)
    if not (apt / "updated").exists():
        _run("apt-get", *options, "update", "-q")
        (apt / "updated").touch()
    archives = apt / "archives" / name
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    _run(
        "apt-get", *options, "-o", f"Dir::Cache::archives={archives}", "install", "-q", "--yes",
        "--no-install-recommends", "--download-only", *_PACKAGES[name],
    )  # fmt: skip
    target = folder / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for package in sorted(archives.glob("*.deb")):
        if name != "kernel" or package.name.startswith(_UNPACKED_FOR_KERNEL):
            _run("dpkg-deb", "--extract", str(package), str(target))
    shutil.rmtree(archives)
    (target / "complete").touch()


def _apt_options(apt: Path) -> list[str]:
    """Directories of our own, two suites, and no package that counts as installed."""
    for inside in ("lists/partial", "archives", "etc", "log"):
        (apt / inside).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    sources = (f"deb [signed-by={_KEYRING}] {_MIRROR} {suite} main\n" for suite in (_SUITE, f"{_SUITE}-backports"))
    (apt / "sources.list").write_text("".join(sources))
    settings = {
        "Dir::State": apt, "Dir::State::status": apt / "status", "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt, "Dir::Etc::sourcelist": apt / "sources.list", "Dir::Etc::sourceparts": apt / "etc",
        "Dir::Etc::preferencesparts": apt / "etc", "Dir::Log": apt / "log", "APT::Architecture": "amd64",
        "APT::Architectures": "amd64", "APT::Sandbox::User": "root", "Acquire::Languages": "none",
        "Acquire::Retries": "2", "Debug::NoLocking": "1",
    }  # fmt: skip
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or error.stdout.strip()).splitlines()[-1:]
        raise OutOfReachError(f"{command[0]} failed: {' '.join(said)}") from None
    except subprocess.TimeoutExpired:
        raise OutOfReachError(f"{command[0]} took longer than {_SECONDS} s") from None
