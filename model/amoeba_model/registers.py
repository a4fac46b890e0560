"""The BAR: a linked list of self-describing register blocks, then one doorbell page per context.

Every block begins with its type, version, length and the BAR offset of the next block (0 ends the list), so a
driver discovers what a build contains. The first block is at offset 0.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from amoeba_model.layout import Access, Register, RegisterBlock
from amoeba_model.opcodes import Op
from amoeba_model.parameters import NicParameters

__all__ = [
    "ABI_VERSION",
    "BAR_SIZE",
    "BASE_MULTIPLE",
    "DOORBELL_PAGE",
    "DOORBELL_PAGE_SIZE",
    "DOORBELL_REGISTERS",
    "KEY_PROBES",
    "MAX_ACK_DATA",
    "NACK_LIFE",
    "PDC_REFUSALS",
    "RETRANSMIT_DOUBLINGS",
    "RETRANSMIT_LIMIT",
    "RETRANSMIT_TIMEOUT",
    "ContextControl",
    "Counter",
    "KeyFlags",
    "PeerFlags",
    "PlacedBlock",
    "TargetPdcState",
    "bar_blocks",
    "ignored_doorbells",
    "key_slots",
]

ABI_VERSION = 9
"""Changes whenever registers, descriptors or completions change meaning; the driver insists on it."""

DOORBELL_PAGE = 0x2_0000
DOORBELL_PAGE_SIZE = 0x1000
BAR_SIZE = 0x4_0000

RETRANSMIT_TIMEOUT = 1 << 14
"""Cycles: 66 microseconds at 250 MHz, several times a round trip with full queues."""
RETRANSMIT_LIMIT = 8
RETRANSMIT_DOUBLINGS = 5
"""How often a timeout doubles at most: over a bad link no packet waits for more than 32 times the first one."""

NACK_LIFE = 4
"""Timeouts that a hold-off makes up for: a peer that is alive answers often enough by NACKs, also over a bad link,
and one that is dead is not kept alive by a NACK now and then."""
PDC_REFUSALS = 512
"""Hold-offs because of NO_PDC_AVAIL in a row, for each of ``retransmit_limit`` + 1, after which one more makes the
PDC fail. For each that is 128 timeouts, where a target with the same settings gives away what is idle for 32, in
hardware up to 64: who has waited in vain has waited for PDCs that are in use."""

MAX_ACK_DATA = (16, 8192)
"""Limits of ``max_ack_data``. The upper one is the most that any NIC has as ``payload``."""

BASE_MULTIPLE = 64
"""Rings, slots, answer memory and event counters begin at multiples of this: their registers have no lower bits.
So no entry lies across a beat, a line or a page, whatever the driver writes."""

KEY_PROBES = 8
"""Slots of the key table in which one key may lie: see :func:`key_slots`."""


class KeyFlags(enum.IntFlag):
    """``flags`` of a key table entry."""

    VALID = 1 << 0
    REMOTE_READ = 1 << 1
    REMOTE_WRITE = 1 << 2
    VIRTUAL = 1 << 3
    """Remote addresses are virtual addresses; otherwise offsets from the start of the region."""
    DATA = 1 << 4
    """READs with immediate data are accepted also by a context with DATA_BY_KEY."""


class PeerFlags(enum.IntFlag):
    VALID = 1 << 0
    RELATIVE = 1 << 1
    """The peer's process id counts within its job: requests have the flag RELATIVE."""
    WHOLE_WINDOW = 1 << 2
    """The peer takes a window as large as the NIC's own. Without it, 128 packets until its ACK_CC says more."""


class TargetPdcState(enum.IntEnum):
    """``state`` of a target PDC."""

    FREE = 0
    """Never opened since reset, or beyond the table."""
    OPEN = 1
    CLOSED = 2
    """By its initiator."""
    EXPELLED = 3
    """By the register ``close``: its initiator is refused with CLOSING."""


