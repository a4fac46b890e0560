"""The NIC's netlist of an FPGA's primitives as a device: synthesized, in Verilator, behind the RTL's harness."""

import json
from functools import partial
from pathlib import Path

from amoeba_hw.artix7 import NETLIST, write_netlist
from amoeba_hw.blocks import UntracedNic
from amoeba_hw.synthesis import ToolStoppedError
from amoeba_model.extras import installation
from amoeba_model.parameters import NicParameters

from amoeba_sim.netlist.verilog import netlist_verilog
from amoeba_sim.rtl import HOST_LATENCY, RtlDevice
from amoeba_sim.verilate import BuildError, Waves, build_nic, cached, component_key

__all__ = ["netlist_library", "open_netlist"]


def netlist_library(make: partial, *, waves: Waves | None = None) -> Path:
    """Synthesize the component from ``make``, which has the ports of a NIC, and compile its netlist with the harness.

    Each step is done once for its content: synthesis takes five minutes for a NIC. ``make`` is as in
    :func:`amoeba_sim.verilate.component_key`.

    Raises
    ------
    BuildError
        A tool is missing or fails, or the netlist has a primitive without a model.
    """
    key = component_key(make, "netlist")

    def synthesize(folder: Path) -> Path:
        try:
            write_netlist(make(), folder)
        except ToolStoppedError as error:
            raise BuildError(f"The netlist of {make.func.__name__} could not be made: {error}") from error
        except FileNotFoundError as error:
            raise BuildError(f"Making a netlist needs Yosys: {installation('hw')}") from error
        return folder / f"{NETLIST}.json"

    message = f"synthesizing {make.func.__name__}, once for each build"
    made = cached(f"netlist-{key}.json", message, synthesize)

    def write(folder: Path) -> Path:
        written = folder / "netlist.v"
        written.write_text(netlist_verilog(json.loads(made.read_text()), NETLIST))
        return written

    writers = Path(__file__).parent.glob("*.*")
    own = component_key(make, "netlist", *(path.read_text() for path in sorted(writers)))
    verilog = cached(f"netlist-{own}.v", f"writing the netlist of {make.func.__name__}", write)
    return build_nic(verilog.read_text(), NETLIST, waves=waves, is_netlist=True)


def open_netlist(
    parameters: NicParameters,
    *,
    host_latency: int = HOST_LATENCY,
    stall: float = 0.0,
    seed: int = 0,
    trace: bool = False,
    waves: Waves | None = None,
) -> RtlDevice:
    """Build the netlist of the NIC with these parameters, unless it was built before, and open it.

    The arguments are those of :func:`amoeba_sim.rtl.open_rtl`, which also says what this raises.
    """
    library = netlist_library(partial(UntracedNic, parameters), waves=waves)
    name = f"netlist ({parameters.data_width}-bit, {parameters.contexts} contexts)"
    return RtlDevice(library, name=name, host_latency=host_latency, stall=stall, seed=seed, trace=trace)
