"""How a lost packet is repeated: the packets and answers between an initiator and a target."""

from svg import Drawing

__all__ = ["loss"]

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT = 230, 530
"""Where the lines of time of initiator and target stand."""
FRAMES = (
    (70, True, "request, psn 0", ""),
    (100, True, "request, psn 1", "lost"),
    (130, True, "request, psn 2", ""),
    (178, False, "ACK 0", ""),
    (220, False, "NACK ROD_OOO, nack_psn 1, missing 1", ""),
    (260, True, "request, psn 1, RETX", ""),
    (310, False, "ACK 1", ""),
    (340, False, "ACK 2", ""),
)
"""When each leaves, whether the initiator sends it, the frame, and its fate on the way."""
NOTES = (
    (100, False, "executes psn 0"),
    (160, False, "keeps psn 2, psn 1 is missing"),
    (254, True, "goes back to psn 1 alone"),
    (300, False, "executes psn 1, then psn 2"),
    (380, True, "completions in order"),
)
"""Work of the initiator, or of the target, by time."""
LATENCY = 26


def loss() -> str:
    """Draw two time lines, with an arrow for each frame."""
    drawing = Drawing(WIDTH, HEIGHT, "A lost packet, its NACK and its repetition")
    drawing.text(30, 26, "A lost packet, its NACK and its repetition", "title")
    for x, name in ((LEFT, "initiator"), (RIGHT, "target")):
        drawing.text(x, 50, name, at="middle")
        drawing.line((x, 58), (x, HEIGHT - 10))
    for y, sent, frame, fate in FRAMES:
        start, end = (LEFT, RIGHT) if sent else (RIGHT, LEFT)
        if fate:
            end = (start + end) // 2
            drawing.text(end + 8, y + LATENCY / 2 + 5, fate, "tiny dim")
        _slanted(drawing, (start, y), (end, y + (LATENCY / 2 if fate else LATENCY)))
        drawing.text(start + (10 if sent else -10), y - 3, frame, "tiny", at="start" if sent else "end")
    for y, is_initiator, words in NOTES:
        x, at = (LEFT - 12, "end") if is_initiator else (RIGHT + 12, "start")
        drawing.text(x, y, words, "small dim", at=at)
    return str(drawing)


def _slanted(drawing: Drawing, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow down and to one side."""
    drawing.line(start, end)
    (x, y), back = end, -7 if end[0] > start[0] else 7
    drawing.polygon("tip", (x, y), (x + back, y - 4), (x + back, y + 3))
