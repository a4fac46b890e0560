"""Gives packets their place in their PDC, and their headers."""

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire.uet import CSWAP_VALUES_SIZE, RequestOpcode, SemanticControl, SesFlags

from amoeba_hw.initiator.peer_table import ANSWERED
from amoeba_hw.initiator.records import OUTSTANDING, PACKET, PayloadKind
from amoeba_hw.interfaces import CONTEXT, FRAME_HEADER, PEER, TRACE_SLOT

__all__ = ["PacketNumberer"]


class PacketNumberer(wiring.Component):
    """Numbers each packet when its PDC's window has room, notes it as outstanding and writes its header.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    i : PACKET stream
        One every two cycles. A packet whose window is full holds up those behind it.
    contexts : array of CONTEXT
    headers : FRAME_HEADER stream
        Two cycles after its packet. A packet with ``fault`` becomes a NO_OP of length 0.
    send_index, send_peer, send_psn, send_answered; sent, sent_index, sent_psn
        To and from the peer table.
    note, note_entry : out
        Pulse, with ``sent``: OUTSTANDING of the packet with psn ``send_psn``.
    trace_operand : TRACE_SLOT
        For a packet with payload, when its turn has come: only then it has a number.
    """

    def __init__(self, parameters):
        self._window = parameters.window
        index = range(parameters.peers)
        super().__init__(
            {
                "i": In(stream.Signature(PACKET)),
                "contexts": In(CONTEXT).array(parameters.contexts),
                "headers": Out(stream.Signature(FRAME_HEADER)),
                "send_index": Out(index),
                "send_peer": In(PEER),
                "send_psn": In(32),
                "send_answered": In(ANSWERED),
                "sent": Out(1),
                "sent_index": Out(index),
                "sent_psn": Out(32),
                "note": Out(1),
                "note_entry": Out(OUTSTANDING),
                "trace_operand": Out(TRACE_SLOT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        packet = self.i.payload
        unanswered = Signal(32)
        free = Signal()
        reported = Signal()
        payload_length = Signal(14)
        m.d.comb += [
            self.send_index.eq(packet.ticket.peer),
            self.sent_index.eq(packet.ticket.peer),
            self.sent_psn.eq(self.send_psn + 1),
            unanswered.eq(self.send_psn - self.send_answered.expected_psn),
            free.eq((unanswered < self._window) & (~self.headers.valid | self.headers.ready)),
            self.sent.eq(self.i.ready),
            self.note.eq(self.i.ready),
            self.trace_operand.event.psn.eq(self.send_psn),
            self.trace_operand.event.pdc.eq(packet.ticket.peer),
            self.trace_operand.event.context.eq(packet.ticket.context),
            *(getattr(self.note_entry, name).eq(getattr(packet, name)) for name, _ in OUTSTANDING),
            self.note_entry.returns_data.eq(packet.returns_data & ~packet.fault),
        ]
        with m.If(self.headers.ready):
            m.d.sync += self.headers.valid.eq(0)
        with m.FSM(name="number"):
            with m.State("LOOK_UP"), m.If(self.i.valid):
                m.d.sync += reported.eq(0)
                m.next = "GRANT"
            with m.State("GRANT"):
                # The tables are read again in each cycle: answers make room.
                m.d.sync += reported.eq(1)
                m.d.comb += self.trace_operand.valid.eq(~reported & (payload_length != 0))
                with m.If(free):
                    m.d.comb += self.i.ready.eq(1)
                    m.d.sync += [self.headers.valid.eq(1), *self._header(payload_length)]
                    m.next = "LOOK_UP"
        self._elaborate_length(m, payload_length)
        return m

    def _elaborate_length(self, m, payload_length):
        packet = self.i.payload
        with m.If(~packet.fault), m.Switch(packet.kind):
            with m.Case(PayloadKind.OPERANDS):
                m.d.comb += payload_length.eq(packet.length)
            with m.Case(PayloadKind.SWAP_PAIR):
                m.d.comb += payload_length.eq(CSWAP_VALUES_SIZE)
            with m.Case(PayloadKind.VECTORS):
                m.d.comb += payload_length.eq(packet.length << 1)

    def _header(self, payload_length):
        header, packet, peer, answered = self.headers.payload, self.i.payload, self.send_peer, self.send_answered
        message = self.send_psn - peer.initial_psn
        whole = SesFlags.START_OF_MESSAGE | SesFlags.END_OF_MESSAGE
        by_bits = Array(self.contexts)[packet.ticket.context].cswap_by_bits
        is_atomic = packet.is_atomic & ~packet.fault
        return [
            header.eq(Const(0, FRAME_HEADER.size)),
            header.mac.eq(peer.mac),
            header.ip.eq(peer.ip),
            header.port.eq(peer.entropy),
            header.is_request.eq(1),
            header.psn.eq(self.send_psn),
            # The last answered psn is the one before the next expected.
            header.clear_psn_offset.eq(answered.expected_psn - 1 - self.send_psn),
            header.spdcid.eq(packet.ticket.peer),
            header.syn.eq(~answered.established),
            header.dpdcid.eq(Mux(answered.established, answered.dpdcid, message)),
            header.opcode.eq(Mux(packet.fault, RequestOpcode.NO_OP, packet.ses_opcode)),
            header.flags.eq(Mux(packet.fault, whole | SesFlags.INITIATOR_ERROR, whole)),
            header.message_id.eq(message),
            header.job_id.eq(peer.job_id),
            header.pid_on_fep.eq(peer.pid_on_fep),
            header.resource_index.eq(peer.resource_index),
            header.initiator.eq(packet.ticket.context),
            header.buffer_offset.eq(packet.remote_address),
            header.memory_key.eq(packet.remote_key),
            header.request_length.eq(Mux(packet.fault, 0, packet.length)),
            header.atomic_opcode.eq(Mux(is_atomic, packet.atomic_opcode, 0)),
            header.atomic_datatype.eq(Mux(is_atomic, packet.atomic_datatype, 0)),
            header.semantic_control.eq(Mux(is_atomic & by_bits, SemanticControl.AMOEBA_CSWAP_BY_BITS, 0)),
            header.payload_length.eq(payload_length),
        ]
