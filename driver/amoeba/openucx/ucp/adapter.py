"""The NICs that contexts of UCX's API work through: opened for a program, or once for the process.

``ucp_init`` has no argument that names a NIC. Without one, contexts use the NIC of the process. The first context
opens it as the configuration says (``DEVICE``), and the last context closes it. It joins the NICs of other processes
by UDP: a worker's address contains the address of its NIC, and frames tell where to answer.
"""

import contextlib
import secrets
import socket
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from amoeba_model.device import Device
from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.network import Network
from amoeba_model.outside_network import OutsideNetwork
from amoeba_model.parameters import NicParameters
from amoeba_model.switch import Switch

from amoeba.core.lifetime import FabricObject
from amoeba.devices.addresses import ip_of, mac_of
from amoeba.devices.devices import attach, open_device, parameters_of_each
from amoeba.devices.linked import open_linked
from amoeba.nic.nic import Nic, Retransmission
from amoeba.openucx.ucp.idle_lanes import Shortage
from amoeba.openucx.ucp.objects import UcpObject

__all__ = ["Adapter", "Adapters", "default_adapter", "open_adapters"]


class Signalled(Protocol):
    """A sleeper that waits until there is something to do."""

    def signal(self) -> None:
        """Wake the sleeper: there is something to do."""


class Adapter(UcpObject):
    """One NIC, and how others reach it."""

    def __init__(self, parent: FabricObject, nic: Nic, wire: Network) -> None:
        self.nic = nic
        self.wire = wire
        """The network of simulated NICs; an empty one where the NIC is not simulated."""
        self.network = wire if isinstance(wire, OutsideNetwork) else None
        """The network of several processes; None: all reachable NICs are attached already."""
        self.wakeups: weakref.WeakSet[Signalled] = weakref.WeakSet()
        """Sleepers that share the NIC's one interrupt descriptor."""
        self.uid = secrets.randbits(64)
        """Random number of the process in remote keys."""
        self.shortage = Shortage()
        super().__init__(parent)

    @property
    def link(self) -> tuple[int, int]:
        """(IPv4 address, port) of the UDP socket through which others reach the NIC; zeros without a socket."""
        if self.network is None:
            return 0, 0
        host, port = self.network.address
        return int.from_bytes(socket.inet_aton(host), "big"), port

    def reach(self, mac: bytes, link_host: int, link_port: int) -> None:
        """Route frames for this Ethernet address to the process that has it."""
        if self.network is None or not link_port or mac == self.nic.mac:
            return
        if not self.network.knows(mac):
            self.network.connect(mac, socket.inet_ntoa(link_host.to_bytes(4, "big")), link_port)

    def clear_interrupts(self, by: Signalled) -> bool:
        """Clear the NIC's interrupts; return whether there were any, of which the other sleepers are told."""
        if not self.nic.device.wait(0):
            return False
        for each in list(self.wakeups):
            if each is not by:
                each.signal()
        return True

    def _release(self) -> None:
        """Leave the NIC to the adapters that opened it."""


class Adapters(UcpObject, Sequence[Adapter]):
    """NICs that were opened together; closing them closes everything opened through them."""

    def __init__(
        self, devices: Sequence[Device | Nic], network: Network, *, retransmission: Retransmission | None = None
    ) -> None:
        """Take devices, or NICs that others use at the same time.

        Such a NIC, and its network, stay open at the end.
        """
        self.network = network
        nics = [device if isinstance(device, Nic) else Nic(device) for device in devices]
        self._own = [nic for nic, given in zip(nics, devices, strict=True) if nic is not given]
        for nic in nics:
            if retransmission is not None:
                nic.retransmission = retransmission
        super().__init__()
        self._adapters = [Adapter(self, nic, network) for nic in nics]

    @property
    def nics(self) -> tuple[Nic, ...]:
        return tuple(adapter.nic for adapter in self._adapters)

    def __len__(self) -> int:
        return len(self._adapters)

    def __getitem__(self, index: Any) -> Any:
        return self._adapters[index]

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._adapters)

    def _release(self) -> None:
        for nic in self._own:
            nic.close()
        if self._own and isinstance(self.network, OutsideNetwork):
            self.network.close()


def open_adapters(
    kinds: Sequence[str] = ("model", "model"),
    parameters: NicParameters | Sequence[NicParameters | None] | None = None,
    *,
    latency: int = Network.DEFAULT_LATENCY,
    impairments: Impairments = PERFECT,
    retransmission: Retransmission | None = None,
    rtl_options: Mapping[str, Any] | None = None,
    switch: Switch | None = None,
) -> Adapters:
    """Open NICs of these kinds in this process, joined by a network; ``ucp_init(..., adapter=)`` takes one of them.

    The arguments are those of :func:`amoeba.open_cluster`.
    """
    network = Network(latency, impairments, switch)
    with contextlib.ExitStack() as opened:
        devices = [
            opened.enter_context(open_device(kind, own, rtl_options=rtl_options))
            for kind, own in zip(kinds, parameters_of_each(parameters, len(kinds)), strict=True)
        ]
        adapters = Adapters(devices, network, retransmission=retransmission)
        for index, (device, nic) in enumerate(zip(devices, adapters.nics, strict=True)):
            if attach(device, network, mac_of(index)) or not any(nic.mac):
                nic.set_address(mac_of(index), ip_of(index))
        opened.pop_all()
    return adapters


_default: list[Adapters] = []
"""The process's own NIC, while it is open."""


def default_adapter(kind: str = "model", *, host: str = "127.0.0.1", port: int = 0) -> Adapter:
    """Return the process's own NIC, opened if it is not open. ``host``, ``port``: the address of its UDP socket."""
    if _default and not _default[0].closed:
        return _default[0][0]  # type: ignore[no-any-return]
    _default.clear()
    adapters = open_linked_adapter(kind, host=host, port=port)
    _default.append(adapters)
    return adapters[0]  # type: ignore[no-any-return]


def open_linked_adapter(kind: str = "model", *, host: str = "127.0.0.1", port: int = 0) -> Adapters:
    """Open a NIC that joins those of other processes by UDP. ``host``, ``port``: the address of its socket."""
    linked = open_linked(kind, host, port)
    try:
        adapters = Adapters([linked.device], linked.network, retransmission=None)
        linked.name(adapters.nics[0])
    except BaseException:
        linked.close()
        raise
    return adapters


def close_default(adapter: Adapter) -> None:
    """Close the process's own NIC if this is it, and no context is open on it any more."""
    if _default and _default[0][0] is adapter and all(child.closed for child in adapter._children.values()):
        _default.pop().close()
