"""Addresses of workers, as ucp_worker_get_address packs them."""

import socket
from dataclasses import dataclass
from typing import Any, Self

from amoeba_model.ucp import ADDRESS_MAGIC, LAYOUT_VERSION, NO_CONTEXT, UCP_ADDRESS

from amoeba.nic.address import EndpointAddress
from amoeba.openucx.ucp.status import invalid_param, wrong_type

__all__ = ["Identity", "WorkerAddress"]

Identity = tuple[int, int]
"""Identity of a worker: its NIC and context, as events name them, and its random number.

Any peer can claim the number alone, but no peer can send from another's NIC and context.
"""

_MAX_CONTEXTS = 1 << 12


@dataclass(frozen=True)
class WorkerAddress:
    """The place of a worker. The numbers of an address from a peer are not verified."""

    uid: int
    """Random number of the worker."""
    main: EndpointAddress
    """Context for memory and tagged messages."""
    message_context: int
    """Context for streams and active messages; NO_CONTEXT: the worker takes none."""
    link: tuple[int, int]
    """IPv4 address and port of the UDP socket of a simulated NIC; zeros without a socket."""

    @property
    def messages(self) -> EndpointAddress | None:
        """The context for streams and active messages."""
        if self.message_context == NO_CONTEXT:
            return None
        main = self.main
        return EndpointAddress(main.mac, main.ip, main.job_id, main.pid_on_fep, self.message_context)

    @property
    def source(self) -> int:
        """The worker as a sender in events: IPv4 address, and 32 bits of the context."""
        return self.main.ip << 32 | self.main.resource_index

    @property
    def identity(self) -> Identity:
        """Identity of the worker, valid as long as its network exists."""
        return self.source, self.uid

    def pack(self) -> bytes:
        """Pack the address as a UCP_ADDRESS."""
        return UCP_ADDRESS.pack(
            magic=ADDRESS_MAGIC,
            version=LAYOUT_VERSION,
            uid=self.uid,
            mac=int.from_bytes(self.main.mac, "big"),
            ip=self.main.ip,
            job_id=self.main.job_id,
            pid_on_fep=self.main.pid_on_fep,
            main_context=self.main.resource_index,
            message_context=self.message_context,
            link_host=self.link[0],
            link_port=self.link[1],
        )

    @classmethod
    def unpack(cls, data: Any) -> Self:
        """Invert :meth:`pack`. Raises INVALID_PARAM for bytes that are no such address."""
        try:
            view = memoryview(data).cast("B")
        except (TypeError, ValueError, BufferError):
            raise wrong_type("address", f"the {UCP_ADDRESS.size} bytes of a worker's address", data) from None
        if view.nbytes != UCP_ADDRESS.size:
            raise invalid_param(f"a worker's address has {UCP_ADDRESS.size} bytes, got {view.nbytes}")
        fields = UCP_ADDRESS.unpack(view)
        if (fields["magic"], fields["version"], fields["flags"]) != (ADDRESS_MAGIC, LAYOUT_VERSION, 0):
            raise invalid_param(f"expected the address of a worker of this driver, got {bytes(view).hex()}")
        contexts = fields["main_context"], fields["message_context"]
        if not (
            fields["ip"]
            and fields["mac"]
            and contexts[0] < _MAX_CONTEXTS
            and (contexts[1] < _MAX_CONTEXTS or contexts[1] == NO_CONTEXT)
            and fields["pid_on_fep"] < 1 << 12
        ):
            raise invalid_param(f"expected the address of a worker, got {bytes(view).hex()}")
        main = EndpointAddress(
            fields["mac"].to_bytes(6, "big"), fields["ip"], fields["job_id"], fields["pid_on_fep"], contexts[0]
        )
        return cls(fields["uid"], main, contexts[1], (fields["link_host"], fields["link_port"]))

    def __str__(self) -> str:
        host, port = self.link
        link = f", UDP {socket.inet_ntoa(host.to_bytes(4, 'big'))}:{port}" if port else ""
        return f"worker {self.uid:#x} at {self.main}{link}"
