"""Building shared libraries for C programs, by the C compiler and cffi, into a folder of the user.

A library is built once for its contents: its declaration, the C beside this file, the interpreter, the compiler and
cffi. A library of other contents goes to another folder, so running programs keep theirs.
"""

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from amoeba_model.extras import installation
from amoeba_model.user_cache import user_cache

from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError, fabric_error
from amoeba.embed.library import CFunction, CLibrary

__all__ = ["build", "cache_folder", "preloaded", "source_of"]

_BESIDE = [Path(__file__).with_name(name) for name in ("start.c", "program.c", "deputy.c")]
"""C files that every library contains besides its own functions."""
_FLAGS = ("-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unused-function")
_TOGETHER = ("-r", "-nostdlib")
"""All C in one object file."""
_PRELOADED = "preloaded"
_NEEDED = ("amoeba", "amoeba_model", "google_crc32c", "numpy", "_cffi_backend")
"""Packages that another Python would not find by itself."""
_PY = "amoeba_py_"


def cache_folder() -> Path:
    """Return the build cache's folder: ``$AMOEBA_CACHE``, else ``amoeba`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    In a folder that other users may write to, each user has a subfolder. Raises FI_EACCES for another user's folder.
    """
    try:
        return user_cache()
    except PermissionError as error:
        raise fabric_error(Errno.FI_EACCES, f"{error.filename}: {error.strerror}") from None


def build(
    library: CLibrary, folder: Path | None = None, announce: Callable[[str], object] = lambda name: None
) -> Path:
    """Build a library, unless it is built already; returns its file, which has its name.

    ``folder``: instead of :func:`cache_folder`. ``announce``: called with the name before a build, which takes
    seconds.

    Raises FI_ENOSYS without a C compiler, cffi, or Python as a shared library with its headers; the message says how
    to get what is missing. Raises FI_EINVAL, with the compiler's message, if the compiler refuses the library's C.
    Raises FI_EACCES if the folder cannot be written to.
    """
    compiler, cffi = _compiler(), _cffi()
    libpython, headers = _python()
    source = source_of(library, cffi)
    macros = _macros(library, libpython)
    compiling = [*compiler, *_FLAGS, f"-I{headers}", *macros, *_TOGETHER]
    linking = [*compiler, "-shared", f"-Wl,-soname,{library.name}", "-Wl,-z,nodelete"]
    version = subprocess.run([compiler[0], "--version"], capture_output=True, text=True, check=False).stdout
    versions = [version, cffi.__version__, sys.version]
    needed = [name for name in library.needed if _can_be_loaded(name)]
    names = [*library.libraries, *library.links, *needed]
    content = [source, *(path.read_text() for path in _BESIDE), *compiling, *linking, *names, *versions]
    key = hashlib.sha256("\0".join(content).encode()).hexdigest()[:24]
    target = (folder or cache_folder()) / "lib" / key / library.name
    if target.is_file():
        return target
    announce(library.name)
    with _writing(target.parent.parent) as work:
        unit = Path(work) / "library.c"
        unit.write_text(source)
        made, alone = Path(work) / library.name, Path(work) / "alone"
        whole = unit.with_suffix(".o")
        _run([*compiling, str(unit), *map(str, _BESIDE), "-o", str(whole)])
        linking += [str(whole), f"-L{libpython.parent}", f"-Wl,-rpath,{libpython.parent}", f"-l:{libpython.name}"]
        linking += ["-ldl", "-lpthread", *(f"-l{name}" for name in library.libraries)]
        _run([*linking, "-o", str(made), *_stand_ins(compiler, needed, Path(work))])
        target.parent.mkdir(parents=True, exist_ok=True)
        if library.needed:
            _run([*linking, "-o", str(alone)])
            preloaded(target).parent.mkdir(exist_ok=True)
            os.replace(alone, preloaded(target))
        for name in library.links:
            with contextlib.suppress(FileExistsError):
                (target.parent / name).symlink_to(library.name)
        os.replace(made, target)  # another process may build the same at the same time
    return target


def preloaded(built: Path) -> Path:
    """Return the file for ``LD_PRELOAD`` of a library with ``libraries``: the file itself loads none.

    Preloaded, the others would precede the program's own libraries of the same functions under other names.
    """
    return built.parent / _PRELOADED / built.name


