"""A dissector of UET frames that shares nothing with the project: positions and numbers typed by hand.

From the UEC's reference provider and xdp2's headers, for what Amoeba sends; anything else is an error that says so.
"""

import struct

__all__ = ["WireError", "crc32c", "dissect"]

ROD_REQUEST, ACK, NACK, CONTROL = 3, 7, 10, 11
NO_HEADER, STANDARD_REQUEST, RESPONSE, RESPONSE_WITH_DATA = 0, 3, 4, 5
CLEAR_COMMAND, CLOSE_COMMAND = 2, 4
ROD_OOO = 0x0D
ECN_CAPABLE, CONGESTION, EXPEDITED = 2, 3, 46
COMPARE_ATOMIC = 0x30
ATOMICS = (0x03, 0x04, 0x0D, 0x0E, COMPARE_ATOMIC, 0x31, 0x32)
"""ATOMIC, FETCHING_ATOMIC, TSEND_ATOMIC, TSEND_FETCH_ATOMIC, and Amoeba's compare, long and long fetching atomics."""


MSG_ERROR = 0x0F
DIVISIBLE = (0x01, 0x05, 0x09, MSG_ERROR, COMPARE_ATOMIC, 0x31, 0x32)
"""WRITE, sends and Amoeba's atomics, whose messages may have several packets, and MSG_ERROR, which ends one."""


class WireError(ValueError):
    """The frame is not one that Amoeba may send."""


def crc32c(data: bytes) -> int:
    """RFC 3720 12.1, bit by bit."""
    register = 0xFFFF_FFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F6_3B78 if register & 1 else 0)
    return register ^ 0xFFFF_FFFF


def _expect(what: str, seen: object, *wanted: object) -> None:
    if seen not in wanted:
        raise WireError(f"{what}: expected {' or '.join(map(repr, wanted))}, got {seen!r}")


def dissect(frame: bytes) -> dict[str, int | bytes]:
    """The fields of a whole Ethernet frame without FCS, by UET's names, and its ``payload``.

    Raises WireError where a field that is fixed or reserved has another value, a length contradicts another, or the
    CRC is wrong.
    """
    _expect("ethertype", frame[12:14], b"\x08\x00")
    version, tos, total, identification, fragment, ttl, protocol = struct.unpack(">BBHHHBB", frame[14:24])
    _expect("IPv4 version and header length", version, 0x45)
    _expect("IPv4 fields", (identification, fragment, ttl, protocol), (0, 0x4000, 64, 17))
    _expect("IPv4 header checksum", sum(struct.unpack(">10H", frame[14:34])) % 0xFFFF, 0)
    _expect("IPv4 length", total, len(frame) - 14)
    port, destination, udp_length, checksum = struct.unpack(">4H", frame[34:42])
    _expect("UDP fields", (destination, udp_length, checksum), (4793, total - 20, 0))
    _expect("CRC", struct.unpack("<I", frame[-4:])[0], crc32c(frame[26:-4]))
    found: dict[str, int | bytes] = {"source": frame[26:30], "destination": frame[30:34], "entropy": port}
    found |= {"dscp": tos >> 2, "ecn": tos & 3} | _pds(frame[42:-4])
    if found["type"] in (ROD_REQUEST, CONTROL):
        _expect("ECN of a request", tos & 3, ECN_CAPABLE, CONGESTION)
    else:
        _expect("DSCP and ECN of an answer", tos, EXPEDITED << 2)
    return found


def _pds(packet: bytes) -> dict[str, int | bytes]:
    prologue = struct.unpack(">H", packet[:2])[0]
    kind, following, flags = prologue >> 11, prologue >> 7 & 15, prologue & 0x7F
    found: dict[str, int | bytes] = {"type": kind, "next_header": following, "retx": flags >> 4 & 1}
    if kind == ROD_REQUEST:
        _expect("next_header of a request", following, STANDARD_REQUEST)
        _expect("flags of a request", flags & ~0x14, 0x08)  # acknowledge request; RETX and SYN may be
        clear, psn, spdcid, dpdcid = struct.unpack(">hIHH", packet[2:12])
        found |= _sequence(psn, spdcid, dpdcid, flags) | {"clear_psn_offset": clear}
        return found | _request(packet[12:])
    if kind == CONTROL:
        _expect("type of a control packet", following, CLEAR_COMMAND, CLOSE_COMMAND)
        _expect("length of a control packet", len(packet), 16)
        probe, psn, spdcid, dpdcid, payload = struct.unpack(">HIHHI", packet[2:])
        if following == CLEAR_COMMAND:
            _expect("flags, probe_opaque and psn of a CLEAR", (flags, probe, psn), (0, 0, 0))
            return found | _sequence(payload, spdcid, dpdcid, flags)
        _expect("flags of a CLOSE", flags & ~0x14, 0x08)
        _expect("probe_opaque and payload of a CLOSE", (probe, payload), (0, 0))
        return found | _sequence(psn, spdcid, dpdcid, flags)
    _expect("flags of an answer", flags & ~0x30, 0)
    found["marked"] = flags >> 5 & 1
    if kind == NACK:
        _expect("next_header of a NACK", following, NO_HEADER)
        _expect("length of a NACK", len(packet), 16)
        code, vendor, psn, spdcid, dpdcid, payload = struct.unpack(">BBIHHI", packet[2:])
        _expect("payload of a NACK", payload, 0)
        if code != ROD_OOO:
            _expect("vendor_code of a NACK that is not ROD_OOO", vendor, 0)
        if not dpdcid:
            raise WireError("dpdcid of a NACK: expected a PDC, got 0")
        return found | {"nack_code": code, "missing": vendor, "psn": psn, "spdcid": spdcid, "dpdcid": dpdcid}
    _expect("PDS type", kind, ACK)
    offset, cack, spdcid, dpdcid = struct.unpack(">hIHH", packet[2:12])
    if not spdcid or not dpdcid:
        raise WireError(f"PDCs of an ACK: expected two, got {spdcid} and {dpdcid}")
    found |= {"psn": (cack + offset) % (1 << 32), "cack_psn": cack, "spdcid": spdcid, "dpdcid": dpdcid}
    return found | _response(packet[12:], following)


