"""Components in Amaranth's own simulator."""

from amaranth.sim import Simulator

__all__ = ["simulate"]


def simulate(component, *testbenches, background=()):
    """Run a component until all of its testbenches have ended; those in the background need not."""
    simulator = Simulator(component)
    simulator.add_clock(1e-8)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    for testbench in background:
        simulator.add_testbench(testbench, background=True)
    simulator.run()
