# amaranth: UnusedElaboratable=no
"""Answers to ARP and ping, against Scapy; and all that strangers send instead.

Covers ``boards/arp_answer.py``, ``boards/echo_answer.py`` and ``boards/network_fields.py``.
"""

import random

import pytest
from amaranth.sim import Simulator
from amoeba_hw.boards.responder import Responder
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw

MAC, ADDRESS = "02:00:00:00:00:02", "10.0.0.2"
ASKER, ASKER_IP = "02:00:00:00:00:01", "10.0.0.1"
BROADCAST = "ff:ff:ff:ff:ff:ff"
BEAT = 16


def padded(frame):
    return bytes(frame).ljust(60, b"\0")


def arp(*, to=BROADCAST, source=ASKER, **fields):
    own = {"op": 1, "hwsrc": ASKER, "psrc": ASKER_IP, "pdst": ADDRESS} | fields
    return Ether(dst=to, src=source) / ARP(**own)


def ping(*, to=MAC, source=ASKER, size=56, content=None, icmp=None, **fields):
    own = {"src": ASKER_IP, "dst": ADDRESS, "ttl": 7, "id": 0x1234} | fields
    content = bytes(range(size)) if content is None else content
    return Ether(dst=to, src=source) / IP(**own) / ICMP(**{"id": 7, "seq": 9} | (icmp or {})) / Raw(content)


def answered(frames, *, interval=1, waits=0.0, gaps=0.0, depth=128, enable=1, seed=1):
    """(frames that came out for the NIC, answers): each frame is bytes."""
    dut = Responder(interval, depth)
    pace = random.Random(seed)
    passed, answers = [], []

    async def send(ctx):
        ctx.set(dut.mac, int(MAC.replace(":", ""), 16))
        ctx.set(dut.ip, 0x0A00_0002)
        ctx.set(dut.enable, enable)
        for frame in frames:
            for start in range(0, len(frame), BEAT):
                while pace.random() < gaps:
                    await ctx.tick()
                part = frame[start : start + BEAT]
                ctx.set(dut.i.tdata, int.from_bytes(part, "little"))
                ctx.set(dut.i.tkeep, (1 << len(part)) - 1)
                ctx.set(dut.i.tlast, start + BEAT >= len(frame))
                ctx.set(dut.i.tvalid, 1)
                await ctx.tick().until(dut.i.tready)
                ctx.set(dut.i.tvalid, 0)
        for _ in range(600):
            await ctx.tick()

    def taker(stream, found):
        async def take(ctx):
            content = b""
            while True:
                ctx.set(stream.tready, pace.random() >= waits)
                _, _, moves, data, keep, last = await ctx.tick().sample(
                    stream.tvalid & stream.tready, stream.tdata, stream.tkeep, stream.tlast
                )
                if moves:
                    assert keep & (keep + 1) == 0
                    assert last or keep == 0xFFFF
                    content += data.to_bytes(BEAT, "little")[: keep.bit_length()]
                    if last:
                        found.append(content)
                        content = b""

        return take

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    for stream, found in ((dut.o, passed), (dut.answers, answers)):
        simulator.add_testbench(taker(stream, found), background=True)
    simulator.run()
    return passed, answers


def right_answer(request):
    """Return the answer that Scapy makes of a request."""
    asked = Ether(request)
    if ARP in asked:
        reply = Ether(dst=asked[ARP].hwsrc, src=MAC) / ARP(
            op=2, hwsrc=MAC, psrc=ADDRESS, hwdst=asked[ARP].hwsrc, pdst=asked[ARP].psrc
        )
        return bytes(reply).ljust(len(request), b"\0")
    ip = asked[IP].copy()
    ip.src, ip.dst, ip.ttl = asked[IP].dst, asked[IP].src, 64
    ip[ICMP].type = 0
    del ip.chksum, ip[ICMP].chksum
    return bytes(Ether(dst=asked.src, src=MAC) / ip).ljust(len(request), b"\0")


