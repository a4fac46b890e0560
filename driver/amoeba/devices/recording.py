"""Model NICs that remember what their driver does."""

from amoeba_model.network import Network
from amoeba_model.nic.device import ModelDevice
from amoeba_model.parameters import NicParameters

__all__ = ["RecordingDevice"]


class RecordingDevice(ModelDevice):
    """A model NIC, alone on a network, that remembers its driver's register writes and grants of memory.

    Parameters
    ----------
    parameters : NicParameters
    mac : bytes
        Its address on the network.
    """

    def __init__(self, parameters: NicParameters, mac: bytes) -> None:
        super().__init__(parameters)
        self.writes: list[tuple[int, int]] = []
        """(BAR offset, value), in order."""
        self.granted: list[range] = []
        """Addresses that the NIC may access, or could."""
        Network().attach(self, mac)

    def write(self, offset: int, value: int) -> None:
        self.writes.append((offset, value))
        super().write(offset, value)

    def grant(
        self,
        iova: int,
        length: int,
        *,
        writable: bool = True,
        host_address: int | None = None,
        context: int | None = None,
    ) -> None:
        self.granted.append(range(iova, iova + length))
        super().grant(iova, length, writable=writable, host_address=host_address, context=context)
