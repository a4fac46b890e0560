"""Frames that no NIC would send: any fields, any damage, and yet the right checksums where a test wants them."""

import random
from dataclasses import dataclass, field, replace

import google_crc32c
from amoeba_model.layout import LayoutError
from amoeba_model.switch import congestion_experienced
from amoeba_model.wire.codec import FrameHeader, encode
from amoeba_model.wire.uet import (
    CRC_SIZE,
    CRC_START,
    ENCAPSULATION_SIZE,
    ETHERNET,
    IPV4,
    AtomicDatatype,
    AtomicOpcode,
    NackCode,
    RequestOpcode,
    SesFlags,
    message_place,
)

from tests.support.raw_driver import RawContext

__all__ = ["Attacker", "seal"]

_CHECKSUM, _SOURCE = ETHERNET.size + 10, ETHERNET.size + 12
_TOTAL_LENGTH = ETHERNET.size + 2
WHOLE = SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE


def seal(frame: bytes, source: int) -> bytes:
    """A frame from that IPv4 address, with the right IPv4 checksum and, if its length makes sense, the right CRC."""
    sealed = bytearray(frame)
    if len(sealed) < ENCAPSULATION_SIZE:
        return frame
    sealed[_SOURCE : _SOURCE + 4] = source.to_bytes(4, "big")
    sealed[_CHECKSUM : _CHECKSUM + 2] = bytes(2)
    total = int.from_bytes(sealed[ETHERNET.size : ETHERNET.size + IPV4.size], "big") % 0xFFFF
    sealed[_CHECKSUM : _CHECKSUM + 2] = (0xFFFF - total).to_bytes(2, "big")
    end = ETHERNET.size + int.from_bytes(sealed[_TOTAL_LENGTH : _TOTAL_LENGTH + 2], "big") - CRC_SIZE
    if ENCAPSULATION_SIZE <= end <= len(sealed) - CRC_SIZE:
        crc = google_crc32c.value(bytes(sealed[CRC_START:end]))
        sealed[end : end + CRC_SIZE] = crc.to_bytes(CRC_SIZE, "little")
    return bytes(sealed)


@dataclass
class _Pdc:
    """The packets that an attacker has sent in good order through one PDC."""

    start_psn: int = 0x7000_0000
    next_psn: int = 0x7000_0000
    sent: list[tuple[FrameHeader, bytes]] = field(default_factory=list)
    """Since it was opened."""


