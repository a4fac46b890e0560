"""Attackers of honest work: somebody on the network, and a context next door. Each acts by a seed.

They keep to what docs/security.md says that they can do, and nobody can: whoever has seen a packet that is in flight
can forge its answer, so nobody here does; but all that was seen is sent again, and what is forged is guessed.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

from amoeba_model.descriptors import DescriptorFlags
from amoeba_model.network import Network
from amoeba_model.wire.codec import DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import NackCode, RequestOpcode

from tests.support.frame_fuzz import WHOLE, Attacker
from tests.support.honest_work import TENANT, Host
from tests.support.raw_driver import Buffer
from tests.support.scripted import ScriptedDevice

__all__ = ["ARENA", "OUTSIDER_KEY", "TENANT_ENTRY", "Outsider", "meddle"]

ARENA = 8192
OUTSIDER_KEY = 0x7777_0000_0001
"""Of a region at every NIC that is there for whoever means harm."""
TENANT_ENTRY = 7
"""Of each NIC's peers; honest flows have those before."""
_INLINE = DescriptorFlags.COMPLETION | DescriptorFlags.INLINE
_RECENT = 400
"""Frames of those seen that come again more often than older ones."""


class Outsider:
    """A station on the network that sees all frames and sends any, under whatever name."""

    def __init__(self, network: Network, seed: int, hosts: Sequence[Host]) -> None:
        self._network, self._hosts = network, hosts
        self._device = ScriptedDevice("outsider")
        network.attach(self._device, Attacker.MAC.to_bytes(6, "big"))
        network.recording = True
        self._attackers = [Attacker(seed, host.mac, host.ip, host.contexts[0], OUTSIDER_KEY) for host in hosts]
        self._closed: dict[tuple[int, int, int], int] = {}
        """By (MAC address, sender's IP address, sender's PDC) of honest PDCs, the psn of the last CLOSE seen."""
        self._looked_at = 0

    def act(self, kind: str, host: Host, generator: random.Random) -> None:
        """Send some frames to a NIC: "spray", "flood", "spoof", "replay" or "garbage"."""
        count = {"flood": 100, "spray": generator.randint(1, 12)}.get(kind, generator.randint(1, 15))
        make = getattr(self, f"_{kind}")
        for _ in range(count):
            frame = make(host, generator)
            if frame:
                self._device.send(frame)

    def _spray(self, host: Host, generator: random.Random) -> bytes:
        """Frames of every kind, under names of its own."""
        return self._attackers[self._hosts.index(host)].frame()

    def _flood(self, host: Host, generator: random.Random) -> bytes:
        """SYNs under any name, without a key."""
        source = 0x0B00_0000 | generator.getrandbits(16)
        return encode(self._first_packet(host, generator, generator.getrandbits(16)), b"", Attacker.MAC, source)

    def _first_packet(self, host: Host, generator: random.Random, spdcid: int) -> FrameHeader:
        context = generator.choice(host.contexts)
        return FrameHeader(
            mac=host.mac, ip=host.ip, port=1, psn=generator.getrandbits(32), clear_psn_offset=0xFFFF, spdcid=spdcid,
            syn=True, dpdcid=0, opcode=RequestOpcode.WRITE, flags=WHOLE, job_id=context.job_id,
            pid_on_fep=context.pid_on_fep, resource_index=context.number,
            memory_key=generator.getrandbits(64) | 1 << 63,
        )  # fmt: skip

    def _spoof(self, host: Host, generator: random.Random) -> bytes:
        """In the name of somebody honest, for a PDC in use, with psn, or message and job, guessed."""
        other = generator.choice([each for each in self._hosts if each is not host])
        number = generator.randrange(8)
        header = self._first_packet(host, generator, number)
        target_pdc = host.parameters.peers + generator.randrange(8)
        match generator.randrange(5):
            case 0:
                pass
            case 1:
                header = replace(header, syn=False, dpdcid=target_pdc)
            case 2:
                place = {"syn": True} if generator.random() < 0.5 else {"dpdcid": target_pdc}
                header = FrameHeader(mac=host.mac, ip=host.ip, port=1, psn=header.psn, clear_psn_offset=0xFFFF,
                                     spdcid=number, is_control=True, **place)  # fmt: skip
            case 3:
                header = FrameHeader(
                    mac=host.mac, ip=host.ip, is_request=False, is_control=True, psn=header.psn, dpdcid=number,
                    spdcid=target_pdc, nack_code=generator.choice((*NackCode, generator.getrandbits(8))),
                )  # fmt: skip
            case _:
                asked = self._last_request(host, other)
                psn, pdc = (header.psn, number) if asked is None else (asked.psn, asked.spdcid)
                header = FrameHeader(
                    mac=host.mac, ip=host.ip, is_request=False, psn=psn, cack_psn=psn, dpdcid=pdc,
                    spdcid=target_pdc, opcode=1, return_code=1, job_id=header.job_id ^ 0x5A5A,
                    message_id=generator.getrandbits(16),
                )  # fmt: skip
        return encode(header, b"", other.mac, other.ip)

    def _last_request(self, sender: Host, target: Host) -> FrameHeader | None:
        """Of one NIC to another, if one was sent of late."""
        for _, frame in reversed(self._network.log[-50:]):
            decoded = decode(frame.data) if frame.data[:6] == _mac(target) else None
            if isinstance(decoded, DecodedFrame) and decoded.header.is_request and decoded.header.ip == sender.ip:
                return decoded.header
        return None

    def _replay(self, host: Host, generator: random.Random) -> bytes:
        """A packet that was seen on its way to the NIC, mostly a recent one; none of a closed connection."""
        seen = [frame.data for _, frame in self._network.log if frame.data[:6] == _mac(host)]
        if not seen:
            return b""
        frame = generator.choice(seen[-_RECENT:] if generator.random() < 0.7 else seen)
        return b"" if self._is_of_a_closed_connection(frame) else frame

    def _is_of_a_closed_connection(self, frame: bytes) -> bool:
        """The packet may be executed again once its PDC's place is another's: row 5 of docs/security.md, open."""
        for device, seen in self._network.log[self._looked_at :]:
            decoded = decode(seen.data)
            if device is not self._device and isinstance(decoded, DecodedFrame):
                header = decoded.header
                if header.is_request and header.is_control:
                    self._closed[_name(header, seen.data)] = header.psn
        self._looked_at = len(self._network.log)
        decoded = decode(frame)
        if not isinstance(decoded, DecodedFrame) or not decoded.header.is_request or not decoded.header.syn:
            return False
        return decoded.header.psn <= self._closed.get(_name(decoded.header, frame), -1)

    def _garbage(self, host: Host, generator: random.Random) -> bytes:
        """Bytes for its address, or what was seen with bits turned."""
        seen = bytearray(self._replay(host, generator))
        if len(seen) < 60 or generator.random() < 0.3:
            return _mac(host) + generator.randbytes(generator.randrange(0, 300))
        for _ in range(generator.randint(1, 3)):
            seen[generator.randrange(42, len(seen))] ^= 1 << generator.randrange(8)
        return bytes(seen[: generator.choice((len(seen), generator.randrange(20, len(seen))))])


