"""Starting and stopping a context of the NIC with the rings of an endpoint."""

from amoeba.fabric.constants import Caps
from amoeba.fabric.endpoints.receiver import Receiver
from amoeba.fabric.queues.counters import Counters
from amoeba.nic.address import EndpointAddress
from amoeba.nic.context_table import ContextSettings
from amoeba.transport.protection_domain import ProtectionDomain
from amoeba.transport.rings import ContextRings

__all__ = ["address_of_context", "start_context"]


def address_of_context(domain: ProtectionDomain, context: int) -> EndpointAddress:
    """By which peers reach a context that was taken from the domain's NIC."""
    return domain.address_of(context)


def start_context(
    domain: ProtectionDomain,
    context: int,
    rings: ContextRings | None,
    receiver: Receiver | None = None,
    counters: Counters | None = None,
) -> None:
    """Start a context that was taken from the domain's NIC.

    Without ``rings`` nothing can be posted. ``receiver`` has been started before: without its event ring peers cannot
    send immediate data, without its receive ring, or a shared one, no messages. ``counters`` count what peers do.
    """
    nic = domain.nic
    ring = None if receiver is None else receiver.ring
    receives = None if receiver is None else receiver.receives
    nic.contexts.enable(
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
            event_base=0 if ring is None else ring.base,
            event_size=0 if ring is None else ring.size_log2,
            receive_base=0 if receives is None else receives.base,
            receive_size=0 if receives is None else receives.size_log2,
            unexpected_base=0 if receives is None else receives.unexpected_base,
            receive_context=None if receiver is None else receiver.receive_context,
            read_counter=0 if counters is None else counters.number(Caps.FI_REMOTE_READ),
            write_counter=0 if counters is None else counters.number(Caps.FI_REMOTE_WRITE),
            data_by_key=receiver is not None and receiver.queue is None,
        ),
    )