class Attacker:
    """Somebody on the network with a few addresses, and a key of his own or none.

    He keeps to his own IPv4 addresses: nothing protects a PDC from who can send in its initiator's name.
    """

    ADDRESSES = (0x0A00_00AA, 0x0A00_00AB, 0xFFFF_FFFE)
    MAC = 0x0200_0000_00AA

    def __init__(self, seed: int, mac: int, ip: int, context: RawContext, key: int) -> None:
        self._generator = random.Random(seed)
        self._mac, self._ip, self._context = mac, ip, context
        self._key = key
        self._first_target = context.nic.parameters.peers
        self._pdcs = {address: _Pdc() for address in self.ADDRESSES}

    def frame(self) -> bytes:
        """Any frame, which a switch may have marked."""
        frame = self._any_frame()
        return congestion_experienced(frame) if self._generator.random() < 0.2 else frame

    def _any_frame(self) -> bytes:
        """Every other is the next packet of an open PDC, some come again, the others are anything.

        A repetition is the same packet, or another one of the same psn: it gets the answer of the first one.
        """
        generator = self._generator
        source = generator.choice(self.ADDRESSES)
        kind = generator.random()
        if kind < 0.5:
            return encode(*self._next(source), self.MAC, source)
        if kind < 0.6 and self._pdcs[source].sent:
            header, payload = generator.choice(self._pdcs[source].sent[-300:])
            if generator.random() < 0.3:
                first = header
                header, payload = self._request(source)
                header = replace(header, psn=first.psn, dpdcid=first.dpdcid, spdcid=first.spdcid, syn=True)
            return encode(replace(header, retx=generator.random() < 0.7), payload, self.MAC, source)
        while True:
            try:
                frame = encode(*self._content(source), self.MAC, source)
            except LayoutError:
                continue  # fields that no frame can carry
            break
        damage = generator.randrange(2, 8)
        if damage < 4:
            return frame
        if damage == 4:
            return frame[: generator.randrange(1, len(frame))]
        if damage == 5:
            return frame + generator.randbytes(generator.choice((1, 18, 5000)))
        broken = bytearray(frame)
        for _ in range(generator.randint(1, 6)):
            place = generator.randrange(len(frame))
            broken[place] ^= 1 << generator.randrange(8)
        # Unsealed, what the CRC does not cover stays whole.
        if damage == 7:
            return frame[:CRC_START] + broken[CRC_START:]
        return seal(bytes(broken), source)

    def _next(self, source: int) -> tuple[FrameHeader, bytes]:
        """The next packet: its PDC takes it, whatever its SES header says; now and then it is a CLOSE."""
        pdc = self._pdcs[source]
        header, payload = self._request(source)
        if self._generator.random() < 0.05:
            header, payload = self._close(source)
        header = replace(
            header, psn=pdc.next_psn, dpdcid=pdc.next_psn - pdc.start_psn, spdcid=7, syn=True, clear_psn_offset=0xFFFF
        )
        pdc.next_psn += 1
        pdc.sent.append((header, payload))
        if header.is_control or pdc.next_psn - pdc.start_psn > 0xFFF:
            pdc.start_psn = pdc.next_psn
            pdc.sent.clear()
        return header, payload

    def _content(self, source: int) -> tuple[FrameHeader, bytes]:
        kinds = (
            *(self._request,) * 3, self._answer, self._data, self._nack, self._close, self._close_request,
        )  # fmt: skip
        header, payload = self._generator.choice(kinds)(source)
        if self._generator.random() < 0.3:
            header = replace(header, **{self._generator.choice(_MUTABLE): self._generator.getrandbits(16)})
        return header, payload

    def _number(self, table: int) -> int:
        """A PDC in a table of the NIC, whose entries are counted on the wire from ``table`` on; or any other."""
        return self._generator.choice((table, table, table + 1, table + 40, self._generator.getrandbits(16)))

    def _sequence(self, source: int) -> dict[str, int]:
        """Fields of the PDS header of a packet that comes before its turn, mostly too far ahead, or anything."""
        generator = self._generator
        pdc = self._pdcs[source]
        ahead = pdc.next_psn + generator.choice((generator.randint(1, 300), *(generator.randint(256, 600),) * 3))
        psn = generator.choice((ahead, generator.getrandbits(32)))
        syn = generator.random() < 0.8
        opening = generator.choice(((psn - pdc.start_psn) & 0xFFF,) * 4 + (0, 1, generator.getrandbits(12)))
        return {
            "mac": self._mac, "ip": self._ip, "port": generator.getrandbits(16), "psn": psn,
            "clear_psn_offset": generator.choice((0xFFFF, 0xFFFF, 0xFFF0, generator.getrandbits(16))),
            "spdcid": generator.choice((7, 7, 7, 0x100 | generator.getrandbits(16))),
            "syn": syn, "retx": generator.random() < 0.2,
            "dpdcid": opening if syn else self._number(self._first_target),
        }  # fmt: skip

    def _request(self, source: int) -> tuple[FrameHeader, bytes]:
        generator = self._generator
        opcode = generator.choice([1, 2, 3, 4, 4, 0x30] * 8 + [*RequestOpcode, 0x3F])
        atomic = generator.choice((*AtomicOpcode, 0x99))
        length = generator.choice((0, 1, 8, 8, 16, 32, 64, 96, 300, 4096, generator.getrandbits(32)))
        if opcode == 4 and 0xD <= atomic <= 0x13 and generator.random() < 0.9:
            length = 32
        sizes = {2: 0, 0x30: 2 * length}
        size = generator.choice((min(sizes.get(opcode, length), 4096),) * 7 + (generator.randrange(100),))
        payload = generator.randbytes(size)
        header = FrameHeader(
            **self._sequence(source),
            opcode=opcode,
            flags=generator.choice(
                (WHOLE,) * 12
                + (WHOLE | SesFlags.HEADER_DATA,) * 3
                + (WHOLE | SesFlags.RELATIVE,)
                + (generator.getrandbits(3),) * 4
                + (generator.getrandbits(6),)
            ),
            message_id=generator.choice((1, 1, generator.getrandbits(16))),
            job_id=generator.choice((self._context.job_id,) * 20 + (1,)),
            pid_on_fep=generator.choice((self._context.pid_on_fep,) * 20 + (2,)),
            resource_index=generator.choice((self._context.number,) * 20 + (generator.getrandbits(12),)),
            buffer_offset=generator.choice((0, 0, 64, generator.randrange(4096), generator.getrandbits(64))),
            initiator=generator.getrandbits(32),
            memory_key=generator.choice((self._key,) * 20 + (generator.getrandbits(64) | 1 << 63,)),
            header_data=generator.choice(
                (generator.getrandbits(64), *(message_place(size, offset) for offset in (0, size, 4096)))
            ),
            request_length=length,
            atomic_opcode=atomic,
            atomic_datatype=generator.choice((*AtomicDatatype, 0x55)),
            semantic_control=generator.choice((0, 0x80, generator.getrandbits(8))),
        )
        return header, payload

    def _answer(self, source: int) -> tuple[FrameHeader, bytes]:
        generator = self._generator
        data = generator.randbytes(generator.choice((0, 0, 8, 64, 4096)))
        sequence = self._sequence(source)
        for name in ("syn", "clear_psn_offset"):
            del sequence[name]
        header = FrameHeader(
            **{**sequence, "dpdcid": self._number(0)},
            is_request=False,
            cack_psn=(sequence["psn"] - generator.choice((0, 1, 5, 0x7FFF))) & 0xFFFF_FFFF,
            opcode=2 if data else generator.choice((0, 1, 1, 3)),
            return_code=generator.getrandbits(6),
            modified_length=generator.getrandbits(32),
            marked=generator.random() < 0.2,
        )
        return header, data

    def _data(self, source: int) -> tuple[FrameHeader, bytes]:
        """Data of a READ in the return direction, whole or not."""
        generator = self._generator
        header, data = self._answer(source)
        length = generator.choice((len(data), len(data), generator.getrandbits(32)))
        place = generator.choice((0, 0, generator.getrandbits(32)))
        return replace(
            header, returns=True, opcode=2, buffer_offset=place, modified_length=length, marked=False,
            message_id=generator.getrandbits(4),
        ), data  # fmt: skip

    def _nack(self, source: int) -> tuple[FrameHeader, bytes]:
        generator = self._generator
        sequence = self._sequence(source)
        header = FrameHeader(
            mac=self._mac, ip=self._ip, is_request=False, is_control=True, psn=sequence["psn"],
            nack_code=generator.choice((*NackCode, generator.getrandbits(8))), retx=sequence["retx"] > 0,
            missing=generator.choice((0, 0, 1, 2, generator.getrandbits(8))),
            spdcid=sequence["spdcid"], dpdcid=self._number(0),
            marked=generator.random() < 0.2,
        )  # fmt: skip
        return header, b""

    def _close(self, source: int) -> tuple[FrameHeader, bytes]:
        return FrameHeader(is_control=True, **self._sequence(source)), b""

    def _close_request(self, source: int) -> tuple[FrameHeader, bytes]:
        header, _ = self._nack(source)
        return replace(header, returns=True, asks=True, marked=False, nack_code=0, missing=0), b""


_MUTABLE = (
    "psn", "clear_psn_offset", "spdcid", "dpdcid", "version", "flags", "message_id", "job_id", "request_length",
    "return_code", "modified_length", "resource_index", "pid_on_fep", "opcode", "header_data",
)  # fmt: skip

