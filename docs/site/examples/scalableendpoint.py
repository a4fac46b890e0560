import amoeba

with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    scalable: amoeba.ScalableEndpoint = domain.scalable_endpoint(tx_contexts=1, rx_contexts=2)
    scalable.bind(domain.av_open(rx_ctx_bits=1))
    receives: list[amoeba.ReceiveContext] = [scalable.rx_context(index) for index in range(2)]
    queue = domain.cq_open()
    for context in receives:
        context.bind(queue, amoeba.BindFlags.FI_RECV)
        context.enable()
    transmit: amoeba.TransmitContext = scalable.tx_context(0)
    transmit.bind(domain.cq_open())
    transmit.enable()
    scalable.enable()
    receives[1].recv(buffer := bytearray(5))
    sender = other.endpoint(cq=other.cq_open(), av=(peers := other.av_open(rx_ctx_bits=1)))
    peer = peers.insert(scalable.getname())
    sender.send(b"hello", amoeba.rx_addr(peer, 1, 1))
    queue.sread()
    print(bytes(buffer))
# Prints:
# b'hello'
