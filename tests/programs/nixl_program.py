"""Two agents of NIXL, each with a progress thread: writes and reads, short and long, with notices of them."""

import sys
import time

import numpy as np
from nixl_cu12._api import nixl_agent, nixl_agent_config

SIZES = (8, 100_000)
DEADLINE = 60


def until(condition):
    """Wait up to a minute until this is true, and return it."""
    end = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < end
    return found


def register(agent, memory):
    return agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "")], "DRAM")


def described(agent, memory):
    return agent.get_xfer_descs([(memory.ctypes.data, memory.nbytes, 0)], "DRAM")


def transfer(near, far, kind, here, there):
    source, destination = (here, there) if kind == "WRITE" else (there, here)
    source[:], destination[:] = np.arange(source.size).astype(np.uint8), 0
    notice = f"{kind} {source.size}".encode()
    handle = near.initialize_xfer(kind, described(near, here), described(far, there), "far", notice)
    assert near.transfer(handle) != "ERR"
    until(lambda: near.check_xfer_state(handle) == "DONE")
    assert until(far.get_new_notifs) == {"near": [notice]}
    assert (here == there).all()
    near.release_xfer_handle(handle)


def main():
    near, far = (nixl_agent(name, nixl_agent_config(backends=["UCX"])) for name in ("near", "far"))
    here, there = (np.zeros(max(SIZES), np.uint8) for _ in range(2))
    regions = [(agent, register(agent, memory)) for agent, memory in ((near, here), (far, there))]
    near.add_remote_agent(far.get_agent_metadata())
    for kind in ("WRITE", "READ"):
        for size in SIZES:
            transfer(near, far, kind, here[:size], there[:size])
    while regions:
        agent, region = regions.pop()
        agent.deregister_memory(region)
    near.remove_remote_agent("far")
    # with Python's lock held, the destructors join the progress threads
    del agent, near, far
    sys.stdout.write("every transfer is right\n")


main()
