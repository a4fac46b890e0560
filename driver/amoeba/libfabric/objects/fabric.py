"""Fabric: the network, with the NICs through which this process can reach it."""

import contextlib
from collections.abc import Iterator, Sequence
from types import NoneType

from amoeba_model.device import Device
from amoeba_model.network import Network

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.lifetime import FabricObject
from amoeba.core.waiting import Waitable
from amoeba.devices.devices import network_of
from amoeba.libfabric.objects.checks import check_flags, check_instance, check_number
from amoeba.libfabric.objects.constants import EqFlags, InfoFlags, MrMode, Progress, WaitObj
from amoeba.libfabric.objects.domain import Domain
from amoeba.libfabric.objects.endpoints.passive import PassiveEndpoint
from amoeba.libfabric.objects.info import DEFAULT_MR_MODE, is_automatic, nic_index, offers, registration_mode, select
from amoeba.libfabric.objects.queues.event_queue import EventQueue
from amoeba.libfabric.objects.queues.wait_set import WaitSet
from amoeba.libfabric.objects.structures import Info
from amoeba.nic.address import EndpointAddress
from amoeba.nic.nic import Nic, Retransmission
from amoeba.transport.progress import AutomaticProgress

__all__ = ["Fabric"]

_NO_INFO_FLAGS = InfoFlags(0)
_NO_EQ_FLAGS = EqFlags(0)


