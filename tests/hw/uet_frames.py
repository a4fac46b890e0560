"""Frames for testbenches, built without the model's layouts: scapy up to UDP, then bytes typed by hand.

A frame is described by a dictionary with the fields of FRAME_HEADER, and its payload.
"""

import random
import struct

import google_crc32c
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

__all__ = [
    "MAC",
    "OWN_IP",
    "OWN_MAC",
    "beats_of",
    "frame",
    "network_bytes",
    "packets_of",
    "random_close",
    "random_control",
    "random_header",
    "random_nack",
    "random_received_response",
    "random_request",
    "random_response",
    "random_to_initiator",
    "random_to_target",
    "transport_bytes",
]

OWN_MAC = 0x02_00_00_00_00_07
OWN_IP = 0x0A_00_00_07
MAC, PEER_IP = 0x02_AB_CD_EF_01_02, 0x0A_00_FF_FE
PEERS = 128
"""Entries of the peer table of a NIC that is not said to have others."""

WITH_ATOMIC_EXTENSION = (3, 4, 0xD, 0xE, 0x30, 0x31, 0x32)
"""ATOMIC, FETCHING_ATOMIC, TSEND_ATOMIC, TSEND_FETCH_ATOMIC, AMOEBA_COMPARE_ATOMIC, AMOEBA_ATOMIC and
AMOEBA_FETCHING_ATOMIC."""


def _mac(number):
    return number.to_bytes(6, "big").hex(":")


def _ip(number):
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


def _pdc_numbers(h, received, peers):
    """``spdcid`` and ``dpdcid`` of a frame; the NIC's own one is an entry of one of its two tables."""
    first_target = 1 + peers
    if received:
        spdcid, dpdcid = h["spdcid"] + 1, h["dpdcid"] + (first_target if h["is_request"] else 1)
    else:
        asks = h["is_request"] or (h["returns"] and h["opcode"] != 2)
        spdcid, dpdcid = h["spdcid"] + (1 if asks else first_target), h["dpdcid"] + 1
        if h["is_control"] and h["spdcid"] == 0xFFFF:
            spdcid = 0
    return spdcid % (1 << 16), h["dpdcid"] if h["syn"] else dpdcid % (1 << 16)


def transport_bytes(header, payload, *, received=True, peers=PEERS):
    """PDS, SES and payload of a frame, without CRC; fields that are not given are zero."""
    h = {**_NOTHING, **header}
    spdcid, dpdcid = _pdc_numbers(h, received, peers)
    retx = 0x10 if h["retx"] else 0
    generation_and_job = h["ri_generation"] << 24 | h["job_id"]
    of_answers = retx | (0x20 if h["marked"] else 0) | (0x02 if h["wants_clear"] else 0)
    flags = (0x0C if h["syn"] else 0x08) | retx
    if h["is_control"] and h["is_request"] and h["clears"]:
        return struct.pack(">HHIHHI", 11 << 11 | 2 << 7 | retx, 0, 0, spdcid, dpdcid, h["psn"])
    if h["is_control"] and (h["is_request"] or h["asks"]):
        prologue = 11 << 11 | ((1 if h["is_request"] else 5) if h["asks"] else 4) << 7 | flags
        return struct.pack(">HHIHHI", prologue, 0, h["psn"], spdcid, dpdcid, 0)
    if h["is_control"]:
        prologue = 10 << 11 | of_answers
        return struct.pack(">HBBIHHI", prologue, h["nack_code"], h["missing"], h["psn"], spdcid, dpdcid, 0)
    if h["returns"] and h["opcode"] == 2:
        prologue = 3 << 11 | 5 << 7 | 0x08 | retx
        pds = struct.pack(">HHIHH", prologue, h["clear_psn_offset"], h["psn"], spdcid, dpdcid)
        ses = struct.pack(">BBHI", h["opcode"], h["return_code"], h["message_id"], generation_and_job)
        ses += struct.pack(">HHII", h["message_id"], len(payload), h["modified_length"], h["buffer_offset"])
        return pds + ses + payload
    if not h["is_request"]:
        with_data = h["opcode"] == 2
        prologue = (8 if h["mpr"] else 7) << 11 | {0: 4, 1: 4, 2: 5, 3: 0}[h["opcode"]] << 7 | of_answers
        offset = (h["psn"] - h["cack_psn"]) & 0xFFFF
        pds = struct.pack(">HHIHH", prologue, offset, h["cack_psn"], spdcid, dpdcid)
        if h["mpr"]:
            pds += random.randbytes(1) + bytes([h["mpr"]]) + random.randbytes(18)
        if h["opcode"] == 3:
            return pds
        ses = struct.pack(">BBHI", h["opcode"], h["return_code"], h["message_id"], generation_and_job)
        if with_data:
            ses += struct.pack(">HH", h["message_id"], len(payload))
        ses += struct.pack(">I", h["modified_length"]) + (b"\0\0\0\0" if with_data else b"")
        return pds + ses + payload
    prologue = 3 << 11 | 3 << 7 | flags
    pds = struct.pack(">HHIHH", prologue, h["clear_psn_offset"], h["psn"], spdcid, dpdcid)
    ses = struct.pack(
        ">BBHIHHQIQQI",
        h["opcode"],
        h["version"] << 6 | h["flags"],
        h["message_id"],
        generation_and_job,
        h["pid_on_fep"],
        h["resource_index"],
        h["buffer_offset"],
        h["initiator"],
        h["memory_key"],
        h["header_data"],
        h["request_length"],
    )
    if h["opcode"] in WITH_ATOMIC_EXTENSION:
        ses += bytes([h["atomic_opcode"], h["atomic_datatype"], h["semantic_control"], 0])
    return pds + ses + payload


