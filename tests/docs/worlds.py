"""The ground of the pages' programs: programs that are shown in part run behind the omitted part.

Keys are (page, number of the Python block on it, from 0). Blocks that are not here begin with nothing but what the
blocks before them on the same page have made.
"""

__all__ = ["AFTER", "BEFORE"]

_PAIR = """
import asyncio, threading
from pathlib import Path
import numpy as np
from amoeba import *
from amoeba_tools.capture import write_pcapng

fabric = open_cluster(["model", "model"])
world = fabric
domain, user = fabric.domain(0), fabric.domain(1)
memory, found = np.zeros(64, np.uint64), np.zeros(1, np.uint64)
region = user.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
address, key = region.address, region.key
queue, peers = domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA), domain.av_open()
cq, eq, user_eq = queue, fabric.eq_open(), fabric.eq_open()
endpoint = domain.endpoint(cq=queue, av=peers)
other = user.endpoint(cq=user.cq_open(), av=user.av_open())
peer = peers.insert(other.getname())
"""
_CONNECTING = _PAIR.replace('"model"])', '"model"], progress=Progress.FI_PROGRESS_AUTO)')
"""Both sides in one process: while one of them waits, the other must come on."""
_CONNECTION_REQUESTS = """
connected = Info(ep_attr=EpAttr(type=EpType.FI_EP_MSG))
passive = fabric.passive_ep(connected)
passive.bind(eq)
passive.listen()
caller = user.endpoint(connected, cq=user.cq_open(), eq=user_eq)
caller.connect(passive.getname())
requests, buffer = [eq.sread()], bytearray(64)
"""
_DEFERRED = """
writes, fetched, result = domain.cntr_open(), domain.cntr_open(), np.zeros(1, np.uint64)
msg = AtomicMsg([np.ones(1, np.uint64)], peer, [RmaIoc(address, 1, key)], Op.FI_SUM, Datatype.FI_UINT64)
writes.set(2)
"""
_READER = """
loop = asyncio.new_event_loop()
loop.close()
class loop:
    add_reader = staticmethod(lambda descriptor, reader: reader())
handled = []
handle = handled.append
"""
_REACHED = """
endpoint.write(bytes(8), peer, address, key)
queue.sread()
"""
_WRITTEN_TO = """
region = domain.mr_reg(memory, MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE)
queue = domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA)
client_queue, client_peers = user.cq_open(), user.av_open()
client = user.endpoint(cq=client_queue, av=client_peers)
endpoint.close()

class Late:
    def __index__(self):
        return client_peers.insert(server.getname())
server_number = Late()
"""
_LISTENER = """
def listen():
    with Rendezvous.listen("127.0.0.1", 7471, 2) as rendezvous, join_cluster("model", rendezvous) as joined:
        rendezvous.exchange("")
        rendezvous.exchange(None, idle=joined.advance)

fabric.close()
listener = threading.Thread(target=listen, daemon=True)
listener.start()
"""
_UCP = """
from amoeba.ucp import *

header, body = b"head", bytes(200)
"""

BEFORE = {
    **{("docs/libfabric.md", number): _PAIR for number in range(1, 11)},
    ("docs/libfabric.md", 2): _CONNECTING + _CONNECTION_REQUESTS,
    ("docs/libfabric.md", 3): _CONNECTING,
    ("docs/libfabric.md", 4): _PAIR + _READER,
    ("docs/libfabric.md", 7): _PAIR + _DEFERRED,
    ("docs/libfabric.md", 10): "",
    ("docs/libfabric.md", 11): _PAIR,
    ("docs/libfabric.md", 12): "",
    ("docs/how-to.md", 3): _PAIR + _REACHED,
    ("docs/how-to.md", 4): _PAIR + _WRITTEN_TO,
    ("docs/how-to.md", 5): _PAIR,
    ("docs/how-to.md", 6): _PAIR + _LISTENER,
    ("docs/ucp.md", 0): _UCP,
    ("docs/ucp.md", 1): _UCP,
}
AFTER = {
    ("docs/how-to.md", 2): "assert best['link_latency'] == 20",
    ("docs/how-to.md", 3): "assert [pdc.state.name for pdc in table.used()] == ['EXPELLED']",
    ("docs/how-to.md", 4): "assert entry.data == 42; assert memory.tobytes().startswith(b'result')",
    ("docs/how-to.md", 6): "listener.join(10); assert len(names) == 2",
    ("docs/libfabric.md", 3): "assert (request.data, told.data) == (b'hello', b'welcome')",
    ("docs/libfabric.md", 5): "assert memory[0] == 1",
    ("docs/libfabric.md", 7): "assert memory[0] == 1",
    ("docs/libfabric.md", 8): "assert sorted(failed) == [3, 500]; assert memory.sum() > 0",
    ("docs/libfabric.md", 9): "assert words[3, 3] == 1",
    ("docs/ucp.md", 0): "ucp_cleanup(context)",  # else the process keeps its NIC, and its configuration
    ("docs/ucp.md", 2): "import asyncio; asyncio.run(program()); ucxx.reset()",
}
