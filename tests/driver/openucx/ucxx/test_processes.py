"""Servers and clients in processes of their own, and how processes end, objects with them."""

import subprocess

import pytest

from tests.driver.openucx.ucxx.ucx_parties import PATIENCE, run_program

_SERVER = """
import asyncio, sys
import amoeba.ucx as ucxx

async def main():
    done = asyncio.Event()
    async def serve(endpoint):
        for _ in range(2):
            await endpoint.am_send(await endpoint.am_recv())
            await endpoint.send_obj(await endpoint.recv_obj())
        await endpoint.close()
        done.set()
    listener = ucxx.create_listener(serve, ip_address="127.0.0.1")
    print(listener.port, flush=True)
    await asyncio.wait_for(done.wait(), 100)

ucxx.init(progress_mode=sys.argv[1])
asyncio.run(main())
print("served", flush=True)
"""
_CLIENT = """
import asyncio, sys
import numpy as np
import amoeba.ucx as ucxx

async def main():
    endpoint = await ucxx.create_endpoint("127.0.0.1", int(sys.argv[2]))
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()
    endpoint.set_close_callback(lambda: loop.call_soon_threadsafe(closed.set))
    for size in (10, 2**18):
        data = np.arange(size, dtype=np.uint32)
        await endpoint.am_send(data)
        assert (np.frombuffer(await endpoint.am_recv(), np.uint32) == data).all()
        await endpoint.send_obj(data)
        assert (np.frombuffer(await endpoint.recv_obj(), np.uint32) == data).all()
    await asyncio.wait_for(closed.wait(), 100)
    print("closed", endpoint.alive, flush=True)

ucxx.init(progress_mode=sys.argv[1])
asyncio.run(main())
ucxx.reset()
"""


def over(process: "subprocess.Popen[str]") -> tuple[str, str, int]:
    """(output, errors, return code) of a program that ends by itself."""
    try:
        out, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        errors += "\nit has not ended"
    return out, errors, process.returncode


@pytest.mark.parametrize(("server_mode", "client_mode"), [("blocking", "thread"), ("thread", "blocking")])
def test_a_server_and_a_client_in_two_processes(server_mode, client_mode):
    server = run_program(_SERVER, server_mode)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    client = run_program(_CLIENT, client_mode, port)
    assert over(client) == ("closed False\n", "", 0)
    assert over(server) == ("served\n", "", 0)


_LOW_LEVEL_SERVER = """
import sys
import amoeba.ucx as ucxx
import numpy as np

context = ucxx.UCXContext(config_dict={"RNDV_THRESH": "16k"})
worker = ucxx.UCXWorker(context)
worker.init_blocking_progress_mode()
endpoints = []
listener = None

def called(conn_request):
    endpoints.append(listener.create_endpoint_from_conn_request(conn_request, True))

listener = ucxx.UCXListener.create(worker, 0, called)
print(listener.port, flush=True)
while not endpoints:
    worker.progress_worker_event(epoll_timeout=100)
endpoint, = endpoints
buffer = np.zeros(2**16, np.uint8)
receive = endpoint.tag_recv(buffer, ucxx.Tag(0), ucxx.TagMaskFull)
while not receive.completed:
    worker.progress_worker_event(epoll_timeout=100)
receive.check_error()
send = endpoint.tag_send(buffer, ucxx.Tag(1))
while not send.completed:
    worker.progress()
send.check_error()
while endpoint.alive:
    worker.progress_worker_event(epoll_timeout=100)
print("served", flush=True)
"""
_LOW_LEVEL_CLIENT = """
import sys
import amoeba.ucx as ucx_api
import numpy as np

worker = ucx_api.UCXWorker(ucx_api.UCXContext())
worker.start_progress_thread(polling_mode=False, epoll_timeout=10)
endpoint = ucx_api.UCXEndpoint.create(worker, "127.0.0.1", int(sys.argv[1]), endpoint_error_handling=True)
data, back = np.arange(2**16, dtype=np.uint32).astype(np.uint8), np.zeros(2**16, np.uint8)
requests = [endpoint.tag_send(data, 0), endpoint.tag_recv(back, 1)]
for request in requests:
    request.result(60)
assert (data == back).all()
endpoint.close_blocking()
worker.stop_progress_thread()
print("done", flush=True)
"""


