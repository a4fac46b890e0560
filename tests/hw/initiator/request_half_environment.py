"""The surroundings of the initiator's request half in its bench: host, peers' windows, and the required results."""

import itertools
import random
from collections import Counter, deque

import cocotb
from amoeba_hw.initiator.records import COMPLETION_ORDER, PACKET, PayloadKind
from amoeba_hw.interfaces import CONTEXT, DMA_COMMAND, READ_REQUEST, RING_INDEX, packet_beat, read_beat
from amoeba_model.descriptors import RENDEZVOUS, TX_DESCRIPTOR, DescriptorFlags, DescriptorOpcode
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.wire.uet import ReturnCode
from amoeba_sim.cocotb_streams import StreamSink, StreamSource, always, randomly
from amoeba_sim.payload import pack
from cocotb.triggers import RisingEdge

from tests.hw.packet_memory import Memory, packet_beats, packet_bytes

RING = 10
"""log2 of entries, of transmit and completion rings."""
DATA = 0x7_0000_0000
DATA_SIZE = 1 << 20
REFUSED = 0x9_0000_0000
"""An address that the host does not grant."""


FENCES = DescriptorFlags.FENCE | DescriptorFlags.FENCE_ALL


class Window:
    """The other half's record of one PDC."""

    def __init__(self, size):
        self.size = size
        self.places = 0
        self.numbered = 0
        self.closing = False
        self.blocked = False
        self.failed = False

    @property
    def may_send(self):
        return self.places < self.size and not self.closing and not self.blocked