class Fabric(FabricObject):
    """NICs of one network, opened; closing the fabric closes everything opened through it, the NICs and the network.

    Progress is manual, until a domain is opened by an Info that says otherwise, or :meth:`automate` is called. From
    then on a thread makes progress for all domains of the fabric, and any thread may use any object.

    Parameters
    ----------
    devices : sequence of Device or Nic
        From :func:`amoeba.open_device`, or use :func:`amoeba.open_cluster`. A Nic may have other users, and is not
        closed with the fabric, nor is its network.
    name : str
        ``fabric_attr.name`` of what :meth:`getinfo` answers.
    retransmission : Retransmission, optional
        When the NICs retransmit, and when they give a peer up; by default as their registers say. A NIC's own can be
        read and changed at any time as ``fabric.nics[n].retransmission``.

    Raises FabricError with FI_ENODEV or FI_ENOSYS for a device that this driver cannot drive.
    """

    def __init__(
        self, devices: Sequence[Device | Nic], name: str = "amoeba", *, retransmission: Retransmission | None = None
    ) -> None:
        if not devices:
            raise fabric_error(Errno.FI_EINVAL, "a fabric has at least one NIC")
        self.name = name
        self.nics = tuple(device if isinstance(device, Nic) else Nic(device) for device in devices)
        self._own = [nic for nic, given in zip(self.nics, devices, strict=True) if nic is not given]
        if retransmission is not None:
            for nic in self.nics:
                nic.retransmission = retransmission
        self.neighbours: dict[int, bytes] = {}
        """Ethernet addresses by IPv4 address of other NICs of the network, so that they can be named as nodes."""
        super().__init__()

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(nic.device for nic in self.nics)

    @property
    def network(self) -> Network | None:
        """The simulated network that joins the NICs; None if they are real, or not attached."""
        return network_of(self.nics[0].device)

    def known_nics(self) -> dict[int, bytes]:
        """Ethernet addresses by IPv4 address of the fabric's own NICs, and of those in :attr:`neighbours`."""
        return self.neighbours | {nic.ip: nic.mac for nic in self.nics}

    @property
    def progress(self) -> Progress:
        """FI_PROGRESS_AUTO or FI_PROGRESS_MANUAL: of control and of data."""
        return Progress.FI_PROGRESS_MANUAL if self._auto is None else Progress.FI_PROGRESS_AUTO

    def automate(self) -> None:
        """Make progress automatic, and all calls safe for threads, until the fabric is closed. Idempotent.

        Raises FI_EBUSY while domains with manual progress are open.
        """
        self._check_open()
        if self._auto is not None:
            return
        if Progress.FI_PROGRESS_AUTO not in self._possible:
            raise fabric_error(Errno.FI_EBUSY, "domains with manual progress are open")
        auto = AutomaticProgress(self.nics, self.network)
        with auto.guard:
            for child in list(self._children.values()):  # event queues and passive endpoints
                child._automate(auto)
            self._automate(auto)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Pause automatic progress and other threads' calls meanwhile.

        For direct access to :attr:`network` or :attr:`devices`.
        """
        with contextlib.nullcontext() if self._auto is None else self._auto:
            yield

    def getinfo(
        self,
        hints: Info | None = None,
        *,
        node: str | None = None,
        service: str | None = None,
        flags: InfoFlags = _NO_INFO_FLAGS,
    ) -> list[Info]:
        """Return the NICs' offers: one Info per endpoint type and NIC that satisfies ``hints``.

        ``fi_getinfo``. Offers of type FI_EP_RDM come first, then FI_EP_MSG and FI_EP_DGRAM, each by NIC.

        ``node`` is the peer's NIC, by its IPv4 address or a name (with FI_NUMERICHOST an address). ``dest_addr`` of
        the result is then the address of its context ``service``, by default ``0``; see
        :mod:`amoeba.libfabric.objects.names`. With FI_SOURCE ``node`` is one of the fabric's NICs, the only one to
        offer anything. With FI_PROV_ATTR_ONLY the result is one Info of the provider alone.

        Raises FI_ENODATA if no NIC satisfies the hints (the message names the field), and for an unknown node. Raises
        FI_EINVAL for an invalid service, an invalid address in ``hints``, or FI_SOURCE without ``node``. Raises
        FI_EBADFLAGS for other flags.
        """
        self._check_open()
        check_instance("hints", hints, Info, NoneType)
        check_instance("node", node, str, NoneType)
        check_instance("service", service, str, NoneType)
        flags = check_flags(InfoFlags, flags)
        return select(
            offers(self.nics, self.name, self._possible),
            hints,
            node=node,
            service=service,
            flags=flags,
            nics=self.known_nics(),
        )

    def eq_open(
        self,
        size: int = 0,
        flags: EqFlags = _NO_EQ_FLAGS,
        wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC,
        wait_set: WaitSet | None = None,
    ) -> EventQueue:
        """See :class:`EventQueue`."""
        self._check_open()
        return EventQueue(self, size, flags, wait_obj, wait_set)

    def wait_open(self, wait_obj: WaitObj = WaitObj.FI_WAIT_UNSPEC) -> WaitSet:
        """See :class:`WaitSet`."""
        self._check_open()
        return WaitSet(self, wait_obj)

    def passive_ep(self, info: Info) -> PassiveEndpoint:
        """See :class:`PassiveEndpoint`."""
        self._check_open()
        check_instance("info", info, Info)
        return PassiveEndpoint(self, info)

    def trywait(self, *queues: Waitable) -> bool:
        """Return whether it is time to wait for the descriptors of these queues, counters and sets: ``fi_trywait``.

        If not (FI_EAGAIN), there is an entry to be read first. Takes completions, as reading them does.
        """
        self._check_open()
        ready = [queue._may_wait() for queue in queues]  # of all: each makes its descriptor say what is there
        return all(ready)

    def domain(
        self,
        nic: int | Info = 0,
        *,
        mr_mode: MrMode | None = None,
        job_id: int | None = None,
        pid_on_fep: int | None = None,
        relative: bool | None = None,
        cswap_by_bits: bool = False,
    ) -> Domain:
        """Open a NIC, by its index or by an Info of :meth:`getinfo`: see :class:`Domain`.

        An Info says ``mr_mode``, job, process and ``relative`` where they are not given; else these are
        :data:`~amoeba.libfabric.objects.info.DEFAULT_MR_MODE`, 1, 1 and False. One with FI_PROGRESS_AUTO makes
        progress of the whole fabric automatic, as :meth:`automate` does. Raises FI_ENODEV for an unknown NIC,
        FI_EBUSY as :meth:`automate`.
        """
        self._check_open()
        if isinstance(nic, Info) and is_automatic(nic) and self._auto is None:
            self.automate()
            with self.frozen():
                return self.domain(
                    nic,
                    mr_mode=mr_mode,
                    job_id=job_id,
                    pid_on_fep=pid_on_fep,
                    relative=relative,
                    cswap_by_bits=cswap_by_bits,
                )
        if isinstance(nic, Info):
            mr_mode = registration_mode(nic.domain_attr.mr_mode) if mr_mode is None else mr_mode
            if nic.src_addr is not None:
                own = EndpointAddress.unpack(nic.src_addr)
                job_id = own.job_id if job_id is None else job_id
                pid_on_fep = own.pid_on_fep if pid_on_fep is None else pid_on_fep
                relative = own.relative if relative is None else relative
            nic = nic_index(nic)
        if type(nic) is not int:
            nic = check_number("nic", nic)
        if not 0 <= nic < len(self.nics):
            raise fabric_error(Errno.FI_ENODEV, f"the fabric has {len(self.nics)} NICs, there is no number {nic}")
        return Domain(
            self,
            self.nics[nic],
            mr_mode=DEFAULT_MR_MODE if mr_mode is None else mr_mode,
            job_id=1 if job_id is None else job_id,
            pid_on_fep=1 if pid_on_fep is None else pid_on_fep,
            relative=bool(relative),
            cswap_by_bits=cswap_by_bits,
            nodes=self.known_nics,
        )

    def advance(self) -> None:
        """Let a little time pass on simulated NICs, one network latency; nothing on real ones."""
        self._check_open()
        self.nics[0].advance()

    def settle(self) -> None:
        """Let simulated time pass until the clocks of all NICs agree; nothing on real ones.

        A register read takes time on the NIC that is asked, so after set-up their clocks differ.
        """
        self._check_open()
        network = self.network
        if network is not None:
            latest = max(device.cycles for device in self.devices)
            while network.now < latest:
                network.step()

    @property
    def _possible(self) -> tuple[Progress, ...]:
        """Return the progress models that a domain opened now can have, the default first."""
        if self._auto is not None:
            return (Progress.FI_PROGRESS_AUTO,)
        in_use = any(isinstance(child, Domain) and not child.closed for child in self._children.values())
        if in_use:
            return (Progress.FI_PROGRESS_MANUAL,)
        return Progress.FI_PROGRESS_MANUAL, Progress.FI_PROGRESS_AUTO

    def close(self) -> None:
        """Close everything, and end the thread that makes progress."""
        try:
            super().close()
        finally:
            if self._auto is not None:
                self._auto.stop()
                for nic in self.nics:
                    if nic not in self._own:  # others still use it
                        nic.on_doorbell, nic.advance = None, nic.device.advance

    def _release(self) -> None:
        network = self.network
        for nic in self._own:
            nic.close()
        if network is not None and self._own:
            network.close()

    def __repr__(self) -> str:
        names = ", ".join(nic.device.name for nic in self.nics)
        return f"<Fabric {names}{' closed' if self.closed else ''}>"
