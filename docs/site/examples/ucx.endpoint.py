from amoeba import ucx
from amoeba.ucp import Adapters, open_adapters

adapters: Adapters = open_adapters(["model", "model"])
with adapters as (one, other):
    server, client = ucx.Worker(ucx.Context(adapter=one)), ucx.Worker(ucx.Context(adapter=other))
    address: ucx.Address = server.address
    endpoint: ucx.Endpoint = client.create_endpoint_from_worker_address(address)

    memory: ucx.Memory = server.context.map(bytearray(b"12345678"))
    remote: ucx.RemoteMemory = endpoint.unpack_rkey(memory.pack())
    request: ucx.Request = remote.get(bytearray(8))
    print(bytes(request.result()))
# Prints:
# b'12345678'
