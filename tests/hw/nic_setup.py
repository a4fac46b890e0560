"""Common parts of the benches of the whole NIC: its parameters, the codes of its frames, and the peer that answers.

Parameters: ``width``; ``payload``. The NIC has 2 contexts, 16 keys, 4 peers, 4 target PDCs, a window of 8 and
executes INT64 and UINT64.
"""

import random

from amoeba_model.opcodes import Datatype
from amoeba_model.parameters import NicParameters
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import always, in_bursts, randomly

from tests.hw.nic_environment import PEERS, REGION, nic_frame

PARAMETERS = NicParameters(
    data_width=bench_parameters()["width"],
    payload=bench_parameters()["payload"],
    contexts=2,
    keys=16,
    peers=PEERS,
    target_pdcs=4,
    window=8,
    out_of_order_entries=4,
    lines=8,
    datatypes=(Datatype.FI_INT64, Datatype.FI_UINT64),
)
PAYLOAD = PARAMETERS.payload
PACES = {"always": always, "randomly": lambda: randomly(0.6), "in bursts": lambda: in_bursts(12)}

# Frames: SES opcodes, return codes, atomic opcodes and datatypes.
NO_OP, WRITE, READ, ATOMIC, FETCHING_ATOMIC, SEND, COMPARE_ATOMIC = 0, 1, 2, 3, 4, 5, 0x30
RENDEZVOUS_SEND, TAGGED_SEND, RENDEZVOUS_TSEND = 6, 9, 0xA
TSEND_ATOMIC, TSEND_FETCH_ATOMIC = 0xD, 0xE
OK = 1
SUM, BXOR, ATOMIC_READ, ATOMIC_WRITE, CSWAP = 2, 0xA, 0xB, 0xC, 0xD
INT64, UINT64 = 6, 7
# Descriptors: opcodes and libfabric's numbers.
D_NOP, D_WRITE, D_READ, D_ATOMIC, D_FETCH, D_COMPARE = range(6)
FI_SUM, FI_UINT64 = 2, 7


def words(content):
    return [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)]


def word_bytes(values):
    return b"".join((value % (1 << 64)).to_bytes(8, "little") for value in values)


def random_execution(stranger, shadow):
    """A good request: its header, its payload, and the data of its answer; ``shadow`` is changed as it should."""
    kind = random.choice(["write", "read", "sum", "xor", "fetch", "atomic read", "swap", "compare", "compare many"])
    if kind in ("write", "read"):
        length = random.choice([0, 1, 7, 64, PAYLOAD, random.randint(1, PAYLOAD)])
    elif kind == "compare":
        length = 8
    else:
        # A vector of compares fits twice into a frame; with one element it would be the other format.
        length = 8 * random.choice([2, 3, PAYLOAD // 16, random.randint(2, PAYLOAD // 16)])
    # Close together, so that requests meet on lines.
    at = random.randint(0, random.choice([16, 300, len(shadow) - length]))
    at = min(at, len(shadow) - length)
    old = bytes(shadow[at : at + length])
    operands = random.choice([random.randbytes(length), old])
    atomic = {} if kind in ("write", "read") else {"atomic_datatype": random.choice([INT64, UINT64])}
    new, payload, opcode = old, operands, FETCHING_ATOMIC
    if kind == "write":
        opcode, new, answer = WRITE, operands, b""
    elif kind == "read":
        opcode, payload, answer = READ, b"", old
    elif kind in ("sum", "fetch"):
        new = word_bytes(a + b for a, b in zip(words(old), words(operands), strict=True))
        opcode, answer = (ATOMIC, b"") if kind == "sum" else (FETCHING_ATOMIC, old)
        atomic["atomic_opcode"] = SUM
    elif kind == "xor":
        new = word_bytes(a ^ b for a, b in zip(words(old), words(operands), strict=True))
        opcode, answer = ATOMIC, b""
        atomic["atomic_opcode"] = BXOR
    elif kind == "atomic read":
        payload, answer = b"", old
        atomic["atomic_opcode"] = ATOMIC_READ
    elif kind == "swap":
        new, answer = operands, old
        atomic["atomic_opcode"] = ATOMIC_WRITE
    else:
        compares = word_bytes(random.choice([value, value ^ 1]) for value in words(old))
        new = word_bytes(
            swap if value == compare else value
            for value, swap, compare in zip(words(old), words(operands), words(compares), strict=True)
        )
        answer = old
        atomic["atomic_opcode"] = CSWAP
        if kind == "compare":
            payload = swap_values(compares, operands)
        else:
            opcode, payload = COMPARE_ATOMIC, operands + compares
    if atomic:
        payload, answer = payload if kind == "compare" else network_order(payload), network_order(answer)
    shadow[at : at + length] = new
    fields = {"request_length": 32 if kind == "compare" else length, "buffer_offset": REGION.start + at, **atomic}
    return stranger.request(opcode, **fields), payload, answer


def network_order(content):
    """64-bit numbers as they travel."""
    return b"".join(value.to_bytes(8, "big") for value in words(content))


def swap_values(compare, swap):
    """UET's compare-and-swap extension: two big-endian numbers of 128 bits."""
    return b"".join(int.from_bytes(value, "little").to_bytes(16, "big") for value in (compare, swap))


class Remote:
    """A NIC on the link that answers as a test says."""

    def __init__(self, bench, index=0, pdc=0x4321, initial_psn=0xFFFF_FFFE):
        self.bench = bench
        self.mac, self.ip = 0x02_00_00_00_02_00 + index, 0x0A_00_02_00 + index
        self.index, self.pdc, self.psn, self.sent = index, pdc, initial_psn, 0

    async def store(self, **options):
        await self.bench.store_peer(self.index, self.mac, self.ip, self.psn, **options)

    async def expect(self, opcode, payload=b"", **fields):
        """The next frame must be this request; returns its header. Everything before it has been answered."""
        header = {
            "mac": self.mac,
            "ip": self.ip,
            "port": 0xC0DE,
            "is_request": 1,
            "psn": (self.psn + self.sent) & 0xFFFF_FFFF,
            "clear_psn_offset": 0xFFFF,
            "syn": self.sent == 0,
            "spdcid": self.index,
            "dpdcid": self.pdc if self.sent else 0,
            "opcode": opcode,
            "version": 0,
            "flags": 0x23,
            "message_id": self.sent,
            "job_id": 0xABCDE0,
            "pid_on_fep": 0x120,
            "resource_index": 0,
            "initiator": 0,
            "header_data": 0,
            "atomic_opcode": 0,
            "atomic_datatype": 0,
            "semantic_control": 0,
            **fields,
        }
        self.sent += 1
        content = await self.bench.receive()
        assert content == nic_frame(header, payload, received=False)
        return header

    def answer(self, request, code=OK, data=b""):
        header = {
            "mac": self.mac,
            "ip": self.ip,
            "port": 1,
            "is_request": 0,
            "cack_psn": request["psn"],
            "psn": request["psn"],
            "spdcid": self.pdc,
            "dpdcid": request["spdcid"],
            "opcode": 2 if data else 1,
            "return_code": code,
            "message_id": request["message_id"],
            "job_id": request["job_id"],
            "modified_length": request["request_length"] if code == OK else 0,
        }
        self.bench.send(nic_frame(header, data, received=True))


def remote_fields(length, remote=0x1234_5678_9ABC, key=0x77):
    return {"buffer_offset": remote, "memory_key": key, "request_length": length}
