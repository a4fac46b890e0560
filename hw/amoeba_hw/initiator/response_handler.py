"""Finds what each answer answers, and what follows from it."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.nic.first_psns import KEY_WORDS
from amoeba_model.wire.nacks import LOSS_NACKS
from amoeba_model.wire.uet import TAGGED_MESSAGES, UNTAGGED_MESSAGES, NackCode, ResponseOpcode, ReturnCode

from amoeba_hw.byte_order import decode_swap, number_swap
from amoeba_hw.initiator.answer_gaps import AnswerGaps
from amoeba_hw.initiator.first_psns import FirstPsns
from amoeba_hw.initiator.nack_rules import NackRules
from amoeba_hw.initiator.peer_table import ANSWERED
from amoeba_hw.initiator.records import ANSWER, FLUSH, GENERATION_BITS, LOGGED_PACKET, NOTE, RECOVERY, RecoveryKind
from amoeba_hw.initiator.result_router import DECISION, ResultRouter
from amoeba_hw.initiator.return_order import ReturnOrder
from amoeba_hw.interfaces import DMA_COMMAND, FRAME_HEADER, packet_beat
from amoeba_hw.request_records import among_opcodes
from amoeba_hw.stream import connect_streams

__all__ = ["ResponseHandler"]


class ResponseHandler(wiring.Component):
    """Answers unanswered packets, in psn order per PDC, and sends the answers' data to the host.

    An answer is looked up, checked, and then acted on packet by packet, the oldest first, as "Answers" and "Loss" of
    README.md say. If that does not reach the packet that it is for, that one's entry is found, and it is kept::

        cycle       0         1         2         3         4
        answer a  look up | check   | step
        answer b                              look up | check    (with cumulative answers a takes more steps)
        outputs                               a
        answer c  look up | check   | step    | find    | keep   (behind a gap)
        data d    look up | name    | judge   | check   | step   (in the return direction)

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    responses : FRAME_HEADER stream
        One every three cycles, one cycle more for each packet that it answers besides its own, and two for one behind
        a gap or in the return direction; 29 more for the answer to a CLOSE. Answers that are not expected are
        dropped, with their payload.
    response_payload : packet stream
    flushes : FLUSH stream
        All unanswered packets of this PDC are answered LOCAL_PDC_FAILED, or LOCAL_PEER_PDC_TABLE_FULL if it was
        ``refused``, one per cycle; none if it has not failed.
    generations : array of GENERATION_BITS
        Data for an earlier generation is not written.
    crowd, held : in
        There may be no place for one more on ``answers``. The answers there wait for the host; but if packets that
        have to leave hold them (``held``), answers are dropped instead, as if they had been lost, and flushes end
        early, to be asked for anew; answers that were kept wait for the next one.
    failed, refused : in, a bit per peer
        A failed PDC takes no answers.
    doubtful : in, a bit per peer
        It is not sure that what such a PDC has unanswered was not executed before the target gave it away.
    storing : in; occupied : out
        As the peer table has them.
    answer_index, answer_open, answer_psn, answer_ip, answer_job, answer_state
        To and from the peer table.
    answered, answered_index, answered_state, closed, renewed, restarted
        To the peer table. ``answered``: the oldest packet was answered; ``closed``: it was a CLOSE. ``renewed``,
        without it: a new PDC begins at the oldest packet. ``restarted``, with it: the next packet has the psn of
        ``answered_state``.
    mpr : out
        With ``answered``: the window that the answer says, in units of MPR_UNIT; 0: none.
    numbering : in
        A packet gets its psn: nothing is ``restarted``.
    psn_key : in
        Of :class:`FirstPsns`.
    expired, expired_peer; opened, opened_peer : in
        Pulses: a PDC has timed out; it is a new one.
    log_read, log_peer, log_psn : out; log_entry, log_noted : in
        To and from the packet log, which answers one cycle later.
    named_peer, named_psn : out; named_message_id : in
        To and from it: the message of the packet that the answer names, one cycle later.
    note, note_peer, note_psn, note_status : out; note_granted : in
        To and from it, too: an answer is kept.
    recover, recovery : out
        Pulse: what the PDC is to do besides.
    close_requests : out, a bit per peer
        The target asks for a CLOSE of the PDC, which has not failed.
    acknowledgements : FRAME_HEADER stream; result_commands : DMA_COMMAND stream; results : packet stream
        Of :class:`ReturnOrder` and :class:`ResultRouter`; a command comes three cycles after its answer's header.
    answers : ANSWER stream
        For every packet answered that completes a request or whose data is written, in order.
    count_responses_received, count_dropped_response, count_nacks_received : out
    """

    def __init__(self, parameters):
        self._parameters = parameters
        index = range(parameters.peers)
        beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "responses": In(stream.Signature(FRAME_HEADER)),
                "response_payload": In(stream.Signature(beat)),
                "flushes": In(stream.Signature(FLUSH)),
                "generations": In(GENERATION_BITS).array(parameters.contexts),
                "crowd": In(1),
                "held": In(1),
                "failed": In(parameters.peers),
                "refused": In(parameters.peers),
                "doubtful": In(parameters.peers),
                "storing": In(1),
                "occupied": Out(1),
                "answer_index": Out(index),
                "answer_open": In(1),
                "answer_psn": In(32),
                "answer_ip": In(32),
                "answer_job": In(24),
                "answer_state": In(ANSWERED),
                "answered": Out(1),
                "answered_index": Out(index),
                "answered_state": Out(ANSWERED),
                "closed": Out(1),
                "renewed": Out(1),
                "restarted": Out(1),
                "mpr": Out(8),
                "numbering": In(1),
                "psn_key": In(32 * KEY_WORDS),
                "log_read": Out(1),
                "log_peer": Out(index),
                "log_psn": Out(32),
                "log_entry": In(LOGGED_PACKET),
                "log_noted": In(NOTE),
                "named_peer": Out(index),
                "named_psn": Out(32),
                "named_message_id": In(16),
                "expired": In(1),
                "expired_peer": In(index),
                "opened": In(1),
                "opened_peer": In(index),
                "note": Out(1),
                "note_peer": Out(index),
                "note_psn": Out(32),
                "note_status": Out(8),
                "note_granted": In(1),
                "recover": Out(1),
                "recovery": Out(RECOVERY),
                "close_requests": Out(parameters.peers),
                "acknowledgements": Out(stream.Signature(FRAME_HEADER)),
                "result_commands": Out(stream.Signature(DMA_COMMAND)),
                "results": Out(stream.Signature(beat)),
                "answers": Out(stream.Signature(ANSWER)),
                "count_responses_received": Out(1),
                "count_dropped_response": Out(1),
                "count_nacks_received": Out(1),
            }
        )
        self._psn = Signal(32)
        """The packet that the answer names."""
        self._state = Signal(ANSWERED)
        """Of the PDC in hand."""
        self._end = Signal(32)
        """The psn behind its last packet."""
        self._flushing = Signal()
        self._refused = Signal()
        self._doubtful = Signal()
        self._expected = Signal()
        """The answer is to an unanswered packet."""
        self._meant = Signal()
        """The answer has that packet's message and job; a DEFAULT response has no job."""
        self._genuine = Signal()
        """The packet in the return direction comes from the peer; data is for its job."""
        self._waits = Signal()
        """The PDC has unanswered packets."""
        self._bare = Signal()
        """The answer has no response, as the answer to a CLOSE."""
        self._code = Signal(8)
        """The return code of the packet answered in this cycle, before anything else is held against it."""
        self._finished = Signal()
        """Nothing more follows from the answer, or from the flush."""
        self._keeps = Signal()
        """The answer is behind a gap: what follows is up to its own entry."""
        self._following = Signal()
        """The answer has been dealt with, and those that were kept follow it."""
        self._consumed = Signal()
        """The answer's payload is dealt with in this step."""
        self._noted = Signal()
        """The packet's answer was kept before."""
        self._gaps = AnswerGaps(parameters.peers)
        self._first_psns = FirstPsns(parameters.peers)
        self._returns = ReturnOrder(parameters.peers, parameters.window)
        self._nacks = NackRules()

    def elaborate(self, platform):
        m = Module()
        header, state = self.responses.payload, self._state
        decision = Signal(DECISION)
        select = Signal(3)
        m.submodules.router = router = ResultRouter(self._parameters.data_width)
        m.submodules.returns = self._returns
        m.submodules.gaps = self._gaps
        m.submodules.first_psns = first_psns = self._first_psns
        pending = Signal()
        draws, drew = Signal(), Signal()
        parked = pending | self.crowd | draws
        # From registers: a draw goes on once it has begun, until it is done.
        free_to_store = pending | self.crowd | (drew & ~first_psns.done)
        m.d.sync += drew.eq(draws)
        yields = Signal()
        proceeds = (~pending | router.i.ready) & (~self.crowd | self.held) & ~draws
        m.d.comb += [
            router.i.valid.eq(pending),
            router.i.payload.eq(decision),
            router.select.eq(select),
            # An answer that waits for the host, for a place or for a psn lets stores go first, and its PDC is looked
            # up anew.
            yields.eq(parked & self.storing),
            first_psns.key.eq(self.psn_key),
            first_psns.pdc.eq(self.answered_index),
            first_psns.psn.eq(state.oldest_psn + 1),
            self.log_peer.eq(self.answered_index),
            self.log_psn.eq(self.answered_state.oldest_psn),
            self.named_peer.eq(self.answer_index),
            self.named_psn.eq(header.psn),
        ]
        # Not only in steps: a step that has to wait reads the log again.
        decide = self._elaborate_decision(m, decision, select)
        with m.If(router.i.ready):
            m.d.sync += pending.eq(0)
        with m.FSM(name="response"):
            with m.State("LOOK_UP"):
                m.d.comb += self.answer_index.eq(Mux(self.flushes.valid, self.flushes.p.peer, header.dpdcid))
                m.d.sync += [
                    self.answered_index.eq(self.answer_index),
                    self._flushing.eq(self.flushes.valid),
                    self._psn.eq(header.psn),
                ]
                with m.If((self.responses.valid | self.flushes.valid) & ~self.storing):
                    m.next = "CHECK"
                    with m.If(~self.flushes.valid & header.returns):
                        m.next = "NAME"
            with m.State("NAME"):
                m.d.comb += self._returns.name.eq(1)
                m.next = "JUDGE"
                with m.If(self.storing):
                    m.next = "LOOK_UP"
            with m.State("JUDGE"):
                # Looked up again, now for the packet that the data is for. Stores go first, as in NAME.
                m.d.comb += [
                    self._returns.judge.eq(1),
                    self.answer_index.eq(self.answered_index),
                    self.named_psn.eq(self._returns.named),
                ]
                m.d.sync += self._psn.eq(self._returns.named)
                m.next = "CHECK"
                with m.If(self.storing):
                    m.next = "LOOK_UP"
            with m.State("CHECK"):
                m.d.comb += [
                    self.occupied.eq(1),
                    self.log_read.eq(1),
                    self.log_psn.eq(self.answer_state.oldest_psn),
                    self._gaps.load.eq(1),
                ]
                m.d.sync += [state.eq(self.answer_state), *self._check()]
                m.next = "STEP"
            with m.State("STEP"):
                m.d.comb += [
                    self.occupied.eq(~free_to_store),
                    self.log_read.eq(1),
                    first_psns.run.eq(self._ends_epoch()),
                    draws.eq(first_psns.run & ~(first_psns.done & ~self.numbering)),
                ]
                with m.If(yields):
                    m.next = "LOOK_UP"
                with m.Elif(proceeds):
                    self._elaborate_step(m)
                    with m.If(self._keeps):
                        m.next = "FIND"
                    with m.Else():
                        m.d.sync += [pending.eq(1), *decide]
                self._elaborate_end(m)
            with m.State("FIND"):
                m.d.comb += [self.occupied.eq(1), self.log_read.eq(1), self.log_psn.eq(self._psn)]
                m.next = "KEEP"
            with m.State("KEEP"):
                m.d.comb += [self.occupied.eq(~free_to_store), self.log_read.eq(1), self.log_psn.eq(self._psn)]
                with m.If(yields):
                    m.next = "LOOK_UP"
                with m.Elif(proceeds & self.note_granted):
                    self._elaborate_keeping(m)
                    m.d.sync += [pending.eq(1), *decide]
                self._elaborate_end(m)
        self._elaborate_gaps(m)
        self._connect_nacks(m)
        self._elaborate_returns(m)
        connect_streams(m, wiring.flipped(self.response_payload), router.payload)
        for name in ("result_commands", "results", "answers"):
            connect_streams(m, getattr(router, name), wiring.flipped(getattr(self, name)))
        return m

    def _ends_epoch(self):
        """Whether the answer in hand answers a CLOSE, which is the only unanswered packet of its PDC."""
        header = self.responses.payload
        says_closed = header.nack_code.matches(NackCode.CLOSING, NackCode.INV_DPDCID)
        is_answer = Mux(header.is_control, says_closed, self._bare)
        return self.log_entry.is_close & self._expected & is_answer & ~self._flushing & ~self._following

    def _elaborate_end(self, m):
        with m.If(self._finished):
            m.d.comb += [self.responses.ready.eq(~self._flushing), self.flushes.ready.eq(self._flushing)]
            with m.If(~self._flushing):
                m.d.sync += self._following.eq(0)
            m.next = "LOOK_UP"

    def _elaborate_gaps(self, m):
        """Look up the gaps of the PDC in hand, without the effect of this answer."""
        gaps, header = self._gaps, self.responses.payload
        m.d.comb += [
            gaps.look_up.eq(self.answer_index),
            gaps.peer.eq(self.answered_index),
            gaps.oldest.eq(self._state.oldest_psn),
            gaps.answered.eq(self.answered),
            gaps.psn.eq(self._psn),
            gaps.missing.eq(Mux(header.nack_code.matches(*sorted(LOSS_NACKS)), 1, header.missing)),
            gaps.forget.eq(self.renewed | (self.answered & self.closed)),
            gaps.expired.eq(self.expired),
            gaps.expired_peer.eq(self.expired_peer),
            gaps.opened.eq(self.opened),
            gaps.opened_peer.eq(self.opened_peer),
            # Of a PDC without gaps the log need not say anything that is valid.
            self._noted.eq(gaps.has_kept & self.log_noted.noted),
            self.note_peer.eq(self.answered_index),
            self.note_psn.eq(self._psn),
            self.mpr.eq(Mux(self._flushing, 0, self.responses.p.mpr)),
        ]

    def _elaborate_returns(self, m):
        """Connect what knows the order of the return direction."""
        returns, header = self._returns, self.responses.payload
        is_own, asks = self.answered & ~header.is_control, Signal()
        connect_streams(m, returns.acknowledgements, wiring.flipped(self.acknowledgements))
        m.d.comb += [
            returns.header.eq(header),
            returns.look_up.eq(self.answer_index),
            returns.peer.eq(self.answered_index),
            returns.state.eq(self.answer_state),
            returns.waits.eq(self._waits),
            # A CLOSE ends its PDC: nothing of it is kept.
            asks.eq(header.wants_clear & ~self.log_entry.is_close & (is_own | self._state.established)),
            returns.clears.eq(
                (self.count_nacks_received & self._nacks.clears) | (self.count_responses_received & asks)
            ),
            returns.clear_psn.eq(Mux(is_own, self._psn, self._state.oldest_psn - 1)),
            returns.clear_pdc.eq(Mux(is_own, header.spdcid, self._state.dpdcid)),
            returns.forget.eq(self.renewed | (self.answered & self.closed)),
            returns.opened.eq(self.opened),
            returns.opened_peer.eq(self.opened_peer),
            self.close_requests.eq(returns.close_requests & ~self.failed),
        ]

    def _check(self):
        """Return the assignments that find the packet of the answer."""
        header, state = self.responses.payload, self.answer_state
        failed = self.failed.bit_select(self.answered_index, 1)
        distance = (self._psn - state.oldest_psn)[:32]
        outstanding = (self.answer_psn - state.oldest_psn)[:32]
        is_peer = self.answer_open & (header.dpdcid < self._parameters.peers) & (header.ip == self.answer_ip)
        matches = is_peer & (distance < outstanding) & (~header.returns | self._returns.due)
        meant = header.is_control | (header.job_id == self.answer_job)
        return [
            self._genuine.eq(header.returns & is_peer & meant & ~failed),
            self._waits.eq(outstanding != 0),
            self._end.eq(Mux(failed, self.answer_psn, state.oldest_psn)),
            self._expected.eq(matches & ~failed),
            self._refused.eq(self.refused.bit_select(self.answered_index, 1)),
            self._doubtful.eq(self.doubtful.bit_select(self.answered_index, 1)),
            self._meant.eq(
                ((header.job_id == self.answer_job) | (header.opcode == ResponseOpcode.DEFAULT))
                & (header.message_id == self.named_message_id)
                & (header.opcode != ResponseOpcode.NONE)
            ),
            self._bare.eq(header.opcode == ResponseOpcode.NONE),
        ]

    def _elaborate_step(self, m):
        """Answer the oldest packet, or end the step."""
        header, entry, state = self.responses.payload, self.log_entry, self._state
        own, covered, meant = (Signal(name=name) for name in ("own", "covered", "meant"))
        own_code, announces, misplaced = self._meaning(entry)
        m.d.comb += [
            own.eq(self._psn == state.oldest_psn),
            # A CLOSE is the only unanswered packet of its PDC.
            meant.eq(header.is_control | Mux(entry.is_close, self._bare, self._meant)),
            # A difference of psns is signed.
            covered.eq(~(header.cack_psn - state.oldest_psn)[31] & ~entry.returns_data & ~header.returns),
            self._finished.eq(1),
            self._consumed.eq(~self._flushing & ~self._following & self._finished),
            self.recovery.peer.eq(self.answered_index),
            self.recovery.psn.eq(self._psn),
            self._code.eq(ReturnCode.OK),
        ]
        with m.If(self.crowd):
            m.d.comb += self.count_dropped_response.eq(~self._flushing & ~self._following)
        with m.Elif(self._flushing):
            m.d.comb += [
                self._finished.eq(state.oldest_psn == self._end),
                self.answered.eq(~self._finished),
                self._code.eq(
                    Mux(self._refused, ReturnCode.LOCAL_PEER_PDC_TABLE_FULL.value, ReturnCode.LOCAL_PDC_FAILED.value)
                ),
            ]
        with m.Elif(self._following):
            m.d.comb += [self.answered.eq(self._noted), self._finished.eq(~(self._noted & self._gaps.continues))]
        with m.Elif(self._genuine & header.is_control & self._returns.due):
            m.d.comb += self._returns.taken.eq(1)
        with m.Elif(~(self._expected & meant)):
            m.d.comb += [self.count_dropped_response.eq(1), self._returns.dropped.eq(self._genuine)]
        with m.Elif(header.is_control):
            self._elaborate_nack(m)
        with m.Elif(own & ~self._noted & (announces | misplaced)):
            m.d.comb += [self.count_responses_received.eq(announces), self.count_dropped_response.eq(misplaced)]
        with m.Elif(own | self._noted):
            # One whose answer was kept becomes the oldest behind those that are covered, or behind a crowd.
            m.d.comb += [
                self.answered.eq(1),
                self.count_responses_received.eq(own & ~self._noted),
                self.count_dropped_response.eq(own & self._noted),
                self._returns.taken.eq(header.returns & own & ~self._noted),
                self._consumed.eq(own),
                self._finished.eq(own & ~self._gaps.continues),
                self._code.eq(own_code),
            ]
            m.d.sync += self._following.eq(own)
        with m.Elif(covered):
            m.d.comb += [self.answered.eq(1), self._finished.eq(0)]
        with m.Else():
            m.d.comb += [self._keeps.eq(1), self._finished.eq(0)]

    def _meaning(self, entry):
        """Return the code of an answer, whether its data is to come, and whether it is data for no READ."""
        header, reads = self.responses.payload, entry.returns_data & ~entry.is_atomic
        has_code = header.opcode.matches(ResponseOpcode.RESPONSE.value, ResponseOpcode.WITH_DATA.value)
        is_default = (header.opcode == ResponseOpcode.DEFAULT) & ~header.is_control
        code = Mux(has_code, header.return_code, ReturnCode.OK)
        return code, is_default & reads & (entry.length != 0), header.returns & ~reads

    def _elaborate_keeping(self, m):
        """Keep the answer of a packet that is younger than the oldest one."""
        header, gaps = self.responses.payload, self._gaps
        own_code, announces, misplaced = self._meaning(self.log_entry)
        m.d.comb += [
            self._finished.eq(1),
            self._consumed.eq(1),
            self._code.eq(own_code),
        ]
        with m.If(self.crowd | self._noted | misplaced):
            m.d.comb += self.count_dropped_response.eq(1)
        with m.Elif(announces):
            m.d.comb += self.count_responses_received.eq(1)
        with m.Else():
            m.d.comb += [
                self._returns.taken.eq(header.returns),
                self.count_responses_received.eq(1),
                self.note.eq(1),
                gaps.kept.eq(1),
                self.recover.eq(gaps.asks),
                self.recovery.kind.eq(RecoveryKind.MISSING),
                self.recovery.peer.eq(self.answered_index),
                self.recovery.psn.eq(gaps.first_asked),
                self.recovery.end.eq(self._psn),
            ]

    def _elaborate_nack(self, m):
        """Do what the NACK in hand asks for."""
        nacks = self._nacks
        m.d.comb += [
            self.count_nacks_received.eq(~nacks.ignored),
            self.count_dropped_response.eq(nacks.ignored),
            self.recover.eq(nacks.recover),
            self.recovery.eq(nacks.recovery),
            self.answered.eq(nacks.answered),
            self.renewed.eq(nacks.renewed),
            self._gaps.filled.eq(nacks.filled),
        ]

    def _connect_nacks(self, m):
        """Connect the rules for NACKs, whose effects :meth:`_elaborate_nack` chooses."""
        nacks, gaps = self._nacks, self._gaps
        m.submodules.nacks = nacks
        m.d.comb += [
            nacks.header.eq(self.responses.payload),
            nacks.psn.eq(self._psn),
            nacks.peer.eq(self.answered_index),
            nacks.is_close.eq(self.log_entry.is_close),
            nacks.state.eq(self._state),
            nacks.doubtful.eq(self._doubtful),
            nacks.has_kept.eq(gaps.has_kept),
            nacks.missing.eq(gaps.missing),
            nacks.fills.eq(gaps.fills),
            nacks.first_filled.eq(gaps.first_filled),
            nacks.filled_end.eq(gaps.filled_end),
        ]

    def _elaborate_status(self, m, own):
        """Work out the status of the packet in hand: OK or the error."""
        entry = self.log_entry
        status = Signal(8)
        asked, given = Signal(14), Signal(14)
        m.d.comb += [
            asked.eq(Mux(entry.returns_data, entry.length, 0)),
            given.eq(Mux(own, self.responses.p.payload_length, 0)),
        ]
        with m.If(self._noted):
            m.d.comb += status.eq(self.log_noted.status)
        with m.Elif(entry.fault):
            m.d.comb += status.eq(ReturnCode.LOCAL_DMA_FAULT)
        with m.Elif(self._code != ReturnCode.OK):
            m.d.comb += status.eq(self._code)
        with m.Elif((given != asked) | (own & self.responses.p.returns & ~self._returns.whole)):
            m.d.comb += status.eq(ReturnCode.UNCOR)
        with m.Else():
            m.d.comb += status.eq(ReturnCode.OK)
        return status

    def _elaborate_following(self, m, status):
        """Brings the PDC up to date when its oldest packet is answered."""
        entry, state, following = self.log_entry, self._state, self.answered_state
        ticket = entry.ticket
        continues = Signal()
        failed = Signal()
        m.d.comb += [
            # A chain may be broken before its end: then no request gets its status.
            continues.eq(
                ~state.chained
                | ((ticket.index == (state.chain_index + 1)[:16]) & (ticket.generation == state.chain_generation))
            ),
            failed.eq(state.failed & continues),
            self.closed.eq(entry.is_close),
            self.restarted.eq(self.answered & entry.is_close & ~self._flushing),
            following.eq(state),
        ]
        with m.If(self.renewed):
            m.d.comb += [following.established.eq(0), following.start_psn.eq(state.oldest_psn)]
        with m.If(self.answered):
            m.d.comb += [
                following.oldest_psn.eq(state.oldest_psn + 1),
                following.failed.eq((failed | (status != ReturnCode.OK)) & (~entry.last | ticket.chained)),
                following.status.eq(Mux(failed, state.status, status)),
                following.chained.eq(entry.last & ticket.chained),
                following.chain_index.eq(ticket.index),
                following.chain_generation.eq(ticket.generation),
            ]
            with m.If(self.restarted):
                first = self._first_psns.first
                m.d.comb += [
                    following.established.eq(0),
                    following.start_psn.eq(first),
                    following.first_message.eq(first[:16]),
                    following.oldest_psn.eq(first),
                ]
            with m.Elif(~self._flushing):
                m.d.comb += [following.established.eq(1), following.dpdcid.eq(self.responses.p.spdcid)]
            with m.If(self.count_responses_received & (self._code == ReturnCode.BAD_GENERATION)):
                for kind, name in ((TAGGED_MESSAGES, "tagged_receives"), (UNTAGGED_MESSAGES, "receives")):
                    with m.If(among_opcodes(entry.ses_opcode, kind)):
                        m.d.comb += following[name].eq(self.responses.p.ri_generation)

    def _elaborate_decision(self, m, decision, select):
        """Brings the PDC up to date; returns the assignments that make the decision about a step."""
        header, entry, ticket = self.responses.payload, self.log_entry, self.log_entry.ticket
        own, writes, completes, has_payload = (Signal(name=n) for n in ("own", "writes", "completes", "has_payload"))
        status = self._elaborate_status(m, own)
        self._elaborate_following(m, status)
        current = Array(self.generations)[ticket.context] == ticket.generation
        m.d.comb += [
            own.eq(self.count_responses_received),
            self.note_status.eq(status),
            has_payload.eq(self._consumed & (header.payload_length != 0)),
            writes.eq(own & (status == ReturnCode.OK) & has_payload & current),
            completes.eq(self.answered & entry.last),
        ]
        order = decision.answer.order
        return [
            self._state.eq(self.answered_state),
            # A piece of a chain that another continues hands its status on.
            order.status.eq(Mux(ticket.chained, ReturnCode.OK, self.answered_state.status)),
            order.ticket.eq(ticket),
            decision.answer.writes.eq(writes),
            decision.answer.completes.eq(completes),
            decision.answer.psn.eq(Mux(self.note, self._psn, self._state.oldest_psn)),
            decision.result.eq(entry.result),
            decision.length.eq(header.payload_length),
            decision.swap.eq(
                Mux(entry.is_atomic, decode_swap(entry.atomic_datatype, number_swap, self._parameters.datatypes), 0)
            ),
            select.eq(Cat(writes, has_payload, writes | completes)),
        ]
