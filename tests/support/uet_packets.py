"""Packets of an independent UET endpoint, which shares no code with the NIC's codec and knows public text alone.

All layouts and numbers are typed by hand from the UEC reference provider's public files. The endpoint is as strict as
that provider: an answer that breaks a rule ends its operation with EndpointError.
"""

import struct
from dataclasses import dataclass

from amoeba_model.network import Network

from tests.support.scripted import ScriptedDevice
from tests.support.uet_dissector import crc32c

__all__ = [
    "ACK",
    "ACK_CC",
    "ACK_REQUEST",
    "ACK_REQUEST_COMMAND",
    "ATOMIC",
    "CLEAR_COMMAND",
    "CLOSE_COMMAND",
    "CLOSE_REQUEST",
    "CONTROL",
    "CSWAP",
    "CSWAP_LENGTH",
    "DEFAULT",
    "END",
    "FETCHING_ATOMIC",
    "HEADER_DATA",
    "LOST",
    "MAX_ACK_DATA",
    "MPR_UNIT",
    "MSG_ERROR",
    "NACK",
    "NO_HEADER",
    "NO_MATCH",
    "NO_PDC",
    "NO_SPACE",
    "OP_VIOLATION",
    "PLAIN",
    "PSNS",
    "PSN_OUT_OF_WINDOW",
    "RC_NULL",
    "RC_OK",
    "READ",
    "REQUEST_CLEAR",
    "RESPONSE",
    "RESPONSE_DATA",
    "RETX",
    "ROD_OUT_OF_ORDER",
    "ROD_REQUEST",
    "SEND",
    "STANDARD_REQUEST",
    "START",
    "SUM",
    "SYN",
    "TAGGED_SEND",
    "UINT64",
    "WINDOW",
    "WITH_DATA",
    "WRITE",
    "Address",
    "Answer",
    "EndpointError",
    "Packet",
    "Request",
    "Station",
    "answer_of",
    "prologue",
    "request_of",
]

ROD_REQUEST, ACK, ACK_CC, NACK, CONTROL = 3, 7, 8, 10, 11
NO_HEADER, STANDARD_REQUEST, RESPONSE, RESPONSE_DATA = 0, 3, 4, 5
ACK_REQUEST_COMMAND, CLEAR_COMMAND, CLOSE_COMMAND, CLOSE_REQUEST = 1, 2, 4, 5
RETX, ACK_REQUEST, SYN = 0x10, 0x08, 0x04
REQUEST_CLEAR = 0x02
"""Flag of an ACK: the sender of the request is to clear the answers that the target keeps."""
WRITE, READ, ATOMIC, FETCHING_ATOMIC, SEND, TAGGED_SEND, MSG_ERROR = 1, 2, 3, 4, 5, 9, 15
DEFAULT, PLAIN, WITH_DATA = 0, 1, 2
RC_NULL, RC_OK, NO_MATCH, OP_VIOLATION = 0, 1, 5, 0x18
START, END, HEADER_DATA = 1, 2, 4
SUM, CSWAP, UINT64 = 2, 0x0D, 7
PSN_OUT_OF_WINDOW, ROD_OUT_OF_ORDER = 0x0B, 0x0D
LOST, NO_PDC, NO_SPACE = (0x01, 0x02, 0x12, 0x14, 0x1A), (0x04, 0x05, 0x06), (0x07, 0x08, 0x09, 0x0A, 0x0B)
"""NACK codes after which a packet is sent again: at once, or later."""
WINDOW, MPR_UNIT = 128, 128
MAX_ACK_DATA = 16
CSWAP_LENGTH = 32
PSNS = 1 << 32


class EndpointError(Exception):
    """The other endpoint broke a rule, or did not answer."""


@dataclass(frozen=True)
class Address:
    """Where an endpoint is: its station, and its context there."""

    mac: int
    ip: int
    job: int = 0
    pid: int = 0
    index: int = 0


@dataclass(frozen=True)
class Packet:
    """One PDS packet, without its CRC, and what carried it."""

    mac: int
    ip: int
    tos: int
    data: bytes

    @property
    def prologue(self) -> tuple[int, int, int]:
        """PDS type, next header (of a control packet its type), flags."""
        (number,) = struct.unpack(">H", self.data[:2])
        return number >> 11, number >> 7 & 15, number & 0x7F


def prologue(kind: int, following: int, flags: int) -> bytes:
    return struct.pack(">H", kind << 11 | following << 7 | flags)


def _checksum(header: bytes) -> int:
    return 0xFFFF ^ (sum(struct.unpack(">10H", header)) % 0xFFFF or 0xFFFF)


