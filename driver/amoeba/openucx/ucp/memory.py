"""Mapped memory: each mapping has one key of the NIC's table (group MEM of ucp.h).

The NIC enforces the key's bounds, and the remote rights of ``prot``. Unmapping removes the key first, so that the NIC
refuses peers from then on, also their outstanding operations.
"""

import contextlib
import weakref

from amoeba_model.device import DeviceClosedError
from amoeba_model.registers import KeyFlags
from amoeba_model.trace import NO_CONTEXT
from amoeba_model.ucp import ADDRESS_MAGIC, LAYOUT_VERSION, UCP_REMOTE_KEY

from amoeba.core.buffers import Buffer, address_of, view_of
from amoeba.core.errors import FabricError
from amoeba.core.process_memory import PAGE, accessible, map_pages, view_at
from amoeba.nic.withdrawal import Withdrawal
from amoeba.openucx.ucp.constants import ucp_mem_map_flags, ucp_mem_map_prot, ucs_memory_type_t
from amoeba.openucx.ucp.context import Context
from amoeba.openucx.ucp.datatypes import bytes_of
from amoeba.openucx.ucp.handles import ucp_mem_h
from amoeba.openucx.ucp.objects import UcpObject
from amoeba.openucx.ucp.status import UcsStatus, invalid_param, ucs_error, ucs_error_of
from amoeba.openucx.ucp.structures import ucp_mem_map_params_t

__all__ = ["Memory", "mapped_here", "mapping", "memory_size"]

_NONE = memoryview(b"")
_BY_KEY = NO_CONTEXT
"""The user of peers' accesses. Operations of a worker have grants of their own."""
_ALLOCATE = ucp_mem_map_flags.UCP_MEM_MAP_ALLOCATE
_FIXED = ucp_mem_map_flags.UCP_MEM_MAP_FIXED
_ALL_RIGHTS = ~ucp_mem_map_prot(0)
_WRITES = ucp_mem_map_prot.UCP_MEM_MAP_PROT_LOCAL_WRITE | ucp_mem_map_prot.UCP_MEM_MAP_PROT_REMOTE_WRITE
_RIGHTS = (
    (ucp_mem_map_prot.UCP_MEM_MAP_PROT_REMOTE_READ, KeyFlags.REMOTE_READ),
    (ucp_mem_map_prot.UCP_MEM_MAP_PROT_REMOTE_WRITE, KeyFlags.REMOTE_WRITE),
)
_HOSTS = (ucs_memory_type_t.UCS_MEMORY_TYPE_HOST, ucs_memory_type_t.UCS_MEMORY_TYPE_UNKNOWN)
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_here: "weakref.WeakValueDictionary[tuple[int, int], Memory]" = weakref.WeakValueDictionary()
"""All mapped memory of this process, by the uid of its NIC's adapter, and its key."""


class Memory(UcpObject, ucp_mem_h):
    """Memory that peers may use.

    Memory of no bytes has no key, so no peer reaches it. Raises NO_RESOURCE if the NIC's key table is full.
    """

    def __init__(
        self, context: Context, view: memoryview, address: int, prot: ucp_mem_map_prot, *, allocated: bool
    ) -> None:
        self.context = context
        self.address = address
        self.length = view.nbytes
        self.prot = prot
        self.allocated = allocated
        """The driver has allocated the memory, in whole pages."""
        self.view = view
        """All its bytes, as this process sees them. Allocated memory is freed with the last view of it."""
        self.rights = KeyFlags.VIRTUAL
        for right, flag in _RIGHTS:
            if prot & right:
                self.rights |= flag
        self.key = 0
        super().__init__(context)
        if self.length:
            self._open_to_peers()
        self._stay()

    def _open_to_peers(self) -> None:
        nic = self.context.nic
        writable = bool(self.rights & KeyFlags.REMOTE_WRITE)
        nic.dma.grant(self.address, self.length, writable=writable, whose=_BY_KEY)
        try:
            self.key = nic.keys.store(None, self.address, self.length, self.context.protection.number, self.rights)
        except BaseException as error:
            self._closed = True
            nic.dma.revoke(self.address, self.length, _BY_KEY)
            if isinstance(error, FabricError):
                raise ucs_error_of(error) from error
            raise
        self._withdrawal = Withdrawal(nic, self.key)
        _here[self.context.adapter.uid, self.key] = self

    def pack(self) -> bytes:
        """Pack the numbers that peers need to use the memory: a UCP_REMOTE_KEY."""
        return UCP_REMOTE_KEY.pack(
            magic=ADDRESS_MAGIC,
            version=LAYOUT_VERSION,
            rights=int(self.rights),
            uid=self.context.adapter.uid,
            key=self.key,
            address=self.address,
            length=self.length,
        )

    def contains(self, address: int, length: int) -> bool:
        """Return whether [address, address + length) lies in the memory."""
        return self.address <= address and address + length <= self.address + self.length

    def describe(self) -> str:
        """Describe the memory, in lines."""
        how = "allocated" if self.allocated else "registered"
        return (
            "# UCP memory properties\n#\n"
            f"#   {how:10} : {self.length} bytes at {self.address:#x}\n"
            f"#   key        : {self.key:#x}\n"
            f"#   rights     : {self.prot!r}\n"
        )

    def _release(self) -> None:
        if not self.length:
            return
        _here.pop((self.context.adapter.uid, self.key), None)
        nic = self.context.nic
        with contextlib.suppress(DeviceClosedError):
            # the key first: a request that arrives now is refused instead of hitting memory without a grant
            try:
                self._withdrawal.finish()
            except DeviceClosedError:
                raise
            except BaseException as error:
                self._closed = False  # peers may still use the memory: it is to be unmapped again
                if isinstance(error, FabricError):
                    raise ucs_error_of(error) from error
                raise
            nic.dma.revoke(self.address, self.length, _BY_KEY)

    def __repr__(self) -> str:
        return f"<Memory {self.length} bytes at {self.address:#x}>"


