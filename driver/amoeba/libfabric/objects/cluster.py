"""Clusters: simulated NICs on one network, in one process or in several."""

import contextlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from amoeba_model.impairments import PERFECT, Impairments
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.switch import Switch
from amoeba_model.uet_network import UetNetwork

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error, type_error
from amoeba.devices.addresses import MAX_NICS, ip_of, mac_of
from amoeba.devices.bootstrap import Rendezvous, understood
from amoeba.devices.devices import attach, open_device, parameters_of_each
from amoeba.devices.linked import linked_parameters, open_network, own_host, patient, set_link_address
from amoeba.libfabric.objects.checks import check_enum, check_instance
from amoeba.libfabric.objects.constants import InfoFlags, Progress
from amoeba.libfabric.objects.fabric import Fabric
from amoeba.libfabric.objects.structures import FabricAttr, Info
from amoeba.nic.nic import Nic, Retransmission

__all__ = ["getinfo", "join_cluster", "open_cluster", "open_fabric"]

_NO_FLAGS = InfoFlags(0)


def open_cluster(
    kinds: Sequence[str] = ("model", "model"),
    parameters: NicParameters | Sequence[NicParameters | None] | None = None,
    *,
    latency: int = Network.DEFAULT_LATENCY,
    impairments: Impairments = PERFECT,
    retransmission: Retransmission | None = None,
    rtl_options: Mapping[str, Any] | None = None,
    progress: Progress = Progress.FI_PROGRESS_UNSPEC,
    switch: Switch | None = None,
) -> Fabric:
    """Open NICs of these kinds and join them by a network; number n has the addresses 02:00:00:00:00:n and 10.0.0.n.

    ``parameters`` are those of all NICs, or of each in turn; None stands for the default of :func:`open_device`.
    ``latency``, ``impairments`` and ``switch`` are the network's, ``retransmission`` is as in :class:`Fabric`;
    numbers count from 1. NICs that are not simulated have a network, and mostly addresses, of their own. A cluster
    cannot mix them with simulated ones, impair them or join them by a switch. With FI_PROGRESS_AUTO the fabric is
    made automatic at once. Closing the fabric closes the NICs.

    Raises what :func:`open_device` raises, and FI_EINVAL for none or more than 254 NICs, or parameters of another
    number of NICs. Raises ArgumentTypeError unless ``kinds`` is a sequence.
    """
    progress = _check_kinds(kinds, progress)
    each = parameters_of_each(parameters, len(kinds))
    network = Network(latency, impairments, switch)
    with contextlib.ExitStack() as opened:
        devices = [
            opened.enter_context(open_device(kind, own, rtl_options=rtl_options))
            for kind, own in zip(kinds, each, strict=True)
        ]
        fabric = Fabric(devices, ",".join(kinds), retransmission=retransmission)
        opened.callback(fabric.close)
        joined = [_join(nic, network, index) for index, nic in enumerate(fabric.nics)]
        if not all(joined) and (any(joined) or not impairments.is_perfect or switch is not None):
            raise fabric_error(
                Errno.FI_EINVAL, f"a simulated network joins simulated NICs alone, got {', '.join(kinds)}"
            )
        opened.pop_all()
    return _with_progress(fabric, progress)


def _join(nic: Nic, network: Network, index: int) -> bool:
    """Attach a NIC with the addresses of its number; return False for a NIC with a network of its own."""
    if attach(nic.device, network, mac_of(index)):
        nic.set_address(mac_of(index), ip_of(index))
        return True
    if not any(nic.mac):
        nic.set_address(mac_of(index), ip_of(index))
    return False


def getinfo(
    hints: Info | None = None,
    *,
    node: str | None = None,
    service: str | None = None,
    flags: InfoFlags = _NO_FLAGS,
    kinds: Sequence[str] = ("model", "model"),
) -> list[Info]:
    """Return the offers of a cluster of these kinds: :meth:`Fabric.getinfo` of a temporary cluster.

    :func:`open_fabric` opens it for good.
    """
    with open_cluster(kinds) as fabric:
        return fabric.getinfo(hints, node=node, service=service, flags=flags)


def open_fabric(attr: FabricAttr) -> Fabric:
    """Open the cluster that :func:`getinfo` described, by its ``fabric_attr``: ``fi_fabric``.

    Raises FI_EINVAL if its name is no list of kinds.
    """
    return open_cluster((attr.name or "").split(","))


