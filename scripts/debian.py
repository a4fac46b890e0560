"""Packages from Debian's mirrors, unpacked into a folder without installation and without root.

apt resolves and verifies the packages, in separate directories; ``dpkg-deb`` unpacks them.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["OutOfReachError", "library_folders", "unpack"]

_MIRROR = "http://deb.debian.org/debian"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SECONDS = 300


class OutOfReachError(Exception):
    """The packages cannot be had here: why."""


def unpack(folder: Path, name: str, packages: Sequence[str], *, suites: Sequence[str], wanted: str = "") -> None:
    """Unpack packages and all that they depend on into ``folder / name``, unless that was done before.

    Parameters
    ----------
    folder : Path
        Also has apt's state, for one choice of suites.
    name : str
        A folder in ``folder``, replaced as a whole.
    packages : sequence of str
        Arguments of ``apt-get install``: a version may be pinned as ``name=version``.
    suites : sequence of str
        Releases of Debian, such as ``trixie``.
    wanted : str
        How the names of the packages begin that are unpacked; of all by default.

    Raises
    ------
    OutOfReachError
    """
    target = folder / name
    if (target / "complete").exists():
        return
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise OutOfReachError(f"{tool} is not here, which fetches {name} from Debian")
    if not Path(_KEYRING).exists():
        raise OutOfReachError(f"{_KEYRING} is not here, which Debian's packages are verified with")
    apt = folder / "apt"
    options = _apt_options(apt, suites)
    if not (apt / "updated").exists():
        _run("apt-get", *options, "update", "-q")
        (apt / "updated").touch()
    archives = apt / "archives" / name
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    try:
        _run(
            "apt-get", *options, "-o", f"Dir::Cache::archives={archives}", "install", "-q", "--yes",
            "--no-install-recommends", "--download-only", *packages,
        )  # fmt: skip
    except OutOfReachError:
        # The lists may be old: the next try fetches them anew.
        (apt / "updated").unlink()
        raise
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for package in sorted(archives.glob("*.deb")):
        if package.name.startswith(wanted):
            _run("dpkg-deb", "--extract", str(package), str(target))
    shutil.rmtree(archives)
    (target / "complete").touch()


def library_folders(folder: Path) -> str:
    """Return the folders of libraries in an unpacked folder, as ``--library-path`` of its loader takes them."""
    return ":".join(sorted({str(path.parent) for path in folder.glob("**/*.so*")}))


def _apt_options(apt: Path, suites: Sequence[str]) -> list[str]:
    """Directories of our own, the suites, and no package that counts as installed."""
    for inside in ("lists/partial", "archives", "etc", "log"):
        (apt / inside).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    sources = (f"deb [signed-by={_KEYRING}] {_MIRROR} {suite} main\n" for suite in suites)
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
