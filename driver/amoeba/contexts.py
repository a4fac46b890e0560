"""Starting and stopping a context of the NIC with the rings of an endpoint."""

from typing import TYPE_CHECKING

from amoeba.address import EndpointAddress
from amoeba.events import EventRing
from amoeba.nic import ContextSettings
from amoeba.rings import ContextRings

if TYPE_CHECKING:
    from amoeba.domain import Domain

__all__ = ["start_context"]


def start_context(
    domain: "Domain", context: int, rings: ContextRings | None, events: EventRing | None
) -> EndpointAddress:
    """Start a context that was taken from the domain's NIC; returns the address by which peers reach it.

    Without ``rings`` nothing can be posted, without ``events`` peers cannot send immediate data.
    """
    nic = domain.nic
    nic.enable_context(
        context,
        ContextSettings(
            transmit_base=0 if rings is None else rings.transmit_base,
            transmit_size=0 if rings is None else rings.size_log2,
            completion_base=0 if rings is None else rings.completion_base,
            completion_size=0 if rings is None else rings.size_log2,
            domain=domain.number,
            job_id=domain.job_id,
            pid_on_fep=domain.pid_on_fep,
            cswap_by_bits=domain.cswap_by_bits,
            event_base=0 if events is None else events.base,
            event_size=0 if events is None else events.size_log2,
        ),
    )
    return EndpointAddress(nic.mac, nic.ip, domain.job_id, domain.pid_on_fep, context)
