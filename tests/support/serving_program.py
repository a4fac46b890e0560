"""A process with a NIC that serves its peer until it has written "ready", and then lets no time pass any more.

Arguments: kind of device, host and port of a rendezvous.
"""

import sys
import time

import numpy as np
from amoeba import MrAccess, Rendezvous, join_cluster

kind, host, port = sys.argv[1:]
with Rendezvous.connect(host, int(port)) as rendezvous, join_cluster(kind, rendezvous) as fabric:
    domain = fabric.domain(0)
    queue, memory = domain.cq_open(), np.zeros(8, np.uint64)
    region = domain.mr_reg(memory, MrAccess.FI_REMOTE_WRITE)
    endpoint = domain.endpoint(cq=queue, av=domain.av_open())
    rendezvous.exchange([endpoint.getname().hex(), region.address, region.key])
    while not memory[0]:
        queue.read()
    for _ in range(1000):  # its answer leaves
        queue.read()
    print("ready", flush=True)
    time.sleep(600)
