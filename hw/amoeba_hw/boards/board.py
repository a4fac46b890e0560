"""Parameters of boards."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["BOARDS", "Board"]


@dataclass(frozen=True)
class Board:
    """A board, and how its top level differs from others'."""

    name: str
    part: str
    pcie: str
    """The IP of its integrated block for PCI Express."""
    constants: Mapping[str, tuple[int, int]]
    """Pins that are driven with a constant: bits and value by name."""
    nic_mhz: int | None = None
    """The NIC's own clock, one of :func:`amoeba_hw.boards.nic_clock.nic_frequencies`; None: that of PCI Express."""


BOARDS = {
    board.name: board
    for board in (
        Board(
            "u200",
            "xcu200-fsgd2104-2-e",
            "pcie4_uscale_plus",
            {
                "qsfp0_resetl": (1, 1),
                "qsfp0_modsell": (1, 0),
                "qsfp0_lpmode": (1, 0),
                "qsfp0_refclk_reset": (1, 0),
                "qsfp0_fs": (2, 0b10),  # 161.1328125 MHz
            },
        ),
        # The same board under its older name: the same pins, another part.
        Board(
            "xcu1525",
            "xcvu9p-fsgd2104-2L-e",
            "pcie4_uscale_plus",
            {
                "qsfp0_resetl": (1, 1),
                "qsfp0_modsell": (1, 0),
                "qsfp0_lpmode": (1, 0),
                "qsfp0_refclk_reset": (1, 0),
                "qsfp0_fs": (2, 0b10),
            },
        ),
        # Its controller takes the card's power away while this pin is high.
        Board("u50", "xcu50-fsvh2104-2-e", "pcie4c_uscale_plus", {"hbm_cattrip": (1, 0)}),
    )
}
