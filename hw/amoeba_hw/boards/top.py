"""A board's top level: ``python -m amoeba_hw.boards.top BOARD DIRECTORY`` writes its Verilog."""

import argparse
from dataclasses import replace
from pathlib import Path

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Instance, Module, ResetSignal, Signal
from amaranth.lib import cdc, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.parameters import NicParameters

from amoeba_hw.boards.board import BOARDS
from amoeba_hw.boards.cmac_block import LANES as MAC_LANES
from amoeba_hw.boards.cmac_block import CmacBlock
from amoeba_hw.boards.crossing import cross_stream
from amoeba_hw.boards.nic_clock import NicClock, nic_frequencies
from amoeba_hw.boards.pcie_block import LANES as PCIE_LANES
from amoeba_hw.boards.pcie_block import PcieBlock
from amoeba_hw.pcie.nic import PcieNic
from amoeba_hw.verilog import generate_verilog

__all__ = ["BoardTop", "write_board"]

_PCIE_PINS = {"rx_p": In(PCIE_LANES), "rx_n": In(PCIE_LANES), "tx_p": Out(PCIE_LANES), "tx_n": Out(PCIE_LANES)}
_MAC_PINS = {"rx_p": In(MAC_LANES), "rx_n": In(MAC_LANES), "tx_p": Out(MAC_LANES), "tx_n": Out(MAC_LANES)}
_REFCLK_PINS = {"refclk_p": In(1), "refclk_n": In(1)}


class BoardTop(wiring.Component):
    """The NIC in the clock of PCI Express, or in its own, and frames across to that of Ethernet.

    Parameters
    ----------
    board : Board
    nic : component, optional
        With ``link``, ``rx``, ``tx``, ``reset_request`` and ``reset_done`` of PcieNic, which it is otherwise.

    Members
    -------
    pcie_*, qsfp_* : pins of the two blocks; the board's constant pins by their names
    """

    def __init__(self, board, nic=None):
        self._board = board
        clock = {} if board.nic_mhz is None else {"clock_hz": 1_000_000 * board.nic_mhz}
        self._nic = nic or PcieNic(NicParameters(data_width=512, **clock))
        super().__init__(
            {
                **{f"pcie_{name}": member for name, member in {**_PCIE_PINS, **_REFCLK_PINS}.items()},
                "pcie_reset_n": In(1),
                **{f"qsfp_{name}": member for name, member in {**_MAC_PINS, **_REFCLK_PINS}.items()},
                **{name: Out(width) for name, (width, _) in board.constants.items()},
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.nic = nic = self._nic
        m.submodules.pcie = pcie = PcieBlock(self._board.pcie, crosses=self._board.nic_mhz is not None)
        m.submodules.cmac = cmac = CmacBlock()
        m.d.comb += [getattr(self, name).eq(value) for name, (_, value) in self._board.constants.items()]
        for prefix, block, pins in (("pcie", pcie, _PCIE_PINS), ("qsfp", cmac, _MAC_PINS)):
            for name, member in {**pins, **_REFCLK_PINS}.items():
                pin, port = getattr(self, f"{prefix}_{name}"), getattr(block, name)
                m.d.comb += port.eq(pin) if member.flow == In else pin.eq(port)
        wiring.connect(m, nic.link, pcie.link)
        m.d.comb += [
            pcie.reset_n.eq(self.pcie_reset_n),
            nic.reset_request.eq(pcie.reset_request),
            pcie.reset_done.eq(nic.reset_done),
        ]
        self._elaborate_clocks(m, pcie, cmac)
        cross_stream(m, "transmitted", nic.tx, "sync", cmac.tx, "mac")
        cross_stream(m, "received", cmac.rx, "mac", nic.rx, "sync")
        return m

    def _elaborate_clocks(self, m, pcie, cmac):
        m.domains.sync = ClockDomain()
        m.domains.mac = ClockDomain()
        registered, init_clk, held = Signal(2, init=0b11), Signal(), Signal()
        locked = Signal()
        m.domains.user = ClockDomain(reset_less=True)
        m.d.user += registered.eq(Cat(held, registered[0]))
        if self._board.nic_mhz is None:
            block = "sync"
            m.d.comb += held.eq(pcie.user_reset)
        else:
            block = "link"
            m.domains.link = ClockDomain()
            m.submodules.nic_clock = clock = NicClock(self._board.nic_mhz)
            m.submodules.nic_clock_locked = cdc.FFSynchronizer(clock.locked, locked, o_domain="user")
            # Both begin when both clocks run.
            m.submodules.nic_reset = cdc.ResetSynchronizer(registered[1], domain="sync")
            m.d.comb += [
                clock.user_clk.eq(pcie.user_clk),
                clock.user_reset.eq(pcie.user_reset),
                held.eq(pcie.user_reset | ~locked),
                ClockSignal("sync").eq(clock.clk),
            ]
        m.d.comb += [
            ClockSignal("user").eq(pcie.user_clk),
            ClockSignal(block).eq(pcie.user_clk),
            ResetSignal(block).eq(registered[1]),
            ClockSignal("mac").eq(cmac.mac_clk),
            ResetSignal("mac").eq(cmac.mac_reset),
            cmac.init_clk.eq(init_clk),
            cmac.reset.eq(registered[1]),
        ]
        # 250 MHz, halved
        m.submodules.init_clk = Instance(
            "BUFGCE_DIV",
            p_BUFGCE_DIVIDE=2,
            i_I=pcie.user_clk,
            i_CE=Const(1, 1),
            i_CLR=Const(0, 1),
            o_O=init_clk,
        )


def write_board(board, directory, nic=None):
    """Write the top level of a board as ``amoeba_<board>.v`` and return its path. Creates the directory."""
    path = Path(directory) / f"amoeba_{board.name}.v"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(generate_verilog(BoardTop(board, nic), name=f"amoeba_{board.name}"))
    return path


def main():
    parser = argparse.ArgumentParser(description="Write a board's top level as Verilog.")
    parser.add_argument("board", choices=sorted(BOARDS))
    parser.add_argument("directory", type=Path, help="where to write, such as build/u200")
    parser.add_argument(
        "--nic-mhz", type=int, choices=nic_frequencies(), metavar="MHZ",
        help=f"a clock of the NIC's own: one of {', '.join(map(str, nic_frequencies()))}",
    )  # fmt: skip
    arguments = parser.parse_args()
    board = replace(BOARDS[arguments.board], nic_mhz=arguments.nic_mhz)
    print(write_board(board, arguments.directory))


if __name__ == "__main__":
    main()