def network_bytes(transport, source, destination, port, crc=None, padding=b"", ip=None, udp=None, ether=None):
    """The Ethernet frame around PDS, SES and payload; ``source`` and ``destination`` are (MAC, IP).

    ``ip``, ``udp`` and ``ether`` override fields by scapy's names; ``crc`` overrides the packet's CRC.
    """
    headers = (
        Ether(**{"src": _mac(source[0]), "dst": _mac(destination[0]), "type": 0x0800} | (ether or {}))
        / IP(**{"src": _ip(source[1]), "dst": _ip(destination[1]), "flags": "DF", "id": 0, "ttl": 64} | (ip or {}))
        / UDP(**{"sport": port, "dport": 4793, "chksum": 0} | (udp or {}))
    )
    packet = bytes(headers / Raw(transport + (crc or bytes(4))))
    if crc is None:
        packet = packet[:-4] + struct.pack("<I", google_crc32c.value(packet[26:-4]))
    return packet + padding


def _type_of_service(header, received, dscp):
    """The second byte of the IPv4 header: Expedited Forwarding of answers; requests are ECN-capable, or marked."""
    if not (header["is_request"] or (header["returns"] and (header["opcode"] == 2 or header["asks"]))):
        return 0xB8
    return dscp << 2 | (3 if received and header.get("marked") else 2)


def frame(header, payload, own=(OWN_MAC, OWN_IP), *, received, dscp=0, peers=PEERS, **overrides):
    """The whole frame of a FRAME_HEADER that was ``received`` by ``own``, a NIC with ``peers``, or sent by it."""
    overrides["ip"] = {"tos": _type_of_service({**_NOTHING, **header}, received, dscp)} | overrides.get("ip", {})
    ends = ((header["mac"], header["ip"]), own)
    source, destination = ends if received else ends[::-1]
    transport = transport_bytes(header, payload, received=received, peers=peers)
    return network_bytes(transport, source, destination, header["port"], **overrides)


def _addressed():
    return {
        "mac": random.getrandbits(48),
        "ip": random.getrandbits(32),
        "port": random.getrandbits(16),
        "psn": random.choice([random.getrandbits(32), 0, 0xFFFF_FFFF]),
        "spdcid": random.randrange(0xFFFF - PEERS),
        "dpdcid": random.getrandbits(16),
        "retx": random.getrandbits(1),
        "marked": random.getrandbits(1),
    }


_TO_TARGET_WIDTHS = {"clear_psn_offset": 16, "syn": 1}
_SES_WIDTHS = {"message_id": 16, "job_id": 24, "ri_generation": 8}
_REQUEST_WIDTHS = {
    "version": 2,
    "flags": 6,
    "pid_on_fep": 12,
    "resource_index": 12,
    "buffer_offset": 64,
    "initiator": 32,
    "memory_key": 64,
    "header_data": 64,
    "request_length": 32,
}
_ATOMIC_WIDTHS = {"atomic_opcode": 8, "atomic_datatype": 8, "semantic_control": 8}
_RESPONSE_WIDTHS = {"return_code": 6, "modified_length": 32}
_NACK_WIDTHS = {"nack_code": 8, "missing": 8}


def _random_fields(widths, used=True):
    return {name: random.getrandbits(width) if used else 0 for name, width in widths.items()}


