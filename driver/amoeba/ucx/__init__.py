"""UCX for Python programs, under ucxx's names: objects that are polled, waited for, and awaited, on any Amoeba NIC.

    import amoeba.ucx as ucxx

Low level programs use :class:`Context`, :class:`Worker`, :class:`Endpoint` and :class:`Listener`, asyncio programs
the functions of this module, which have a context and a worker of the process's own. Both have the same endpoints, of
which every operation returns a :class:`Request`. docs/ucp.md has a table from ucxx to here; what ucxx
lacks is remote memory: :meth:`Context.map`, :meth:`Endpoint.put`, :meth:`Endpoint.get`, :meth:`Endpoint.atomic`.
"""

from amoeba.ucx import application, errors, names
from amoeba.ucx.application import *  # noqa: F403  the names that ucxx has, declared in the __all__ of each file
from amoeba.ucx.buffers import Array
from amoeba.ucx.context import Context, Memory
from amoeba.ucx.endpoint import Endpoint
from amoeba.ucx.errors import *  # noqa: F403
from amoeba.ucx.frames import FrameReceive
from amoeba.ucx.listener import Listener
from amoeba.ucx.names import *  # noqa: F403
from amoeba.ucx.packed import Address, RemoteKey
from amoeba.ucx.remote_memory import RemoteFile, RemoteMemory
from amoeba.ucx.request import BufferRequest, BufferRequests, Request
from amoeba.ucx.worker import Worker

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
