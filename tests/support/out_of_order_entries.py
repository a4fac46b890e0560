"""Packets that a target keeps because they came early are counted when they are executed or thrown away."""

from amoeba_model.network import Network, SimulatedDevice
from amoeba_model.wire.codec import FrameHeader, encode
from amoeba_model.wire.uet import RequestOpcode

from tests.support.raw_driver import RawNic
from tests.support.stranger import WHOLE

__all__ = ["throw_away_kept"]

_MAC, _IP = 0x0200_0000_00EE, 0x0A00_00EE
_TIMEOUT = 1_000
"""Cycles: longer than all frames take that are sent at once."""


def throw_away_kept(nic: RawNic, network: Network) -> int:
    """Let a NIC where nothing is in flight throw away whatever it keeps; how many frames were sent to it for that.

    Somebody new takes all slots, once what is in them is late, and closes his PDC.
    """
    device, slots = nic.device, nic.parameters.out_of_order_entries
    assert isinstance(device, SimulatedDevice)
    nic.set("device", retransmit_timeout=_TIMEOUT)
    until = device.cycles + 3 * _TIMEOUT
    while device.cycles < until:
        network.step()
    numbers = [0, *range(2, 2 + slots), 1]
    for number in numbers:
        header = FrameHeader(
            mac=nic.mac, ip=nic.ip, port=1, psn=number, clear_psn_offset=0xFFFF, spdcid=1, syn=True, dpdcid=number,
            is_control=number == 1, opcode=RequestOpcode.NO_OP.value, flags=WHOLE,
        )  # fmt: skip
        if header.is_control:
            header.opcode = header.flags = 0
        device.deliver(encode(header, b"", _MAC, _IP), 0)
    for _ in range(10):
        network.step()
    return len(numbers)
