"""Gives packets their place in their PDC, and their headers."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.uet import (
    CSWAP_VALUES_SIZE,
    TAGGED_MESSAGES,
    UNTAGGED_MESSAGES,
    RequestOpcode,
    SemanticControl,
    SesFlags,
)

from amoeba_hw.initiator.peer_table import ANSWERED
from amoeba_hw.initiator.records import LOGGED_PACKET, PACKET, PayloadKind
from amoeba_hw.interfaces import CONTEXT, FRAME_HEADER, PEER, TRACE_SLOT
from amoeba_hw.request_records import among_opcodes, is_divisible

__all__ = ["PacketNumberer"]


class PacketNumberer(wiring.Component):
    """Numbers each new packet, logs it and writes its header; of a packet to send again, the header alone.

    There is no frame for a packet of a failed PDC, nor for one to send again that has been answered meanwhile.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : PACKET stream
        One every two cycles. Waits for ``headers`` and ``space`` only: the place in the window is the packet's own.
    contexts : array of CONTEXT
    failed : in, a bit per peer
        The PDC was given up.
    headers : FRAME_HEADER stream
        Two cycles after its packet. A packet with ``fault`` becomes a NO_OP of length 0, or a MSG_ERROR behind the
        first one of its message; one that ``is_close`` becomes a control packet.
    route, swallow : out; room : in
        To the PayloadGate, for each packet with payload, in the cycle before its header is on offer.
    storing : in; occupied : out
        As the peer table has them.
    send_index, send_peer, send_psn, send_answered; sent, sent_index, sent_psn
        To and from the peer table. ``sent``: a new packet got the psn before ``sent_psn``.
    log, log_peer, log_psn, log_entry : out
        Pulse: what to keep of the packet with that psn.
    trace_operand : TRACE_SLOT
        For a packet with payload, when its turn has come: only then it has a number.
    """

    def __init__(self, parameters):
        index = range(parameters.peers)
        super().__init__(
            {
                "i": In(stream.Signature(PACKET)),
                "contexts": In(CONTEXT).array(parameters.contexts),
                "failed": In(parameters.peers),
                "headers": Out(stream.Signature(FRAME_HEADER)),
                "route": Out(1),
                "swallow": Out(1),
                "space": In(1),
                "storing": In(1),
                "occupied": Out(1),
                "send_index": Out(index),
                "send_peer": In(PEER),
                "send_psn": In(32),
                "send_answered": In(ANSWERED),
                "sent": Out(1),
                "sent_index": Out(index),
                "sent_psn": Out(32),
                "log": Out(1),
                "log_peer": Out(index),
                "log_psn": Out(32),
                "log_entry": Out(LOGGED_PACKET),
                "trace_operand": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        packet, oldest = self.i.payload, self.send_answered.oldest_psn
        psn = Signal(32)
        unanswered = Signal()
        reported, waited = Signal(), Signal()
        payload_length = Signal(14)
        # How far a packet is from the oldest one, modulo 2**32: one that is older is very far.
        distance = Signal(32)
        outstanding = Signal(32)
        message_id = Signal(16)
        m.d.comb += [
            self.send_index.eq(packet.ticket.peer),
            self.sent_index.eq(packet.ticket.peer),
            self.sent_psn.eq(self.send_psn + 1),
            self.log_peer.eq(packet.ticket.peer),
            self.log_psn.eq(psn),
            *(getattr(self.log_entry, name).eq(getattr(packet, name)) for name, _ in LOGGED_PACKET),
            self.log_entry.message_id.eq(message_id),
            # A NO_OP brings no data.
            self.log_entry.returns_data.eq(packet.returns_data & ~packet.fault),
            psn.eq(Mux(packet.resend, packet.psn, self.send_psn)),
            distance.eq(packet.psn - oldest),
            outstanding.eq(self.send_psn - oldest),
            unanswered.eq(distance < outstanding),
            self.swallow.eq(self.failed.bit_select(packet.ticket.peer, 1) | (packet.resend & ~unanswered)),
            self.trace_operand.event.psn.eq(psn),
            self.trace_operand.event.pdc.eq(packet.ticket.peer),
            self.trace_operand.event.context.eq(packet.ticket.context),
        ]
        with m.If(self.headers.ready):
            m.d.sync += self.headers.valid.eq(0)
        has_payload = payload_length != 0
        self._elaborate_message_id(m, message_id, psn)
        with m.FSM(name="number"):
            with m.State("LOOK_UP"), m.If(self.i.valid & ~self.storing):
                m.d.sync += waited.eq(0)
                m.next = "NUMBER"
            with m.State("NUMBER"):
                m.d.sync += [reported.eq(1), waited.eq(1)]
                m.d.comb += [
                    # A header may have to wait for the link: a store does not, and the peer is looked up anew.
                    self.occupied.eq(~waited),
                    self.trace_operand.valid.eq(~reported & has_payload & ~self.swallow),
                ]
                with m.If(waited & self.storing):
                    m.next = "LOOK_UP"
                with m.Elif((~self.headers.valid | self.headers.ready) & self.space):
                    m.d.comb += [
                        self.i.ready.eq(1),
                        self.route.eq(has_payload),
                        self.sent.eq(~packet.resend),
                        # The host may refuse operands that it granted the first time.
                        self.log.eq(~packet.resend | (packet.fault & unanswered)),
                    ]
                    m.d.sync += [
                        reported.eq(0),
                        self.headers.valid.eq(~self.swallow),
                        *self._header(psn, payload_length, message_id),
                    ]
                    m.next = "LOOK_UP"
        self._elaborate_length(m, payload_length)
        return m

    def _elaborate_message_id(self, m, message_id, psn):
        """Give each message the number of its first packet, which outlives a new start of the PDC."""
        m.submodules.messages = messages = memory.Memory(shape=16, depth=1 << len(self.send_index), init=[])
        write, begun = messages.write_port(), messages.read_port()
        packet = self.i.payload
        first = (psn - self.send_answered.first_message)[:16]
        m.d.comb += [
            begun.addr.eq(self.send_index),
            message_id.eq(Mux(packet.resend, packet.message_id, Mux(packet.position == 0, first, begun.data))),
            write.addr.eq(self.send_index),
            write.data.eq(message_id),
            write.en.eq(self.sent),
        ]

    def _elaborate_length(self, m, payload_length):
        packet = self.i.payload
        with m.If(~packet.fault), m.Switch(packet.kind):
            with m.Case(PayloadKind.OPERANDS):
                m.d.comb += payload_length.eq(packet.length)
            with m.Case(PayloadKind.SWAP_PAIR):
                m.d.comb += payload_length.eq(CSWAP_VALUES_SIZE)
            with m.Case(PayloadKind.VECTORS):
                m.d.comb += payload_length.eq(packet.length << 1)

    def _header(self, psn, payload_length, message_id):
        header, packet, peer, answered = self.headers.payload, self.i.payload, self.send_peer, self.send_answered
        offset = psn - answered.start_psn
        by_bits = Array(self.contexts)[packet.ticket.context].cswap_by_bits
        is_atomic = packet.is_atomic & ~packet.fault
        immediate = packet.immediate & ~packet.fault
        divisible = is_divisible(packet.ses_opcode)
        starts = packet.position == 0
        ends = packet.last | packet.fault | ~divisible
        extent = Mux(starts, SesFlags.START_OF_MESSAGE, 0) | Mux(ends, SesFlags.END_OF_MESSAGE, 0)
        relative = Mux(peer.relative, SesFlags.RELATIVE, 0)
        is_tagged = among_opcodes(packet.ses_opcode, TAGGED_MESSAGES) & ~packet.is_close
        is_untagged = among_opcodes(packet.ses_opcode, UNTAGGED_MESSAGES) & ~packet.is_close
        receives = Mux(is_tagged, answered.tagged_receives, Mux(is_untagged, answered.receives, 0))
        # The last packet of a chain counts for all of its pieces.
        counts = packet.last & ~packet.ticket.chained
        more = Mux(immediate, SesFlags.HEADER_DATA, 0) | Mux(counts, SesFlags.DELIVERY_COMPLETE, 0)
        place = Cat(packet.position, Const(0, 2), Mux(packet.fault, 0, packet.length))
        length = Mux(divisible, packet.ticket.length, packet.length)
        return [
            header.eq(Const(0, FRAME_HEADER.size)),
            header.mac.eq(peer.mac),
            header.ip.eq(peer.ip),
            header.port.eq(peer.entropy),
            header.is_request.eq(1),
            header.is_control.eq(packet.is_close),
            header.retx.eq(packet.resend),
            header.psn.eq(psn),
            # The last answered psn is the one before the oldest unanswered one.
            header.clear_psn_offset.eq(answered.oldest_psn - 1 - psn),
            header.spdcid.eq(packet.ticket.peer),
            header.syn.eq(~answered.established),
            header.dpdcid.eq(Mux(answered.established, answered.dpdcid, offset)),
            header.opcode.eq(
                Mux(packet.fault, Mux(starts, RequestOpcode.NO_OP, RequestOpcode.MSG_ERROR), packet.ses_opcode)
            ),
            header.flags.eq(extent | relative | Mux(packet.fault, SesFlags.INITIATOR_ERROR, more)),
            header.message_id.eq(message_id),
            header.ri_generation.eq(receives),
            header.job_id.eq(peer.job_id),
            header.pid_on_fep.eq(peer.pid_on_fep),
            header.resource_index.eq(peer.resource_index),
            header.initiator.eq(peer.initiator),
            header.buffer_offset.eq(packet.remote_address),
            header.memory_key.eq(packet.remote_key),
            header.header_data.eq(Mux(immediate, packet.compare, Mux(starts, 0, place))),
            header.request_length.eq(
                Mux(
                    packet.fault & starts,
                    0,
                    Mux(packet.kind == PayloadKind.SWAP_PAIR, CSWAP_VALUES_SIZE, length),
                )
            ),
            header.atomic_opcode.eq(Mux(is_atomic, packet.atomic_opcode, 0)),
            header.atomic_datatype.eq(Mux(is_atomic, packet.atomic_datatype, 0)),
            header.semantic_control.eq(Mux(is_atomic & by_bits, SemanticControl.AMOEBA_CSWAP_BY_BITS, 0)),
            header.payload_length.eq(payload_length),
        ]