RIGHT = {
    "ARP to all": padded(arp()),
    "ARP to the node": padded(arp(to=MAC)),
    "ARP without padding": bytes(arp()),
    "a probe for the address": padded(arp(psrc="0.0.0.0")),
    "ping": bytes(ping()),
    "ping with padding": padded(ping(size=4)),
    "ping without data": padded(ping(size=0)),
    "ping without data and padding": bytes(ping(size=0)),
    "ping that is not to be divided": bytes(ping(flags="DF")),
    "ping with a class": bytes(ping(tos=0xB8)),
    "ping of an odd length": bytes(ping(size=57)),
    "the longest ping": bytes(ping(content=bytes(1472))),
}


@pytest.mark.parametrize(("gaps", "waits"), [(0, 0), (0.5, 0.5)])
def test_requests_are_answered_as_scapy_would(gaps, waits):
    frames = list(RIGHT.values())
    passed, answers = answered(frames, gaps=gaps, waits=waits, depth=1024)
    assert passed == frames
    assert dict(zip(RIGHT, answers, strict=True)) == {name: right_answer(frame) for name, frame in RIGHT.items()}


def test_checksums_are_right_for_every_header():
    generator = random.Random(3)
    frames = [
        bytes(ping(ttl=generator.randrange(1, 256), id=generator.getrandbits(16), tos=generator.getrandbits(8),
                   icmp={"id": generator.getrandbits(16), "seq": generator.getrandbits(16)}))
        for _ in range(60)
    ]  # fmt: skip
    _, answers = answered(frames, depth=1024)
    for request, answer in zip(frames, answers, strict=True):
        assert ones_complement(answer[14:34]) == ones_complement(answer[34:]) == 0xFFFF
        assert answer[34:36] == b"\0\0"
        assert answer[38:] == request[38:]


