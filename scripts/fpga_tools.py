"""Native tools for FPGAs from Debian, unpacked without root: ``python scripts/fpga_tools.py`` says where they are.

Versions are pinned. Where Debian's mirrors no longer have them, the packages of PyPI remain (the extra ``synth``).
"""

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from debian import OutOfReachError, library_folders, unpack

__all__ = ["OutOfReachError", "fetch_tools", "tool_versions"]

FOLDER = Path(__file__).parents[1] / "build" / "fpga"
PACKAGES = {
    "yosys": "0.66-1",
    "nextpnr-ecp5": "0.11.1+dfsg-5+b1",
    "nextpnr-himbaechel-xilinx": "0.11.1+dfsg-5+b1",
    "fpga-trellis": "1.4-3+b2",
}
_SUITE = "sid"
_NAME = "tools"
_COMMANDS = ("yosys", "nextpnr-ecp5", "nextpnr-himbaechel-xilinx", "ecppack", "ecpunpack", "ecppll")
_CALLED_BY_OTHERS = ("yosys-abc",)
"""Programs that another one starts, from the folder beside it."""
_DATABASES = b"/usr/share/nextpnr"
_ANYWHERE = b"/proc/self/fd/9///"
"""Where nextpnr-ecp5 looks for its parts instead: a descriptor that its wrapper opens. The length is the same."""
_WRAPPER = """#!/bin/sh
exec 9<'{share}'
exec '{loader}' --library-path '{libraries}' '{program}' "$@"
"""


def fetch_tools(folder: Path = FOLDER) -> Path:
    """Return the folder of commands, unpacked first if they are not there.

    Raises OutOfReachError where Debian's packages cannot be had.
    """
    folder = folder.resolve()
    commands = folder / "bin"
    if not (commands / "complete").exists():
        unpack(folder, _NAME, [f"{name}={version}" for name, version in PACKAGES.items()], suites=(_SUITE,))
        _write_commands(folder / _NAME, commands)
    return commands


def _write_commands(root: Path, commands: Path) -> None:
    """Write a script for each program that runs it with the loader and the libraries beside it."""
    programs = root / "usr" / "bin"
    # Programs look for their data beside the file that runs, which is the loader.
    loader = programs / "ld.so"
    shutil.copy(root / "usr" / "lib" / "x86_64-linux-gnu" / "ld-linux-x86-64.so.2", loader)
    ecp5 = programs / "nextpnr-ecp5"
    ecp5.write_bytes(ecp5.read_bytes().replace(_DATABASES, _ANYWHERE))
    commands.mkdir(exist_ok=True)
    values = {"share": root / "usr" / "share" / "nextpnr", "loader": loader, "libraries": library_folders(root)}
    for name in _COMMANDS:
        _write_script(commands / name, _WRAPPER.format(program=programs / name, **values))
    for name in _CALLED_BY_OTHERS:
        program = programs / f"{name}.program"
        if not program.exists():
            (programs / name).rename(program)
        _write_script(programs / name, _WRAPPER.format(program=program, **values))
    (commands / "complete").touch()


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def tool_versions(commands: Path) -> dict[str, str]:
    """Ask each command for its version. Raises OutOfReachError for one that does not run or is another."""
    versions = {}
    for name in ("yosys", "nextpnr-ecp5", "nextpnr-himbaechel-xilinx", "ecppack"):
        done = subprocess.run([commands / name, "--version"], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        found = re.search(r"(?:Version |Yosys )(\d[^\s)]*)", said)
        pinned = PACKAGES["fpga-trellis" if name == "ecppack" else name]
        if found is None or not pinned.startswith(found[1]):
            raise OutOfReachError(f"expected {name} {pinned}, got {said.strip() or done.returncode}")
        versions[name] = found[1]
    return versions


if __name__ == "__main__":
    try:
        found = fetch_tools()
        for command, version in tool_versions(found).items():
            print(f"{command:28} {version:20} {found / command}")
    except OutOfReachError as error:
        sys.exit(f"no native FPGA tools: {error}; PyPI's remain: pip install '.[synth]'")