def _sequence(psn: int, spdcid: int, dpdcid: int, flags: int) -> dict[str, int | bytes]:
    syn = flags >> 2 & 1
    if not spdcid or not (syn or dpdcid):
        raise WireError(f"PDCs of a packet: expected numbers above 0, got {spdcid} and {dpdcid}")
    if syn:
        _expect("pdc_info of a packet with SYN", dpdcid >> 12, 0)
    return {"psn": psn, "spdcid": spdcid, "dpdcid": dpdcid, "syn": syn}


def _request(ses: bytes) -> dict[str, int | bytes]:
    if len(ses) < 44:
        raise WireError(f"standard request: expected 44 bytes, got {len(ses)}")
    opcode, flags, message, generation_and_job, pid, index = struct.unpack(">BBHIHH", ses[:12])
    offset, initiator, key, data, length = struct.unpack(">QIQQI", ses[12:44])
    _expect("reserved bits and version of a request", (opcode >> 6, flags >> 6, pid >> 12, index >> 12), (0,) * 4)
    _expect("ri_generation", generation_and_job >> 24, 0)
    if flags & 3 != 3 and opcode not in DIVISIBLE:
        raise WireError(f"START and END of opcode {opcode:#x}: expected 3, got {flags & 3}")
    if flags & 1 and data and not flags & 0x04:
        raise WireError(f"header_data without its flag: expected 0, got {data:#x}")
    _expect("START in a packet with HEADER_DATA", flags & 0x05, 0, 1, 5)
    found: dict[str, int | bytes] = {
        "opcode": opcode, "flags": flags, "message_id": message, "job_id": generation_and_job, "pid_on_fep": pid,
        "resource_index": index, "buffer_offset": offset, "initiator": initiator, "memory_key": key,
        "header_data": data, "request_length": length,
    }  # fmt: skip
    rest = ses[44:]
    if opcode in ATOMICS:
        if len(rest) < 4:
            raise WireError(f"atomic extension: expected 4 bytes, got {len(rest)}")
        atomic, datatype, control, reserved = rest[:4]
        _expect("reserved byte of the atomic extension", reserved, 0)
        _expect("semantic_control", control, 0, 0x80)
        found |= {"atomic_opcode": atomic, "atomic_datatype": datatype}
        rest = rest[4:]
        if opcode == 0x04 and 0x0D <= atomic <= 0x13:
            # Compare-and-swap extension: two numbers of 128 bits.
            _expect("length of the compare-and-swap extension", (len(rest), length), (32, 32))
            compare, swap = (int.from_bytes(rest[at : at + 16], "big") for at in (0, 16))
            return found | {"compare_value": compare, "swap_value": swap, "payload": b""}
    if not flags & 1:
        _expect("upper 18 bits of a packet's place in its message", data >> 46, 0)
        size, at = data >> 32, data & 0xFFFF_FFFF
        _expect("payload_length of a packet without START", size, len(rest) // (1 + (opcode == COMPARE_ATOMIC)))
        ends = at + size == length or opcode == MSG_ERROR
        _expect("END, by the packet's place in its message", flags >> 1 & 1, int(ends))
        found |= {"payload_length": size, "message_offset": at}
    return found | {"payload": rest}


def _response(ses: bytes, following: int) -> dict[str, int | bytes]:
    if following == NO_HEADER:
        _expect("bytes behind an ACK without a response", len(ses), 0)
        return {}
    _expect("next_header of an ACK", following, RESPONSE, RESPONSE_WITH_DATA)
    size = 20 if following == RESPONSE_WITH_DATA else 12
    if len(ses) < size:
        raise WireError(f"response: expected {size} bytes, got {len(ses)}")
    opcode, code, message, generation_and_job = struct.unpack(">BBHI", ses[:8])
    _expect("list and opcode of a response", opcode, *((2,) if size == 20 else (0, 1)))
    _expect("version of a response", code >> 6, 0)
    _expect("ri_generation", generation_and_job >> 24, 0)
    found: dict[str, int | bytes] = {"return_code": code, "message_id": message, "job_id": generation_and_job}
    if size == 12:
        _expect("bytes behind a response without data", len(ses), 12)
        return found | {"modified_length": struct.unpack(">I", ses[8:])[0], "payload": b""}
    original, length, modified, offset = struct.unpack(">HHII", ses[8:20])
    _expect("read_request_message_id and message_offset", (original, offset), (message, 0))
    _expect("payload_length", length, len(ses) - 20)
    return found | {"modified_length": modified, "payload": ses[20:]}
