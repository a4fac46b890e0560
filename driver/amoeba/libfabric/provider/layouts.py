"""The structures that libfabric's programs and providers hand each other, in C.

libfabric-1.17.toml declares them for compiler and cffi, so that no header of libfabric is needed; a test compares
them with Debian's.
"""

import tomllib
from pathlib import Path
from typing import Any

__all__ = ["API", "TYPES"]

_OBJECT = "struct amoeba_fid { struct fid fid; uintptr_t slots[7]; };"
"""An object of the library: a ``struct fid`` and pointers to tables of functions, as in libfabric's structures."""

API: dict[str, Any] = tomllib.loads(Path(__file__).parents[1].joinpath("libfabric-1.17.toml").read_text("utf-8"))
"""The contents of the file."""


def _types() -> str:
    declared = [f"{each};" for each in API["c"]["declarations"]]
    fields = {
        name: [f"{row['c']} {field}" for field, row in each["fields"].items()]
        for name, each in API["structures"].items()
    }
    structures = [
        f"struct {name} {{ {'; '.join(members)}; }};" for name, members in (API["c"]["structures"] | fields).items()
    ]
    return "\n".join([*declared, *structures, _OBJECT])


TYPES = _types()