_NOTHING = _random_fields(
    {
        **_TO_TARGET_WIDTHS,
        **_SES_WIDTHS,
        **_REQUEST_WIDTHS,
        **_ATOMIC_WIDTHS,
        **_RESPONSE_WIDTHS,
        **_NACK_WIDTHS,
        "is_request": 1,
        "is_control": 1,
        "opcode": 6,
        "retx": 1,
        "marked": 1,
        "returns": 1,
        "clears": 1,
        "asks": 1,
        "wants_clear": 1,
        "mpr": 8,
        "cack_psn": 32,
        "payload_length": 14,
    },
    used=False,
)
"""Every field that need not be given, or that some frame does not have: zero."""


def random_request(payload):
    opcode = random.choice([0, 1, 2, 3, 4, 5, 6, 9, 0xA, 0xD, 0xE, 0x30, 0x31, 0x32, 0x3F])
    return {
        **_NOTHING,
        **_addressed(),
        **_random_fields(_TO_TARGET_WIDTHS | _SES_WIDTHS | _REQUEST_WIDTHS),
        **_random_fields(_ATOMIC_WIDTHS, opcode in WITH_ATOMIC_EXTENSION),
        "is_request": 1,
        "opcode": opcode,
        "payload_length": len(payload),
    }


def random_response(payload):
    addressed = _addressed()
    offset = random.choice([0, 1, random.randint(0, 0x7FFF), random.randint(-0x8000, 0x7FFF), 0x7FFF, -0x8000])
    opcode = 2 if payload else random.choice([0, 1, 1, 3])
    return {
        **_NOTHING,
        **addressed,
        **_random_fields(_SES_WIDTHS | _RESPONSE_WIDTHS, opcode != 3),
        "opcode": opcode,
        "cack_psn": (addressed["psn"] - offset) % (1 << 32),
        "payload_length": len(payload),
    }


def random_return(payload):
    """A READ's data in the return direction."""
    return {
        **_NOTHING,
        **_addressed(),
        **_random_fields(_SES_WIDTHS | _RESPONSE_WIDTHS | {"clear_psn_offset": 16, "buffer_offset": 32}),
        "opcode": 2,
        "returns": 1,
        "payload_length": len(payload),
    }


def random_nack():
    return {**_NOTHING, **_addressed(), **_random_fields(_NACK_WIDTHS), "is_control": 1}


def random_close():
    return {
        **_NOTHING,
        **_addressed(),
        "clear_psn_offset": 0xFFFF,
        "syn": random.getrandbits(1),
        "is_request": 1,
        "is_control": 1,
    }


def random_control():
    """A control packet that is no CLOSE_COMMAND."""
    kind = random.choice(("clears", "asks"))
    offset = 0xFFFF if kind == "clears" else 0x8001
    return {**_NOTHING, **_addressed(), "clear_psn_offset": offset, kind: 1, "is_request": 1, "is_control": 1}


def random_close_request():
    """A CLOSE_REQUEST, which the receiver hands to the initiator."""
    return {**_NOTHING, **_addressed(), "is_control": 1, "asks": 1, "returns": 1}


def random_received_response(payload):
    """An answer as others send it: with congestion state, or a request for a CLEAR."""
    mpr = random.choice((0, 1, random.randint(1, 255)))
    return random_response(payload) | {"mpr": mpr, "wants_clear": random.getrandbits(1)}


def random_to_target(payload):
    """A request, or a CLOSE_COMMAND where there is no payload."""
    return random_request(payload) if payload or random.random() < 0.5 else random_close()


def random_to_initiator(payload):
    """An ACK, data in the return direction, or a NACK where there is no payload."""
    if payload and random.random() < 0.3:
        return random_return(payload)
    return random_response(payload) if payload or random.random() < 0.5 else random_nack()


def random_header(payload):
    return random.choice([random_to_target, random_to_initiator])(payload)


def beats_of(packet, width, error=False):
    """The :func:`packet_beat` values of a packet; what lies beyond ``count`` is random."""
    line_bytes = width // 8
    beats = []
    for at in range(0, max(len(packet), 1), line_bytes):
        part = packet[at : at + line_bytes]
        filled = part + random.randbytes(line_bytes - len(part))
        last = at + line_bytes >= len(packet)
        beats.append(
            {
                "data": int.from_bytes(filled, "little"),
                "count": len(part),
                "last": int(last),
                "error": int(error and last),
            }
        )
    return beats


def packets_of(beats, width):
    """The packets that a list of complete packets' beats holds; checks that they are packed."""
    line_bytes = width // 8
    packets, current = [], b""
    for beat in beats:
        assert beat["count"] == line_bytes or beat["last"], "only a packet's last beat may be partial"
        assert beat["count"] or not current, "an empty beat in a packet with bytes"
        current += beat["data"].to_bytes(line_bytes, "little")[: beat["count"]]
        if beat["last"]:
            packets.append(current)
            current = b""
    assert not current, "the last packet has no end"
    return packets
