import amoeba

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    shared: amoeba.SharedTransmitContext = domain.stx_context()
    queue, peers = domain.cq_open(), domain.av_open()
    endpoints = []
    for _ in range(2):  # both post to one ring of the NIC
        endpoint = domain.endpoint()
        for part in (queue, peers, shared):
            endpoint.bind(part)
        endpoint.enable()
        endpoints.append(endpoint)
    owner = other.endpoint(cq=other.cq_open(), av=other.av_open())
    memory = bytearray(8)
    region = other.mr_reg(memory, amoeba.MrAccess.FI_REMOTE_WRITE)
    peer = peers.insert(owner.getname())
    for place, endpoint in enumerate(endpoints):
        endpoint.write(b"1234", peer, region.address + 4 * place, region.key)
        queue.sread()
    print(bytes(memory))
# Prints:
# b'12341234'
