import amoeba

both = amoeba.BindFlags.FI_TRANSMIT | amoeba.BindFlags.FI_RECV
with amoeba.open_cluster(["model", "model"]) as fabric:
    domain, other = fabric.domain(0), fabric.domain(1)
    queue, quiet = domain.cq_open(), domain.cq_open()
    poll: amoeba.PollSet = domain.poll_open()
    poll.add(queue)
    poll.add(quiet)
    receiver = domain.endpoint(cq=queue, av=domain.av_open(), cq_flags=both)
    sender = other.endpoint(cq=(sent := other.cq_open()), av=(peers := other.av_open()))
    receiver.recv(bytearray(5))
    sender.send(b"hello", peers.insert(receiver.getname()))
    sent.sread()
    print([context is queue for context in poll.poll()])
# Prints:
# [True]
