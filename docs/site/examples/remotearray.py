import amoeba
import numpy as np

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    endpoint = domain.endpoint(cq=domain.cq_open(), av=(peers := domain.av_open()))
    owner = other.endpoint(cq=other.cq_open(), av=other.av_open())
    table = np.arange(12, dtype=np.int64).reshape(3, 4)
    region = other.mr_reg(table, amoeba.MrAccess.FI_REMOTE_READ | amoeba.MrAccess.FI_REMOTE_WRITE)
    peer = peers.insert(owner.getname())

    array: amoeba.RemoteArray = endpoint.array(peer, (region.address, region.key), table.dtype, table.shape)
    column: amoeba.RemoteValue = array[:, 1]
    array[0, 0] += 100  # an atomic
    array[2] = 7
    print(column, table[0, 0], table[2])
# Prints:
# [1 5 9] 100 [7 7 7 7]