def _can_be_loaded(name: str) -> bool:
    """Return whether the loader finds a library. A separate process asks, as some libraries have side effects."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    command = [sys.executable, "-I", "-S", "-c", code, name]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def _stand_ins(compiler: Sequence[str], names: Sequence[str], work: Path) -> list[str]:
    """Return linker options for libraries of these names, wherever they lie: empty ones are linked in their place."""
    for name in names:
        _run([*compiler, "-shared", "-x", "c", os.devnull, f"-Wl,-soname,{name}", "-o", str(work / name)])
    return ["-Wl,--no-as-needed", *(str(work / name) for name in names)] if names else []


def source_of(library: CLibrary, cffi: Any = None) -> str:
    """Return the library's own C: its functions, which call Python, around cffi's generated code."""
    ffi = (cffi or _cffi()).FFI()
    returns = {function.name: function.returns for function in library.functions}
    inner = [f"{function.prototype % (_PY + function.name)};" for function in library.functions]
    for declarations in (library.included, library.types, library.helpers):
        ffi.cdef(declarations)
    ffi.cdef("void amoeba_end(void);")
    python = "\n".join(["int amoeba_load(void);", *inner])
    ffi.cdef(f'extern "Python+C" {{ int amoeba_load(void); }}\nextern "Python" {{ {" ".join(inner)} }}')
    ffi.embedding_api("")
    ffi.set_source(library.module, _source(library, python))
    ffi.embedding_init_code(
        f"from {library.module} import ffi, lib\n"
        "def load(ffi=ffi, lib=lib):\n"
        "    try:\n"
        "        from amoeba.embed.binding import load\n"
        "    except Exception as error:\n"
        "        import sys\n"
        f"        print({library.name + ': cannot start:'!r}, repr(error), file=sys.stderr)\n"
        "        return 0\n"
        f"    return load(ffi, lib, {library.name!r}, {library.entry!r}, {returns!r})\n"
        "@ffi.def_extern(error=0)\n"
        "def amoeba_load(load=load):\n"
        "    return load()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.c"
        with contextlib.redirect_stdout(io.StringIO()):  # cffi prints the name of the file
            ffi.emit_c_code(str(path))
        return path.read_text()


def _source(library: CLibrary, python: str) -> str:
    statics = "\n".join(f"static {line}" for line in python.splitlines()[1:])
    functions = "\n".join(map(_function, library.functions))
    return f"""\
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
{library.includes}
{library.types}
int amoeba_enter(void);
int amoeba_in_vain(void);
int amoeba_by_deputy(intptr_t (*call)(uintptr_t), uintptr_t argument, intptr_t *result);
int amoeba_is_deputy(void);
int amoeba_set_bell(uintptr_t object, int eventfd);
int amoeba_ring(uintptr_t object);
void amoeba_end(void);
{statics}
{functions}
{library.source}
"""


def _function(function: CFunction) -> str:
    """Return the C function that programs call: calls Python, if Python runs."""
    linkage = '__attribute__((visibility("default")))' if function.exported else "static"
    arguments = ", ".join(function.arguments)
    call = f"{_PY}{function.name}({arguments})"
    if function.busy:
        wrapped = f"static intptr_t amoeba_as_{function.name}(uintptr_t it) {{ return {_PY}{function.name}(it); }}\n"
        by_deputy = f"amoeba_by_deputy(amoeba_as_{function.name}, {arguments}, &result)"
        body = (
            f"intptr_t result = 0; if (!amoeba_enter()) return ({function.returns})({function.ended}); "
            f"if (!amoeba_in_vain()) return {call}; "
            f"return ({function.returns})({by_deputy} ? result : {function.busy});"
        )
        return f"{wrapped}{linkage} {function.prototype % function.name} {{ {body} }}"
    if function.returns == "void":
        body = f"if (amoeba_enter()) {call};"
    else:
        body = f"return amoeba_enter() ? {call} : ({function.returns})({function.ended});"
    return f"{linkage} {function.prototype % function.name} {{ {body} }}"


def _macros(library: CLibrary, libpython: Path) -> list[str]:
    texts = {
        "AMOEBA_NAME": library.name,
        "AMOEBA_PYTHON": sys.executable,
        "AMOEBA_HOME": sys.base_prefix,
        "AMOEBA_LIBPYTHON": str(libpython),
        "AMOEBA_PATHS": repr(_folders()),
    }
    return [f"-D{name}={_literal(text)}" for name, text in texts.items()]


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _folders() -> list[str]:
    """Where Python finds what is needed."""
    found: list[str] = []
    for name in _NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin).resolve()
        folder = str(origin.parent.parent if spec.submodule_search_locations else origin.parent)
        if folder not in found:
            found.append(folder)
    return found


def _compiler() -> list[str]:
    named = os.environ.get("CC", "cc").split()
    if not named or shutil.which(named[0]) is None:
        raise _missing(f"no C compiler {' '.join(named)!r} was found", "apt install gcc, or name yours in CC")
    return named


def _cffi() -> Any:
    try:
        import cffi
    except ImportError as error:
        raise _missing(f"cffi was not found ({error})", installation("c")) from error
    return cffi


def _python() -> tuple[Path, Path]:
    """Find Python's shared library, and the folder of its headers."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise _missing(f"Python's headers were not found in {headers}", "apt install python3-dev")
    name = str(sysconfig.get_config_var("INSTSONAME") or "")
    folders = [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL")]
    folders.append(os.path.join(str(folders[0]), str(sysconfig.get_config_var("MULTIARCH") or "")))
    for folder in folders:
        if name.startswith("libpython") and ".so" in name and folder and (Path(folder) / name).is_file():
            return Path(folder) / name, headers
    raise _missing(
        f"{sys.executable} has no shared library",
        "a Python built with --enable-shared, as Debian's with apt install libpython3-dev",
    )


def _missing(what: str, remedy: str) -> FabricError:
    return fabric_error(Errno.FI_ENOSYS, f"cannot build a library for C programs: {what}; needed: {remedy}")


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[str]:
    """Make a temporary folder for the build, beside the folder of the result."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = tempfile.mkdtemp(prefix="build-", dir=folder)
    except OSError as error:
        raise fabric_error(
            Errno.FI_EACCES, f"cannot write to {folder} ({error.strerror}); AMOEBA_CACHE names another folder"
        ) from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise fabric_error(Errno.FI_EINVAL, f"{command[0]} failed: {done.stderr.strip()[-4000:]}")
