import amoeba

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    queue, peers = domain.cq_open(), domain.av_open()
    endpoint = domain.endpoint(cq=queue, av=peers)
    owner = other.endpoint(cq=other.cq_open(), av=other.av_open())
    region = other.mr_reg(bytearray(8), amoeba.MrAccess.FI_REMOTE_READ)  # peers may not write
    endpoint.write(b"12345678", peers.insert(owner.getname()), region.address, region.key)
    try:
        queue.sread()
    except amoeba.FabricError as error:
        print(type(error).__name__, amoeba.Errno(error.fi_errno).name)
    print(amoeba.Errno(queue.readerr().err).name)
# Prints:
# ErrorAvailableError FI_EAVAIL
# FI_EACCES
