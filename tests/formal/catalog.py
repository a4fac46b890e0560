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
from amoeba_hw.messages.slot_releases import SlotReleases
from amoeba_hw.messages.slot_rooms import SlotRooms
from amoeba_hw.stream import Demux, Queue, RegisterSlice, RoundRobinArbiter, SkidBuffer
from amoeba_hw.target.event_rooms import EventRooms
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
from tests.formal.messages import BufferUseSpec, KeptReceivesSpec, SlotRoomSpec
from tests.formal.pcie import CompletionRoomSpec, ReadTagsSpec, RequestOrderSpec, WrittenBytesSpec
from tests.formal.recovery import OldestAskedSpec, OldestResentSpec
from tests.formal.requests import FenceSpec, OperandRoomSpec, QueuePlacesSpec
from tests.formal.reset import WarmResetSpec
from tests.formal.streams import (
    PACKET,
    ArbiterSpec,
    CommitQueueSpec,
    DemuxSpec,
    QueueSpec,
    RegisterSliceSpec,
    SkidBufferSpec,
)
from tests.formal.target import (
    ClosingOrderSpec,
    CountOrdersSpec,
    EventRoomSpec,
    KeptAnswerSpec,
    ReceiversSpec,
    SequenceSpec,
)

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
        "Queue of 3: first in, first out; no loss; `level`; a beat per cycle; on offer at once; stream contract",
        lambda: QueueSpec(3),
        "bmc",
        14,
    ),
    *_with_covers("register_slice", "RegisterSlice: a queue of one; stream contract", RegisterSliceSpec, "prove", 3),
    *_with_covers(
        "skid_buffer",
        "SkidBuffer: a queue of one that may be passed by; `i.ready` from a register; stream contract",
        SkidBufferSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "arbiter",
        "RoundRobinArbiter of 3: nothing lost, made up or mixed; packets whole; at most one packet of each other "
        "input goes before a waiting one; stream contract",
        ArbiterSpec,
        "prove",
        4,
    ),
    *_with_covers(
        "demux",
        "Demux to 3: a packet whole to the one output named, or nowhere; stream contract",
        DemuxSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "commit_queue",
        "CommitQueue of 2: delivers what was committed, in order, within two cycles, and nothing taken back; `room`",
        CommitQueueSpec,
        "bmc",
        12,
    ),
    *_with_covers(
        "axi_writes",
        "AxiDma: AW, W and AR stable; every burst its AWLEN + 1 beats with WLAST on the last; data and strobes "
        "of the beats that came in; no 4 KiB boundary crossed",
        AxiWriteSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "forwarding",
        "Executor with LineStore, naive arithmetic: every operation gets the newest value of its byte, at any "
        "distance and through either way, none before its line has come; a result after three cycles; one commit, "
        "one end each",
        ForwardingSpec,
        "bmc",
        10,
        cover_depth=13,
    ),
    *_with_covers(
        "admission",
        "Admission: an operation may be issued exactly if nothing it uses is in use then by those before it",
        AdmissionSpec,
        "bmc",
        10,
    ),
    *_with_covers(
        "line_table",
        "LineTable of 2 sets of 2: no operation lost or overtaken; a line in one entry; an entry in use never "
        "reused; fetched once; no deadlock",
        LineTableSpec,
        "bmc",
        8,
    ),
    *_with_covers(
        "line_use",
        "LineUse: an entry is in use while operations refer to it or changes of it are unwritten",
        LineUseSpec,
        "bmc",
        9,
    ),
    *_with_covers(
        "entry_records",
        "EntryRecords: an entry's record is the one written last, or zero since it was forgotten",
        EntryRecordsSpec,
        "bmc",
        8,
    ),
    *_with_covers(
        "line_store",
        "LineStore: reads and copies return the newest bytes; a copy only dirty ones",
        LineStoreSpec,
        "bmc",
        7,
    ),
    *_with_covers(
        "write_back",
        "WriteBack with LineStore: every committed byte reaches the host, the newest last, and counts as unwritten "
        "until then; no other byte does",
        WriteBackSpec,
        "bmc",
        10,
    ),
    *_with_covers(
        "queue_places",
        "TransmitRing with RequestStore of one context, 2 PDCs, 4 places: no descriptor is fetched without a place; "
        "every place comes back; a queue knows whether another request follows the one that leaves",
        QueuePlacesSpec,
        "bmc",
        14,
        cover_depth=24,
    ),
    *_with_covers(
        "fences",
        "Packetizer, ContextOrder, WindowCredits of 2 contexts and 2 PDCs, 2 places each: what has a fence begins, "
        "or ends if it is a NOP, only when no packet that it waits for is on its way, of its PDC or of all PDCs of "
        "its context",
        FenceSpec,
        "bmc",
        12,
        cover_depth=14,
    ),
    *_with_covers(
        "operand_room",
        "OperandRequester with 4 and 3 beats: never asks for more than there is room for; all room comes back; "
        "packets sent again go first; stream contract",
        OperandRoomSpec,
        "bmc",
        8,
    ),
    Proof(
        "sequence",
        "SequenceRules, window of 256: accepted is the first packet of a new PDC or exactly the expected one; all "
        "from before are duplicates, whatever the psn; the expected psn moves by one; kept are only later ones "
        "within the window, and each packet in between is asked for once; silent is only a gap that was reported",
        SequenceSpec,
        "combinational",
        1,
    ),
    *_with_covers(
        "gap_store",
        "GapStore of 2 slots, 2 PDCs, timeouts of up to 3 cycles: what is kept is found, and leaves with its own "
        "header; it gives way to others only when all slots are taken and it has waited for a timeout, and after two "
        "always; whatever is kept is taken or counted, once",
        GapStoreSpec,
        "bmc",
        9,
        12,
    ),
    *_with_covers(
        "kept_answers",
        "AnswerHistory and AnswerStore, window of 2: given again is only what was given, in the same incarnation of "
        "the PDC, and not since its place was taken",
        KeptAnswerSpec,
        "bmc",
        9,
    ),
    *_with_covers(
        "event_room",
        "EventRooms: promised and not consumed are at most n - 4; room is found whenever there is some, and still "
        "there when a request that saw it promises it, whatever receive descriptors take; what an earlier generation "
        "gives back does not count",
        EventRoomSpec,
        "prove",
        3,
        cover_depth=20,
    ),
    Proof(
        "receivers",
        "Receivers of three contexts: messages meet the receives of the context itself or of the one it names, and "
        "are taken if that exists, is enabled and has both bases, whatever it shares itself",
        ReceiversSpec,
        "combinational",
        1,
    ),
    *_with_covers(
        "count_orders",
        "CountOrders: an order for each counter of an answer but number 0, the first one's first; stream contract",
        CountOrdersSpec,
        "prove",
        3,
    ),
    Proof(
        "event_counters",
        "CounterWriter of 4: what is written of a counter is what was ordered before, since it was cleared; stream "
        "contract",
        lambda: CounterWriterSpec(4, 10),
        "bmc",
        9,
    ),
    *_with_covers(
        "event_counter",
        "CounterWriter of 2, of which one is none: the same; and the newest value is written within four cycles of a "
        "willing host",
        CounterWriterSpec,
        "bmc",
        11,
        cover_depth=12,
    ),
    *_with_covers(
        "slot_room",
        "SlotRooms of 4 slots: a message that was promised a slot finds a free one when it is matched; no free slot "
        "is kept back; what was promised before the context was disabled does not count",
        SlotRoomSpec,
        "prove",
        3,
        cover_depth=14,
    ),
    *_with_covers(
        "kept_receives",
        "KeptReceives: a message for which a receive was found before it was accepted meets that when it is matched; "
        "a search waits for the messages before and for nothing else; receive descriptors wait as long as something "
        "is kept",
        KeptReceivesSpec,
        "prove",
        3,
    ),
    Proof(
        "buffer_use",
        "BufferUse: a message gets what is left of its buffer at most; of a MULTI receive the rest begins at the "
        "nearest multiple of 64 behind it; used up is what has less than it must, or nothing",
        BufferUseSpec,
        "combinational",
        1,
    ),
    *_with_covers(
        "ordered_lists",
        "OrderedLists of 2 lists, 4 places each, 2 in a row: a search finds the oldest match, whatever was put in, "
        "taken out or overwritten before; the lowest free place is taken, and no place twice; each result in the "
        "cycle promised; stream contract",
        lambda: OrderedListsSpec(2),
        "prove",
        2,
        cover_depth=17,
    ),
    *_with_covers(
        "closing_order",
        "ClosingOrder of 3: first is the number that was put in first, of those that are not refused",
        ClosingOrderSpec,
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
        "WindowCredits of 2 PDCs, 2 places each: places taken are the packets cut and unanswered, never more than "
        "the window nor fewer than none, whatever else happens in the same cycle; a context's all answered are those "
        "of the PDCs that are its own; of one that has lost something there is room for fewer, until so many have "
        "been answered; what it shows is two cycles old",
        WindowCreditsSpec,
        "prove",
        3,
    ),
    *_with_covers(
        "packet_log",
        "PacketLog of 2 PDCs, 4 places each: a packet, and what was noted of its answer, is read as it was written "
        "while others within the window come and go, for an answer and for sending again",
        PacketLogSpec,
        "bmc",
        6,
    ),
    *_with_covers(
        "retransmitter",
        "Retransmitter of 2 PDCs: whatever it is asked, it sends again unanswered packets only, and of those whose "
        "answers were kept none but the oldest; a failed PDC does not go back, whatever it did when it failed; "
        "stream contract",
        RetransmitterSpec,
        "bmc",
        14,
        cover_depth=14,
    ),
    *_with_covers(
        "oldest_resent",
        "Retransmitter of 2 PDCs: one that has timed out, or whose hold-off is over, sends its oldest packet again "
        "within 17 cycles in which nothing else keeps it back, whatever NACKs come, unless that packet is answered "
        "or the PDC ends",
        OldestResentSpec,
        "prove",
        2,
        cover_depth=16,
    ),
    *_with_covers(
        "oldest_asked",
        "RetransmissionTimers of 2 PDCs: the oldest packet is asked for within the longest timeout and one hold-off, "
        "in which visits of a PDC that sends again do not count, whatever NACKs come",
        OldestAskedSpec,
        "prove",
        2,
        cover_depth=30,
    ),
    *_with_covers(
        "failing",
        "RetransmissionTimers of 2 PDCs: who is told to fail is given up within a round, whatever it does, once, and "
        "without a timeout; opening it anew forgets that it was told; who is given up since there is no PDC "
        "for it was refused one more often than is allowed since it was answered",
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
        "PeerTable with PacketNumberer and ResponseHandler: an entry is stored within three cycles, also if headers, "
        "data and completions are never taken; nobody writes what he has read before it was stored",
        PeerStoreSpec,
        "bmc",
        10,
    ),
    *_with_covers(
        "completer",
        "Completer of 3: no write waits for the link, nor anything else while there is room for its answer; answers "
        "have the labels of the requests that want one, in order; stream contract",
        CompleterSpec,
        "bmc",
        14,
        cover_depth=20,
    ),
    *_with_covers(
        "function_reset",
        "FunctionReset: reset is nothing that is in the middle of a packet, a read or an access; once for each time "
        "that it is asked for, and before it is said to be done; no request begins without Bus Master Enable",
        FunctionResetSpec,
        "bmc",
        20,
        cover_depth=20,
    ),
    *_with_covers(
        "msix",
        "MsixTable of 2: a message for each interrupt and for nothing else; none begins of a vector that is masked; "
        "one that may be sent is, within six cycles of a willing link; stream contract",
        MsixSpec,
        "bmc",
        12,
        cover_depth=12,
    ),
    *_with_covers(
        "answers_sink",
        "AnswerOrder with places for two completions beyond those decided: no answer waits for packets to leave",
        AnswersSinkSpec,
        "bmc",
        19,
        cover_depth=16,
    ),
    *_with_covers(
        "read_tags",
        "ReadTags of 4: a tag is given only while no read has it, neither one under way nor one that was given up; "
        "what is asked of a tag is what was stored last; only reads under way expire",
        ReadTagsSpec,
        "prove",
        2,
    ),
    *_with_covers(
        "completion_room",
        "CompletionBuffer of 4 lines and 2 tags: never more lines asked for than there is room for; a line is "
        "delivered with what its own completions brought, however they are cut and mixed; no error without cause; "
        "stream contract",
        CompletionRoomSpec,
        "bmc",
        7,
        cover_depth=16,
    ),
    *_with_covers(
        "written_bytes",
        "WriteRequester, lines of 2 DWs: every strobed byte is in one request, in the order of lines, and no other "
        "byte in any; lengths and byte enables as they may be; what has settled has left; stream contract",
        WrittenBytesSpec,
        "bmc",
        6,
        cover_depth=12,
    ),
    *_with_covers(
        "request_order",
        "RequestMerger: a read or an interrupt leaves when all has left that was accepted or on offer before it; "
        "requests stay whole; none begins while stopped, no read without credit; stream contract",
        RequestOrderSpec,
        "bmc",
        7,
        cover_depth=12,
    ),
    _warm_reset("Queue", lambda: Queue(2, 3)),
    _warm_reset("RegisterSlice", lambda: RegisterSlice(4)),
    _warm_reset("SkidBuffer", lambda: SkidBuffer(4)),
    _warm_reset("RoundRobinArbiter", lambda: RoundRobinArbiter(PACKET, 3), qualified={"grant": "o.valid"}),
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
    _warm_reset("EventRooms", lambda: EventRooms(1)),
    _warm_reset("SlotRooms", lambda: SlotRooms(1, 4)),
    _warm_reset("KeptReceives", KeptReceives),
    _warm_reset("SlotReleases", lambda: SlotReleases(1, 2), assuming=lambda ports: ports.enabled),
    _warm_reset("CounterWriter", lambda: CounterWriter(128, 2)),
]
"""In the order of the table in docs/verification.md."""
