"""UCX for Python programs, under ucxx's names: objects that are polled, waited for, and awaited, on any Amoeba NIC.

    import amoeba.ucx as ucxx

Low level programs use :class:`Context`, :class:`Worker`, :class:`Endpoint` and :class:`Listener`. Asyncio programs
use the functions of this module, which share a context and a worker of the process. Both have the same endpoints,
whose operations return a :class:`Request`. docs/ucp.md has a table from ucxx to here. Unlike ucxx, this module has
remote memory: :meth:`Context.map`, :meth:`Endpoint.put`, :meth:`Endpoint.get`, :meth:`Endpoint.atomic`.
"""

from amoeba.openucx.ucxx import application, errors, names
from amoeba.openucx.ucxx.application import *  # noqa: F403  the names that ucxx has, declared in the __all__ of each file
from amoeba.openucx.ucxx.buffers import Array
from amoeba.openucx.ucxx.context import Context, Memory
from amoeba.openucx.ucxx.endpoint import Endpoint
from amoeba.openucx.ucxx.errors import *  # noqa: F403
from amoeba.openucx.ucxx.frames import FrameReceive
from amoeba.openucx.ucxx.listener import Listener
from amoeba.openucx.ucxx.names import *  # noqa: F403
from amoeba.openucx.ucxx.packed import Address, RemoteKey
from amoeba.openucx.ucxx.remote_memory import RemoteFile, RemoteMemory
from amoeba.openucx.ucxx.request import BufferRequest, BufferRequests, Request
from amoeba.openucx.ucxx.worker import Worker

__all__ = [
    "Address",
    "Array",
    "BufferRequest",
    "BufferRequests",
    "Context",
    "Endpoint",
    "FrameReceive",
    "Listener",
    "Memory",
    "RemoteFile",
    "RemoteKey",
    "RemoteMemory",
    "Request",
    "UCXAddress",
    "UCXBufferRequest",
    "UCXBufferRequests",
    "UCXContext",
    "UCXEndpoint",
    "UCXListener",
    "UCXRequest",
    "UCXWorker",
    "Worker",
]
__all__ += application.__all__
__all__ += errors.__all__
__all__ += names.__all__

UCXAddress = Address
UCXBufferRequest = BufferRequest
UCXBufferRequests = BufferRequests
UCXContext = Context
UCXEndpoint = Endpoint
UCXListener = Listener
UCXRequest = Request
UCXWorker = Worker