def ones_complement(content):
    total = sum(int.from_bytes(content[place : place + 2], "big") for place in range(0, len(content), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def changed(frame, place, value):
    return frame[:place] + bytes([value]) + frame[place + 1 :]


ARP_FRAME, PING = padded(arp()), bytes(ping())
WRONG = {
    "ARP for another address": padded(arp(pdst="10.0.0.3")),
    "an ARP answer": padded(arp(op=2)),
    "ARP to another station": padded(arp(to="02:00:00:00:00:03")),
    "ARP from a group": padded(arp(source="03:00:00:00:00:01", hwsrc="03:00:00:00:00:01")),
    "ARP from all": padded(arp(source=BROADCAST, hwsrc=BROADCAST)),
    "ARP for a third station": padded(arp(hwsrc="02:00:00:00:00:09")),
    "ARP that claims the node's address": padded(arp(psrc=ADDRESS)),
    "ARP of another medium": changed(ARP_FRAME, 15, 6),
    "ARP of another protocol": changed(ARP_FRAME, 16, 0x86),
    "ARP with long hardware addresses": changed(ARP_FRAME, 18, 8),
    "ARP with long protocol addresses": changed(ARP_FRAME, 19, 16),
    "ARP that is cut off": bytes(arp())[:41],
    "ARP that is cut off early": bytes(arp())[:32],
    "ARP that ends in its first beat": bytes(arp())[:14],
    "ARP that is too long": ARP_FRAME + b"\0",
    "ARP that is far too long": ARP_FRAME + bytes(900),
    "ARP behind a VLAN tag": padded(Ether(dst=BROADCAST, src=ASKER) / Dot1Q(vlan=1) / arp()[ARP]),
    "ping to another station": bytes(ping(to="02:00:00:00:00:03")),
    "ping to all": bytes(ping(to=BROADCAST)),
    "ping from a group": bytes(ping(source="03:00:00:00:00:01")),
    "ping to another address": bytes(ping(dst="10.0.0.3")),
    "ping to all addresses": bytes(ping(dst="255.255.255.255")),
    "ping to a neighbour in the upper half": bytes(ping(dst="10.1.0.2")),
    "ping from the node's own address": bytes(ping(src=ADDRESS)),
    "ping from nowhere": bytes(ping(src="0.0.0.0")),
    "ping from a loopback address": bytes(ping(src="127.0.0.1")),
    "ping from a group's address": bytes(ping(src="224.0.0.1")),
    "ping from all addresses": bytes(ping(src="255.255.255.255")),
    "the first fragment": bytes(ping(flags="MF")),
    "a later fragment": bytes(ping(frag=100)),
    "the last fragment": bytes(ping(frag=1)),
    "the evil bit": bytes(ping(flags="evil")),
    "IP options": bytes(ping(options=[b"\x01\x01\x01\x01"])),
    "IP version 5": changed(PING, 14, 0x55),
    "a wrong header checksum": changed(PING, 25, PING[25] ^ 1),
    "an echo answer": bytes(ping(icmp={"type": 0})),
    "another type": bytes(ping(icmp={"type": 13})),
    "another code": bytes(ping(icmp={"code": 1})),
    "UDP": bytes(Ether(dst=MAC, src=ASKER) / IP(src=ASKER_IP, dst=ADDRESS) / UDP(dport=4793) / Raw(bytes(60))),
    "a length below the headers": bytes(ping(len=27, size=4)),
    "a length beyond the frame": bytes(ping(len=85)),
    "a length before the end of the frame": bytes(ping(len=83)),
    "a length of 64 KiB": bytes(ping(len=0xFFFF)),
    "a length that wraps with the header": bytes(ping(len=0xFFF4)),
    "ping that is cut off": PING[:-1],
    "ping that ends within its header": PING[:36],
    "a byte": b"\x02",
    "IPv6": bytes(Ether(dst=MAC, src=ASKER, type=0x86DD)) + bytes(60),
}


@pytest.mark.parametrize("gaps", [0, 0.5])
def test_nothing_else_is_answered_and_all_of_it_passes(gaps):
    """Between two right ones each: the second shows that nothing of the wrong one is left."""
    frames = [frame for wrong in WRONG.values() for frame in (wrong, ARP_FRAME)]
    passed, answers = answered(frames, gaps=gaps, depth=1024)
    assert passed == frames
    assert answers == [right_answer(ARP_FRAME)] * len(WRONG)


def test_of_all_flipped_bits_only_those_of_free_fields_leave_a_request():
    """ARP: the sender's IPv4 address, and the unused one. Ping: the sender's station, the checksum, what follows it.

    A flip of the group bit of the sender's station is refused.
    """
    flips = [
        (name, bit, changed(frame, bit // 8, frame[bit // 8] ^ 1 << bit % 8))
        for name, frame in (("ARP", bytes(arp())), ("ping", PING))
        for bit in range(8 * 42)
    ]
    _, answers = answered([frame for *_, frame in flips], depth=1024)
    free = {"ARP": range(8 * 28, 8 * 38), "ping": (*range(8 * 6 + 1, 8 * 12), *range(8 * 36, 8 * 42))}
    expected = [right_answer(frame)[:36] for name, bit, frame in flips if bit in free[name]]
    assert [answer[:36] for answer in answers] == expected


def test_a_storm_is_answered_once_in_an_interval_and_delays_no_frame():
    frames = [ARP_FRAME] * 300
    passed, answers = answered(frames, interval=400)
    assert passed == frames
    assert answers == [right_answer(ARP_FRAME)] * (300 * 4 // 400)


def test_answers_that_nobody_takes_are_dropped_as_a_whole():
    """The queue of 16 beats is full most of the time."""
    frames = [ARP_FRAME, PING] * 60
    passed, answers = answered(frames, waits=0.9, depth=16)
    assert passed == frames
    assert set(answers) == {right_answer(ARP_FRAME), right_answer(PING)}
    assert len(answers) < len(frames)


def test_a_request_that_is_longer_than_the_queue_is_not_answered():
    _, answers = answered([bytes(ping(size=200)), ARP_FRAME], depth=8)
    assert answers == [right_answer(ARP_FRAME)]


def test_a_node_that_is_not_in_service_answers_nobody():
    passed, answers = answered([ARP_FRAME, PING], enable=0)
    assert (passed, answers) == ([ARP_FRAME, PING], [])


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_without_a_cycle_is_refused(interval):
    with pytest.raises(ValueError, match=f"Expected at least one cycle from one answer to the next, got {interval}"):
        Responder(interval)
