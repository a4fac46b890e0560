"""``python scripts/rtl_ports.py [--check]``: write the port tables of ``hw/rtl/README.md``, or check them.

The tables come from the NIC's signature, so that they describe the output of `make rtl`.
"""

import argparse
import sys
from pathlib import Path

from amaranth.lib.wiring import Flow
from amoeba_hw.nic import Nic
from amoeba_model.generate.files import write_or_check
from amoeba_model.parameters import NicParameters

__all__ = ["main", "page", "tables"]

PAGE = Path(__file__).resolve().parents[1] / "hw" / "rtl" / "README.md"
BEGIN = "<!-- ports: by scripts/rtl_ports.py -->\n"
END = "<!-- ports end -->\n"
WIDTHS = (128, 256, 512)
"""Bits per beat of the NICs that `make rtl` writes."""


def _ports(width: int) -> dict[str, tuple[str, int]]:
    """Direction and bits of each port in the Verilog of this width, but for clock and reset."""
    nic = Nic(NicParameters(data_width=width))
    return {
        "__".join(map(str, path)): ("output" if member.flow is Flow.Out else "input", len(value))
        for (path, member, value) in nic.signature.flatten(nic)
    }


def tables() -> str:
    """Return tables of all ports, by interface, with their bits for each width of the datapath."""
    by_width = [_ports(width) for width in WIDTHS]
    lines: list[str] = []
    last = ""
    for name, (direction, _) in by_width[0].items():
        interface = name.partition("__")[0]
        if interface != last:
            heading = f"| `{interface}` | direction | {' | '.join(f'at {width}' for width in WIDTHS)} |"
            lines += ["", heading, "|---|---|" + "---:|" * len(WIDTHS)]
            last = interface
        bits = " | ".join(str(ports[name][1]) for ports in by_width)
        lines.append(f"| `{name}` | {direction} | {bits} |")
    return "\n".join([*lines[1:], ""])


def page(text: str) -> str:
    """Return the page with fresh tables. Raises ValueError where it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"expected the lines {BEGIN.strip()} and {END.strip()} in {PAGE.name}")
    return before + begin + tables() + end + after


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the port tables of hw/rtl/README.md.")
    parser.add_argument("--check", action="store_true", help="only say whether they are fresh")
    arguments = parser.parse_args()
    texts = {PAGE.name: page(PAGE.read_text(encoding="utf-8"))}
    sys.exit(write_or_check(texts, PAGE.parent, check=arguments.check, command="make generated"))


if __name__ == "__main__":
    main()