class ContextControl(enum.IntFlag):
    ENABLE = 1 << 0
    """Process descriptors and accept requests; indices restart from zero when it is set."""
    CSWAP_BY_BITS = 1 << 1
    """FI_CSWAP of this context's requests compares floating point by bits instead of by value."""
    DATA_BY_KEY = 1 << 2
    """Immediate data is accepted with READs by a key that has DATA, and else refused as without an event ring."""
    SHARES_RECEIVES = 1 << 3
    """Messages for this context meet the receives of the context ``receive_context``, not its own."""
    ANNOUNCE = 1 << 4
    """A message that meets no receive of this context writes an event ARRIVED when it joins the unexpected ones."""
    RELATIVE = 1 << 5
    """The context's process id counts within its job: only requests with the flag RELATIVE are accepted. Without it,
    the process id is the NIC's own, and only requests without the flag are accepted."""


class Counter(enum.IntEnum):
    """Counters of the NIC, in the order of the counter block. Each counts modulo 2**32 since reset."""

    DESCRIPTORS = 0
    """Descriptors taken from transmit rings."""
    COMPLETIONS = 1
    """Completion entries written."""
    ERROR_COMPLETIONS = 2
    """Of these, with a status other than OK."""
    REQUESTS_SENT = 3
    """Request frames sent."""
    RESPONSES_SENT = 4
    """Acknowledge frames, and data in the return direction, sent."""
    FRAMES_RECEIVED = 5
    """Frames accepted as UET for this NIC."""
    REQUESTS_RECEIVED = 6
    """Request frames executed or refused with a return code."""
    RESPONSES_RECEIVED = 7
    """Acknowledge frames, and data in the return direction, that matched an outstanding request, or data in the
    return direction that was not acknowledged."""
    DROPPED_MALFORMED = 8
    """Frames dropped: not UET, truncated, or with inconsistent lengths."""
    DROPPED_CHECK = 9
    """Frames dropped: wrong CRC."""
    DROPPED_ADDRESS = 10
    """Frames dropped: another MAC or IP address."""
    DROPPED_PDC = 11
    """Requests dropped: no PDC, or one that does not fit the sender."""
    DROPPED_SEQUENCE = 12
    """Requests dropped: packet sequence number not the expected one."""
    DROPPED_RESPONSE = 13
    """Acknowledgements, and data in the return direction, dropped: nothing outstanding that they answer."""
    REFUSED_REQUESTS = 14
    """Requests answered with a return code other than OK."""
    ATOMIC_BEATS = 15
    """Beats that the atomic unit calculated: one for each line of an atomic whose elements are aligned (those wider
    than a beat: to a beat), otherwise one for each element, or for each beat of a wider one. Lines that the host did
    not let the NIC read count like others. FI_ATOMIC_READ calculates nothing."""
    LINE_READS = 16
    """Lines read from host memory for requests."""
    LINE_WRITES = 17
    """Lines written back to host memory."""
    LINE_HITS = 18
    """Operations on a line already in flight."""
    DMA_READ_ERRORS = 19
    """Host reads that the host refused."""
    DMA_WRITE_ERRORS = 20
    """Host writes that the host refused."""
    INTERRUPTS = 21
    """Interrupts raised."""
    RETRANSMISSIONS = 22
    """Of the request frames, and of data in the return direction, those sent again."""
    TIMEOUTS = 23
    """Times that a PDC heard nothing for its retransmission timeout, in either direction."""
    FAILED_PDCS = 24
    """PDCs given up: too many timeouts in a row, a NACK that says so, or the register ``fail``."""
    NACKS_SENT = 25
    """Negative acknowledgements sent."""
    NACKS_RECEIVED = 26
    """Negative acknowledgements that an open PDC took note of."""
    DUPLICATES = 27
    """Requests received again; answered from the kept answer if there is one yet."""
    EVENTS = 28
    """Event entries written."""
    MESSAGES_MATCHED = 29
    """Messages and tagged atomics that met a posted receive when they came."""
    MESSAGES_UNEXPECTED = 30
    """Messages that met none, and were kept."""
    COUNTER_WRITES = 31
    """Entries of event counters written."""
    DROPPED_OVERFLOW = 32
    """Requests and CLOSE_COMMANDs dropped: those before them have filled the store. Never by the model, which takes
    each as it comes."""
    MARKED_REQUESTS = 33
    """Of the frames accepted, requests in either direction and CLOSE_COMMANDs that a switch has marked (ECN)."""
    MARKED_RESPONSES = 34
    """Of the frames accepted, ACKs and NACKs that say that their request was marked."""


