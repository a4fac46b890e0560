"""A testbench that never ends, for the test of the time limit."""

import time

import cocotb


@cocotb.test()
async def wait_for_ever(dut):
    while True:
        time.sleep(0.1)
