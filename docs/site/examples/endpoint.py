import amoeba
import numpy as np

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    queue: amoeba.CompletionQueue = domain.cq_open()
    peers: amoeba.AddressVector = domain.av_open()
    endpoint: amoeba.Endpoint = domain.endpoint(cq=queue, av=peers)
    owner = other.endpoint(cq=other.cq_open(), av=other.av_open())

    memory = np.array([100], np.uint64)
    rights = amoeba.MrAccess.FI_REMOTE_READ | amoeba.MrAccess.FI_REMOTE_WRITE
    region: amoeba.MemoryRegion = other.mr_reg(memory, rights)
    peer = peers.insert(owner.getname())
    found = np.zeros(1, np.uint64)
    endpoint.fetch_atomic(np.uint64(1), found, peer, region.address, region.key, amoeba.Op.FI_SUM)
    queue.sread()
    print(found[0], memory[0])
# Prints:
# 100 101
