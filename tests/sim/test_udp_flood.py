# amaranth: UnusedElaboratable=no
"""Frames that come from other processes faster than the simulation of a NIC takes them."""

from amoeba_model.udp_network import UdpNetwork
from amoeba_sim.rtl import RtlDevice
from amoeba_sim.verilate import build_nic

from tests.sim import copy_engine as engine

MAC = bytes([2, 0, 0, 0, 0, 1])
FRAMES, SIZE = 5000, 4096
BOUND = 16 << 20


def test_a_flood_from_other_processes_leaves_bounded_memory():
    with RtlDevice(build_nic(engine.CopyEngine(256))) as device, UdpNetwork() as network:
        network.attach(device, MAC)
        for _ in range(FRAMES):
            device.deliver(bytes(SIZE), 0)
        network.step(at_once=True)
        assert device.overflowed == FRAMES - BOUND // SIZE
        network.detach(device)
        for _ in range(FRAMES):
            device.deliver(bytes(SIZE), 0)
        device.run_until(device.cycles + 1)
        assert device.overflowed == FRAMES - BOUND // SIZE, "elsewhere its MAC has no bound"
