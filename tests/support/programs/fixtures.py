"""Fixtures of tests that run programs of others."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from amoeba import Errno, FabricError

from tests.support.programs.missing import MissingError, compiler, program

if TYPE_CHECKING:
    from amoeba.embed import CLibrary

__all__ = [
    "commands_environment",
    "headers",
    "host",
    "libucp_environment",
    "needs_program",
    "provider_environment",
    "watched",
]


@pytest.fixture(scope="session")
def headers() -> str:
    """The C compiler. Skips where libfabric's headers are not."""
    try:
        return compiler("rdma/fabric.h", "libfabric-dev")
    except MissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def host() -> str:
    """An address of this host's that no other worker uses: programs listen at ports that are always the same."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return f"127.0.1.{1 + int(worker)}"


@pytest.fixture(scope="session")
def provider_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With which libfabric's programs find the provider, and nothing else. Skips where it cannot be built."""
    from amoeba.libfabric.provider.library import LIBRARY

    folder = _built(LIBRARY, tmp_path_factory.mktemp("cache"))
    return _environment() | {"FI_PROVIDER_PATH": folder, "FI_PROVIDER": "amoeba"}


@pytest.fixture(scope="session")
def libucp_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With which UCX's programs find ours before the system's. Skips where it cannot be built."""
    from amoeba.openucx.libucp.library import LIBRARY

    return _environment() | {"LD_LIBRARY_PATH": _built(LIBRARY, tmp_path_factory.mktemp("cache"))}


@pytest.fixture
def commands_environment(provider_environment: dict[str, str], libucp_environment: dict[str, str]) -> dict[str, str]:
    """For ``amoeba fi-run`` and ``ucx-run``: both libraries are built, and none of their settings is made."""
    theirs = {"FI_PROVIDER", "FI_PROVIDER_PATH"}
    # .../cache/lib/key/library
    cache = Path(provider_environment["FI_PROVIDER_PATH"]).parents[1]
    kept = {name: value for name, value in provider_environment.items() if name not in theirs}
    return kept | {"AMOEBA_CACHE": str(cache)}


def _built(library: "CLibrary", cache: Path) -> str:
    """The folder of a library that is built there. Skips where it cannot be."""
    from amoeba.embed import build

    try:
        return str(build(library, cache).parent)
    except FabricError as error:
        if error.fi_errno != Errno.FI_ENOSYS:
            raise
        pytest.skip(str(error))


def _environment() -> dict[str, str]:
    """That of the tests, without settings of Amoeba's, and with where they find it."""
    settings = ("DEVICE", "HOST", "PORT", "CONTEXTS", "COUNT", "DEBUG", "LOG")
    removed = {f"AMOEBA_{name}" for name in settings}
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def watched(environment: dict[str, str]) -> dict[str, str]:
    """The environment in which a C program's Python reports long sleeps under the lock of all calls."""
    path = os.pathsep.join([str(Path(__file__).parent / "watched"), environment["PYTHONPATH"]])
    return environment | {"PYTHONPATH": path}


@pytest.fixture
def needs_program() -> Callable[[str, str], str]:
    """Where a program lies; skips the test, with its package, on machines without it."""

    def find(name: str, package: str) -> str:
        try:
            return program(name, package)
        except MissingError as missing:
            pytest.skip(str(missing))

    return find
