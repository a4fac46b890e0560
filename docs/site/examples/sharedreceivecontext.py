import amoeba

both = amoeba.BindFlags.FI_TRANSMIT | amoeba.BindFlags.FI_RECV
with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    shared: amoeba.SharedReceiveContext = domain.srx_context()
    peers, endpoints = domain.av_open(), []
    for _ in range(2):
        endpoint = domain.endpoint()
        endpoint.bind(queue := domain.cq_open(), both)
        endpoint.bind(peers)
        endpoint.bind(shared)
        endpoint.enable()
        endpoints.append(endpoint)
    shared.recv(buffer := bytearray(5))  # for a message to either of the two
    sender = other.endpoint(cq=other.cq_open(), av=(known := other.av_open()))
    sender.send(b"hello", known.insert(endpoints[1].getname()))
    queue.sread()
    print(bytes(buffer))
# Prints:
# b'hello'
