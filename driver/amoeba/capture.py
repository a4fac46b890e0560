"""Simulated frames for other people's tools."""

from collections.abc import Iterable
from pathlib import Path

from amoeba_model.network import Frame

from amoeba.constants import Errno
from amoeba.errors import fabric_error

__all__ = ["write_pcapng"]


def write_pcapng(path: Path, frames: Iterable[tuple[int, Frame]], clock_hz: int) -> None:
    """Write frames with their time of departure, which counts from reset at ``clock_hz``.

    Raises FI_ENOSYS when scapy is not installed, OSError when the file cannot be written.
    """
    try:
        from scapy.layers.l2 import Ether
        from scapy.utils import PcapNgWriter
    except ImportError as error:
        raise fabric_error(Errno.FI_ENOSYS, f'pcapng needs scapy: pip install "amoeba-nic[sim]" ({error})') from error
    with PcapNgWriter(str(path)) as writer:
        for _, frame in frames:
            packet = Ether(frame.data)
            packet.time = frame.cycle / clock_hz
            writer.write(packet)
