"""The packages of the house, and what each imports: arrows point down."""

from svg import Drawing

__all__ = ["packages"]

WIDTH, HEIGHT = 760, 330
MODEL, HW, SIM, DRIVER, TOOLS = (
    (30, 262, 700, "model/", "amoeba_model", "operations, layouts, wire format, NIC by transactions, network"),
    (30, 192, 330, "hw/", "amoeba_hw", "the NIC in Amaranth"),
    (30, 122, 330, "sim/", "amoeba_sim", "the RTL made runnable"),
    (400, 122, 330, "driver/", "amoeba", "libfabric and UCX over one engine"),
    (400, 52, 330, "tools/", "amoeba_tools", "the amoeba command"),
)
BOX = 44


def packages() -> str:
    """Draw a box for each package, the model at the bottom."""
    drawing = Drawing(WIDTH, HEIGHT, "The packages and what each imports")
    drawing.text(30, 26, "The packages, and what each imports", "title")
    for x, y, width, folder, name, contents in (MODEL, HW, SIM, DRIVER, TOOLS):
        drawing.box(x, y, width, BOX)
        drawing.text(x + 12, y + 19, folder)
        drawing.text(x + width - 12, y + 19, name, "code", at="end")
        drawing.text(x + 12, y + 35, contents, "tiny dim")
    for (x, y, width, *_), (_, below, *_) in ((HW, MODEL), (SIM, HW), (TOOLS, DRIVER), (DRIVER, MODEL)):
        drawing.arrow((x + width / 2, y + BOX), (x + width / 2, below))
    drawing.arrow((DRIVER[0], DRIVER[1] + 22), (SIM[0] + SIM[2], SIM[1] + 22))
    drawing.text(380, DRIVER[1] + 62, "for RTL devices", "tiny dim", at="middle")
    return str(drawing)
