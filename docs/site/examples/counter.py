import amoeba

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    written: amoeba.Counter = domain.cntr_open()
    endpoint, peers = domain.endpoint(), domain.av_open()
    endpoint.bind(domain.cq_open())
    endpoint.bind(peers)
    endpoint.bind(written, amoeba.BindFlags.FI_WRITE)
    endpoint.enable()
    owner = other.endpoint(cq=other.cq_open(), av=other.av_open())
    memory = bytearray(8)
    region = other.mr_reg(memory, amoeba.MrAccess.FI_REMOTE_WRITE)
    endpoint.write(b"12345678", peers.insert(owner.getname()), region.address, region.key)
    written.wait(1)
    print(written.read(), bytes(memory))
# Prints:
# 1 b'12345678'