DOORBELL_REGISTERS = (
    Register(
        "transmit_tail",
        0x0,
        Access.W,
        "Producer index of the transmit ring (16 bits): the doorbell. Like the next two, ignored by a NIC without "
        "initiator.",
    ),
    Register("completion_head", 0x4, Access.W, "Consumer index of the completion ring (16 bits)."),
    Register(
        "arm",
        0x8,
        Access.W,
        "Raise the context's interrupt once at the next completion whose index is the one written or later "
        "(16 bits); at once if it has been written already.",
    ),
    Register(
        "event_head",
        0xC,
        Access.W,
        "Consumer index of the event ring (16 bits). Like the next one, ignored by a NIC without event rings.",
    ),
    Register("event_arm", 0x10, Access.W, "As arm, for the event ring; the same interrupt."),
    Register(
        "receive_tail",
        0x14,
        Access.W,
        "Producer index of the receive ring (16 bits): the doorbell. Like the next one, ignored by a NIC without "
        "messages.",
    ),
    Register("slot_release", 0x18, Access.W, "Number of an unexpected slot that the driver is done with (16 bits)."),
)
"""Registers of one doorbell page; context c has its page at DOORBELL_PAGE + c * DOORBELL_PAGE_SIZE."""


_OF_INITIATOR = frozenset({"transmit_tail", "completion_head", "arm"})
_OF_MATCHER = frozenset({"receive_tail", "slot_release"})
_OF_EVENT_RINGS = frozenset({"event_head", "event_arm"})


def ignored_doorbells(parameters: NicParameters) -> frozenset[str]:
    """Return the names of the doorbell registers that a build ignores: it lacks the part which they are for."""
    parts = (
        (parameters.has_initiator, _OF_INITIATOR),
        (parameters.has_messages, _OF_MATCHER),
        (parameters.event_rings, _OF_EVENT_RINGS),
    )
    return frozenset().union(*(doorbells for present, doorbells in parts if not present))


def key_slots(key: int, table_size: int) -> Iterator[int]:
    """Yield the slots of the key table in which ``key`` may lie, in the order the hardware looks (8 at most)."""
    folded = key ^ key >> 16 ^ key >> 32 ^ key >> 48
    for probe in range(min(KEY_PROBES, table_size)):
        yield (folded + probe) & 0xFFFF & (table_size - 1)


@dataclass(frozen=True)
class PlacedBlock:
    """A register block at its BAR offset."""

    offset: int
    block: RegisterBlock
    following: int
    """BAR offset of the next block, 0 for the last."""

    def address(self, register: str, index: int = 0) -> int:
        return self.offset + self.block[register].address(index)


def _ro(name: str, offset: int, doc: str, count: int = 1) -> Register:
    return Register(name, offset, Access.R, doc, count=count)


def _rw(name: str, offset: int, doc: str, reset: int = 0, flags: type[enum.IntFlag] | None = None) -> Register:
    return Register(name, offset, Access.RW, doc, reset=reset, flags=flags)


def _base_low(name: str, offset: int, doc: str, count: int = 1, stride: int = 4) -> Register:
    """Declare the low half of an address at which the NIC begins to count entries or slots."""
    doc = f"{doc}; a multiple of {BASE_MULTIPLE}: lower bits stay zero."
    return Register(f"{name}_base_low", offset, Access.RW, doc, count=count, stride=stride, multiple_of=BASE_MULTIPLE)


