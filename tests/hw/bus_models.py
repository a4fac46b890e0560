"""The standard buses of the NIC in testbenches: cocotbext-axi's models, slowed down, and rules for the NIC's side.

cocotbext-axi is written by others after the same specifications, so a mistake in Amoeba is not made twice.
"""

import logging
from collections import defaultdict

import cocotb
from amoeba_sim.cocotb_streams import reader
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave, AxiStreamBus, AxiStreamSink, AxiStreamSource

__all__ = ["BusRules", "HostMemory", "frame_sink", "frame_source", "host_port", "register_port"]

# The models say much about every transfer.
logging.getLogger("cocotb.dut").setLevel(logging.WARNING)

_ADDRESS = ("id", "addr", "len", "size", "burst", "user")
AXI_MANAGER = {"aw": _ADDRESS, "w": ("data", "strb", "last"), "ar": _ADDRESS}
AXI_LITE_SUBORDINATE = {"b": ("resp",), "r": ("data", "resp")}
AXI_STREAM = {"t": ("data", "keep", "last")}


class BusRules:
    """Fails the test if the design breaks a rule of a channel that it drives, and records what passes.

    The rules: valid and everything with it stay until the transfer (AXI A3.2.1, AXI-Stream 2.2.1), and valid is
    low while reset lasts (A3.1.2), from the first clock edge in it on. No burst crosses 4 KiB (A3.4.1).

    Parameters
    ----------
    dut : cocotb handle
    prefix : str
        The port, such as ``host__``.
    channels : mapping
        Per channel the names of its members: AXI_MANAGER, AXI_LITE_SUBORDINATE or AXI_STREAM.
    """

    def __init__(self, dut, prefix, channels):
        self.transfers = defaultdict(list)
        """Per channel the dictionaries of members of each transfer. A testbench may empty it."""
        for channel, members in channels.items():
            cocotb.start_soon(self._watch(dut, prefix, channel, members))

    async def _watch(self, dut, prefix, channel, members):
        valid, ready = (reader(getattr(dut, f"{prefix}{channel}{name}")) for name in ("valid", "ready"))
        signals = {name: reader(getattr(dut, f"{prefix}{channel}{name}")) for name in members}
        resetting = reader(dut.rst)
        refused, in_reset = None, False
        while True:
            await RisingEdge(dut.clk)
            if resetting():
                assert not (in_reset and valid()), f"{prefix}{channel}valid during reset"
                refused, in_reset = None, True
                continue
            in_reset = False
            if not valid():
                assert refused is None, f"{prefix}{channel}valid fell before the transfer"
                continue
            offered = {name: read() for name, read in signals.items()}
            assert refused in (None, offered), f"{prefix}{channel} changed before the transfer: {refused}, {offered}"
            if "burst" in offered:
                first = offered["addr"] >> offered["size"]
                last = first + offered["len"]
                page = 12 - offered["size"]
                assert first >> page == last >> page, f"{prefix}{channel} crosses 4 KiB: {offered}"
            is_ready = ready()
            if is_ready:
                self.transfers[channel].append(offered)
            refused = None if is_ready else offered


class HostMemory:
    """Plain bytes from an address on, behind AXI; outside of ``granted`` ranges every access is an error."""

    def __init__(self, size, base=0):
        self.bytes = bytearray(size)
        self.base = base
        self.granted = [range(base, base + size)]
        self.refused = []
        """(whether a write, address, length) of each access refused. A testbench may empty it."""

    def __getitem__(self, where):
        return bytes(self.bytes[where.start - self.base : where.stop - self.base])

    def __setitem__(self, address, content):
        assert 0 <= address - self.base <= len(self.bytes) - len(content)
        self.bytes[address - self.base : address - self.base + len(content)] = content

    async def read(self, address, length):
        self._check(False, address, length)
        return self[address : address + length]

    async def write(self, address, content):
        self._check(True, address, len(content))
        self[address] = content

    def _check(self, is_write, address, length):
        if not any(address in part and address + length <= part.stop for part in self.granted):
            self.refused.append((is_write, address, length))
            raise PermissionError


def _pauses(pace):
    return (not act for act in pace)


def _slow_down(pace, *channels):
    for channel in channels:
        channel.set_pause_generator(_pauses(pace()))


def host_port(dut, prefix, memory, pace):
    """An AXI4 subordinate with a :class:`HostMemory`; ``pace`` makes the pace of each channel."""
    port = AxiSlave(AxiBus.from_prefix(dut, prefix), dut.clk, dut.rst, target=memory)
    write, read = port.write_if, port.read_if
    _slow_down(pace, write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
    return port, BusRules(dut, f"{prefix}_", AXI_MANAGER)


def register_port(dut, prefix, pace):
    """An AXI4-Lite manager."""
    port = AxiLiteMaster(AxiLiteBus.from_prefix(dut, prefix), dut.clk, dut.rst)
    write, read = port.write_if, port.read_if
    _slow_down(pace, write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel)
    return port, BusRules(dut, f"{prefix}_", AXI_LITE_SUBORDINATE)


def frame_source(dut, prefix, pace):
    """An AXI4-Stream transmitter of frames."""
    source = AxiStreamSource(AxiStreamBus.from_prefix(dut, prefix), dut.clk, dut.rst)
    _slow_down(pace, source)
    return source


def frame_sink(dut, prefix, pace):
    """An AXI4-Stream receiver of frames."""
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, prefix), dut.clk, dut.rst)
    _slow_down(pace, sink)
    return sink, BusRules(dut, f"{prefix}_", AXI_STREAM)
