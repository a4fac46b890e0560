"""Deadlock check: refuses waits that can never end."""

from amoeba_model.device import Device

from amoeba.core.errno import Errno
from amoeba.core.errors import fabric_error
from amoeba.core.waiting import alone
from amoeba.devices.devices import network_of

__all__ = ["check_deadlock"]


def check_deadlock(device: Device) -> None:
    """Raise FI_EOPBADSTATE if a wait can never end, as no other thread or process can begin an operation.

    On a network that joins processes, or one that this process does not run, a wait also lets a device serve others.
    """
    network = network_of(device)
    if network is not None and network.repeatable and alone():
        raise fabric_error(
            Errno.FI_EOPBADSTATE,
            "nothing is in flight, and nobody else is there to end the wait: "
            "begin something first, or give a timeout",
        )