def _device_block() -> RegisterBlock:
    return RegisterBlock(
        "device",
        0x414D_0001,
        1,
        0x100,
        (
            _ro("abi_version", 0x10, "ABI of registers, descriptors and completions."),
            _ro("data_width", 0x14, "Bits per beat of the datapath."),
            _ro("contexts", 0x18, "Endpoint contexts."),
            _ro("keys", 0x1C, "Slots of the key table."),
            _ro("peers", 0x20, "Entries of the peer table; 0: the NIC has no initiator, and no such table."),
            _ro("window", 0x24, "Unacknowledged request packets per peer."),
            _ro("payload", 0x28, "Most payload bytes per frame."),
            _ro("clock_hz", 0x2C, "Frequency of the NIC's clock in Hz."),
            _ro("target_pdcs", 0x3C, "Packet delivery contexts kept for initiators elsewhere."),
            _rw(
                "retransmit_timeout",
                0x40,
                "Cycles without progress until packets are sent again; doubles from timeout to timeout, five times.",
                reset=RETRANSMIT_TIMEOUT,
            ),
            _rw("retransmit_limit", 0x44, "Timeouts in a row after which a PDC is given up.", reset=RETRANSMIT_LIMIT),
            _base_low(
                "answer", 0x48, "Answer memory: target_pdcs * window * payload bytes of host memory, or 0: none"
            ),
            _rw("answer_base_high", 0x4C, "The same, high half."),
            _ro("receives", 0x50, "Receives that may be posted, per context; 0: the NIC refuses messages."),
            _ro("unexpected", 0x54, "Unexpected slots, per context."),
            _ro("event_counters", 0x58, "Event counters, number 0 (none) included."),
            _base_low(
                "counter", 0x5C, "Event counters: event_counters * 16 bytes of host memory, or 0: not written"
            ),
            _rw("counter_base_high", 0x60, "The same, high half."),
            Register(
                "counter_clear",
                0x64,
                Access.W,
                "Set the event counter written here (8 bits) to zero; descriptors of all contexts may advance it.",
            ),
            _rw("counter_contexts", 0x68, "Contexts, a bit each, for counter_admit."),
            Register(
                "counter_admit",
                0x6C,
                Access.W,
                "From now on only descriptors of counter_contexts advance the event counter written here (8 bits).",
            ),
            _rw("dscp", 0x70, "DSCP in the IP header of requests (6 bits). Answers and NACKs have 46."),
            Register(
                "psn_key",
                0x74,
                Access.RW,
                "Key of the first psns of PDCs that the NIC opens again, of 96 bits; the first word is the most "
                "significant. Random, and anew whenever a driver opens the NIC.",
                count=3,
            ),
            _ro("cycles_low", 0x80, "Cycles since reset. Its halves are read one after the other."),
            _ro("cycles_high", 0x84, "The same, high half."),
            Register(
                "drain",
                0x88,
                Access.W,
                "Drain the target: see draining. Earlier register writes, such as those that withdraw a key or "
                "disable a context, take effect first. The value is ignored.",
            ),
            _ro(
                "draining",
                0x8C,
                "1 from a write of drain until all requests that the target had accepted by then have ended, with "
                "their reads and writes of host memory, events and reads of receive descriptors; else 0.",
            ),
            _ro("event_rings", 0x90, "1: contexts may have event rings; 0: the NIC refuses immediate data."),
            _ro(
                "return_data",
                0x94,
                "1: the target can send data of READs in the return direction; 0: all data is in ACKs.",
            ),
            _rw(
                "max_ack_data",
                0x98,
                "Maximum bytes of data of a READ in an ACK, at least 16; the target sends longer data in the return "
                "direction. Ignored without return_data, or without an answer memory.",
                reset=MAX_ACK_DATA[1],
            ),
            _rw("mac_low", 0x30, "Own MAC address, bytes 5 (least significant) to 2."),
            _rw("mac_high", 0x34, "Own MAC address, bytes 1 (least significant) and 0."),
            _rw("ip", 0x38, "Own IPv4 address."),
        ),
        "Identity and parameters of the NIC, and its own network address.",
    )


