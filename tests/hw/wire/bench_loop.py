"""Testbench of a FrameTransmitter whose frames go straight to a FrameReceiver with the same address.

Every header and payload comes back as it was sent. Parameters: ``width``, ``payload``.
"""

import random

import cocotb
from amoeba_hw.interfaces import FRAME_HEADER, packet_beat
from amoeba_sim.cocotb_runner import bench_parameters
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, randomly, start
from cocotb.triggers import RisingEdge

from tests.hw.uet_frames import OWN_IP, OWN_MAC, PEERS, beats_of, packets_of, random_to_initiator, random_to_target

PARAMETERS = bench_parameters()
WIDTH, PAYLOAD = PARAMETERS["width"], PARAMETERS["payload"]
STREAMS = {
    f"{kind}{suffix}": shape
    for kind in ("request", "response")
    for suffix, shape in (("s", FRAME_HEADER), ("_payload", packet_beat(WIDTH)))
}


def arrived(header):
    """A header that was sent, as the receiver gives it: each side counts its own PDCs in its own tables."""
    if header["is_request"]:
        dpdcid = header["dpdcid"] if header["syn"] else header["dpdcid"] - PEERS
        numbers = {"dpdcid": dpdcid % (1 << 16)}
    else:
        numbers = {"spdcid": header["spdcid"] + PEERS}
    # Nothing on the way marks a request.
    is_marked = header["marked"] and not header["is_request"] and not header["returns"]
    return header | numbers | {"marked": int(is_marked)}


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(rate=[1.0, 0.4])
async def headers_and_payloads_come_back(dut, rate):
    dut.mac.value, dut.ip.value = OWN_MAC, OWN_IP
    sources = {name: StreamSource(dut, name, shape, pace=randomly(rate)) for name, shape in STREAMS.items()}
    sinks = {name: StreamSink(dut, f"received_{name}", shape, pace=randomly(rate)) for name, shape in STREAMS.items()}
    await start(dut)
    headers, payloads = {"request": [], "response": []}, {"request": [], "response": []}
    for _ in range(60):
        for kind, make in (("request", random_to_target), ("response", random_to_initiator)):
            payload = random.randbytes(random.choice([0, 8, random.randint(0, 100), random.randint(0, PAYLOAD)]))
            header = make(payload) | {"mac": OWN_MAC, "ip": OWN_IP}
            sources[f"{kind}s"].send(header)
            headers[kind].append(arrived(header))
            if payload:
                sources[f"{kind}_payload"].send(*beats_of(payload, WIDTH))
                payloads[kind].append(payload)
    for kind in headers:
        assert await sinks[f"{kind}s"].receive(60) == headers[kind]
        arriving = sinks[f"{kind}_payload"]
        while sum(beat["last"] for beat in arriving.received) < len(payloads[kind]):
            await RisingEdge(dut.clk)
        assert packets_of(arriving.received, WIDTH) == payloads[kind]
