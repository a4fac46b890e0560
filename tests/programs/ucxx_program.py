"""A client and a server of ucxx: arrays there and back, from a listener's address."""

import asyncio
import multiprocessing
import sys

import numpy as np
import ucxx

SIZES = (1, 1000, 100_000)


async def serve(ports):
    over = asyncio.Event()

    async def answer(endpoint):
        for size in SIZES:
            got = np.empty(size, np.int64)
            await endpoint.recv(got)
            await endpoint.send(got + 1)
        over.set()  # the last array is long: the client has fetched it

    listener = ucxx.create_listener(answer)
    ports.put(listener.port)
    await over.wait()
    listener.close()


async def ask(port):
    endpoint = await ucxx.create_endpoint("127.0.0.1", port)
    for size in SIZES:
        await endpoint.send(np.arange(size))
        got = np.empty(size, np.int64)
        await endpoint.recv(got)
        assert (got == np.arange(1, size + 1)).all()
    await endpoint.close()


def run_server(ports):
    asyncio.run(serve(ports))


if __name__ == "__main__":
    start = multiprocessing.get_context("spawn")
    ports = start.Queue()
    server = start.Process(target=run_server, args=(ports,))
    server.start()
    asyncio.run(ask(ports.get()))
    server.join()
    assert server.exitcode == 0
    sys.stdout.write("every array is right\n")