def _atomics_block() -> RegisterBlock:
    mask = "datatypes (bit = libfabric's number)"
    return RegisterBlock(
        "atomics",
        0x414D_0002,
        1,
        0x200,
        (
            _ro("base", 0x20, f"Per operation, the {mask} of fi_atomic.", count=32),
            _ro("fetch", 0xA0, f"Per operation, the {mask} of fi_fetch_atomic.", count=32),
            _ro("compare", 0x120, f"Per operation, the {mask} of fi_compare_atomic.", count=32),
        ),
        f"Atomics that this build executes; index = libfabric's operation number ({len(Op)} used).",
    )


CONTEXT_STRIDE = 0x80


def _context_block(contexts: int) -> RegisterBlock:
    def each(name: str, offset: int, doc: str, flags: type[enum.IntFlag] | None = None) -> Register:
        return Register(name, 0x40 + offset, Access.RW, doc, count=contexts, stride=CONTEXT_STRIDE, flags=flags)

    def base_low(name: str, offset: int, doc: str) -> Register:
        return _base_low(name, 0x40 + offset, doc, count=contexts, stride=CONTEXT_STRIDE)

    return RegisterBlock(
        "contexts",
        0x414D_0003,
        1,
        0x40 + contexts * CONTEXT_STRIDE,
        (
            each("control", 0x00, "Enable and options: ContextControl.", ContextControl),
            base_low("transmit", 0x04, "Address of the transmit ring, low half"),
            each("transmit_base_high", 0x08, "Address of the transmit ring, high half."),
            each("transmit_size", 0x0C, "log2 of the transmit ring's entries, 0 to 15."),
            base_low("completion", 0x10, "Address of the completion ring, low half"),
            each("completion_base_high", 0x14, "Address of the completion ring, high half."),
            each("completion_size", 0x18, "log2 of the completion ring's entries, 0 to 15."),
            each("domain", 0x1C, "Protection domain (8 bits): only keys of the same domain are accepted."),
            each("job_id", 0x20, "UET job (24 bits) whose requests are accepted."),
            each("pid_on_fep", 0x24, "UET process id (12 bits) whose requests are accepted."),
            base_low("event", 0x28, "Address of the event ring, low half, or 0: none"),
            each("event_base_high", 0x2C, "Address of the event ring, high half."),
            each("event_size", 0x30, "log2 of the event ring's entries, 3 to 15."),
            base_low("receive", 0x34, "Address of the receive ring, low half"),
            each("receive_base_high", 0x38, "Address of the receive ring, high half."),
            each("receive_size", 0x3C, "log2 of the receive ring's entries, 0 to 15."),
            base_low(
                "unexpected", 0x40, "Unexpected slots: unexpected * payload bytes of host memory, or 0: no messages"
            ),
            each("unexpected_base_high", 0x44, "The same, high half."),
            each("read_counter", 0x48, "Event counter of peers' requests that fetch something (8 bits); 0: none."),
            each("write_counter", 0x4C, "The same of writes and base atomics."),
            each("receive_context", 0x50, "Context whose receives its messages meet (8 bits), with SHARES_RECEIVES."),
        ),
        "Endpoint contexts: rings, domain, UET identity.",
    )


def _window(name: str, kind: int, length: int, registers: tuple[Register, ...], doc: str) -> RegisterBlock:
    return RegisterBlock(name, kind, 1, length, registers, doc)


def _keys_block() -> RegisterBlock:
    return _window(
        "keys",
        0x414D_0004,
        0x40,
        (
            _rw("key_low", 0x10, "Key, low half."),
            _rw("key_high", 0x14, "Key, high half."),
            _rw("base_low", 0x18, "Virtual address of the region's first byte, low half."),
            _rw("base_high", 0x1C, "The same, high half."),
            _rw("length_low", 0x20, "Length of the region in bytes, low half."),
            _rw("length_high", 0x24, "The same, high half."),
            _rw("domain", 0x28, "Protection domain (8 bits)."),
            _rw("flags", 0x2C, "Rights and addressing: KeyFlags.", flags=KeyFlags),
            _rw("read_counter", 0x34, "Event counter of requests that fetch something (8 bits); 0: none."),
            _rw("write_counter", 0x38, "The same of requests that may change memory."),
            Register("store", 0x30, Access.W, "Store the other values into the slot written here."),
        ),
        "The key table, written one slot at a time; amoeba_key_slot() names the slots of a key.",
    )


