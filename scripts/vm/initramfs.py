"""The guest's files, as archives that the kernel unpacks: this Python, the driver with what it needs, and a job."""

import importlib.metadata
import lzma
import os
import re
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PACKAGES", "write_base", "write_job"]

PACKAGES = ("google-crc32c", "numpy", "rich", "typer")
"""Packages that the project depends on."""
_ROOT = Path(__file__).resolve().parents[2]
_MODULES = ("irqbypass", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci")
_LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo", "pydoc_data", "site-packages",
    "dist-packages", "f2py", "lexers",
}  # fmt: skip
"""Folders of no use in a guest."""
_NEEDED_LEXERS = ("__init__", "_mapping", "python", "special")
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /etc
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
for module in {modules}; do insmod /modules/$module.ko || echo "cannot load $module"; done
ifconfig lo 127.0.0.1 up
echo 1 > /proc/sys/vm/overcommit_memory
echo 'root:x:0:0::/root:/bin/sh' > /etc/passwd
echo 'user:x:1000:1000::/tmp:/bin/sh' >> /etc/passwd
export PATH=/bin HOME=/tmp COLUMNS=160 PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
cd /tmp
sh /job
echo "exit status: $?"
poweroff -f
"""


class _Archive:
    """A cpio archive in the "newc" format: Documentation/driver-api/early-userspace/buffer-format.rst."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._number = 0
        self._folders: set[str] = set()

    def _entry(self, name: str, mode: int, content: bytes = b"", *, device: tuple[int, int] = (0, 0), time: int = 0):
        self._number += 1
        encoded = name.encode() + b"\0"
        fields = (self._number, mode, 0, 0, 1, time, len(content), 0, 0, *device, len(encoded), 0)
        header = b"070701" + "".join(f"{field:08X}" for field in fields).encode() + encoded
        self._file.write(header + bytes(-len(header) % 4) + content + bytes(-len(content) % 4))

    def add(self, name: str, content: bytes, *, executable: bool = False, time: int = 0) -> None:
        for parent in reversed(Path(name).parents[:-1]):
            self.folder(str(parent))
        self._entry(name, stat.S_IFREG | (0o755 if executable else 0o644), content, time=time)

    def folder(self, name: str) -> None:
        if name not in self._folders:
            self._folders.add(name)
            self._entry(name, stat.S_IFDIR | 0o1777 if name == "tmp" else stat.S_IFDIR | 0o755)

    def device(self, name: str, major: int, minor: int) -> None:
        self.folder(str(Path(name).parent))
        self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def copy(self, path: Path, name: str | None = None) -> None:
        """Copy a file as it is, to its own place by default; its time stays, so that byte code goes with it."""
        status = path.stat()
        self.add(
            (name or str(path)).lstrip("/"), path.read_bytes(), executable=os.access(path, os.X_OK),
            time=int(status.st_mtime),
        )  # fmt: skip

    def close(self) -> None:
        self._entry("TRAILER!!!", 0)
        self._file.close()


def _files(folder: Path, left_out: set[str] = _LEFT_OUT) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in left_out and not name.startswith("config-")]
        for name in names:
            if not name.endswith((".a", ".pyi", ".opt-1.pyc", ".opt-2.pyc", ".exe")):
                yield Path(base) / name


def _distributions(*names: str) -> dict[str, importlib.metadata.Distribution]:
    """Find distributions and their dependencies, by name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted = list(names)
    while wanted:
        name = re.split(r"[^\w.-]", wanted.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        wanted += [need for need in distribution.requires or () if "extra ==" not in need]
    return found


def _libraries(binaries: list[Path]) -> Iterator[Path]:
    """Yield the shared libraries that binaries need, the loader included."""
    found: set[str] = set()
    for binary in binaries:
        printed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
        found.update(word for word in printed.split() if word.startswith("/") and ".so" in word)
    yield from (Path(name.rstrip(":")) for name in sorted(found))


def _python() -> tuple[Path, Path]:
    """(interpreter, folder of its library)."""
    return Path(os.path.realpath(sys.executable)), Path(sysconfig.get_path("stdlib"))


def write_base(path: Path, busybox: Path, modules: Path) -> None:
    """Write all files that do not change with the project: Python, NumPy and the packages of the command line."""
    archive = _Archive(path)
    for name in ("dev", "proc", "sys", "tmp", "root"):
        archive.folder(name)
    archive.device("dev/console", 5, 1)
    archive.copy(busybox, "bin/busybox")
    for module in _MODULES:
        (packed,) = modules.glob(f"**/{module}.ko*")
        content = packed.read_bytes()
        archive.add(f"modules/{module}.ko", lzma.decompress(content) if packed.suffix == ".xz" else content)
    python, library = _python()
    sources = [python, *_files(library)]
    for distribution in _distributions(*PACKAGES).values():
        for file in distribution.files or ():
            located = Path(str(distribution.locate_file(file)))
            lexer = "lexers" in located.parts and located.stem.split(".")[0] not in _NEEDED_LEXERS
            if not lexer and not {"tests", "f2py", "bin"} & set(located.parts[-6:-1]) and located.is_file():
                sources.append(located)
    sources = [one for one in dict.fromkeys(sources) if one.suffix not in (".pyi", ".a")]
    for source in sources:
        archive.copy(source)
    binaries = [one for one in sources if ".so" in one.name or one == python]
    inside = {str(one) for one in sources}
    for library_file in _libraries(binaries):
        if str(library_file) not in inside:
            archive.copy(library_file)
    archive.close()


def write_job(path: Path, command: str, files: dict[str, bytes]) -> None:
    """Write the project's sources and the command; ``files`` lie in /tmp."""
    archive = _Archive(path)
    for package in ("model", "driver", "tools"):
        for file in _files(_ROOT / package):
            archive.copy(file, f"src/{file.relative_to(_ROOT)}")
    packages = {str(Path(str(one.locate_file("")))) for one in _distributions(*PACKAGES).values()}
    places = ["/src/model", "/src/driver", "/src/tools", *sorted(packages)]
    archive.add("init", _INIT.format(modules=" ".join(_MODULES), path=":".join(places)).encode(), executable=True)
    python, _ = _python()
    archive.add("bin/python", f'#!/bin/sh\nexec {python} "$@"\n'.encode(), executable=True)
    archive.add("bin/amoeba", f'#!/bin/sh\nexec {python} -m amoeba_tools "$@"\n'.encode(), executable=True)
    for name, content in files.items():
        archive.add(f"tmp/{name}", content)
    archive.add("job", command.encode())
    archive.close()
