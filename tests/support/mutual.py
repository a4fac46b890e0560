"""Two NICs that ask each other for as much as their windows let them, over links that push back."""

from amoeba_model.descriptors import DescriptorOpcode
from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.parameters import NicParameters
from amoeba_model.registers import Counter
from amoeba_model.switch import Switch
from amoeba_model.wire.uet import ReturnCode

from tests.support.devices import DEVICES
from tests.support.raw_driver import Buffer, RawContext, RawNic

__all__ = ["Mutual"]

KEY = 0x5151_0000_1515
RING = 5


class Side:
    """One NIC with a context, several PDCs of it to the other side's, and memory to be asked for."""

    def __init__(self, number: int, kind: str, network: Network, parameters: NicParameters, size: int) -> None:
        mac = 0x0200_0000_0000 | number
        device = DEVICES[kind](parameters)
        network.attach(device, mac.to_bytes(6, "big"))
        self.nic = RawNic(device, mac, 0x0A00_0000 | number, parameters)
        self.nic.answer_memory()
        self.context: RawContext = self.nic.context(transmit_size=RING, completion_size=RING)
        self.memory = self.nic.buffer(size)
        self.memory[0] = bytes((number * 37 + at * 11 + (at >> 8)) & 0xFF for at in range(size))
        self.local: list[Buffer] = []
        self.size = size
        self.nic.key(KEY, self.memory.address, size)

    @property
    def device(self) -> SimulatedDevice:
        device = self.nic.device
        assert isinstance(device, SimulatedDevice)
        return device


class Mutual:
    """Both sides, and what they have asked of each other.

    Parameters
    ----------
    kinds : tuple of str
        A device each.
    pdcs : int
        Of each side to the other.
    size : int
        Bytes of each side's memory, and of each request.
    """

    def __init__(
        self,
        kinds: tuple[str, str],
        switch: Switch | None,
        *,
        pdcs: int,
        size: int,
        parameters: NicParameters | None = None,
        timeout: int = 20_000,
    ) -> None:
        parameters = parameters or NicParameters()
        self.network = Network(switch=switch)
        self.sides = [Side(number, kind, self.network, parameters, size) for number, kind in enumerate(kinds, 1)]
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            side.nic.set("device", retransmit_timeout=timeout, retransmit_limit=40)
            for peer in range(pdcs):
                side.nic.peer(peer, other.context, initial_psn=0x1000 + 0x100000 * peer)
            side.nic.settle()
        self.pdcs = pdcs

    def read_all(self) -> None:
        """Each side reads all of the other's memory by each PDC, all at once."""
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            for peer in range(self.pdcs):
                side.local.append(side.nic.buffer(side.size))
                side.context.put(
                    opcode=DescriptorOpcode.READ, flags=1, peer=peer, length=side.size, context=peer,
                    result=side.local[-1].address, remote_address=other.memory.address, remote_key=KEY,
                )  # fmt: skip
            side.context.ring()

    def wait(self, patience: int) -> int:
        """Let time pass until all has completed with OK; the cycle at which it had.

        Raises AssertionError when nothing has completed, and no frame has arrived, for that many steps.
        """
        left, quiet, delivered = 2 * self.pdcs, 0, 0
        while left:
            self.network.step()
            quiet += 1
            for side in self.sides:
                while (entry := side.context.poll()) is not None:
                    assert entry["status"] == ReturnCode.OK, entry
                    left, quiet = left - 1, 0
            if self.network.traffic.delivered != delivered:
                delivered, quiet = self.network.traffic.delivered, 0
            assert quiet < patience, (
                f"nothing has moved for {patience} steps, {left} requests of {2 * self.pdcs} are left: "
                f"{self.network.traffic}, {self.network.in_flight} frames wait"
            )
        for side, other in zip(self.sides, reversed(self.sides), strict=True):
            for local in side.local:
                assert local[:] == other.memory[:]
        return self.network.now

    def counter(self, counter: Counter) -> int:
        """Of both sides."""
        return sum(side.nic.counter(counter) for side in self.sides)

    def close(self) -> None:
        for side in self.sides:
            side.device.close()