class Environment:
    """Serves the DUT, numbers and answers its packets.

    Parameters
    ----------
    dut, parameters
    window : int
        Packets that a peer may have unanswered.
    host_latency : int
    answer_rate : float
        Probability that a cycle answers one packet.
    pace : callable
        Makes the pace of each stream.
    """

    def __init__(self, dut, parameters, *, window=64, host_latency=10, answer_rate=1.0, pace=always):
        self.dut = dut
        self.parameters = parameters
        self.width = parameters.data_width
        self.memory = Memory()
        self.packets = []
        """(cycle, packet, payload) of each packet, in order."""
        self.cuts = []
        """(cycle, peer) of each packet cut."""
        self.dropped = Counter()
        self.answered = {}
        """Cycle of the last answer to a packet of (context, index of the descriptor)."""
        self.ended = {}
        """Cycle in which a NOP ended, by the same."""
        self.cycle = 0
        self.windows = [Window(window) for _ in range(parameters.peers)]
        self.tails = [0] * parameters.contexts
        self._latency = host_latency
        self._answer_rate = answer_rate
        self._due = deque()
        self._unanswered = deque()
        beat = packet_beat(self.width)

        def source(name, shape):
            return StreamSource(dut, name, shape, pace=pace())

        def sink(name, shape):
            return StreamSink(dut, name, shape, pace=pace())

        self.doorbells = source("doorbells", RING_INDEX)
        self.heads = source("completion_heads", RING_INDEX)
        self.resends = source("resends", PACKET)
        self.completions = sink("completions", COMPLETION_ORDER)
        self.descriptor_reads = sink("descriptor_reads", READ_REQUEST)
        self.descriptor_data = source("descriptor_data", read_beat(self.width))
        self.commands = {name: sink(f"{name}_commands", DMA_COMMAND) for name in ("operand", "compare")}
        self.values = {name: source(f"{name}s", beat) for name in ("operand", "compare")}
        self.nops = sink("ended", COMPLETION_ORDER)
        self.out = sink("packets", PACKET)
        self.payload = sink("payload", beat)
        dut.skipped.value = 0
        for number in range(parameters.contexts):
            self.enable(number, 0)
        self.memory.grant(DATA, DATA_SIZE)
        self.memory.poke(DATA, random.Random(1).randbytes(DATA_SIZE))
        services = (self._run(), self._descriptors(), self._packets(), self._nops())
        for service in (*services, *map(self._values, self.commands)):
            cocotb.start_soon(service)

    def ring(self, number):
        return (number + 1) << 32

    def enable(self, number, enable=1):
        self.memory.grant(self.ring(number), 64 << RING)
        self.tails[number] = 0
        registers = {
            "enable": enable,
            "transmit_base": self.ring(number),
            "transmit_size": RING,
            "completion_base": 0,
            "completion_size": RING,
        }
        getattr(self.dut, f"registers__{number}").value = pack(CONTEXT, registers)

    def post(self, number, descriptors):
        """Put up to 768 descriptors, dictionaries, into a ring and ring; completions are consumed as if by magic."""
        for fields in descriptors:
            slot = self.tails[number] % (1 << RING)
            self.memory.poke(self.ring(number) + 64 * slot, TX_DESCRIPTOR.pack(**fields))
            self.tails[number] += 1
        self.heads.send({"context": number, "index": (self.tails[number] - 768) & 0xFFFF})
        self.doorbells.send({"context": number, "index": self.tails[number] & 0xFFFF})

    async def sent(self, count, cycles=20_000):
        """Wait until ``count`` packets have left in all."""
        limit = self.cycle + cycles
        while len(self.packets) < count:
            await RisingEdge(self.dut.clk)
            assert self.cycle < limit, f"{len(self.packets)} of {count} packets, {len(self.cuts)} cut"

    async def _run(self):
        """The windows: what they say changes two cycles after a cut."""
        contexts = self.parameters.contexts
        told = (self.dut.may_send, self.dut.all_answered, self.dut.failed, self.dut.context_answered)
        said = (0, (1 << len(self.windows)) - 1, 0, (1 << contexts) - 1)
        while True:
            for signal, value in zip(told, said, strict=True):
                signal.value = value
            said = tuple(
                sum(bit << index for index, bit in enumerate(bits))
                for bits in (
                    [window.may_send for window in self.windows],
                    [window.places == 0 for window in self.windows],
                    [window.failed for window in self.windows],
                    [not any(window.places for window in self.windows[n::contexts]) for n in range(contexts)],
                )
            )
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            while self._due and self._due[0][0] <= self.cycle:
                self._due.popleft()[1]()
            if self.dut.rst.value:
                continue
            if self.dut.cut.value:
                self._note_cut()
            if self.dut.dropped.value:
                peer = int(self.dut.dropped_peer.value)
                self.dropped[peer] += 1
                self.windows[peer].places -= 1
            if self._unanswered and random.random() < self._answer_rate:
                packet = self._unanswered.popleft()
                window = self.windows[packet["ticket"]["peer"]]
                window.places -= 1
                window.closing &= not packet["is_close"]
                self.answered[packet["ticket"]["context"], packet["ticket"]["index"]] = self.cycle

    def _note_cut(self):
        peer = int(self.dut.cut_peer.value)
        window = self.windows[peer]
        assert not self.cuts or self.cycle - self.cuts[-1][0] >= 2
        assert window.places < window.size, f"peer {peer}'s window is full"
        assert not window.closing
        window.places += 1
        window.closing = bool(self.dut.cut_close.value)
        self.cuts.append((self.cycle, peer))

    def _after(self, action):
        self._due.append((self.cycle + self._latency, action))

    async def _descriptors(self):
        size = self.width // 8
        while True:
            (request,) = await self.descriptor_reads.receive(1)
            address, length = request["address"], request["length"]
            content = self.memory.read(address, length) or bytes(length)
            beats = [
                {
                    "data": int.from_bytes(content[i : i + size], "little"),
                    "last": i + size == length,
                    "error": not self.memory.allows(address, length),
                }
                for i in range(0, length, size)
            ]
            self._after(lambda beats=beats: self.descriptor_data.send(*beats))

    async def _values(self, name):
        while True:
            (command,) = await self.commands[name].receive(1)
            assert 0 < command["length"] <= self.parameters.payload
            content = self.memory.read(command["address"], command["length"])
            beats = packet_beats(self.width, content or bytes(command["length"]), content is None)
            self._after(lambda beats=beats: self.values[name].send(*beats))

    async def _nops(self):
        while True:
            (order,) = await self.nops.receive(1)
            assert order["status"] == ReturnCode.OK
            assert order["ticket"]["opcode"] == DescriptorOpcode.NOP
            self.ended[order["ticket"]["context"], order["ticket"]["index"]] = self.cycle

    async def _packets(self):
        while True:
            (packet,) = await self.out.receive(1)
            cycle = self.cycle
            payload = b""
            if packet["kind"] != PayloadKind.NONE and not packet["fault"]:
                beats = []
                while not beats or not beats[-1]["last"]:
                    beats += await self.payload.receive(1)
                payload = packet_bytes(beats)
            self.packets.append((cycle, packet, payload))
            if not packet["resend"]:
                self._unanswered.append(packet)


ATOMICS = (
    DescriptorOpcode.ATOMIC,
    DescriptorOpcode.FETCH_ATOMIC,
    DescriptorOpcode.COMPARE_ATOMIC,
    DescriptorOpcode.TAGGED_ATOMIC,
    DescriptorOpcode.TAGGED_FETCH_ATOMIC,
)


DIVISIBLE = (DescriptorOpcode.WRITE, DescriptorOpcode.SEND, DescriptorOpcode.TAGGED_SEND)
LONG_ATOMICS = ATOMICS[:3]
"""Of several packets they are one message, as a WRITE is."""


def network_order(content):
    """64-bit numbers, of which all operands here are, as they travel."""
    return b"".join(content[at : at + 8][::-1] for at in range(0, len(content), 8))


