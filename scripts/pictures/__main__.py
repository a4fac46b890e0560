"""Draw the documentation's pictures into docs/pictures/, from the declarations, the hardware and what was measured;
and the table of a fetch-and-add's packets into docs/pcie.md.

`make pictures` draws. With `--check`, by which `make lint` calls it, it only says which are not fresh: exit status 1.
"""

import argparse
import sys
from collections.abc import Callable

from amoeba_model.generate.files import write_or_check
from blocks import block_diagram
from loss import loss
from objects import api_objects
from overview import overview
from packages import packages
from packets import FRAMES, packet
from plots import match_cost, perf_plots
from timeline import life_of_an_atomic
from tlps import PAGE, with_packets


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
    if arguments.measure:
        from measure import measure

        measure()
    texts = {f"pictures/{name}.svg": text for name, text in pictures().items()}
    texts[PAGE.name] = with_packets(PAGE.read_text(encoding="utf-8"))
    sys.exit(write_or_check(texts, PAGE.parent, check=arguments.check, command="make pictures"))


if __name__ == "__main__":
    main()