def mapped_here(uid: int, key: int) -> Memory | None:
    """Return the mapped memory of this process that a remote key names; None: another process has it."""
    memory = _here.get((uid, key))
    return None if memory is None or memory.closed else memory


def mapping(context: Context, params: ucp_mem_map_params_t) -> Memory:
    """Register or allocate memory by checked parameters, as the table of ucp_mem_map says.

    Raises INVALID_PARAM where the table says so, and for memory that is not the host's, too short, or not writable
    though ``prot`` says so. Raises NO_MEMORY if allocation fails, NO_RESOURCE if the key table is full.
    """
    if params.length is None:
        raise invalid_param("params.length: expected a number of bytes, got none")
    if params.memory_type is not None and params.memory_type not in _HOSTS:
        raise invalid_param(f"params.memory_type: expected the host's memory, got {params.memory_type.name}")
    flags = params.flags or ucp_mem_map_flags(0)
    prot = _ALL_RIGHTS if params.prot is None else params.prot
    if not params.length:
        return Memory(context, _NONE, _address_of(params.address), prot, allocated=bool(flags & _ALLOCATE))
    if flags & _ALLOCATE:
        view = _allocated(params.address, params.length, fixed=bool(flags & _FIXED))
        return Memory(context, view, address_of(view), prot, allocated=True)
    if flags & _FIXED:
        raise invalid_param("params.flags: UCP_MEM_MAP_FIXED is for memory that UCP_MEM_MAP_ALLOCATE allocates")
    if params.address is None:
        raise invalid_param("params.address: expected memory to be registered, or UCP_MEM_MAP_ALLOCATE, got neither")
    view = _registered(params.address, params.length, prot)
    return Memory(context, view, _address_of(view), prot, allocated=False)


def _allocated(hint: Buffer | int | None, length: int, *, fixed: bool) -> memoryview:
    address = _address_of(hint)
    if fixed and not address:
        raise invalid_param("params.address: UCP_MEM_MAP_FIXED needs the address, got none")
    if fixed and address % PAGE:
        raise invalid_param(f"params.address: UCP_MEM_MAP_FIXED needs a multiple of {PAGE}, got {address:#x}")
    try:
        return map_pages(length, address // PAGE * PAGE, fixed=fixed)
    except MemoryError as error:
        raise ucs_error(UcsStatus.UCS_ERR_NO_MEMORY, str(error)) from error


def _registered(memory: Buffer | int, length: int, prot: ucp_mem_map_prot) -> memoryview:
    writable = bool(prot & _WRITES)
    if not isinstance(memory, int):
        return bytes_of(memory, length, writable=writable, name="params.address")
    if not accessible(memory, length, writable=writable):
        raise invalid_param(
            f"params.address: expected {length} bytes of this process's memory that can be "
            f"{'written' if writable else 'read'}, got {memory:#x}"
        )
    return view_at(memory, length)


def _address_of(memory: Buffer | int | None) -> int:
    if memory is None or isinstance(memory, int):
        return memory or 0
    try:
        return address_of(view_of(memory))
    except FabricError as error:
        raise invalid_param(f"params.address: {error.strerror}") from error


def memory_size(text: str) -> int:
    """Return the bytes of a size for ucp_mem_print_info: a number, and perhaps one of the units B, K, M, G and T.

    Raises INVALID_PARAM for anything else.
    """
    digits = text.strip().rstrip("BKMGTbkmgt")
    unit = text.strip()[len(digits) :].upper()
    if not digits.isdecimal() or not digits.isascii() or unit.removesuffix("B") not in _UNITS:
        raise invalid_param(f"mem_size: expected a number and one of the units B, K, M, G, T, got {text!r}")
    return int(digits) * _UNITS[unit.removesuffix("B")]