def cut_requests(parameters, memory, number, index, fields):
    """The packets of a descriptor, as (fields to compare, payload), from the specification; [] if it is refused."""
    opcode, flags, length = fields["opcode"], fields["flags"], fields["length"]
    if opcode in (DescriptorOpcode.NOP, 255):
        return []
    if opcode == DescriptorOpcode.PING and (length or flags & DescriptorFlags.IMMEDIATE):
        return []
    if opcode == DescriptorOpcode.CLOSE:
        length = 0
    compare = opcode == DescriptorOpcode.COMPARE_ATOMIC
    pair = compare and length == 8
    limit = parameters.payload // 2 if compare and not pair else parameters.payload
    has_operands = opcode not in (DescriptorOpcode.READ, DescriptorOpcode.CLOSE) and length > 0
    inline = bool(flags & DescriptorFlags.INLINE)
    immediate = bool(flags & DescriptorFlags.IMMEDIATE) and opcode != DescriptorOpcode.CLOSE
    reads = opcode == DescriptorOpcode.FETCH_ATOMIC and fields.get("op") == Op.FI_ATOMIC_READ
    divisible = opcode in DIVISIBLE or (opcode in LONG_ATOMICS and length > limit and not reads)
    packets = []
    for done in itertools.count(0, limit):
        size = min(limit, length - done)
        last = done + size == length
        position = done if divisible else 0
        has_data = immediate and (done == 0 if divisible else last)

        def values(field, done=done, size=size):
            if inline:
                return fields[field].to_bytes(8, "little")[:size]
            return memory.read(fields[field] + done, size)

        parts = [values("local")] if has_operands else []
        if compare:
            parts.append(values("compare"))
        refused = None in parts
        if opcode in ATOMICS and not refused:
            parts = [network_order(part) for part in parts]
        payload = b"" if refused else b"".join(parts)
        if pair and not refused:
            payload = parts[1].rjust(16, b"\0") + parts[0].rjust(16, b"\0")
        packets.append(
            (
                {
                    "index": index & 0xFFFF,
                    "context": number,
                    "peer": fields["peer"],
                    "length": size,
                    "last": last or refused,
                    "fault": refused,
                    "is_close": opcode == DescriptorOpcode.CLOSE,
                    "remote_address": fields["remote_address"] + done - position,
                    "position": position,
                    "result": fields["result"] + done,
                    "header_data": fields["compare"] if has_data and not refused else None,
                },
                payload,
            )
        )
        if last or refused:
            return packets
    raise AssertionError("unreachable: the loop returns")


def seen(packet):
    """One packet of :func:`cut_requests`."""
    return {
        "index": packet["ticket"]["index"],
        "context": packet["ticket"]["context"],
        "peer": packet["ticket"]["peer"],
        **{name: packet[name] for name in ("length", "remote_address", "position", "result")},
        **{name: bool(packet[name]) for name in ("last", "fault", "is_close")},
        "header_data": packet["compare"] if packet["immediate"] else None,
    }


def random_descriptor(rng, parameters, number, faults=0.05):
    """A descriptor for a peer of the context; now and then one that becomes no request."""
    opcode = rng.choice(list(DescriptorOpcode) + [DescriptorOpcode.WRITE] * 3)
    flags = rng.choice([0, 0, DescriptorFlags.FENCE, DescriptorFlags.FENCE_ALL, DescriptorFlags.CHAINED])
    atomic = "ATOMIC" in opcode.name
    length = rng.choice([8, 8, 16, 8 * rng.randint(1, 40)]) if atomic else rng.choice([0, 1, 8, rng.randint(0, 900)])
    if "RENDEZVOUS" in opcode.name:
        length = RENDEZVOUS.size
    if opcode == DescriptorOpcode.PING:
        length = rng.choice([0, 0, 0, 1])
    compare = opcode == DescriptorOpcode.COMPARE_ATOMIC
    if not compare and rng.random() < 0.3:
        flags |= DescriptorFlags.IMMEDIATE
    if length <= 8 and rng.random() < 0.4:
        flags |= DescriptorFlags.INLINE
    inline = flags & DescriptorFlags.INLINE

    def where():
        if inline:
            return rng.getrandbits(64)
        return REFUSED if rng.random() < faults else DATA + rng.randrange(DATA_SIZE - 1000)

    return {
        "opcode": 255 if rng.random() < 0.05 else opcode,
        "op": Op.FI_CSWAP if compare else Op.FI_SUM,
        "datatype": Datatype.FI_UINT64,
        "flags": flags | rng.getrandbits(1),
        "length": length,
        "peer": number + parameters.contexts * rng.randrange(parameters.peers // parameters.contexts),
        "remote_address": rng.getrandbits(40),
        "remote_key": rng.getrandbits(64),
        "local": where(),
        "result": rng.getrandbits(40),
        "compare": where() if compare else rng.getrandbits(64),
        "context": rng.getrandbits(64),
    }


def waits(fields):
    """Whether a descriptor is a NOP with a fence."""
    return fields["opcode"] == DescriptorOpcode.NOP and fields["flags"] & FENCES


def write(number, length=8, peer=None, flags=DescriptorFlags.INLINE, **fields):
    """A WRITE of the context to its first peer."""
    return {
        "opcode": DescriptorOpcode.WRITE,
        "flags": flags,
        "length": length,
        "peer": number if peer is None else peer,
        "local": DATA,
        "remote_address": 0,
        "result": 0,
        "compare": 0,
        **fields,
    }


def patterns():
    """Paces for the random tests."""
    return {"always": always, "randomly": lambda: randomly(0.5)}
