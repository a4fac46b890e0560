"""The NIC without its buses: initiator, target, memory engine, wire, registers and DMA hubs."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.registers import Counter
from amoeba_model.trace import TRACE_EVENT, Requester, Stage

from amoeba_hw.host.axi_lite import register_access
from amoeba_hw.host.counter_writer import CounterWriter
from amoeba_hw.host.hubs import ReadHub, WriteHub
from amoeba_hw.host.interrupts import InterruptMerger
from amoeba_hw.host.packed_reader import PackedReader
from amoeba_hw.host.packed_writer import PackedWriter
from amoeba_hw.host.register_bank import ADDRESS_WIDTH, RegisterBank
from amoeba_hw.initiator.absent import AbsentInitiator
from amoeba_hw.initiator.initiator import Initiator
from amoeba_hw.interfaces import FRAME_HEADER, READ_REQUEST, WRITE_BEGUN, packet_beat, read_beat, write_beat
from amoeba_hw.memory.engine import MemoryEngine
from amoeba_hw.stream import HalfRateSlice, connect_streams
from amoeba_hw.target.target import Target
from amoeba_hw.wire.receiver import FrameReceiver
from amoeba_hw.wire.transmitter import FrameTransmitter

__all__ = ["MEMORY_CLOCK", "Core", "TraceSignature"]

READERS = (
    Requester.DESCRIPTOR_FETCH,
    Requester.OPERAND_FETCH,
    Requester.COMPARE_FETCH,
    Requester.LINE_TABLE,
    Requester.ANSWER_FETCH,
    Requester.RECEIVE_FETCH,
)
DESCRIPTOR_READS = 128
"""Descriptors that the initiator fetches ahead, and operand fetches in flight: with 250 cycles of host latency, one
request every 3 cycles (the wire's own pace at 256 bits) needs more than 83."""
WRITERS = (
    Requester.RESULT_WRITER,
    Requester.COMPLETION_WRITER,
    Requester.LINE_TABLE,
    Requester.ANSWER_WRITER,
    Requester.EVENT_WRITER,
    Requester.COUNTER_WRITER,
)


MEMORY_CLOCK = {"memory_clock": In(1), "memory_runs": Out(1)}
"""Members of a NIC whose memory engine has a clock of its own."""


class TraceSignature(wiring.Signature):
    """The trace port: per stage a ``valid`` bit and a trace event's bits in ``data``."""

    def __init__(self):
        slot = wiring.Signature({"valid": Out(1), "data": Out(8 * TRACE_EVENT.size)})
        super().__init__({stage.name.lower(): Out(slot) for stage in Stage})


class Core(wiring.Component):
    """A whole NIC between plain streams.

    Parameters
    ----------
    parameters : NicParameters
    memory_clock : bool
        The memory engine, most of the NIC's logic, has a clock of its own, which may stand still while it is idle: a
        simulator then need not evaluate what cannot change. The hardware does without.

    Members
    -------
    memory_clock : in; memory_runs : out
        With ``memory_clock`` only. The clock rises with the NIC's own, in each cycle that ended with ``memory_runs``.
    accesses, read_data : register access streams
    reads, read_answers : READ_REQUEST and :func:`read_beat` streams; answers come in order
    writes : :func:`write_beat` stream, performed in order
    read_user, write_user : which component asks (Requester)
    write_begun, write_level : out
        As of WriteHub: ``writes`` has the order of ``write_begun``.
    write_error : in, pulse per write burst that the host refused
    fence, fenced : out, in
        As ``ask`` and ``done`` of WriteFence: the host writes ordered before have reached the host.
    received, transmitted : frames as :func:`packet_beat` streams
    irq : one bit per context, one-cycle pulses
    trace : :class:`TraceSignature`
    """

    def __init__(self, parameters, *, memory_clock=False):
        self._parameters = parameters
        self._memory_clock = memory_clock
        width = parameters.data_width
        super().__init__(
            {
                "accesses": In(stream.Signature(register_access(ADDRESS_WIDTH))),
                "read_data": Out(stream.Signature(32)),
                "reads": Out(stream.Signature(READ_REQUEST)),
                "read_answers": In(stream.Signature(read_beat(width))),
                "writes": Out(stream.Signature(write_beat(width))),
                "read_user": Out(8),
                "write_user": Out(8),
                "write_begun": Out(WRITE_BEGUN),
                "write_level": Out(range(3)),
                "write_error": In(1),
                "fence": Out(1),
                "fenced": In(1),
                "received": In(stream.Signature(packet_beat(width))),
                "transmitted": Out(stream.Signature(packet_beat(width))),
                "irq": Out(parameters.contexts),
                "trace": Out(TraceSignature()),
                **(MEMORY_CLOCK if memory_clock else {}),
            }
        )
        self.registers = RegisterBank(parameters)
        self.initiator = Initiator(parameters) if parameters.has_initiator else AbsentInitiator(parameters)
        self.target = Target(parameters)
        self.memory = MemoryEngine(parameters)
        self.transmitter = FrameTransmitter(parameters)
        self.receiver = FrameReceiver(parameters)
        self.interrupts = InterruptMerger(parameters.contexts, 2)
        self.counters = CounterWriter(parameters.data_width, parameters.event_counters)
        self._blocks = {
            "registers": self.registers,
            "initiator": self.initiator,
            "target": self.target,
            "memory": self.memory,
            "transmitter": self.transmitter,
            "receiver": self.receiver,
            "interrupt_merger": self.interrupts,
            "counters": self.counters,
        }

    def elaborate(self, platform):
        m = Module()
        for name, block in self._blocks.items():
            own_clock = self._memory_clock and block is self.memory
            m.submodules[name] = DomainRenamer("memory")(block) if own_clock else block
        if self._memory_clock:
            self._clock_memory(m)
        self._connect_registers(m)
        self._connect_wire(m)
        self._connect_memory(m)
        self._connect_reads(m)
        self._connect_writes(m)
        self._connect_observers(m)
        return m

    def _clock_memory(self, m):
        m.domains.memory = ClockDomain()
        m.d.comb += [
            ClockSignal("memory").eq(self.memory_clock),
            ResetSignal("memory").eq(ResetSignal()),
            self.memory_runs.eq(self.memory.runs | ResetSignal()),
        ]

    def _connect_registers(self, m):
        registers, initiator, target = self.registers, self.initiator, self.target
        connect_streams(m, wiring.flipped(self.accesses), registers.accesses)
        connect_streams(m, registers.read_data, wiring.flipped(self.read_data))
        connect_streams(m, registers.transmit_tails, initiator.doorbells)
        connect_streams(m, registers.completion_heads, initiator.completion_heads)
        connect_streams(m, registers.arms, initiator.arms)
        connect_streams(m, registers.peer_stores, initiator.peer_stores)
        connect_streams(m, registers.key_stores, target.key_stores)
        connect_streams(m, registers.event_heads, target.event_heads)
        connect_streams(m, registers.event_arms, target.event_arms)
        connect_streams(m, registers.receive_tails, target.receive_tails)
        connect_streams(m, registers.slot_releases, target.slot_releases)
        connect_streams(m, registers.counter_clears, self.counters.clears)
        connect_streams(m, registers.counter_admissions, self.counters.admissions)
        m.d.comb += [
            Value.cast(initiator.retransmission).eq(Value.cast(registers.retransmission)),
            Value.cast(target.retransmission).eq(Value.cast(registers.retransmission)),
            target.answer_base.eq(registers.answer_base),
            Value.cast(target.pdc_command).eq(Value.cast(registers.pdc_command)),
            Value.cast(registers.pdc_view).eq(Value.cast(target.pdc_view)),
            target.cycles.eq(registers.cycles),
            target.drain.eq(registers.drain),
            registers.draining.eq(target.draining),
            self.fence.eq(target.fence),
            target.fenced.eq(self.fenced),
            self.counters.counter_base.eq(registers.counter_base),
            self.transmitter.dscp.eq(registers.dscp),
            initiator.psn_key.eq(registers.psn_key),
            registers.close_requests.eq(initiator.close_requests),
        ]
        for context in range(self._parameters.contexts):
            m.d.comb += [
                Value.cast(initiator.contexts[context]).eq(Value.cast(registers.contexts[context])),
                Value.cast(target.contexts[context]).eq(Value.cast(registers.contexts[context])),
            ]
        for block in (self.transmitter, self.receiver):
            m.d.comb += [block.mac.eq(registers.mac), block.ip.eq(registers.ip)]

    def _connect_wire(self, m):
        for name in ("requests", "request_payload"):
            connect_streams(m, getattr(self.initiator, name), getattr(self.transmitter, name))
        for name in ("responses", "response_payload"):
            connect_streams(m, getattr(self.target, name), getattr(self.transmitter, name))
        connect_streams(m, self.initiator.acknowledgements, self.transmitter.acknowledgements)
        # A header is wide, and the target takes no more than one in two cycles.
        m.submodules.received_requests = received = HalfRateSlice(FRAME_HEADER)
        connect_streams(m, self.receiver.requests, received.i)
        connect_streams(m, received.o, self.target.requests)
        connect_streams(m, self.receiver.request_payload, self.target.request_payload)
        for name in ("responses", "response_payload"):
            connect_streams(m, getattr(self.receiver, name), getattr(self.initiator, name))
        connect_streams(m, wiring.flipped(self.received), self.receiver.frames)
        connect_streams(m, self.transmitter.frames, wiring.flipped(self.transmitted))

    def _connect_memory(self, m):
        connect_streams(m, self.target.memory_requests, self.memory.requests)
        connect_streams(m, self.target.operands, self.memory.operands)
        connect_streams(m, self.target.compares, self.memory.compares)
        connect_streams(m, self.memory.results, self.target.results)

    def _connect_reads(self, m):
        clients = {
            **(self._initiator_reads(m) if self._parameters.has_initiator else {}),
            Requester.LINE_TABLE: (self.memory.line_reads, self.memory.line_data),
            Requester.ANSWER_FETCH: (self.target.answer_reads, self.target.answer_data),
        }
        if self._parameters.has_messages:
            clients[Requester.RECEIVE_FETCH] = self.target.receive_reads, self.target.receive_data
        users = [user for user in READERS if user in clients]
        m.submodules.read_hub = hub = ReadHub(
            self._parameters.data_width, users, outstanding=2 * DESCRIPTOR_READS + 2 * self._parameters.lines
        )
        for index, user in enumerate(users):
            requests, answers = clients[user]
            connect_streams(m, requests, hub.requests[index])
            connect_streams(m, hub.answers[index], answers)
        connect_streams(m, hub.port, wiring.flipped(self.reads))
        connect_streams(m, wiring.flipped(self.read_answers), hub.port_answers)
        m.d.comb += self.read_user.eq(hub.port_user)

    def _initiator_reads(self, m):
        """Return the streams of requests and answers by which the initiator reads descriptors and operands."""
        width, initiator = self._parameters.data_width, self.initiator
        m.submodules.operand_reader = operand_reader = PackedReader(width, DESCRIPTOR_READS)
        m.submodules.compare_reader = compare_reader = PackedReader(width, DESCRIPTOR_READS)
        connect_streams(m, initiator.operand_commands, operand_reader.commands)
        connect_streams(m, operand_reader.packets, initiator.operands)
        connect_streams(m, initiator.compare_commands, compare_reader.commands)
        connect_streams(m, compare_reader.packets, initiator.compares)
        return {
            Requester.DESCRIPTOR_FETCH: (initiator.descriptor_reads, initiator.descriptor_data),
            Requester.OPERAND_FETCH: (operand_reader.requests, operand_reader.answers),
            Requester.COMPARE_FETCH: (compare_reader.requests, compare_reader.answers),
        }

    def _connect_writes(self, m):
        for index, source in enumerate((self.initiator, self.target)):
            connect_streams(m, source.counts, self.counters.orders[index])
        clients = {
            **(self._initiator_writes(m) if self._parameters.has_initiator else {}),
            Requester.LINE_TABLE: (self.memory, "line_writes"),
            Requester.ANSWER_WRITER: (self.target, "answer_writes"),
            Requester.COUNTER_WRITER: (self.counters, "writes"),
        }
        if self._parameters.event_rings:
            clients[Requester.EVENT_WRITER] = self.target, "event_writes"
        users = [user for user in WRITERS if user in clients]
        m.submodules.write_hub = hub = WriteHub(self._parameters.data_width, users)
        for index, user in enumerate(users):
            client, name = clients[user]
            connect_streams(m, getattr(client, name), hub.writes[index])
            if user is not Requester.COUNTER_WRITER:  # nothing waits for its writes
                m.d.comb += getattr(client, f"{name}_ordered").eq(hub.ordered[index])
        connect_streams(m, hub.port, wiring.flipped(self.writes))
        m.d.comb += [
            self.write_user.eq(hub.port_user),
            self.write_begun.eq(hub.begun),
            self.write_level.eq(hub.level),
        ]

    def _initiator_writes(self, m):
        """Return whose write streams, by name, carry the initiator's results and completions."""
        m.submodules.result_writer = result_writer = PackedWriter(self._parameters.data_width)
        connect_streams(m, self.initiator.result_commands, result_writer.commands)
        connect_streams(m, self.initiator.results, result_writer.packets)
        m.d.comb += self.initiator.result_done.eq(result_writer.done)
        return {
            Requester.RESULT_WRITER: (result_writer, "writes"),
            Requester.COMPLETION_WRITER: (self.initiator, "completion_writes"),
        }

    def _connect_observers(self, m):
        """Interrupts, the trace port and the counters: blocks name their outputs after what they report."""
        m.d.comb += [
            self.interrupts.sources[0].eq(self.initiator.interrupts),
            self.interrupts.sources[1].eq(self.target.event_interrupts),
            self.irq.eq(self.interrupts.interrupts),
        ]
        for stage in Stage:
            slot = self._observed(f"trace_{stage.name.lower()}")
            port = getattr(self.trace, stage.name.lower())
            m.d.comb += [port.valid.eq(slot.valid), port.data.eq(Value.cast(slot.event))]
        answer = self.read_answers
        own = {
            Counter.DMA_READ_ERRORS: answer.valid & answer.ready & answer.p.last & answer.p.error,
            Counter.DMA_WRITE_ERRORS: self.write_error,
        }
        pulses = [
            own[counter] if counter in own else self._observed(f"count_{counter.name.lower()}") for counter in Counter
        ]
        # A cycle late: the adders of the counters share no cycle with what they count.
        m.d.sync += self.registers.counts.eq(Cat(*pulses))

    def _observed(self, name):
        """Find the one output of that name among all blocks. Raises LookupError unless there is exactly one."""
        found = [getattr(block, name) for block in self._blocks.values() if hasattr(block, name)]
        if len(found) != 1:
            raise LookupError(f"expected one block with an output {name}, got {len(found)}")
        return found[0]
