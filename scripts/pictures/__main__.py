"""Draw the documentation's pictures into docs/pictures/, from the declarations, the hardware and what was measured;
and the table of a fetch-and-add's packets into docs/pcie.md.

`make pictures` draws. With `--check`, by which `make lint` calls it, it only says which are not fresh: exit status 1.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from blocks import block_diagram
from loss import loss
from objects import api_objects
from overview import overview
from packages import packages
from packets import FRAMES, packet
from plots import match_cost, perf_plots
from timeline import life_of_an_atomic
from tlps import PAGE, with_packets

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def pictures() -> dict[str, str]:
    """Return all pictures, by file name."""
    drawn: dict[str, Callable[[], str]] = {
        "overview": overview,
        "packages": packages,
        "block-diagram": block_diagram,
        "loss": loss,
        "api-objects": api_objects,
        "life-of-an-atomic": life_of_an_atomic,
        "match-cost": match_cost,
    }
    return {
        **{name: draw() for name, draw in drawn.items()},
        **{name: packet(name) for name in FRAMES},
        **perf_plots(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which are not fresh")
    parser.add_argument("--measure", action="store_true", help="measure on RTL first what is drawn of it: minutes")
    arguments = parser.parse_args()
    check = arguments.check
    if arguments.measure:
        from measure import measure

        measure()
    stale = []
    for name, text in pictures().items():
        path = FOLDER / f"{name}.svg"
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
                print(f"docs/pictures/{name}.svg")
    page = PAGE.read_text()
    if with_packets(page) != page:
        stale.append("the packets in docs/pcie.md")
        if not check:
            PAGE.write_text(with_packets(page))
            print("docs/pcie.md")
    if check and stale:
        sys.exit(f"not fresh: {', '.join(stale)}; make pictures draws them anew")


if __name__ == "__main__":
    main()
