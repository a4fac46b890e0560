"""Two NICs on a network that outlive the fabrics opened on them."""

from contextlib import ExitStack

from amoeba import Fabric, Retransmission
from amoeba.devices.addresses import ip_of, mac_of
from amoeba.devices.devices import attach, open_device
from amoeba.nic.nic import Nic
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters

SOON = Retransmission(timeout=2000, limit=2)
"""A silent peer is given up after 14,000 cycles."""


class Machines:
    """Two NICs, numbered 0 and 1."""

    def __init__(self, kind: str, parameters: NicParameters | None, stack: ExitStack) -> None:
        self.network = Network()
        options = {"host_latency": 40}
        self.devices = [stack.enter_context(open_device(kind, parameters, rtl_options=options)) for _ in range(2)]
        for number, device in enumerate(self.devices):
            attach(device, self.network, mac_of(number))

    def open(self, *numbers: int) -> Fabric:
        """A fabric of these, or of both, each initialised as a driver does it that has just started."""
        nics = [self._nic(number) for number in numbers or (0, 1)]
        return Fabric(nics, retransmission=SOON)

    def reset(self, number: int = 0) -> None:
        self.devices[number].function_reset()

    def _nic(self, number: int) -> Nic:
        nic = Nic(self.devices[number])
        nic.set_address(mac_of(number), ip_of(number))
        return nic
