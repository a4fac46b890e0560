import amoeba

both = amoeba.BindFlags.FI_TRANSMIT | amoeba.BindFlags.FI_RECV
with amoeba.open_cluster(["model", "model"]) as fabric:
    wait: amoeba.WaitSet = fabric.wait_open()
    domain, other = fabric.domain(0), fabric.domain(1)
    queue = domain.cq_open(wait_obj=amoeba.WaitObj.FI_WAIT_SET, wait_set=wait)
    receiver = domain.endpoint(cq=queue, av=domain.av_open(), cq_flags=both)
    sender = other.endpoint(cq=other.cq_open(), av=(peers := other.av_open()))
    receiver.recv(buffer := bytearray(5))
    sender.send(b"hello", peers.insert(receiver.getname()))
    wait.wait()
    print(len(queue.read()), bytes(buffer))
# Prints:
# 1 b'hello'
