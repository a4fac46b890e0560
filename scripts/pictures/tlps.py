"""The packets of one fetch-and-add, as recorded of two RTL NICs on PCI Express: kept in a file, which a test holds to
the RTL, and shown as a table of a page.
"""

import json
import re
from pathlib import Path

from amoeba_tools.tracing import ShownPacket, Traced, packets_of

__all__ = ["DATA", "PAGE", "packet_rows", "with_packets"]

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "pictures" / "fetch-add-tlps.json"
PAGE = DOCS / "pcie.md"
BEGIN, END = "<!-- begin tlps -->\n", "<!-- end tlps -->\n"


def packet_rows(traced: Traced) -> list[dict[str, object]]:
    """Make a row of each packet. An address in memory is its place in its page, since pages differ each time.

    Packets that arm the interrupt are left out: their number and time depend on the speed of the waiting program.
    """
    return [
        {"cycle": each.cycle, "nic": each.nic, "from": "host" if each.by_host else "NIC", "kind": each.kind,
         "tag": each.tag, "place": _place(each), "bytes": each.size, "for": each.purpose}
        for each in packets_of(traced)
        if not each.purpose.startswith("arm")
    ]  # fmt: skip


def _place(packet: ShownPacket) -> str:
    return packet.place if packet.purpose.startswith("MSI-X") else re.sub(r"^0x.*(...)$", r"…\1", packet.place)


def with_packets(page: str) -> str:
    """``page`` with the table in its place. Exits if it has none."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"{PAGE.name} needs one {BEGIN.strip()} and one {END.strip()}")
    before, rest = page.split(BEGIN)
    rows = json.loads(DATA.read_text())["packets"]
    lines = ["| cycle | NIC | from | packet | tag | address | bytes | for |", "|---:|---|---|---|---:|---|---:|---|"]
    for row in rows:
        cells = [*row.values()]
        lines.append("| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1]