def test_low_level_programs_in_two_processes_end_without_closing_anything():
    server = run_program(_LOW_LEVEL_SERVER)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    assert over(run_program(_LOW_LEVEL_CLIENT, port)) == ("done\n", "", 0)
    assert over(server) == ("served\n", "", 0)


def test_a_client_that_is_killed_ends_its_server_s_endpoint():
    server = run_program(_SERVER, "thread")
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    client = run_program(
        "import asyncio, sys, amoeba.ucx as u\n"
        "async def main():\n"
        "    endpoint = await u.create_endpoint('127.0.0.1', int(sys.argv[1]))\n"
        "    print('connected', flush=True)\n"
        "    await endpoint.am_recv()\n"
        "asyncio.run(main())",
        port,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "connected\n"
    client.kill()
    client.communicate()
    again = run_program(_CLIENT, "polling", port)
    assert over(again)[0] == "closed False\n"
    assert over(server)[2] == 0


_FORKING = """
import asyncio, os, threading
import amoeba.ucx as ucxx

async def echo():
    endpoint = await ucxx.create_endpoint_from_worker_address(ucxx.get_worker_address())
    receive = endpoint.recv(bytearray(5))
    await endpoint.send(b"hello")
    assert await receive == b"hello"
    return endpoint

ucxx.init(progress_mode="{mode}")
endpoint = asyncio.run(echo())
worker = ucxx.get_ucxx_worker()
child = os.fork()
if not child:
    assert worker.closed and endpoint.closed and threading.active_count() == 1
    try:
        endpoint.send(b"none")
    except ucxx.UCXError:
        pass
    else:
        os._exit(2)
    asyncio.run(echo())
    assert ucxx.get_ucxx_worker() is not worker
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(echo())
print("both", flush=True)
"""


@pytest.mark.parametrize("mode", ["blocking", "thread"])
def test_after_a_fork_the_child_has_its_own(mode):
    assert over(run_program(_FORKING.replace("{mode}", mode))) == ("both\n", "", 0)


@pytest.mark.parametrize("mode", ["blocking", "polling", "thread", "thread-polling"])
def test_a_program_that_ends_in_the_midst_ends(mode):
    program = (
        "import asyncio, amoeba.ucx as u\n"
        f"u.init(progress_mode={mode!r})\n"
        "async def main():\n"
        "    endpoint = await u.create_endpoint_from_worker_address(u.get_worker_address())\n"
        "    global kept\n"
        "    kept = [endpoint, endpoint.recv(bytearray(4), 9), endpoint.send(bytes(1 << 20)), endpoint.am_recv()]\n"
        "    u.create_listener(print)\n"
        "    asyncio.ensure_future(kept[1].wait())\n"
        "    await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
        "print('over', flush=True)\n"
    )
    assert over(run_program(program)) == ("over\n", "", 0)


def test_objects_that_nobody_knows_are_closed_without_a_word():
    program = (
        "import gc, amoeba.ucx as u\n"
        "from amoeba.ucp import open_adapters\n"
        "adapters = open_adapters()\n"
        "for number in range(100):\n"
        "    worker = u.Worker(u.Context(adapter=adapters[0]))\n"
        "    other = u.Worker(u.Context(adapter=adapters[1]))\n"
        "    memory = other.context.alloc(4096)\n"
        "    endpoint = u.Endpoint.create_from_worker_address(worker, other.address)\n"
        "    endpoint.put(b'data', memory.pack())\n"
        "    endpoint.flush().result(10)\n"
        "    if number % 2: worker.start_progress_thread(); worker.stop_progress_thread()\n"
        "    del worker, other, memory, endpoint\n"
        "    gc.collect()\n"
        "print('over', flush=True)\n"
        "adapters.close()\n"
    )
    assert over(run_program(program)) == ("over\n", "", 0)