def join_cluster(
    kind: str,
    rendezvous: Rendezvous,
    parameters: NicParameters | None = None,
    *,
    latency: int = Network.DEFAULT_LATENCY,
    impairments: Impairments = PERFECT,
    retransmission: Retransmission | None = None,
    rtl_options: Mapping[str, Any] | None = None,
    progress: Progress = Progress.FI_PROGRESS_UNSPEC,
) -> Fabric:
    """Open one NIC, and join it over UDP with those that the other processes of a rendezvous open.

    Every process calls this; rank r gets the addresses that :func:`open_cluster` gives to number r + 1. With bare UET
    (``AMOEBA_NETWORK=uet``) addresses follow from the hosts' (:mod:`amoeba.devices.linked`).
    ``impairments`` are of this NIC's frames, ``retransmission`` is its own. Without ``retransmission``, no peer is
    given up because its process computes or is stopped for a while. Without either, nothing is retransmitted because
    of that (:func:`amoeba.devices.linked.patient`). ``progress`` is as
    in :func:`open_cluster`. Closing the fabric closes the NIC and its UDP socket.
    Raises what :func:`open_cluster` and :meth:`Rendezvous.exchange` raise, and DeviceError without a socket.
    """
    progress = check_enum(Progress, progress, "progress")
    check_instance("kind", kind, str)
    check_instance("rendezvous", rendezvous, Rendezvous)
    _check_size(rendezvous.ranks)
    host = own_host(rendezvous.host)
    parameters = linked_parameters(kind, host, parameters)
    with contextlib.ExitStack() as opened:
        device = opened.enter_context(open_device(kind, parameters, rtl_options=rtl_options))
        network = opened.enter_context(
            open_network(kind, host, latency=latency, impairments=impairments, arithmetic=False)
        )
        fabric = Fabric([device], retransmission=retransmission)
        opened.callback(fabric.close)
        (nic,) = fabric.nics
        joined = _join_at(network, nic) if isinstance(network, UetNetwork) else _join(nic, network, rendezvous.rank)
        if not joined and not impairments.is_perfect:
            raise fabric_error(Errno.FI_EINVAL, f"a simulated network joins simulated NICs alone, got {kind}")
        if joined and retransmission is None:
            nic.retransmission = patient(network.devices[0].idle_hz, lossy=not impairments.is_perfect)
        own = (*(network.address if joined else ("", 0)), nic.mac.hex(), nic.ip)
        for rank, (host, port, mac, ip) in enumerate(map(_address, rendezvous.exchange(own))):
            if bool(host) != joined:
                raise fabric_error(Errno.FI_EINVAL, "a simulated network joins simulated NICs alone")
            if rank != rendezvous.rank:
                if joined:
                    network.connect(mac, host, port)
                fabric.neighbours[ip] = mac
        if not joined:
            network.close()
        opened.pop_all()
    return _with_progress(fabric, progress)


def _join_at(network: UetNetwork, nic: Nic) -> bool:
    """Attach a NIC with the addresses of its host."""
    set_link_address(nic, network)
    return attach(nic.device, network, nic.mac)


def _address(told: Any) -> tuple[str, int, bytes, int]:
    """Return host, port, MAC and IPv4 address of another process' NIC. Raises FI_ECONNREFUSED for other values."""
    with understood():
        host, port, mac, ip = told
        address = str(ipaddress.IPv4Address(host)) if host else ""
        if not (type(port) is type(ip) is int and 0 <= port < 1 << 16 and 0 <= ip < 1 << 32 and len(mac) == 12):
            raise ValueError(f"expected host, port, MAC and IPv4 address, got {told!r}")
        return address, port, bytes.fromhex(mac), ip


def _with_progress(fabric: Fabric, progress: Progress) -> Fabric:
    """Return the fabric with the requested progress model."""
    if progress is Progress.FI_PROGRESS_AUTO:
        fabric.automate()
    return fabric


def _check_kinds(kinds: Sequence[str], progress: Progress) -> Progress:
    """Check kinds and number of a cluster's NICs; return the progress model."""
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        raise type_error("kinds", "a sequence of kinds, as ['model', 'model']", kinds)
    for index, kind in enumerate(kinds):
        check_instance(f"kinds[{index}]", kind, str)
    _check_size(len(kinds))
    return check_enum(Progress, progress, "progress")


def _check_size(nics: int) -> None:
    if not 1 <= nics <= MAX_NICS:
        raise fabric_error(Errno.FI_EINVAL, f"a cluster has 1 to {MAX_NICS} NICs, got {nics}")
