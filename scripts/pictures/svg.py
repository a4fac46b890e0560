"""Drawings as SVG text: boxes, words and arrows that read on light and dark pages."""

from html import escape

__all__ = ["Drawing"]

STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.back{fill:#fff}.box{fill:#f6f8fa;stroke:#57606a}"
    ".inner{fill:#ddf4ff;stroke:#54aeff;stroke-width:.7}.dim{fill:#57606a}.small{font-size:11.5px}.tiny{font-size:11px}"
    ".title{font-size:14px;font-weight:600}.code{font-family:ui-monospace,monospace;font-size:12px}"
    ".line{fill:none;stroke:#57606a}.grid{stroke:#d0d7de;stroke-width:.6}.tip{fill:#57606a}"
    ".host{fill:#7aa2d8}.send{fill:#e08a3c}.wire{fill:#9aa4ae}.check{fill:#c9a11a}.memory{fill:#3f9e6b}"
    ".answer{fill:#9a6fc9}.finish{fill:#d0669a}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.box{fill:#161b22;stroke:#8b949e}"
    ".inner{fill:#12283f;stroke:#1f6feb}.dim{fill:#9198a1}.line{stroke:#8b949e}.grid{stroke:#30363d}"
    ".tip{fill:#8b949e}}"
)


class Drawing:
    """Drawing; coordinates are pixels from the upper left corner.

    The background belongs to the drawing, since a page may be dark where the reader's system is light.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'role="img" aria-label="{escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<rect class="back" width="{width:g}" height="{height:g}"/>',
        ]

    def box(
        self, x: float, y: float, width: float, height: float, kind: str = "box", *, hint: str = "", round: float = 4
    ) -> None:
        """Draw a rectangle; ``hint`` shows where the pointer rests."""
        inside = f"><title>{escape(hint)}</title></rect>" if hint else "/>"
        self._parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{round:g}"{inside}'
        )

    def text(self, x: float, y: float, words: str, kind: str = "", *, at: str = "start") -> None:
        """Draw text that starts, is centred or ends (``at``: start, middle, end) at a place."""
        style = f' class="{kind}"' if kind else ""
        anchor = f' text-anchor="{at}"' if at != "start" else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}{anchor}>{escape(words)}</text>')

    def line(self, *places: tuple[float, float], kind: str = "line") -> None:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self._parts.append(f'<polyline class="{kind}" points="{points}"/>')

    def arrow(self, *places: tuple[float, float]) -> None:
        """Draw a line whose end has a tip; its last piece is horizontal or vertical."""
        self.line(*places)
        (x0, y0), (x, y) = places[-2:]
        across = (x > x0) - (x < x0)
        down = (y > y0) - (y < y0)
        size = 5
        corners = (
            (x, y), (x - across * size - down * 3, y - down * size - across * 3),
            (x - across * size + down * 3, y - down * size + across * 3),
        )  # fmt: skip
        points = " ".join(f"{right:.1f},{below:.1f}" for right, below in corners)
        self._parts.append(f'<polygon class="tip" points="{points}"/>')

    def polygon(self, kind: str, *places: tuple[float, float]) -> None:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self._parts.append(f'<polygon class="{kind}" points="{points}"/>')

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])
