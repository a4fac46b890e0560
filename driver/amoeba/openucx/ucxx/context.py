"""Contexts: a NIC, its configuration, and the memory that peers may access."""

import io
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from amoeba.core.buffers import allocate
from amoeba.openucx.ucp.adapter import Adapter
from amoeba.openucx.ucp.calls.contexts import ucp_context_print_info, ucp_init
from amoeba.openucx.ucp.calls.memory import ucp_mem_map
from amoeba.openucx.ucp.config import ucp_config_modify, ucp_config_read, ucp_config_t
from amoeba.openucx.ucp.config_keys import KEYS
from amoeba.openucx.ucp.constants import ucp_feature, ucp_mem_map_prot
from amoeba.openucx.ucp.context import Context as UcpContext
from amoeba.openucx.ucp.kinds import SIZE
from amoeba.openucx.ucp.memory import Memory as UcpMemory
from amoeba.openucx.ucp.status import UcsError
from amoeba.openucx.ucp.structures import ucp_mem_map_params_t, ucp_params_t
from amoeba.openucx.ucxx.buffers import bytes_view
from amoeba.openucx.ucxx.errors import UCXConfigError
from amoeba.openucx.ucxx.lifetime import Closable
from amoeba.openucx.ucxx.names import ALL_FEATURES, Feature
from amoeba.openucx.ucxx.packed import RemoteKey
from amoeba.openucx.ucxx.progress import expect_exit, in_turn, progress_of

__all__ = ["Context", "Memory", "read_config", "texts"]

_PREFIX = "UCX_"
_READ_ONLY = ucp_mem_map_prot.UCP_MEM_MAP_PROT_LOCAL_READ | ucp_mem_map_prot.UCP_MEM_MAP_PROT_REMOTE_READ


def read_config(changes: Mapping[str, Any] | None = None) -> ucp_config_t:
    """Read the environment's configuration with these changes, keys with or without UCX_. Raises UCXConfigError."""
    try:
        config = ucp_config_read(None, None)
        for name, value in (changes or {}).items():
            ucp_config_modify(config, name.removeprefix(_PREFIX), str(value))
    except UcsError as error:
        raise UCXConfigError(str(error.args[0])) from error
    return config


def texts(config: ucp_config_t) -> dict[str, str]:
    """Return all values by key, as they are written."""
    return {name: config.text(name) for name, key in KEYS.items() if key.alias_of is None}


class Context(Closable):
    """A protection domain of a NIC.

    ``config_dict``: values by key, as ``UCX_...`` in the environment has them. ``feature_flags``: features to use.
    ``adapter``: the NIC, from :func:`amoeba.ucp.open_adapters`; None: the process's own NIC. If that is not open yet,
    ``device`` is its kind, and ``network`` the (host, port) of its UDP socket.

    Raises UCXConfigError, INVALID_PARAM, and NO_RESOURCE if the NIC has no protection domain left.
    """

    def __init__(
        self,
        config_dict: Mapping[str, Any] | None = None,
        feature_flags: Iterable[Feature] = ALL_FEATURES,
        *,
        device: str | None = None,
        network: tuple[str, int] | None = None,
        adapter: Adapter | None = None,
    ) -> None:
        self.feature_flags = tuple(feature_flags)
        features = ucp_feature(0)
        for each in self.feature_flags:
            features |= ucp_feature(each)
        changes = dict(config_dict or {})
        if device is not None:
            changes["DEVICE"] = device
        if network is not None:
            changes["LINK_HOST"], changes["LINK_PORT"] = network
        config = read_config(changes)
        self.ucp: UcpContext = ucp_init(ucp_params_t(features=features), config, adapter=adapter)
        """The context of ``amoeba.ucp``."""
        self._progress = progress_of(self.ucp.adapter)
        self._finalizer = weakref.finalize(self, self._progress.abandon, self.ucp.close)
        expect_exit()

    @property
    def adapter(self) -> Adapter:
        """The context's NIC."""
        return self.ucp.adapter

    @property
    def config(self) -> dict[str, str]:
        """All values by key."""
        return texts(self.ucp.config)

    def get_config(self) -> dict[str, str]:
        """Return ``config``."""
        return self.config

    @property
    def handle(self) -> int:
        """The context's unique number in this process."""
        return id(self.ucp)

    @property
    @in_turn
    def info(self) -> str:
        """Description of the context and its NIC, in lines."""
        lines = io.StringIO()
        ucp_context_print_info(self.ucp, lines)
        return lines.getvalue()

    @property
    def cuda_support(self) -> bool:
        """Always false: no NIC here accesses a GPU's memory."""
        return False

    @in_turn
    def map(self, buffer: Any) -> "Memory":
        """Let peers access a buffer, which is kept; a read-only buffer they may only read.

        Raises INVALID_PARAM for an object that is no buffer, NO_RESOURCE if the NIC's key table is full.
        """
        self._progress.tidy()
        view = bytes_view(buffer)
        prot = _READ_ONLY if view.readonly else None
        return Memory(self, ucp_mem_map(self.ucp, ucp_mem_map_params_t(address=view, length=view.nbytes, prot=prot)))

    @in_turn
    def alloc(self, size: int) -> "Memory":
        """Allocate zeroed bytes that peers may access, at the start of a page. Raises as :meth:`map`."""
        self._progress.tidy()
        number = int(SIZE("size", size))
        view = allocate(number)[:number] if number else memoryview(bytearray())
        return Memory(self, ucp_mem_map(self.ucp, ucp_mem_map_params_t(address=view, length=number)))

    @property
    def closed(self) -> bool:
        return self.ucp.closed

    @in_turn
    def close(self) -> None:
        """Close the context, and objects made from it."""
        self._progress.tidy()
        self._finalizer.detach()
        self.ucp.close()

    def __repr__(self) -> str:
        return f"<Context on {self.ucp.nic.device.name}>"


class Memory(Closable):
    """Memory that peers may access with its key, made by :meth:`Context.map` and :meth:`Context.alloc`.

    NumPy takes it as an array of bytes, without a copy; ``view`` is a memoryview for other code.
    """

    def __init__(self, context: Context, memory: UcpMemory) -> None:
        self.context = context
        self.ucp = memory
        """The memory of ``amoeba.ucp``."""
        self._progress = context._progress
        self._finalizer = weakref.finalize(self, self._progress.abandon, memory.close)

    @property
    def view(self) -> memoryview:
        """All its bytes."""
        return self.ucp.view[: self.ucp.length]

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return self.ucp.address

    @property
    def length(self) -> int:
        """Size in bytes."""
        return self.ucp.length

    nbytes = length

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.length,),
            "typestr": "|u1",
            "data": self.view,
            "version": 3,
        }

    def __len__(self) -> int:
        return self.length

    def pack(self) -> RemoteKey:
        """Return the key by which peers access the memory, to be sent to them."""
        return RemoteKey(self.ucp.pack())

    pack_rkey = pack

    @property
    def closed(self) -> bool:
        return self.ucp.closed

    @in_turn
    def close(self) -> None:
        """Unmap the memory: the NIC refuses later accesses of peers."""
        self._finalizer.detach()
        self.ucp.close()

    def __repr__(self) -> str:
        return f"<Memory {self.length} bytes at {self.address:#x}>"
