"""The packet delivery contexts of initiators elsewhere, and the order of their packets."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.codec import NO_PDC
from amoeba_model.wire.uet import UNTAGGED_MESSAGES, RequestOpcode, SesFlags

from amoeba_hw.interfaces import FRAME_HEADER, PDC_COMMAND, PDC_VIEW, RETRANSMISSION
from amoeba_hw.packed import first_of
from amoeba_hw.request_records import (
    CHECK_REPORT,
    DUPLICATE,
    EPOCH_BITS,
    EVENT_CLAIM,
    GAP_PASSAGE,
    GENERATION_BITS,
    NACK,
    RECEIVE_QUESTION,
    RECEIVE_REPLY,
    RECEIVER,
    SEQUENCED_REQUEST,
    among_opcodes,
    is_message,
    message_extent,
)
from amoeba_hw.target.closing_order import ClosingOrder
from amoeba_hw.target.connection_epochs import ConnectionEpochs
from amoeba_hw.target.gap_store import GapStore
from amoeba_hw.target.idle_pdcs import IdlePdcs
from amoeba_hw.target.pdc_commands import PdcCommands
from amoeba_hw.target.sequence import PACKET_VIEW, PDC_ENTRY, SequenceRules, packet_view

__all__ = ["PdcTable"]

HASH_BITS = 8

_RENDEZVOUS = (RequestOpcode.RENDEZVOUS_SEND.value, RequestOpcode.RENDEZVOUS_TSEND.value)
_ATOMICS = (RequestOpcode.TSEND_ATOMIC.value, RequestOpcode.TSEND_FETCH_ATOMIC.value)


def _hashed(header):
    """Eight bits of a sender; different for 16 consecutive addresses with 16 consecutive PDCs each."""
    # The PDC's bits the other way round, so that small numbers meet the high bits of small addresses.
    pdc = header.spdcid[:8] ^ header.spdcid[8:]
    return header.ip[:8] ^ header.ip[8:16] ^ header.ip[16:24] ^ header.ip[24:] ^ Cat(*reversed(list(pdc)))


class PdcTable(wiring.Component):
    """Finds the PDC of each packet and lets only the expected one pass ("Sequence" in README.md).

    One that comes before its turn is kept, if there is a slot, and judged anew as soon as its turn has come, in front
    of all that waits at ``requests``.

    Parameters
    ----------
    parameters : NicParameters
        ``target_pdcs`` is the size of the table, at least 2; ``reserved_pdcs`` go to nobody but the initiators that
        address their context, while that is enabled. Without ``out_of_order_entries`` nothing is kept.

    Members
    -------
    requests : FRAME_HEADER stream
        Requests and CLOSE_COMMANDs.
    sequenced : SEQUENCED_REQUEST stream
        All of them, in order; those that are not accepted with ``dropped``. A packet that is kept is among them
        twice: ``dropped`` with ``gap.enters``, and with ``gap.leaves`` when it is judged anew.
    ahead, ahead_key : out
        A packet is being judged, and its ``memory_key``. On ``sequenced`` comes none that was not the cycle before.
    nacks : NACK stream
    duplicates : DUPLICATE stream
    receivers : array of RECEIVER, In
        Of the contexts: where a message needs an event and a slot. Stay while their context is enabled.
    enabled : In, a bit per context
    event_open, event_blocked : In, a bit per context
        The context has an event ring with a free entry, or a full one; reservations count from the next cycle on.
    slot_open, slot_blocked : In, a bit per context
        The context takes messages, and a slot is free, or none; the same.
    event_generations : array of GENERATION_BITS, In
    event_reserve : EVENT_CLAIM, Out
        A request that was accepted may have an event: of an RMA of several packets the last one, of a message of
        several packets the first one, which needs the entry for the last.
    message_reserve : EVENT_CLAIM, Out
        The request may need a slot: only with ``event_reserve``. A tagged atomic and a message of several packets
        need none, a rendezvous always one, and any other message unless it meets a receive.
    receive_question, receive_reply : RECEIVE_QUESTION, Out, RECEIVE_REPLY, In
        Whether a message that could be accepted but for a slot meets a receive. If so it is accepted in the cycle
        after the reply, else refused with it. The reply does not depend on the question in the same cycle.
    message_accepted : Out(1)
        Pulse: ``sequenced`` has a message in the next cycle that is not dropped.
    checked : CHECK_REPORT, In
        Until a request of it has passed the checks, a PDC is given away like a closed one when the table is full.
    retransmission : RETRANSMISSION, In
        A PDC that has been idle for IDLE_TIMEOUTS of its timeouts times limit + 1 is evictable as well; slots after
        one.
    cycles : In(48)
    pdc_command : PDC_COMMAND, In
        A PDC that is to ``close`` does so behind the packet that is being judged, unless it is opened for somebody
        else by then.
    pdc_view : PDC_VIEW, Out
        State of the PDC at the time of a command with ``select``, from the next cycle on.
    count_dropped_pdc, count_dropped_sequence, count_duplicates : Out(1)

    ::

        cycle     0          1                       2
        work      taken      its PDC's entry read    judged, entry written; the next one taken
        SYN       its senders' hashes compared, the first that is equal read

    One packet in two cycles, also with SYN, where the sender's hash is compared with those of all PDCs at once. One
    cycle more for each PDC with the same hash in front of the packet's own, two when a PDC is opened; where that was
    used before, it waits until all packets before it have been checked. A kept packet is judged three cycles after
    the one before it. A packet that needs ``nacks`` or ``duplicates`` waits for it, as one with a
    ``receive_question`` does for the reply.
    """

    def __init__(self, parameters):
        self._pdcs = parameters.target_pdcs
        self._window = parameters.window
        self._out_of_order_entries = parameters.out_of_order_entries
        self._contexts = parameters.contexts
        self._has_messages = parameters.has_messages
        self._reserved = parameters.reserved_pdcs
        if self._pdcs < 2:
            raise ValueError(f"Expected at least two target PDCs, got {self._pdcs}")
        super().__init__(
            {
                "requests": In(stream.Signature(FRAME_HEADER)),
                "sequenced": Out(stream.Signature(SEQUENCED_REQUEST)),
                "ahead": Out(1),
                "ahead_key": Out(64),
                "nacks": Out(stream.Signature(NACK)),
                "duplicates": Out(stream.Signature(DUPLICATE)),
                "receivers": In(RECEIVER).array(self._contexts),
                "enabled": In(self._contexts),
                "event_open": In(self._contexts),
                "event_blocked": In(self._contexts),
                "slot_open": In(self._contexts),
                "slot_blocked": In(self._contexts),
                "event_generations": In(GENERATION_BITS).array(self._contexts),
                "event_reserve": Out(EVENT_CLAIM),
                "message_reserve": Out(EVENT_CLAIM),
                "receive_question": Out(RECEIVE_QUESTION),
                "receive_reply": In(RECEIVE_REPLY),
                "message_accepted": Out(1),
                "checked": In(CHECK_REPORT),
                "retransmission": In(RETRANSMISSION),
                "cycles": In(48),
                "pdc_command": In(PDC_COMMAND),
                "pdc_view": Out(PDC_VIEW),
                "count_dropped_pdc": Out(1),
                "count_dropped_sequence": Out(1),
                "count_duplicates": Out(1),
            }
        )
        self._used = Signal(self._pdcs)
        """PDCs that were ever opened: the others are free, and their entries mean nothing."""
        self._refused = Signal(self._pdcs)
        """PDCs that are kept for another context than the packet's."""
        self._hashes = [Signal(HASH_BITS, name=f"hash_{number}") for number in range(self._pdcs)]
        self._current = Signal(FRAME_HEADER)
        self._following = Signal(32)
        """The psn after its own."""
        self._resumed = Signal()
        """The packet was kept, in this slot, and is its PDC's next one."""
        self._slot = Signal(8)
        self._has_slot = Signal()
        self._passage = Signal(GAP_PASSAGE)
        self._thrown = Signal()
        """A packet that was kept is to be counted as dropped."""
        self._candidates = Signal(self._pdcs)
        """PDCs that may be the sender's and have not been read yet."""
        self._number = Signal(range(self._pdcs))
        """The PDC whose entry the read port shows."""
        self._exists = Signal()
        """That is one which may be the sender's; otherwise one to open."""
        self._seeks_victim = Signal()
        self._is_message = Signal()
        self._receiver = Signal(12)
        """The context of which the packet needs an event or a slot, if any: number as in ``resource_index``."""
        self._has_receiver = Signal()
        self._event_open = Signal()
        self._slot_open = Signal()
        self._blocked = Signal()
        self._end_open = Signal()
        self._end_blocked = Signal()
        """The packet is a message's last and not its first: the same, in case that began with immediate data."""
        self._data_pending = Signal()
        """The message that the packet's PDC began last has immediate data, and more packets."""
        self._has_event = Signal()
        """An event entry is free for the packet, and it may need one."""
        self._in_question = Signal()
        """The packet is a message for which there is no slot, and nobody has said yet whether it meets a receive."""
        self._receive_kept = Signal()
        self._own = Signal(range(self._pdcs))
        self._has_own = Signal()
        """The first PDC read that is the sender's, of another epoch than the packet's, and was evictable."""
        self._listed = Signal(self._pdcs)
        """Evictable PDCs: closed, provisional, or idle and in no message. The others ever opened are open."""
        self._evictable = Signal(range(self._pdcs))
        """The PDC to give away, if there is one."""
        self._provisional = Signal(self._pdcs)
        """PDCs that are open, and of which no request has passed the checks."""
        self._leaving = Signal(self._pdcs)
        """PDCs that are about to leave the list of evictable ones."""
        self._closing = Signal()
        """The entry that the read port shows is of a PDC that a command is to close."""
        self._between = Signal()
        """No packet is being judged: the list of evictable PDCs may change."""
        self._unchecked = Signal(EPOCH_BITS)
        """Packets accepted and not checked yet."""
        self._settled = Signal()
        self._generation = Signal(GENERATION_BITS)
        self._target_generation = Signal(GENERATION_BITS)

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = memory.Memory(shape=PDC_ENTRY, depth=self._pdcs, init=[])
        m.submodules.rules = rules = SequenceRules(self._window)
        m.submodules.closing = closing = ClosingOrder(self._pdcs, self._reserved)
        m.submodules.commands = commands = PdcCommands(self._pdcs)
        m.submodules.idle = idle = IdlePdcs(self._pdcs)
        # An entry is read after the packet before has written.
        read, write = entries.read_port(), entries.write_port()
        leaves, resumes, resume = Signal(), Signal(), Signal()
        taken = Signal(FRAME_HEADER)
        epoch = Signal(EPOCH_BITS)
        m.d.comb += epoch.eq(read.data.epoch + (rules.verdict.opens & ~read.data.fresh))
        m.d.comb += taken.eq(self.requests.p)
        if self._out_of_order_entries:
            self._elaborate_gaps(m, rules, leaves, resumes)
            with m.If(resume):
                m.d.comb += taken.eq(m.submodules.gaps.taken)
        self._elaborate_steps(m, read, rules, commands, leaves, resumes, resume, taken)
        self._elaborate_rules(m, read.data, rules, closing, idle)
        self._elaborate_outputs(m, rules.verdict, epoch, leaves)
        self._elaborate_entry(m, write, read.data, rules, epoch, leaves)
        self._elaborate_epochs(m, read, rules, leaves)
        self._elaborate_commands(m, entries.read_port(), commands, rules.verdict, leaves)
        self._elaborate_spare(m, read.data, rules, closing, leaves)
        self._elaborate_idle(m, self._current, idle, rules.verdict, closing, leaves)
        return m

    def _elaborate_steps(self, m, read, rules, commands, leaves, resumes, resume, taken):
        """Take a packet, read the entries that may be its PDC's, and then that of the PDC to open for it."""
        packet, verdict = self._current, rules.verdict
        lowest, choice = first_of(m, self._candidates)
        take = Signal()
        own, has_own = Signal.like(self._own), Signal()
        fresh = ~self._used & ~self._refused
        _, first_fresh = first_of(m, fresh)
        shows_own = packet.syn & rules.found & ~rules.known & self._seeks_victim
        m.d.comb += [
            own.eq(Mux(self._has_own, self._own, self._number)),
            # It may have been proven since.
            has_own.eq((self._has_own | shows_own) & (self._listed & ~self._refused).bit_select(own, 1)),
            self.requests.ready.eq(take),
            self.ahead_key.eq(packet.memory_key),
            # Otherwise the port goes on showing the entry.
            read.en.eq(0),
        ]
        with m.If(take | resume):
            m.d.sync += [
                self._current.eq(taken),
                self._candidates.eq(Mux(resume, 0, self._matches(self.requests.p))),
                self._resumed.eq(resume),
            ]
            m.d.sync += [
                self._refused[number].eq(self.enabled[context] & (taken.resource_index != context))
                for context, number in enumerate(self._reserved)
            ]
            self._elaborate_receiver(m, taken)
        with m.If(read.en):
            m.d.sync += [self._number.eq(read.addr), self._candidates.eq(self._candidates & ~lowest)]
        closes, to_close = first_of(m, commands.closes)
        with m.FSM(name="step"):
            with m.State("TAKE"):
                m.d.comb += [take.eq(~closes.any()), self._between.eq(1)]
                with m.If(closes.any()):
                    m.d.comb += [read.en.eq(1), read.addr.eq(to_close)]
                    m.next = "CLOSE"
                with m.Elif(self.requests.valid):
                    m.next = "READ"
            with m.State("CLOSE"):
                m.d.comb += self._closing.eq(1)
                m.next = "TAKE"
            with m.State("READ"):
                m.d.comb += [
                    read.en.eq(1),
                    read.addr.eq(Mux(self._resumed, self._number, Mux(packet.syn, choice, packet.dpdcid))),
                    self._between.eq(1),
                ]
                m.d.sync += [
                    self._has_own.eq(0),
                    self._exists.eq(
                        self._resumed | Mux(packet.syn, self._candidates.any(), self._was_opened(packet.dpdcid))
                    ),
                    self._seeks_victim.eq(1),
                ]
                self._elaborate_credits(m)
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.comb += self.ahead.eq(1)
                with m.If(packet.syn & ~rules.known & self._candidates.any()):
                    m.d.comb += [read.en.eq(1), read.addr.eq(choice)]
                    m.d.sync += [self._own.eq(own), self._has_own.eq(has_own)]
                with m.Elif(verdict.opens & ~self._settled & (has_own | ~fresh.any())):
                    pass
                with m.Elif(verdict.opens & self._seeks_victim):
                    victim = Mux(has_own, own, Mux(fresh.any(), first_fresh, self._evictable))
                    m.d.comb += [read.en.eq(1), read.addr.eq(victim)]
                    m.d.sync += [self._exists.eq(0), self._seeks_victim.eq(0)]
                with m.Elif(self._in_question & verdict.accepted):
                    self._elaborate_question(m)
                with m.Else():
                    self._elaborate_departure(m, verdict, leaves)
                    with m.If(leaves):
                        # The hash of a PDC that is opened can be compared from the next cycle on.
                        m.d.comb += take.eq(~verdict.opens & ~resumes & ~closes.any())
                        m.next = "TAKE"
                        with m.If(resumes):
                            m.next = "RESUME"
                        with m.Elif(take & self.requests.valid):
                            m.next = "READ"
            with m.State("RESUME"):
                m.d.comb += resume.eq(1)
                m.next = "READ"

    def _was_opened(self, number):
        """Of any number, also one beyond the table."""
        return (number < self._pdcs) & self._used.bit_select(number[: len(self._number)], 1)

    def _matches(self, header):
        return Cat(self._used[number] & (hashed == _hashed(header)) for number, hashed in enumerate(self._hashes))

    def _elaborate_receiver(self, m, header):
        """Note the receiver of a message while it is taken; other requests need nothing but their own context's."""
        message = is_message(header) & self._has_messages
        m.d.sync += [
            self._is_message.eq(message),
            self._receiver.eq(header.resource_index),
            self._has_receiver.eq(1),
        ]
        with m.If(message), m.Switch(header.resource_index):
            for context, receiver in enumerate(self.receivers):
                with m.Case(context):
                    m.d.sync += [self._receiver.eq(receiver.context), self._has_receiver.eq(receiver.valid)]

    def _elaborate_credits(self, m):
        """Note what could be reserved, before free entries can change under a NACK on offer."""
        header = self._current
        # For the packets behind a message's first one, the entry is kept since then.
        starts, ends = message_extent(header)
        has_data, asks = Signal(), self._is_message & starts
        may_wait, needs_slot, concludes = Signal(), Signal(), Signal()
        m.d.comb += [
            has_data.eq(~header.is_control & starts & ends & ((header.flags & SesFlags.HEADER_DATA.value) != 0)),
            concludes.eq(~header.is_control & ends & ~starts & ~self._is_message),
            may_wait.eq(asks & ends & ~header.opcode.matches(*_ATOMICS)),
            needs_slot.eq(asks & ends & header.opcode.matches(*_RENDEZVOUS)),
        ]
        noted = (
            self._event_open, self._slot_open, self._blocked, self._in_question, self._receive_kept,
            self._end_open, self._end_blocked,
        )  # fmt: skip
        m.d.sync += [signal.eq(0) for signal in noted]
        with m.Switch(header.resource_index):
            for context in range(self._contexts):
                with m.Case(context):
                    m.d.sync += self._target_generation.eq(self.event_generations[context])
        with m.If(self._has_receiver), m.Switch(self._receiver):
            for context in range(self._contexts):
                slot_open, slot_blocked = self.slot_open[context], self.slot_blocked[context]
                wants = has_data | (asks & (slot_open | slot_blocked))
                with m.Case(context):
                    m.d.sync += [
                        self._event_open.eq(wants & self.event_open[context]),
                        self._slot_open.eq(may_wait & slot_open),
                        self._blocked.eq((wants & self.event_blocked[context]) | (needs_slot & slot_blocked)),
                        self._end_open.eq(concludes & self.event_open[context]),
                        self._end_blocked.eq(concludes & self.event_blocked[context]),
                        self._in_question.eq(may_wait & ~needs_slot & slot_blocked),
                        self._generation.eq(self.event_generations[context]),
                    ]

    def _elaborate_gaps(self, m, rules, leaves, resumes):
        """Keep packets that come before their turn, and fetch the one whose turn it is behind the current one."""
        m.submodules.gaps = gaps = GapStore(self._out_of_order_entries, self._pdcs)
        packet, verdict = self._current, rules.verdict
        closes = verdict.accepted & packet.is_control
        m.d.comb += [
            gaps.timeout.eq(self.retransmission.timeout),
            gaps.pdc.eq(self._number),
            gaps.psn.eq(packet.psn),
            gaps.following.eq(self._following),
            gaps.header.eq(packet),
            gaps.keep.eq(leaves & verdict.kept),
            gaps.forget.eq((leaves & (verdict.opens | closes)) | self._closing),
            # Kept packets of the PDC that was here before have nothing to do with the one that is opened.
            resumes.eq(leaves & verdict.accepted & ~verdict.opens & ~closes & gaps.follows),
            gaps.take.eq(resumes),
            gaps.may_count.eq(~(leaves & verdict.dropped_sequence)),
            rules.held.eq(gaps.held),
            rules.has_slot.eq(self._has_slot),
            self._passage.enters.eq(verdict.kept),
            self._passage.leaves.eq(self._resumed),
            self._passage.slot.eq(Mux(self._resumed, self._slot, gaps.slot)),
            self._thrown.eq(gaps.count_thrown),
        ]
        m.d.sync += self._following.eq(packet.psn + 1)
        with m.If(resumes):
            m.d.sync += self._slot.eq(gaps.follower)
        with m.If(self._between):
            # Before a slot can be had again under a NACK on offer.
            m.d.sync += self._has_slot.eq(gaps.has_slot)

    def _elaborate_question(self, m):
        """Nothing else is in the way of the message: it waits here until it is known where it can go."""
        packet, question = self._current, self.receive_question
        m.d.comb += [
            question.valid.eq(1),
            question.context.eq(self._receiver),
            question.tagged.eq(~among_opcodes(packet.opcode, UNTAGGED_MESSAGES)),
            question.tag.eq(packet.memory_key),
            question.source_ip.eq(packet.ip),
            question.source_context.eq(packet.initiator),
            question.target.eq(packet.resource_index),
        ]

    def _elaborate_departure(self, m, verdict, leaves):
        """To all that it concerns at once; none of them sees it twice."""
        # The next packet is judged two cycles later: nothing is gained by the consumer's ready.
        free = ~self.sequenced.valid
        m.d.comb += [
            self.nacks.valid.eq(verdict.nack & free),
            self.duplicates.valid.eq(verdict.duplicate & free),
            leaves.eq(free & (~verdict.nack | self.nacks.ready) & (~verdict.duplicate | self.duplicates.ready)),
        ]

    def _elaborate_rules(self, m, entry, rules, closing, idle):
        packet, reply = self._current, self.receive_reply
        view = Signal(PACKET_VIEW)
        with m.If(reply.valid):
            m.d.sync += [
                self._in_question.eq(0),
                self._receive_kept.eq(reply.found),
                self._blocked.eq(~reply.found),
            ]
        m.d.sync += [view[name].eq(value) for name, value in packet_view(packet, self._window).items()]
        m.d.comb += [
            # A packet is judged two cycles after it was taken, or later.
            rules.packet.eq(view),
            rules.found.eq(self._exists & (entry.ip == packet.ip) & (entry.spdcid == packet.spdcid)),
            rules.before.eq(entry.state),
            closing.refused.eq(self._refused),
            rules.available.eq((~self._used & ~self._refused).any() | ~closing.empty | idle.has_second),
            self._evictable.eq(Mux(closing.empty, idle.second, closing.first)),
            # A message that meets nothing is refused in the cycle of the reply.
            rules.blocked.eq(self._blocked | (reply.valid & ~reply.found) | (self._end_blocked & self._data_pending)),
            self._data_pending.eq(rules.known & entry.state.data_pending),
            self._has_event.eq(self._event_open | (self._end_open & self._data_pending)),
        ]

    def _elaborate_outputs(self, m, verdict, epoch, leaves):
        packet, sequenced, duplicate, nack = self._current, self.sequenced, self.duplicates.p, self.nacks.p
        with m.If(sequenced.ready):
            m.d.sync += sequenced.valid.eq(0)
        with m.If(leaves):
            m.d.sync += [
                sequenced.valid.eq(1),
                sequenced.p.header.eq(packet),
                sequenced.p.pdc.eq(self._number),
                sequenced.p.epoch.eq(epoch),
                sequenced.p.dropped.eq(~verdict.accepted),
                sequenced.p.gap.eq(self._passage),
                sequenced.p.reserved.eq(verdict.accepted & self._has_event),
                sequenced.p.slot_reserved.eq(verdict.accepted & self._slot_open),
                sequenced.p.receive_kept.eq(verdict.accepted & self._receive_kept),
                sequenced.p.receiver.eq(self._receiver),
                sequenced.p.generation.eq(self._generation),
                sequenced.p.target_generation.eq(self._target_generation),
            ]
        for destination in (duplicate, nack):
            m.d.comb += [destination[name].eq(packet[name]) for name in ("mac", "ip", "port", "retx", "marked")]
            m.d.comb += destination.dpdcid.eq(packet.spdcid)
        m.d.comb += [
            duplicate.psn.eq(packet.psn),
            duplicate.clear_psn_offset.eq(packet.clear_psn_offset),
            duplicate.spdcid.eq(self._number),
            duplicate.epoch.eq(epoch),
            nack.psn.eq(verdict.nack_psn),
            # Without SYN, that of another: then the sender learns that its own was given away.
            nack.spdcid.eq(Mux(verdict.has_pdc | (self._exists & ~packet.syn), self._number, NO_PDC)),
            nack.code.eq(verdict.nack_code),
            nack.missing.eq(verdict.missing),
            self.message_accepted.eq(leaves & verdict.accepted & self._is_message),
            self.count_dropped_pdc.eq(leaves & verdict.dropped_pdc),
            self.count_dropped_sequence.eq((leaves & verdict.dropped_sequence) | self._thrown),
            self.count_duplicates.eq(leaves & verdict.duplicate),
        ]
        for reserve, wanted in ((self.event_reserve, self._has_event), (self.message_reserve, self._slot_open)):
            m.d.comb += [
                reserve.valid.eq(leaves & verdict.accepted & wanted),
                reserve.context.eq(self._receiver),
                reserve.generation.eq(self._generation),
            ]

    def _elaborate_entry(self, m, write, entry, rules, epoch, leaves):
        packet, verdict, after = self._current, rules.verdict, rules.after
        m.d.comb += [
            write.addr.eq(self._number),
            write.en.eq((leaves & verdict.has_pdc) | self._closing),
            write.data.ip.eq(packet.ip),
            write.data.spdcid.eq(packet.spdcid),
            write.data.state.eq(after),
            write.data.epoch.eq(epoch),
            write.data.fresh.eq(~verdict.accepted & (entry.fresh | verdict.opens)),
            write.data.job_id.eq(packet.job_id),
            write.data.context.eq(packet.resource_index),
            write.data.came.eq(self.cycles),
        ]
        with m.If(packet.is_control):
            m.d.comb += [write.data[name].eq(Mux(verdict.opens, 0, entry[name])) for name in ("job_id", "context")]
        with m.If(self._closing):
            # The PDC is not evictable before it is idle: see the model.
            m.d.comb += [
                write.data.eq(entry),
                write.data.state.closed.eq(1),
                write.data.state.expelled.eq(entry.state.expelled | ~entry.state.closed),
            ]
        with m.If(leaves & verdict.opens):
            m.d.sync += [
                Array(self._hashes)[self._number].eq(_hashed(packet)),
                self._used.bit_select(self._number, 1).eq(1),
            ]

    def _elaborate_epochs(self, m, read, rules, leaves):
        """Look for the past epoch while the PDC's entry is read, and remember its epoch when it is overwritten."""
        m.submodules.epochs = epochs = ConnectionEpochs(self._pdcs)
        packet, entry = self._current, read.data
        m.d.comb += [
            epochs.checked.eq(self.checked),
            epochs.look.eq(read.en),
            epochs.epoch_id.ip.eq(packet.ip),
            epochs.epoch_id.spdcid.eq(packet.spdcid),
            epochs.epoch_id.start.eq(packet.psn - packet.dpdcid),
            rules.remembered.eq(packet.syn & epochs.known & ~self._resumed),
            epochs.opens.eq(leaves & rules.verdict.opens),
            epochs.pdc.eq(self._number),
            epochs.former.ip.eq(entry.ip),
            epochs.former.spdcid.eq(entry.spdcid),
            epochs.former.start.eq(entry.state.start),
        ]

    def _elaborate_commands(self, m, look, commands, verdict, leaves):
        m.d.comb += [
            commands.command.eq(self.pdc_command),
            commands.exists.eq(self._was_opened(self.pdc_command.pdc)),
            look.addr.eq(self.pdc_command.pdc),
            look.en.eq(self.pdc_command.select),
            commands.entry.eq(look.data),
            self.pdc_view.eq(commands.view),
            commands.done.eq(self._closing | (leaves & verdict.opens)),
            commands.pdc.eq(self._number),
        ]

    def _elaborate_spare(self, m, entry, rules, closing, leaves):
        """Keep the list of evictable PDCs: closed, provisional and idle ones."""
        packet, verdict, report = self._current, rules.verdict, self.checked
        lists, was_listed, closes, wakes = Signal(), Signal(), Signal(), Signal()
        rests, rested = Signal(), Signal()
        lowest, choice = first_of(m, self._leaving)
        m.d.comb += [
            closes.eq(verdict.accepted & packet.is_control),
            lists.eq(leaves & (verdict.opens | closes)),
            was_listed.eq(self._listed.bit_select(self._number, 1)),
            # One that is idle is so no more.
            wakes.eq(
                leaves
                & ~lists
                & verdict.has_pdc
                & ~entry.state.closed
                & was_listed
                & ~self._provisional.bit_select(self._number, 1)
            ),
            closing.remove.eq(Mux(lists, was_listed, self._leaving.any())),
            closing.removed.eq(Mux(lists, self._number, choice)),
            rests.eq((self._unchecked == 0) & ~self._leaving.any()),
            # The list shows its first a cycle late.
            self._settled.eq(rests & rested),
        ]
        m.d.sync += rested.eq(rests)
        m.d.sync += self._unchecked.eq(self._unchecked + (leaves & verdict.accepted) - report.valid)
        for number in range(self._pdcs):
            provisional, leaving, listed = self._provisional[number], self._leaving[number], self._listed[number]
            with m.If(report.valid & report.passed & (report.pdc == number) & provisional):
                m.d.sync += leaving.eq(1)
            with m.If(wakes & (self._number == number)):
                m.d.sync += leaving.eq(1)
            with m.If(lists & (self._number == number)):
                m.d.sync += [provisional.eq(~closes), leaving.eq(0), listed.eq(1)]
            with m.Elif(~lists & lowest[number]):
                m.d.sync += [provisional.eq(0), leaving.eq(0), listed.eq(0)]
        with m.If(lists):
            m.d.comb += [closing.append.eq(1), closing.appended.eq(self._number)]

    def _elaborate_idle(self, m, packet, idle, verdict, closing, leaves):
        """Put idle PDCs on the list, one at a time when nothing else happens to it, unless they are in a message."""
        _, ends = message_extent(packet)
        lists = self._between & ~self._leaving.any() & idle.idle
        m.d.comb += [
            idle.retransmission.eq(self.retransmission),
            idle.counts.eq(self._used & ~self._listed),
            idle.came.eq(leaves & verdict.has_pdc),
            idle.pdc.eq(self._number),
            idle.resets.eq((leaves & (verdict.accepted | verdict.opens)) | self._closing),
            idle.begins.eq(verdict.accepted & ~packet.is_control & ~ends & ~self._closing),
            idle.refused.eq(self._refused),
        ]
        with m.If(lists):
            m.d.comb += [closing.append.eq(1), closing.appended.eq(idle.first)]
            m.d.sync += self._listed.bit_select(idle.first, 1).eq(1)
