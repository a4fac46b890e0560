"""All proofs, each with what it says in one sentence."""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.lib import wiring
from amoeba_hw.commit_queue import CommitQueue
from amoeba_hw.host.axi_dma import AxiDma
from amoeba_hw.host.counter_writer import CounterWriter
from amoeba_hw.initiator.payload_gate import PayloadGate
from amoeba_hw.initiator.retransmission_timers import RetransmissionTimers
from amoeba_hw.initiator.window_credits import WindowCredits
from amoeba_hw.memory.delivery_gate import DeliveryGate
from amoeba_hw.memory.line_table import LineTable
from amoeba_hw.messages.kept_receives import KeptReceives
from amoeba_hw.messages.slot_credits import SlotCredits
from amoeba_hw.messages.slot_releases import SlotReleases
from amoeba_hw.stream import (
    Demux,
    HalfRateSlice,
    Queue,
    RegisteredArbiter,
    RegisterSlice,
    RoundRobinArbiter,
    SkidBuffer,
)
from amoeba_hw.target.event_credits import EventCredits
from amoeba_model.atomic.formats import is_integer
from amoeba_model.opcodes import Datatype
from amoeba_sim.formal import Outcome, prove

from tests.formal.admission import AdmissionSpec
from tests.formal.answers import AnswersSinkSpec
from tests.formal.axi import AxiWriteSpec
from tests.formal.counters import CounterWriterSpec
from tests.formal.gaps import GapStoreSpec
from tests.formal.host_requests import CompleterSpec, FunctionResetSpec, MsixSpec, PeerStoreSpec
from tests.formal.initiator import FailingSpec, FenceOrderSpec, PacketLogSpec, RetransmitterSpec, WindowCreditsSpec
from tests.formal.lanes import IntegerLanesSpec, proven_ops
from tests.formal.lines import EntryRecordsSpec, LineTableSpec, LineUseSpec
from tests.formal.lists import OrderedListsSpec
from tests.formal.memory import SMALL, ForwardingSpec, LineStoreSpec, WriteBackSpec
from tests.formal.messages import BufferUseSpec, KeptReceivesSpec, OpenReceivesSpec, SlotCreditsSpec
from tests.formal.pcie import CompletionCreditsSpec, ReadTagsSpec, RequestOrderSpec, WrittenBytesSpec
from tests.formal.recovery import OldestAskedSpec, OldestResentSpec
from tests.formal.requests import FenceSpec, OperandSpaceSpec, QueuePlacesSpec
from tests.formal.reset import WarmResetSpec
from tests.formal.streams import (
    PACKET,
    ArbiterSpec,
    CommitQueueSpec,
    DemuxSpec,
    HalfRateSliceSpec,
    QueueSpec,
    RegisteredArbiterSpec,
    RegisterSliceSpec,
    SkidBufferSpec,
)
from tests.formal.target import (
    ClosingOrderSpec,
    CountOrdersSpec,
    EventCreditsSpec,
    IdlePdcsSpec,
    KeptAnswerSpec,
    OpenMessagesSpec,
    ReceiversSpec,
    SequenceSpec,
)
from tests.formal.write_order import LineOrderSpec, PackedWriterOrderSpec, RingWriterOrderSpec, WriteHubSpec

__all__ = ["PROOFS", "Proof"]


@dataclass(frozen=True)
class Proof:
    """One run of the solver: ``build`` makes the specification; the rest is as for ``amoeba_sim.formal.prove``."""

    name: str
    says: str
    build: Callable[[], wiring.Component]
    mode: str
    depth: int
    any_power_up: bool = False

    def run(self) -> Outcome:
        return prove(
            self.build(), self.name, mode=self.mode, depth=self.depth, any_power_up=self.any_power_up, timeout=300
        )


def _with_covers(name, says, build, mode, depth, cover_depth=10):
    """A proof, and that the situations it is about can come about at all."""
    return [Proof(name, says, build, mode, depth), Proof(f"{name}_reached", "", build, "cover", cover_depth)]


def _warm_reset(name, build, depth=10, **rules):
    says = f"one cycle of reset brings {name} from any state to the same behaviour"
    return Proof(f"reset_{name}", says, lambda: WarmResetSpec(build, **rules), "bmc", depth, any_power_up=True)


