"""One remote atomic from host to host: the README's picture."""

from svg import Drawing

__all__ = ["overview"]

WIDTH, HEIGHT = 1050, 190
TOP, BOTTOM = 46, 170
HOST, NIC = 200, 160
REQUEST, ANSWER = 88, 150
"""Heights of the arrows there and back."""
BOXES = (
    (20, HOST, "box", "Host", ("your program, the driver", "libfabric or UCX")),
    (300, NIC, "inner", "NIC", ("initiator: descriptors", "to packets")),
    (590, NIC, "inner", "NIC", ("target: checks, then", "read, compute, write")),
    (830, HOST, "box", "Host", ("memory that peers may reach", "its processor computes on")),
)
"""(left edge, width, kind, title, lines)."""
ARROWS = (
    (220, 300, "descriptor", "completion"),
    (460, 590, "request", "answer"),
    (750, 830, "DMA", "DMA"),
)
"""(left end, right end, label of the way there, label of the way back)."""


def overview() -> str:
    """Draw two hosts and two NICs in a row, with the steps of one atomic between them."""
    drawing = Drawing(WIDTH, HEIGHT, "A remote atomic: host, NIC, wire, NIC, host")
    drawing.text(20, 26, "A remote atomic: the NICs do the work; the target's processor takes no part", "title")
    drawing.text(WIDTH / 2, 123, "wire: Ultra Ethernet", "tiny", at="middle")
    for left, width, kind, title, lines in BOXES:
        drawing.box(left, TOP, width, BOTTOM - TOP, kind)
        drawing.text(left + width / 2, TOP + 26, title, "title", at="middle")
        for number, line in enumerate(lines):
            drawing.text(left + width / 2, TOP + 56 + 20 * number, line, "small", at="middle")
    for left, right, there, back in ARROWS:
        middle = (left + right) / 2
        drawing.arrow((left, REQUEST), (right, REQUEST))
        drawing.text(middle, REQUEST - 6, there, "tiny dim", at="middle")
        drawing.arrow((right, ANSWER), (left, ANSWER))
        drawing.text(middle, ANSWER - 6, back, "tiny dim", at="middle")
    return str(drawing)