def _name(header: FrameHeader, frame: bytes) -> tuple[int, int, int]:
    return int.from_bytes(frame[:6], "big"), header.ip, header.spdcid


def _mac(host: Host) -> bytes:
    return host.mac.to_bytes(6, "big")


def meddle(host: Host, own: Buffer, others: Sequence[Buffer], far: int, generator: random.Random) -> None:
    """Let the hostile context of a NIC tell it something: descriptors that name others' memory, absurd doorbells.

    ``own``: its buffer; ``others``: memory of the NIC's that it was not granted; ``far``: address of a region that it
    has the key of.
    """
    tenant = host.contexts[TENANT]

    def somewhere() -> int:
        victim = generator.choice(others)
        return generator.choice(
            (own.address + generator.randrange(64), victim.address + generator.randrange(victim.size),
             victim.address, generator.getrandbits(63) | 1 << 63)
        )  # fmt: skip

    if generator.random() < 0.15:
        register = generator.choice(("transmit_tail", "completion_head", "arm", "event_head", "slot_release"))
        tenant.doorbell(register, generator.getrandbits(generator.choice((4, 6))))
        return
    for _ in range(generator.randint(1, 4)):
        tenant.post(
            opcode=generator.choice((1, 1, 2, 2, 3, 4, 5, 6, 7, generator.getrandbits(8))),
            op=generator.randrange(22), datatype=generator.randrange(22),
            flags=generator.choice((1, 1, 3, generator.getrandbits(6))),
            length=generator.choice((0, 8, 16, 64, 300, 4096, generator.randrange(9000))),
            peer=generator.choice((TENANT_ENTRY,) * 6 + (generator.randrange(8), generator.getrandbits(16))),
            remote_key=generator.choice((OUTSIDER_KEY, OUTSIDER_KEY, generator.getrandbits(64))),
            remote_address=generator.choice((far, far + generator.randrange(-64, ARENA), somewhere())),
            local=somewhere(), compare=somewhere(), result=somewhere(),
            counter=generator.choice((0, 0, generator.getrandbits(8))),
        )  # fmt: skip
