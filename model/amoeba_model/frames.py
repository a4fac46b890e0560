"""Ethernet frames on links, and counts of them."""

from dataclasses import dataclass

__all__ = ["Frame", "Traffic"]



@dataclass(frozen=True)
class Frame:
    """One Ethernet frame on a link, without preamble and FCS."""

    cycle: int
    """Clock cycle at which its last beat left the sender."""
    data: bytes
    remark: str = ""
    """Fault that the network made, in its :attr:`Network.log`; empty if the frame arrived as it left."""


@dataclass
class Traffic:
    """Frames counted by what became of them; a duplicate is a frame of its own from then on.

    ``sent + duplicated = delivered + lost + dropped + undeliverable +`` :attr:`Network.in_flight`.
    """

    sent: int = 0
    """Entered the network."""
    duplicated: int = 0
    delivered: int = 0
    """Handed to the NIC that it was for, or to the process that has it, intact or not."""
    lost: int = 0
    undeliverable: int = 0
    """For a MAC address that is not attached."""
    corrupted: int = 0
    reordered: int = 0
    """Held back, so that others could overtake it."""
    delayed: int = 0
    dropped: int = 0
    """Did not fit the switch's buffer."""
    marked: int = 0
    """The switch has marked it: congestion experienced."""