class Station:
    """An Ethernet station on a simulated network that sends and receives UET in UDP over IPv4."""

    def __init__(self, network: Network, number: int = 0xEE) -> None:
        self.network = network
        self.mac, self.ip = 0x0200_0000_0000 | number, 0x0A00_0000 | number
        self._device = ScriptedDevice("endpoint")
        self._seen = 0
        self.frames = 0
        """Frames that were sent and received."""
        self.lost: set[int] = set()
        """Numbers of those that are lost."""
        network.attach(self._device, self.mac.to_bytes(6, "big"))

    def frame(self, to: Address, packet: bytes, *, tos: int = 0) -> bytes:
        """Make a whole frame of one PDS packet."""
        size = len(packet) + 12  # UDP's header and the CRC
        addresses = struct.pack(">II", self.ip, to.ip)
        head = struct.pack(">BBHHHBB", 0x45, tos, size + 20, 0, 0x4000, 64, 17)
        checksum = struct.pack(">H", _checksum(head + bytes(2) + addresses))
        covered = addresses + struct.pack(">4H", 0xC0DE, 4793, size, 0) + packet
        macs = to.mac.to_bytes(6, "big") + self.mac.to_bytes(6, "big")
        return macs + b"\x08\x00" + head + checksum + covered + struct.pack("<I", crc32c(covered))

    def send(self, to: Address, packet: bytes, *, tos: int = 0) -> None:
        self.send_frame(self.frame(to, packet, tos=tos))

    def send_frame(self, frame: bytes) -> None:
        if self._passes():
            self._device.send(frame)

    def _passes(self) -> bool:
        self.frames += 1
        return self.frames - 1 not in self.lost

    def arrived(self) -> list[Packet]:
        """Packets that have come since the last call."""
        frames = self._device.frames[self._seen :]
        self._seen += len(frames)
        return [self._open(frame) for frame in frames if self._passes()]

    def _open(self, frame: bytes) -> Packet:
        (length,) = struct.unpack(">H", frame[16:18])
        end = 14 + length
        if struct.unpack("<I", frame[end - 4 : end])[0] != crc32c(frame[26 : end - 4]):
            raise EndpointError("the CRC of a packet is wrong")
        mac, (ip,) = int.from_bytes(frame[6:12], "big"), struct.unpack(">I", frame[26:30])
        return Packet(mac, ip, frame[15], frame[42 : end - 4])

    def step(self) -> None:
        self.network.step()


@dataclass(frozen=True)
class Request:
    """A SES standard request, as it came."""

    psn: int
    spdcid: int
    syn: bool
    retx: bool
    clear_psn: int
    opcode: int
    flags: int
    message: int
    job: int
    offset: int
    key: int
    field: int
    length: int
    rest: bytes
    """Bytes behind the header: extension and payload."""
    generation: int


def request_of(packet: Packet) -> Request:
    """Return the fields of a ROD request."""
    data = packet.data
    _, _, flags = packet.prologue
    clear, psn, spdcid, _ = struct.unpack(">hIHH", data[2:12])
    opcode, ses_flags, message, job, _, _ = struct.unpack(">BBHIHH", data[12:24])
    offset, _, key, header_field, length = struct.unpack(">QIQQI", data[24:56])
    return Request(
        psn, spdcid, bool(flags & SYN), bool(flags & RETX), (psn + clear) % PSNS, opcode, ses_flags, message,
        job & 0xFF_FFFF, offset, key, header_field, length, data[56:], job >> 24,
    )  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """Fields of an ACK or a NACK about one packet."""

    tos: int
    flags: int
    psn: int
    spdcid: int
    nack: int = 0
    opcode: int = DEFAULT
    code: int = RC_OK
    message: int = 0
    modified: int = 0
    data: bytes = b""
    bare: bool = False
    """An ACK without a response."""


def answer_of(packet: Packet) -> Answer:
    kind, following, flags = packet.prologue
    data = packet.data
    if kind == NACK:
        code, _, psn, spdcid, _, _ = struct.unpack(">BBIHHI", data[2:16])
        return Answer(packet.tos, flags, psn, spdcid, nack=code)
    if kind != ACK:
        raise EndpointError(f"expected an answer, got a packet of PDS type {kind}")
    offset, cack, spdcid, _ = struct.unpack(">hIHH", data[2:12])
    psn = (cack + offset) % PSNS
    if following == NO_HEADER:
        return Answer(packet.tos, flags, psn, spdcid, bare=True)
    opcode, code, message = struct.unpack(">BBH", data[12:16])
    if following == RESPONSE:
        if len(data) != 24:
            raise EndpointError(f"expected an answer without data, and {len(data) - 24} bytes follow")
        (modified,) = struct.unpack(">I", data[20:24])
        return Answer(packet.tos, flags, psn, spdcid, 0, opcode & 63, code & 63, message, modified)
    _, size, modified, _ = struct.unpack(">HHII", data[20:32])
    if size & 0x3FFF != len(data) - 32:
        raise EndpointError(f"payload_length is {size}, and {len(data) - 32} bytes follow")
    return Answer(packet.tos, flags, psn, spdcid, 0, opcode & 63, code & 63, message, modified, data[32:])