_LINE_TABLE_OUTPUTS = {"entry": "entry_valid", "fetch": "fetch_valid", "allocated_line": "allocated"}

PROOFS = [
    *_with_covers(
        "queue",
        "Queue of 3: first in, first out; no loss; `level`; a beat per cycle; entries offered at once; stream "
        "contract",
        lambda: QueueSpec(3),
        "bmc",
        14,
    ),
    *_with_covers("register_slice", "RegisterSlice: a queue of one; stream contract", RegisterSliceSpec, "prove", 3),
    *_with_covers(
        "half_rate_slice",
        "HalfRateSlice: a queue of one; all outputs from registers; stream contract",
        HalfRateSliceSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "skid_buffer",
        "SkidBuffer: a queue of one with a bypass; `i.ready` from a register; stream contract",
        SkidBufferSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "arbiter",
        "RoundRobinArbiter of 3: nothing lost, invented or mixed; packets whole; at most one packet of each other "
        "input overtakes a waiting packet; stream contract",
        ArbiterSpec,
        "prove",
        4,
    ),
    *_with_covers(
        "registered_arbiter",
        "RegisteredArbiter of 3: the same; no `ready` depends on a `valid`; one input alone waits for a cycle",
        RegisteredArbiterSpec,
        "prove",
        4,
    ),
    *_with_covers(
        "demux",
        "Demux to 3: each packet goes whole to the one output named, or nowhere; stream contract",
        DemuxSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "commit_queue",
        "CommitQueue of 2: delivers committed entries in order within two cycles, and no entry taken back; `room`",
        CommitQueueSpec,
        "bmc",
        12,
    ),
    *_with_covers(
        "write_order",
        "WriteHub of 3: beats leave in the order in which `ordered` and `begun` report them, with their client's "
        "number; stream contract",
        WriteHubSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "packed_writer_order",
        "PackedWriter before a hub with any delay: a command is done a cycle after its last beat has its place, "
        "not before",
        PackedWriterOrderSpec,
        "bmc",
        9,
        cover_depth=12,
    ),
    *_with_covers(
        "ring_writer_order",
        "RingWriter before a hub with any delay: an entry is taken as its last beat gets its place",
        RingWriterOrderSpec,
        "bmc",
        10,
        cover_depth=12,
    ),
    *_with_covers(
        "line_order",
        "LineOrder: no read is offered while a write that was ordered before it and that it has to follow waits for "
        "its answer; reads that follow nothing leave after three cycles; nothing is lost; stream contract",
        LineOrderSpec,
        "bmc",
        8,
        cover_depth=11,
    ),
    *_with_covers(
        "axi_writes",
        "AxiDma: AW, W and AR stable; each burst has AWLEN + 1 beats with WLAST on the last; data and strobes are "
        "those of the input beats; no burst crosses a 4 KiB boundary",
        AxiWriteSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "forwarding",
        "Executor with LineStore, naive arithmetic: every operation gets the newest value of its byte, at any "
        "distance and over either path, and none before its line has arrived; a result after three cycles; one "
        "commit and one end each",
        ForwardingSpec,
        "bmc",
        10,
        cover_depth=13,
    ),
    *_with_covers(
        "admission",
        "Admission: an operation may issue exactly if no earlier operation uses its resources",
        AdmissionSpec,
        "bmc",
        10,
    ),
    *_with_covers(
        "line_table",
        "LineTable of 2 sets of 2: no operation lost or overtaken; each line in one entry; an entry in use never "
        "reused; each line fetched once; no deadlock",
        LineTableSpec,
        "bmc",
        8,
    ),
    *_with_covers(
        "line_use",
        "LineUse: an entry is in use while operations refer to it or its changes are unwritten",
        LineUseSpec,
        "bmc",
        9,
    ),
    *_with_covers(
        "entry_records",
        "EntryRecords: an entry's record is the last one written, or zero once forgotten",
        EntryRecordsSpec,
        "bmc",
        8,
    ),
    *_with_covers(
        "line_store",
        "LineStore: reads and copies return the newest bytes; a copy returns only dirty bytes",
        LineStoreSpec,
        "bmc",
        7,
    ),
    *_with_covers(
        "write_back",
        "WriteBack with LineStore before a hub with any delay: every committed byte gets its place, the newest last, "
        "and counts as unwritten until then; no other byte does",
        WriteBackSpec,
        "bmc",
        10,
    ),
    *_with_covers(
        "queue_places",
        "TransmitRing with RequestStore of one context, 2 PDCs, 4 places: no descriptor is fetched without a free "
        "place; every place is released; a queue knows whether another request follows the one that leaves",
        QueuePlacesSpec,
        "bmc",
        14,
        cover_depth=24,
    ),
    *_with_covers(
        "fences",
        "Packetizer, ContextOrder, WindowCredits of 2 contexts and 2 PDCs, 2 places each: a fenced request begins, "
        "or a fenced NOP ends, only when no packet that it waits for is outstanding, in its PDC or in all PDCs of "
        "its context",
        FenceSpec,
        "bmc",
        12,
        cover_depth=14,
    ),
    *_with_covers(
        "operand_space",
        "OperandRequester with 4 and 3 beats: never requests more beats than there is free space; all space is "
        "released; packets sent again go first; stream contract",
        OperandSpaceSpec,
        "bmc",
        8,
    ),
    Proof(
        "sequence",
        "SequenceRules, window of 256: accepts only the first packet of a new PDC or exactly the expected one; all "
        "earlier packets are duplicates, whatever the psn; the expected psn moves by one; keeps only later packets "
        "within the window, and asks for each missing packet once; omits the NACK only for a gap that was reported",
        SequenceSpec,
        "combinational",
        1,
    ),
    *_with_covers(
        "open_messages",
        "OpenMessages of 2 PDCs: a packet without START passes exactly where it continues the message that the "
        "packet accepted before it began or continued, and then with the immediate data of its first packet",
        OpenMessagesSpec,
        "bmc",
        6,
    ),
    *_with_covers(
        "gap_store",
        "GapStore of 2 slots, 2 PDCs, timeouts of up to 3 cycles: a kept packet is found, and leaves with its own "
        "header; others replace it only when all slots are taken and it has waited for a timeout, and always after "
        "two; every kept packet is taken or counted, once",
        GapStoreSpec,
        "bmc",
        9,
        12,
    ),
    *_with_covers(
        "kept_answers",
        "AnswerHistory and AnswerStore, window of 2: replays only answers given in the same connection epoch of the "
        "PDC, and not after their place was taken",
        KeptAnswerSpec,
        "bmc",
        9,
    ),
    *_with_covers(
        "event_credit",
        "EventCredits: entries reserved and not consumed are at most n - 4; free space is found whenever there is "
        "some, and is still free when a request that saw it reserves it, whatever receive descriptors take; releases"
        " of an earlier generation do not count",
        EventCreditsSpec,
        "prove",
        3,
        cover_depth=20,
    ),
    Proof(
        "receivers",
        "Receivers of three contexts: messages match the receives of the context itself or of the one it names, and "
        "are taken if that one exists, is enabled and has both bases, whatever that one shares itself",
        ReceiversSpec,
        "combinational",
        1,
    ),
    *_with_covers(
        "count_orders",
        "CountOrders: one order for each counter of an answer except number 0, the first counter's first; stream "
        "contract",
        CountOrdersSpec,
        "prove",
        3,
    ),
    Proof(
        "event_counters",
        "CounterWriter of 4: a written value of a counter is one ordered before, since the counter was cleared; "
        "stream contract",
        lambda: CounterWriterSpec(4, 10),
        "bmc",
        9,
    ),
    *_with_covers(
        "event_counter",
        "CounterWriter of 2, where number 0 is no counter: the same; and the newest value is written within four "
        "cycles of a ready host",
        CounterWriterSpec,
        "bmc",
        11,
        cover_depth=12,
    ),
    *_with_covers(
        "slot_space",
        "SlotCredits of 4 slots: a message with a reserved slot finds a free slot when it is matched; no free slot "
        "is held back; reservations from before the context was disabled do not count",
        SlotCreditsSpec,
        "prove",
        3,
        cover_depth=14,
    ),
    *_with_covers(
        "kept_receives",
        "KeptReceives: a message whose receive was found before it was accepted gets that receive when it is "
        "matched; a search waits only for earlier messages; receive descriptors wait while a receive is kept",
        KeptReceivesSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "open_receives",
        "OpenReceives of 2 PDCs: a row is open from its begin to its end, and shows the receive that was put there",
        OpenReceivesSpec,
        "bmc",
        8,
    ),
    Proof(
        "buffer_use",
        "BufferUse: a message gets at most the rest of its buffer; the rest of a MULTI receive begins at the nearest"
        " multiple of 64 behind the message; a buffer is used up when less than its minimum, or nothing, is left",
        BufferUseSpec,
        "combinational",
        1,
    ),
    *_with_covers(
        "ordered_lists",
        "OrderedLists of 2 lists, 4 places each, 2 in a row: a search finds the oldest match, whatever was inserted,"
        " removed or overwritten before; the lowest free place is taken, and no place twice; each result in the "
        "cycle announced; stream contract",
        lambda: OrderedListsSpec(2),
        "prove",
        2,
        cover_depth=17,
    ),
    *_with_covers(
        "closing_order",
        "ClosingOrder of 3: first is the number inserted first, of those that are not refused",
        ClosingOrderSpec,
        "bmc",
        8,
    ),
    *_with_covers(
        "idle_pdcs",
        "IdlePdcs of 2: an idle PDC is the first choice, or the second in the middle of a message; the lowest number "
        "of each; a packet ends idleness",
        IdlePdcsSpec,
        "bmc",
        8,
    ),
    *(
        Proof(
            f"lanes_{datatype.name.removeprefix('FI_').lower()}",
            "FastLanes, 128 bits, every datatype built: "
            f"{len(proven_ops(datatype))} of the 20 single-cycle operations on {datatype.name}, for all operands",
            lambda datatype=datatype: IntegerLanesSpec(datatype),
            "combinational",
            1,
        )
        for datatype in Datatype
        if is_integer(datatype)
    ),
    *_with_covers(
        "window_credits",
        "WindowCredits of 2 PDCs, 2 places each: places taken are the packets cut and unanswered, from zero to the "
        "window, whatever else happens in the same cycle; a context's packets are all answered when those of its own"
        " PDCs are; a PDC with a loss has fewer credits until enough packets are answered; outputs are two cycles "
        "old",
        WindowCreditsSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "packet_log",
        "PacketLog of 2 PDCs, 4 places each: a packet and the note of its answer are read as written while others "
        "within the window come and go, for an answer and for sending again",
        PacketLogSpec,
        "bmc",
        6,
    ),
    *_with_covers(
        "retransmitter",
        "Retransmitter of 2 PDCs: sends only unanswered packets again, whatever is asked, and of those whose answers"
        " were kept only the oldest; a failed PDC does not go back, whatever it did when it failed; stream contract",
        RetransmitterSpec,
        "bmc",
        14,
        cover_depth=14,
    ),
    *_with_covers(
        "oldest_resent",
        "Retransmitter of 2 PDCs: a PDC that has timed out, or whose hold-off is over, sends its oldest packet again"
        " within 17 cycles without other delays, whatever NACKs arrive, unless that packet is answered or the PDC "
        "ends",
        OldestResentSpec,
        "prove",
        2,
        cover_depth=16,
    ),
    *_with_covers(
        "oldest_asked",
        "RetransmissionTimers of 2 PDCs: the oldest packet is asked for within the longest timeout and one hold-off,"
        " whatever NACKs arrive; visits of a PDC that sends again do not count",
        OldestAskedSpec,
        "prove",
        2,
        cover_depth=30,
    ),
    *_with_covers(
        "failing",
        "RetransmissionTimers of 2 PDCs: a PDC told to fail is given up within a round, once and without a timeout, "
        "whatever it does; a new connection epoch clears the order to fail; a PDC given up for lack of a target PDC "
        "was refused once more than allowed since its last answer",
        FailingSpec,
        "bmc",
        16,
        cover_depth=12,
    ),
    *_with_covers(
        "fence_order",
        "ResultOrder of 3: a NOP that waited for an answer completes behind it; stream contract",
        FenceOrderSpec,
        "bmc",
        10,
        cover_depth=10,
    ),
    *_with_covers(
        "peer_store",
        "PeerTable with PacketNumberer and ResponseHandler: an entry is stored within three cycles, also if headers,"
        " data and completions are never taken; no block writes back a value that it read before the store",
        PeerStoreSpec,
        "bmc",
        10,
    ),
    *_with_covers(
        "completer",
        "Completer of 3: no write waits for the link, and no other request does while there is space for its answer;"
        " answers carry the labels of the requests that want one, in order; stream contract",
        CompleterSpec,
        "bmc",
        14,
        cover_depth=20,
    ),
    *_with_covers(
        "function_reset",
        "FunctionReset: no block is reset in the middle of a packet, a read or an access; one reset for each "
        "request, before the reset is reported done; no request begins without Bus Master Enable",
        FunctionResetSpec,
        "bmc",
        20,
        cover_depth=20,
    ),
    *_with_covers(
        "msix",
        "MsixTable of 2: a message for each interrupt and for nothing else; none begins for a masked vector; a "
        "message that may be sent begins within six cycles of a ready link; stream contract",
        MsixSpec,
        "bmc",
        12,
        cover_depth=12,
    ),
    *_with_covers(
        "answers_sink",
        "AnswerOrder with space for two completions beyond those decided: no answer waits for packets to leave",
        AnswersSinkSpec,
        "bmc",
        19,
        cover_depth=16,
    ),
    *_with_covers(
        "read_tags",
        "ReadTags of 4: a tag is given only while no read has it, neither an outstanding nor an abandoned one; a "
        "lookup of a tag returns what was stored last; only outstanding reads expire",
        ReadTagsSpec,
        "prove",
        2,
    ),
    *_with_covers(
        "completion_credits",
        "CompletionBuffer of 4 lines and 2 tags: never requests more lines than there is space for; a line is "
        "delivered with the data of its own completions, however they are cut and mixed; no error without cause; "
        "stream contract",
        CompletionCreditsSpec,
        "bmc",
        7,
        cover_depth=16,
    ),
    *_with_covers(
        "written_bytes",
        "WriteRequester, lines of 2 DWs: every strobed byte is in one request, in the order of lines, and no other "
        "byte in any; legal lengths and byte enables; settled lines have left; stream contract",
        WrittenBytesSpec,
        "bmc",
        6,
        cover_depth=12,
    ),
    *_with_covers(
        "request_order",
        "RequestMerger: a read or an interrupt leaves after everything that was accepted or on offer before it; "
        "requests stay whole; none begins while stopped, no read without credit; stream contract",
        RequestOrderSpec,
        "bmc",
        7,
        cover_depth=12,
    ),
    _warm_reset("Queue", lambda: Queue(2, 3)),
    _warm_reset("RegisterSlice", lambda: RegisterSlice(4)),
    _warm_reset("HalfRateSlice", lambda: HalfRateSlice(4)),
    _warm_reset("SkidBuffer", lambda: SkidBuffer(4)),
    _warm_reset("RoundRobinArbiter", lambda: RoundRobinArbiter(PACKET, 3), qualified={"grant": "o.valid"}),
    _warm_reset("RegisteredArbiter", lambda: RegisteredArbiter(PACKET, 3)),
    _warm_reset("Demux", lambda: Demux(PACKET, 3)),
    _warm_reset("CommitQueue", lambda: CommitQueue(2, 2), assuming=lambda ports: ~(ports.commit & ports.rollback)),
    _warm_reset("AxiDma", lambda: AxiDma(32)),
    _warm_reset(
        "LineTable",
        lambda: LineTable(SMALL),
        depth=7,
        qualified=_LINE_TABLE_OUTPUTS,
        # Nothing ends that has not begun; within the cycles looked at, nothing needs to.
        assuming=lambda ports: ~(ports.retired | ports.retired_queues | ports.written),
    ),
    _warm_reset("WindowCredits", lambda: WindowCredits(2, 2, 2, 1)),
    _warm_reset("PayloadGate", lambda: PayloadGate(8)),
    _warm_reset("RetransmissionTimers", lambda: RetransmissionTimers(2)),
    _warm_reset("DeliveryGate", lambda: DeliveryGate(SMALL, 3)),
    _warm_reset("EventCredits", lambda: EventCredits(1)),
    _warm_reset("SlotCredits", lambda: SlotCredits(1, 4)),
    _warm_reset("KeptReceives", KeptReceives),
    _warm_reset("SlotReleases", lambda: SlotReleases(1, 2), assuming=lambda ports: ports.enabled),
    _warm_reset("CounterWriter", lambda: CounterWriter(128, 2)),
]
"""In the order of the table in docs/verification.md."""
