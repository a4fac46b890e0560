"""Write the driver's constants and structures from the TOML file of each API; their first lines name the file.

`make generated` writes. With `--check`, by which `make lint` calls it, it only says which are stale: exit status 1.
"""

import argparse
import sys
import tomllib
from pathlib import Path

from amoeba_model.generate.files import write_or_check
from attributes import attributes
from enumerations import constants
from structures import structures
from text import formatted

ROOT = Path(__file__).resolve().parents[2]
LIBFABRIC = "driver/amoeba/libfabric/libfabric-1.17.toml"
UCP = "driver/amoeba/openucx/ucp-1.12.toml"


def generated() -> dict[str, str]:
    """Return the text of every generated file by its path from the root."""
    libfabric, ucp = (tomllib.loads((ROOT / name).read_text("utf-8")) for name in (LIBFABRIC, UCP))
    sources = {
        "driver/amoeba/libfabric/objects/constants.py": (LIBFABRIC, constants(libfabric)),
        "driver/amoeba/openucx/ucp/constants.py": (UCP, constants(ucp)),
        "driver/amoeba/openucx/ucp/structures.py": (UCP, structures(ucp)),
    }
    for name, module in libfabric["modules"].items():
        text = attributes(libfabric, module["doc"], module["structures"])
        sources[f"driver/amoeba/libfabric/{name}"] = LIBFABRIC, text
    return {name: formatted(f"{notice(api)}{text}", ROOT / name) for name, (api, text) in sources.items()}


def notice(api: str) -> str:
    """Return the comment that opens a generated file."""
    return f"# Generated from {api} by scripts/api_tables; do not edit.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which are stale")
    check = parser.parse_args().check
    sys.exit(write_or_check(generated(), ROOT, check=check, command="python scripts/api_tables"))


if __name__ == "__main__":
    main()
