"""The independent UET endpoint on a socket of the kernel: the bytes that a UDP peer exchanges with the NIC."""

import socket
import struct

from amoeba_model.network import Network

from tests.support.uet_dissector import crc32c
from tests.support.uet_packets import Address, EndpointError, Packet

__all__ = ["DatagramStation"]

_PORT = 4793


class DatagramStation:
    """Stands for ``uet_packets.Station`` on a host address; ``network`` is the NIC's, and runs in :meth:`step`."""

    def __init__(self, network: Network, host: str) -> None:
        self.network = network
        self.host = host
        self.mac, self.ip = 0, int.from_bytes(socket.inet_aton(host), "big")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, _PORT))
        self.socket.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS

    def datagram(self, to: Address, packet: bytes) -> bytes:
        """Make the UDP payload of one PDS packet: CRC-32C over both addresses, UDP's header and the packet."""
        covered = struct.pack(">II4H", self.ip, to.ip, _PORT, _PORT, len(packet) + 12, 0) + packet
        return packet + struct.pack("<I", crc32c(covered))

    def send(self, to: Address, packet: bytes, *, tos: int = 0) -> None:
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        self.socket.sendto(self.datagram(to, packet), (socket.inet_ntoa(to.ip.to_bytes(4, "big")), _PORT))

    def arrived(self) -> list[Packet]:
        """Packets that have come since the last call."""
        found = []
        while True:
            try:
                data, told, _, sender = self.socket.recvmsg(65535, 64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            found.append(self._open(data, sender, told[0][2][0]))

    def _open(self, data: bytes, sender: tuple[str, int], tos: int) -> Packet:
        (ip,) = struct.unpack(">I", socket.inet_aton(sender[0]))
        covered = struct.pack(">II4H", ip, self.ip, sender[1], _PORT, len(data) + 8, 0) + data[:-4]
        if struct.unpack("<I", data[-4:])[0] != crc32c(covered):
            raise EndpointError("the CRC of a datagram is wrong")
        return Packet(0, ip, tos, data[:-4])

    def step(self) -> None:
        self.network.step(at_once=True)

    def close(self) -> None:
        self.socket.close()
