"""Takes frames apart while they arrive, and judges them when they are complete."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amoeba_model.wire import uet
from amoeba_model.wire.codec import first_target_pdc

from amoeba_hw.interfaces import FRAME_HEADER, packet_beat
from amoeba_hw.layout import unpack_wire
from amoeba_hw.packed import funnel, masked
from amoeba_hw.wire.crc import RESIDUE, apply, contribution, power, register_after
from amoeba_hw.wire.crc_appender import covered
from amoeba_hw.wire.headers import HEADER_MAXIMUM, SHAPE, FrameShape, by_shape, is_atomic_opcode, parse_headers

__all__ = ["FrameParser", "frame_limit"]

_FRAGMENT = 0x3FFF
"""More-fragments bit and fragment offset."""

_CONTROL_TYPES = (
    uet.ControlType.CLOSE_COMMAND,
    uet.ControlType.CLEAR_COMMAND,
    uet.ControlType.ACK_REQUEST,
    uet.ControlType.CLOSE_REQUEST,
)

_VERDICT = data.StructLayout({"encapsulation": 1, "address": 1, "check": 1, "transport": 1})
"""Errors of a frame, in the order in which they count; the two checksums are judged later."""


def frame_limit(parameters):
    """Bytes of the longest frame that is received: any headers, a full payload and the CRC."""
    return HEADER_MAXIMUM + parameters.payload + uet.CRC_SIZE


class FrameParser(wiring.Component):
    """Splits a frame into header and payload, and says at its end whether it is to be believed.

    Parameters
    ----------
    parameters : NicParameters

    Members
    -------
    mac, ip : In
        Own addresses.
    frames : :func:`packet_beat` stream
        Whole Ethernet frames without FCS. ``error`` with the last beat: wrong FCS, counted as a wrong CRC.
    stall : In(1)
        Take nothing more; what has been taken still leads to up to three beats of payload and three verdicts.
    payload_valid, payload : Out, :func:`packet_beat`
        A beat of the frame's payload, or of what would be its payload if the frame were right. Cannot be refused.
    is_request : Out(1)
        Kind of the frame that ``payload`` and the verdict belong to.
    header : Out(FRAME_HEADER)
        With ``accepted``. Fields that the frame does not have are zero.
    accepted, malformed, misdirected, corrupt : Out(1)
        The verdict: a pulse of one of them for each frame, with the frame's last beat of payload or after it, and
        before the next frame's first.

    One beat per cycle. The verdict comes three cycles after the last beat.

    ::

        stage     arrived              held                        judged
        work      CRC: matrix times    headers complete: lengths,  CRC register complete:
                  beat; shape and      addresses; payload          verdict
                  length of payload    realigned
    """

    def __init__(self, parameters):
        self._line_bytes = parameters.beat_bytes
        self._limit = frame_limit(parameters)
        self._first_target_pdc = first_target_pdc(parameters.peers)
        beat = packet_beat(parameters.data_width)
        super().__init__(
            {
                "mac": In(48),
                "ip": In(32),
                "frames": In(stream.Signature(beat)),
                "stall": In(1),
                "payload_valid": Out(1),
                "payload": Out(beat),
                "is_request": Out(1),
                "header": Out(FRAME_HEADER),
                "accepted": Out(1),
                "malformed": Out(1),
                "misdirected": Out(1),
                "corrupt": Out(1),
            }
        )
        # One beyond the limit stands for everything longer.
        index = range(-(-self._limit // self._line_bytes) + 1)
        self._arrived = Signal(beat)
        self._arrived_valid = Signal()
        self._arrived_index = Signal(index)
        self._held = Signal(beat)
        self._held_valid = Signal()
        self._held_index = Signal(index)
        self._leaves = Signal()
        """The held beat moves on: the next one is there, or none follows."""
        self._headers = Signal(data.ArrayLayout(parameters.data_width, -(-HEADER_MAXIMUM // self._line_bytes)))
        """First beats of the frame, up to the held one."""
        self._coming = Signal.like(self._headers)
        """``_headers`` of the next cycle, which include the arrived beat."""
        self._product = Signal(32)
        self._product_counts = Signal()
        self._register = Signal(32)
        self._padding = Signal(range(self._line_bytes))
        self._checksum = Signal(20)
        self._delivered = Signal(14)
        self._judged = Signal()
        self._wrong = Signal(_VERDICT)

    def elaborate(self, platform):
        m = Module()
        self._fields = parse_headers(Cat(*self._headers))
        self._elaborate_stages(m)
        shape, payload_length, too_short = self._elaborate_shape(m)
        self._elaborate_register(m)
        self._elaborate_payload(m, shape, payload_length)
        self._elaborate_encapsulation(m)
        self._elaborate_transport(m, shape, payload_length, too_short)
        self._elaborate_header(m, shape, payload_length)
        self._elaborate_verdict(m)
        return m

    def _elaborate_stages(self, m):
        limit_index = -(-self._limit // self._line_bytes)
        m.d.comb += [
            self.frames.ready.eq(~self.stall),
            self._leaves.eq(self._held_valid & (self._held.last | self._arrived_valid)),
        ]
        taken = self.frames.valid & self.frames.ready
        m.d.sync += self._arrived_valid.eq(taken)
        with m.If(taken):
            m.d.sync += self._arrived.eq(self.frames.p)
        # The beat in ``arrived`` always moves on: either ``held`` is empty, or this is what it waits for.
        m.d.comb += self._coming.eq(self._headers)
        m.d.sync += self._headers.eq(self._coming)
        with m.If(self._arrived_valid):
            m.d.sync += [
                self._held.eq(self._arrived),
                self._held_index.eq(self._arrived_index),
                self._arrived_index.eq(
                    Mux(self._arrived.last, 0, self._arrived_index + (self._arrived_index != limit_index))
                ),
            ]
            with m.Switch(self._arrived_index):
                for index in range(len(self._headers)):
                    with m.Case(index):
                        m.d.comb += self._coming[index].eq(self._arrived.data)
        with m.If(self._arrived_valid | self._leaves):
            m.d.sync += self._held_valid.eq(self._arrived_valid)

    def _elaborate_shape(self, m):
        """SHAPE of the held frame, payload's length, and whether that is negative: registers, as the headers are."""
        fields = parse_headers(Cat(*self._coming))
        prologue = fields["pds_request"]
        atomic = is_atomic_opcode(fields["ses_request"]["opcode"])

        def is_kind(kind, following):
            return (prologue["type"] == int(kind)) & (prologue["next_header"] == int(following))

        shape, held_shape = Signal(SHAPE), Signal(SHAPE)
        difference, held_difference = Signal(17), Signal(17)
        is_request = is_kind(uet.PdsType.ROD_REQ, uet.NextHeader.REQUEST_STD)
        m.d.comb += [
            shape.ack.eq(is_kind(uet.PdsType.ACK, uet.NextHeader.NONE)),
            shape.response.eq(is_kind(uet.PdsType.ACK, uet.NextHeader.RESPONSE)),
            shape.response_data.eq(is_kind(uet.PdsType.ACK, uet.NextHeader.RESPONSE_DATA)),
            shape.ack_cc.eq(is_kind(uet.PdsType.ACK_CC, uet.NextHeader.NONE)),
            shape.response_cc.eq(is_kind(uet.PdsType.ACK_CC, uet.NextHeader.RESPONSE)),
            shape.response_data_cc.eq(is_kind(uet.PdsType.ACK_CC, uet.NextHeader.RESPONSE_DATA)),
            shape.nack.eq(is_kind(uet.PdsType.NACK, uet.NextHeader.NONE)),
            shape.request.eq(is_request & ~atomic),
            shape.atomic_request.eq(is_request & atomic),
            shape.control.eq(
                (prologue["type"] == int(uet.PdsType.CONTROL))
                & prologue["next_header"].matches(*(int(kind) for kind in _CONTROL_TYPES))
            ),
            shape.return_data.eq(is_kind(uet.PdsType.ROD_REQ, uet.NextHeader.RESPONSE_DATA)),
            difference.eq(fields["ipv4"]["total_length"] - by_shape(shape, 8, lambda kind: kind.packet_overhead)),
        ]
        m.d.sync += [held_shape.eq(shape), held_difference.eq(difference)]
        return held_shape, held_difference[:14], held_difference[16]

    def _elaborate_register(self, m):
        """Compute the CRC register up to the packet's end, and how many zero bytes came after it."""
        line_bytes = self._line_bytes
        line_bits = line_bytes.bit_length() - 1
        visible = self._elaborate_visible(m)
        beat = Signal(8 * line_bytes)
        entering = Signal(8 * line_bytes)
        m.d.comb += [
            beat.eq(masked(self._arrived.data, visible)),
            entering.eq(covered(beat, self._arrived_index)),
        ]
        with m.If(self._arrived_valid):
            m.d.sync += [
                self._product.eq(contribution(entering)),
                self._product_counts.eq(visible != 0),
            ]
        with m.If(self._leaves):
            previous = apply(power(line_bytes), self._register)
            with m.If(self._held_index == 0):
                m.d.sync += self._register.eq(self._product)
            with m.Elif(self._product_counts):
                m.d.sync += self._register.eq(self._product ^ previous)
            end = self._fields["ipv4"]["total_length"] + uet.ETHERNET.size
            m.d.sync += self._padding.eq(-end[:line_bits])

    def _elaborate_visible(self, m):
        """How many bytes of the arrived beat belong to the packet; anything where none is ``covered``.

        Found out a cycle ahead: from the beat that has the length in it on, what is left is counted down.
        """
        line_bytes = self._line_bytes
        in_ipv4 = uet.IPV4.size - (uet.IPV4.bit_offset("total_length") // 8 + 2)
        index = (uet.ETHERNET.size + in_ipv4) // line_bytes
        in_place = Cat(Const(0, 8 * line_bytes * index), self._arrived.data, Const(0, 8 * uet.IPV4.size))
        ipv4 = unpack_wire(uet.IPV4, in_place[8 * uet.ETHERNET.size :][: 8 * uet.IPV4.size])

        def count(left):
            return Mux(left < 0, 0, Mux(left > line_bytes, line_bytes, left))

        # From the arrived beat's first byte to the packet's end; negative beyond it.
        left, next_left = Signal(signed(18)), Signal(signed(18))
        visible = Signal(range(line_bytes + 1))
        with m.If(self._arrived_index == index):
            m.d.comb += next_left.eq(ipv4["total_length"] + (uet.ETHERNET.size - line_bytes * (index + 1)))
        with m.Else():
            m.d.comb += next_left.eq(Mux(left < 0, left, left - line_bytes))
        with m.If(self._arrived_valid):
            m.d.sync += [left.eq(next_left), visible.eq(count(next_left))]
        if line_bytes <= uet.ENCAPSULATION_SIZE:
            # No packet ends as early as in the beat that says where it ends.
            return Mux(self._arrived_index <= index, line_bytes, visible)
        end = Signal(signed(18))
        m.d.comb += end.eq(ipv4["total_length"] + uet.ETHERNET.size)
        return Mux(self._arrived_index == 0, count(end), visible)

    def _elaborate_payload(self, m, shape, payload_length):
        """Deliver the payload's beats, each when the frame's beat after the one it begins in has arrived."""
        line_bytes = self._line_bytes
        remaining = Signal(14)
        gives = Signal()
        starts = Signal()
        offset = Signal(range(line_bytes))
        offsets = [kind.header_bytes % line_bytes for kind in FrameShape]
        first = by_shape(shape, len(self._held_index), lambda kind: kind.header_bytes // line_bytes)
        m.d.comb += [
            remaining.eq(payload_length - self._delivered),
            starts.eq(shape.as_value().any() & (self._held_index >= first)),
            offset.eq(by_shape(shape, len(offset), lambda kind: kind.header_bytes % line_bytes)),
            gives.eq(
                self._leaves
                & starts
                & (self._delivered < payload_length)
                & (self._held_index != -(-self._limit // line_bytes))
            ),
        ]
        m.d.sync += [
            self.payload_valid.eq(gives),
            self.payload.data.eq(funnel(self._held.data, self._arrived.data, offset, offsets)),
            self.payload.last.eq(remaining <= line_bytes),
            self.payload.count.eq(Mux(remaining < line_bytes, remaining, line_bytes)),
            self.is_request.eq(shape.request | shape.atomic_request | (shape.control & ~self._asks_to_close(shape))),
        ]
        with m.If(self._leaves & self._held.last):
            m.d.sync += self._delivered.eq(0)
        with m.Elif(gives):
            m.d.sync += self._delivered.eq(self._delivered + line_bytes)

    def _elaborate_encapsulation(self, m):
        """Check Ethernet, IPv4 and UDP, complete with the held frame's last beat."""
        ethernet, ipv4, udp = (self._fields[name] for name in ("ethernet", "ipv4", "udp"))
        line_bits = self._line_bytes.bit_length() - 1
        received = Signal(16)
        words = Cat(*self._headers)[8 * uet.ETHERNET.size : 8 * (uet.ETHERNET.size + uet.IPV4.size)]
        m.d.sync += self._checksum.eq(_sum_of_words(words))
        m.d.comb += received.eq((self._held_index << line_bits) + self._held.count)
        faults = [
            received < uet.ENCAPSULATION_SIZE + uet.CRC_SIZE,
            received > self._limit,
            ethernet["ethertype"] != uet.ETHERTYPE_IPV4,
            ipv4["version"] != 4,
            ipv4["header_words"] != uet.IPV4.size // 4,
            ipv4["protocol"] != uet.IP_PROTOCOL_UDP,
            (ipv4["flags_fragment"] & _FRAGMENT) != 0,
            udp["destination_port"] != uet.UDP_PORT,
            udp["length"] + uet.IPV4.size != ipv4["total_length"],
            udp["length"] < uet.UDP.size + uet.CRC_SIZE,
            ipv4["total_length"] + uet.ETHERNET.size > received,
        ]
        m.d.sync += [
            self._judged.eq(self._leaves & self._held.last),
            self._wrong.encapsulation.eq(Cat(faults).any()),
            self._wrong.address.eq((ethernet["destination"] != self.mac) | (ipv4["destination"] != self.ip)),
            self._wrong.check.eq(self._held.error),
        ]

    def _elaborate_transport(self, m, shape, payload_length, too_short):
        """Check PDS and SES."""
        response, with_data = self._fields["ses_response"], self._fields["ses_response_data"]
        has_data = shape.response_data | shape.response_data_cc | shape.return_data
        plain = shape.response | shape.response_cc
        without_data = response["opcode"].matches(int(uet.ResponseOpcode.RESPONSE), int(uet.ResponseOpcode.DEFAULT))
        faults = [
            ~shape.as_value().any(),
            too_short,
            (plain | has_data) & ((response["list"] != 0) | (response["version"] != 0)),
            (shape.ack | shape.ack_cc | plain | shape.nack | shape.control) & (payload_length != 0),
            ~shape.nack & (self._fields["pds_request"]["spdcid"] == 0),
            plain & ~without_data,
            has_data
            & (
                (with_data["opcode"] != int(uet.ResponseOpcode.WITH_DATA))
                | (with_data["payload_length"] != payload_length)
            ),
        ]
        m.d.sync += self._wrong.transport.eq(Cat(faults).any())

    def _asks_to_close(self, shape):
        """Whether the held frame is a CLOSE_REQUEST, the only control packet for the initiator."""
        control_type = self._fields["pds_control"]["control_type"]
        return shape.control & (control_type == int(uet.ControlType.CLOSE_REQUEST))

    def _elaborate_header(self, m, shape, payload_length):
        ethernet, ipv4, udp = (self._fields[name] for name in ("ethernet", "ipv4", "udp"))
        pds, ack, nack = (self._fields[f"pds_{name}"] for name in ("request", "ack", "nack"))
        ses, response, with_data = (self._fields[f"ses_{name}"] for name in ("request", "response", "response_data"))
        extension = self._fields["atomic_extension"]
        has_request = shape.request | shape.atomic_request
        control, state = self._fields["pds_control"], self._fields["congestion_state"]
        has_state = shape.ack_cc | shape.response_cc | shape.response_data_cc
        bare = shape.ack | shape.ack_cc
        has_ack = shape.response | shape.response_data | shape.ack | has_state
        has_data = shape.response_data | shape.response_data_cc | shape.return_data
        has_response = shape.response | shape.response_cc | has_data
        asks_to_close = self._asks_to_close(shape)
        is_request = has_request | (shape.control & ~asks_to_close)
        returns = shape.return_data | asks_to_close
        clears = shape.control & (control["control_type"] == int(uet.ControlType.CLEAR_COMMAND))
        asks = shape.control & (control["control_type"] == int(uet.ControlType.ACK_REQUEST))
        syn = ((pds["flags"] & int(uet.PdsFlags.SYN)) != 0) & ~(clears | asks | asks_to_close)
        # Fields that several PDS headers, or SES headers, have in the same place are read once.
        groups = (
            (
                None,
                {
                    "mac": ethernet["source"],
                    "ip": ipv4["source"],
                    "port": udp["source_port"],
                    "is_request": is_request,
                    "is_control": shape.nack | shape.control,
                    "clears": clears,
                    "asks": asks | asks_to_close,
                    "retx": (pds["flags"] & int(uet.PdsFlags.RETX)) != 0,
                    "marked": Mux(
                        is_request | returns,
                        ipv4["ecn"] == uet.ECN_CONGESTION,
                        (pds["flags"] & int(uet.AckFlags.MARKED)) != 0,
                    ),
                    "returns": returns,
                    "psn": Mux(clears, control["payload"], pds["psn"])
                    + Mux(has_ack, ack["ack_psn_offset"], 0).as_signed(),
                    # Everything before a CLOSE_COMMAND has been answered; an ACK_REQUEST does not say what has.
                    "clear_psn_offset": Mux(
                        has_request | shape.return_data,
                        pds["clear_psn_offset"],
                        Mux(is_request, Mux(asks, Const(0x8001, 16), Const(0xFFFF, 16)), 0),
                    ),
                    "spdcid": pds["spdcid"] - uet.FIRST_PDC,
                    "dpdcid": pds["dpdcid"] - Mux(is_request, Mux(syn, 0, self._first_target_pdc), uet.FIRST_PDC),
                    "payload_length": payload_length,
                },
            ),
            (is_request, {"syn": syn}),
            (shape.nack, {"nack_code": nack["nack_code"], "missing": nack["vendor_code"]}),
            (
                has_request | has_response | bare,
                {"opcode": Mux(bare, uet.ResponseOpcode.NONE, ses["opcode"])},
            ),
            (
                has_request | has_response,
                {
                    "ri_generation": ses["ri_generation"],
                    "job_id": ses["job_id"],
                    "message_id": Mux(shape.return_data, with_data["read_request_message_id"], ses["message_id"]),
                },
            ),
            (
                has_ack,
                {
                    "cack_psn": ack["cack_psn"],
                    "wants_clear": (pds["flags"] & int(uet.AckFlags.REQUEST_CLEAR)) != 0,
                },
            ),
            (has_state, {"mpr": state["mpr"]}),
            (has_request, {name: ses[name] for name in _REQUEST_FIELDS}),
            (
                has_request | shape.return_data,
                {"buffer_offset": Mux(shape.return_data, with_data["message_offset"], ses["buffer_offset"])},
            ),
            (
                shape.atomic_request,
                {
                    "atomic_opcode": extension["opcode"],
                    "atomic_datatype": extension["datatype"],
                    "semantic_control": extension["semantic_control"],
                },
            ),
            (
                has_response,
                {
                    "return_code": response["return_code"],
                    "modified_length": Mux(has_data, with_data["modified_length"], response["modified_length"]),
                },
            ),
        )
        for present, fields in groups:
            for name, value in fields.items():
                m.d.sync += self.header[name].eq(value if present is None else Mux(present, value, 0))

    def _elaborate_verdict(self, m):
        # Value of the register after a right packet, for each number of zero bytes that came behind it.
        expected = Array(Const(register_after(RESIDUE, count), 32) for count in range(self._line_bytes))
        # Ten words sum up to 0xFFFF in one's complement if their sum is a multiple of that: k * 2**16 - k.
        low, high = self._checksum[:16], self._checksum[16:]
        checksum_wrong = ~low[4:].all() | (low[:4] != ~high)
        corrupt = self._wrong.check | (self._register != expected[self._padding])
        with m.If(self._judged):
            with m.If(self._wrong.encapsulation | checksum_wrong):
                m.d.comb += self.malformed.eq(1)
            with m.Elif(self._wrong.address):
                m.d.comb += self.misdirected.eq(1)
            with m.Elif(corrupt):
                m.d.comb += self.corrupt.eq(1)
            with m.Elif(self._wrong.transport):
                m.d.comb += self.malformed.eq(1)
            with m.Else():
                m.d.comb += self.accepted.eq(1)


_REQUEST_FIELDS = (
    "version",
    "flags",
    "pid_on_fep",
    "resource_index",
    "initiator",
    "memory_key",
    "header_data",
    "request_length",
)
"""Fields of ses_request that FRAME_HEADER has under the same name, and responses do not have."""


def _sum_of_words(travelled):
    """Sum of the big-endian 16-bit words, as a balanced tree."""
    terms = [Cat(travelled[at + 8 : at + 16], travelled[at : at + 8]) for at in range(0, len(travelled), 16)]
    while len(terms) > 1:
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)] + odd
    return terms[0]
