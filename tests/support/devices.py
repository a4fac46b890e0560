"""How to make each kind of simulated device."""

from collections.abc import Callable

from amoeba_model.network import SimulatedDevice
from amoeba_model.nic import ModelDevice
from amoeba_model.parameters import NicParameters

__all__ = ["DEVICES"]


def _open_rtl(parameters: NicParameters) -> SimulatedDevice:
    # Imported when it is needed: tests of the model run without the simulator.
    from amoeba_sim.rtl import open_rtl

    # A quick host leaves fewer cycles to simulate, and nothing that these tests look at depends on it.
    return open_rtl(parameters, host_latency=40)


DEVICES: dict[str, Callable[[NicParameters], SimulatedDevice]] = {"model": ModelDevice, "rtl": _open_rtl}
