import asyncio

import amoeba
from amoeba import aio


async def main() -> None:
    both = amoeba.BindFlags.FI_TRANSMIT | amoeba.BindFlags.FI_RECV
    with amoeba.open_cluster(["model", "model"]) as fabric:
        domain, other = fabric.domain(0), fabric.domain(1)
        queue = domain.cq_open(amoeba.CqFormat.FI_CQ_FORMAT_MSG, amoeba.WaitObj.FI_WAIT_FD)
        far = other.cq_open(amoeba.CqFormat.FI_CQ_FORMAT_MSG, amoeba.WaitObj.FI_WAIT_FD)
        sender = domain.endpoint(cq=queue, av=(peers := domain.av_open()))
        owner = other.endpoint(cq=far, av=other.av_open(), cq_flags=both)
        async with aio.AsyncCompletionQueue(queue) as sent, aio.AsyncCompletionQueue(far) as received:
            endpoint: aio.AsyncEndpoint = sent.endpoint(sender)
            receiver: aio.AsyncReceiver = received.receiver(owner)
            buffer = bytearray(5)
            waiting = asyncio.create_task(receiver.recv(buffer))
            await endpoint.send(b"hello", peers.insert(owner.getname()))
            entry = await waiting
            print(entry.len, bytes(buffer))


asyncio.run(main())
# Prints:
# 5 b'hello'
