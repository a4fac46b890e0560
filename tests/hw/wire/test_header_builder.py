# amaranth: UnusedElaboratable=no
"""Headers as bytes, while the class of requests changes. Covers ``wire/headers.py``."""

import dataclasses

import pytest
from amoeba_hw.wire.headers import HeaderBuilder
from amoeba_model.wire.codec import NO_PDC, FrameHeader, encode

from tests.support.simulation import simulate

MAC, IP = 0x02_00_00_00_00_07, 0x0A00_0007
PEERS = 16
PEER = {"mac": 0x02_AB_CD_EF_01_02, "ip": 0xFFFF_FFFE, "port": 0xC001, "psn": 5, "dpdcid": 3}
HEADERS = {
    "request": FrameHeader(**PEER, opcode=2, flags=3, request_length=8),
    "CLOSE": FrameHeader(**PEER, is_control=True),
    "CLEAR": FrameHeader(**PEER, is_control=True, clears=True),
    "message": FrameHeader(**PEER, opcode=5, flags=3, request_length=8, ri_generation=0xA5),
    "answer": FrameHeader(**PEER, is_request=False, opcode=1, cack_psn=5, marked=True),
    "data in the return direction": FrameHeader(
        **PEER, is_request=False, opcode=2, returns=True, message_id=7, buffer_offset=0x1234_5678, clear_psn_offset=9
    ),
    "ACK in the return direction": FrameHeader(**PEER, is_request=False, returns=True, cack_psn=5),
    "NACK": FrameHeader(**PEER, is_request=False, is_control=True, nack_code=0xD),
    "NACK in the return direction": FrameHeader(**PEER, is_request=False, is_control=True, returns=True),
    "NACK about no PDC": FrameHeader(**PEER, is_request=False, is_control=True, nack_code=0xE, spdcid=NO_PDC),
}


@pytest.mark.parametrize("every_cycle", [False, True])
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_has_the_class_of_the_cycle_in_which_it_was_taken(kind, every_cycle):
    dut, header = HeaderBuilder(every_cycle, PEERS), HEADERS[kind]
    expected = encode(header, b"", MAC, IP, 0x2A, PEERS)[:-4]

    async def testbench(ctx):
        ctx.set(dut.mac, MAC)
        ctx.set(dut.ip, IP)
        ctx.set(dut.dscp, 0x2A)
        ctx.set(dut.i.payload, {name: int(value) for name, value in dataclasses.asdict(header).items()})
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.o.ready, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(dut.dscp, 0x15)
        await ctx.tick()
        assert ctx.get(dut.o.valid)
        assert ctx.get(dut.o.payload).bytes == int.from_bytes(expected, "little")

    simulate(dut, testbench)
