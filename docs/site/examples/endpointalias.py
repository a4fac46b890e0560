import amoeba

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    endpoint = domain.endpoint(cq=(queue := domain.cq_open()), av=(peers := domain.av_open()))
    careful: amoeba.EndpointAlias = endpoint.alias(amoeba.OpFlags.FI_DELIVERY_COMPLETE)
    owner = other.endpoint(cq=other.cq_open(), av=other.av_open())
    memory = bytearray(8)
    region = other.mr_reg(memory, amoeba.MrAccess.FI_REMOTE_WRITE)
    careful.write(b"12345678", peers.insert(owner.getname()), region.address, region.key)
    queue.sread()  # the data are in the memory now
    print(bytes(memory))
# Prints:
# b'12345678'
