"""A process at the other end of a UDP link, and what its end means for the NICs of this one."""

from dataclasses import dataclass, field

from amoeba_model.wire.codec import NO_PDC, DecodedFrame, FrameHeader, decode, encode
from amoeba_model.wire.uet import ENCAPSULATION_SIZE, NackCode, PdsType

__all__ = ["RemoteProcess"]

_TYPES = frozenset({PdsType.ROD_REQ.value, PdsType.CONTROL.value})
_NUMBER = slice(ENCAPSULATION_SIZE + 8, ENCAPSULATION_SIZE + 10)
"""``spdcid`` of both."""
_SENDER = slice(6, 12)
"""Of an Ethernet header: the source's address."""
_IP_DESTINATION = slice(30, 34)


@dataclass(eq=False)
class RemoteProcess:
    """What is known of a process by what it sends."""

    address: tuple[str, int]
    incarnation: int | None = None
    """The number of the process in its datagrams; None: nothing has been heard of it."""
    former: set[int] = field(default_factory=set)
    """Numbers of processes that had the address before."""
    unanswered_probes: int = 0
    """Since it was heard of last."""
    _requests: dict[bytes, bytes] = field(default_factory=dict)
    """The last frame that asks for an answer, by packet delivery context."""

    def sends(self, frame: bytes) -> None:
        """A frame goes to the process."""
        if len(frame) > ENCAPSULATION_SIZE and frame[ENCAPSULATION_SIZE] >> 3 in _TYPES:
            self._requests[frame[:6] + frame[_SENDER] + frame[_NUMBER]] = frame

    def refusals(self, *, replaced: bool = False) -> list[tuple[bytes, bytes]]:
        """What the NICs of the process would have to say now that it is gone: NACKs, each with whom it is for.

        One for every packet delivery context; those that wait for nothing ignore it. ``replaced``: another process
        has its place. Contexts that nobody has answered in yet are this one's then, for all that can be said.
        """
        requests, self._requests = self._requests, {}
        if replaced:
            self._requests = {key: frame for key, frame in requests.items() if _opens(frame)}
        return [(frame[_SENDER], _refusal(frame)) for key, frame in requests.items() if key not in self._requests]


def _opens(frame: bytes) -> bool:
    """Whether a request is of a packet delivery context without any answer so far."""
    decoded = decode(frame)
    return isinstance(decoded, DecodedFrame) and decoded.header.syn


def _refusal(frame: bytes) -> bytes:
    """The NACK that gives up the packet delivery context of a request; a damaged one is refused as it stands."""
    decoded = decode(frame)
    if not isinstance(decoded, DecodedFrame):
        return frame
    request = decoded.header
    nack = FrameHeader(
        mac=request.mac,
        ip=request.ip,
        port=request.port,
        is_request=False,
        is_control=True,
        nack_code=NackCode.CLOSING_IN_ERR.value,
        psn=request.psn,
        spdcid=NO_PDC,
        dpdcid=request.spdcid,
    )
    own_mac, own_ip = (int.from_bytes(part, "big") for part in (frame[:6], frame[_IP_DESTINATION]))
    return encode(nack, b"", own_mac, own_ip)