_CLOSE_REQUESTS = 0x44
"""Offset of the registers behind all others of their block."""


def _peers_block(peers: int) -> RegisterBlock:
    words = -(-peers // 32)
    return _window(
        "peers",
        0x414D_0005,
        -(-(_CLOSE_REQUESTS + 4 * words) // 0x10) * 0x10,
        (
            _rw("mac_low", 0x10, "MAC address of the peer, bytes 5 (least significant) to 2."),
            _rw("mac_high", 0x14, "MAC address of the peer, bytes 1 (least significant) and 0."),
            _rw("ip", 0x18, "IPv4 address of the peer."),
            _rw("job_id", 0x1C, "UET job of the peer (24 bits)."),
            _rw("pid_on_fep", 0x20, "UET process id of the peer (12 bits)."),
            _rw("resource_index", 0x24, "Context of the peer (12 bits)."),
            _rw("initial_psn", 0x28, "First packet sequence number to use."),
            _rw("entropy", 0x2C, "UDP source port (16 bits)."),
            _rw("flags", 0x30, "PeerFlags.", flags=PeerFlags),
            _rw("context", 0x34, "Own context that uses this entry."),
            _rw("initiator", 0x3C, "By which of its contexts the peer is to know who sent a request (12 bits)."),
            Register(
                "store",
                0x38,
                Access.W,
                "Store the values above into the entry written here (16 bits); opens a new PDC.",
            ),
            Register(
                "fail", 0x40, Access.W, "Give up the PDC of the entry written here (16 bits), as if it had timed out."
            ),
            Register(
                "close_requests",
                _CLOSE_REQUESTS,
                Access.R,
                "A bit for each entry, 32 in a word: the peer asks for a CLOSE of its PDC, which has not failed.",
                count=words,
            ),
        ),
        "The peer table, written one entry at a time; each entry is one packet delivery context.",
    )


def _counters_block() -> RegisterBlock:
    return RegisterBlock(
        "counters",
        0x414D_0006,
        1,
        0x100,
        (_ro("value", 0x10, "Counters, in the order of Counter.", count=len(Counter)),),
        "Counts of events since reset.",
    )


def _target_pdcs_block() -> RegisterBlock:
    return _window(
        "target_pdcs",
        0x414D_0007,
        0x40,
        (
            Register("select", 0x10, Access.W, "Show the target PDC of this number (16 bits) below, as it is now."),
            Register(
                "close",
                0x14,
                Access.W,
                "Close the target PDC of this number (16 bits), if it is open, behind the packet in hand.",
            ),
            _ro("state", 0x18, "TargetPdcState of the one selected; if it is FREE, all else is 0."),
            _ro("ip", 0x1C, "IPv4 address of its initiator."),
            _ro("spdcid", 0x20, "The entry of its initiator's peer table (16 bits): spdcid less 1."),
            _ro("job_id", 0x24, "UET job (24 bits) that the request which came last was for."),
            _ro("context", 0x28, "Context (12 bits) that it was for."),
            _ro("expected", 0x2C, "The packet sequence number that comes next."),
            _ro("came_low", 0x30, "When something came of it last, in cycles since reset (48 bits)."),
            _ro("came_high", 0x34, "The same, high half."),
        ),
        "The target PDCs, seen and closed one at a time.",
    )


def bar_blocks(parameters: NicParameters) -> tuple[PlacedBlock, ...]:
    """All register blocks of a build, placed and linked."""
    peers = (_peers_block(parameters.peers),) if parameters.has_initiator else ()
    blocks = (
        _device_block(),
        _atomics_block(),
        _context_block(parameters.contexts),
        _keys_block(),
        *peers,
        _counters_block(),
        _target_pdcs_block(),
    )
    placed: list[PlacedBlock] = []
    offset = 0
    for index, block in enumerate(blocks):
        following = (offset + block.length + 0xFFF) & ~0xFFF
        placed.append(PlacedBlock(offset, block, following if index + 1 < len(blocks) else 0))
        offset = following
    return tuple(placed)
