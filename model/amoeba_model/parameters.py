"""The parameters of one NIC: the same object builds the model, the hardware and the simulation."""

from dataclasses import dataclass, replace

from amoeba_model.atomic.matrix import Cell, cells
from amoeba_model.opcodes import Datatype, Op

__all__ = ["BUILDS", "NicParameters", "known_builds", "named_build"]

_MAX_SYN_PACKETS = 1 << 12
"""Until the first answer, a packet's offset from the first one travels in 12 bits."""

_LEAST_AFTER_LOSS = 16
_MAX_PDCS = 0xFFFF
"""Numbers that PDCs may have on the wire; 0 is none."""


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True)
class NicParameters:
    """Sizes and features of a NIC. Raises ValueError where they do not fit together."""

    data_width: int = 256
    """Bits per beat of the datapath, the host bus and the link: 128, 256 or 512."""
    contexts: int = 8
    """Endpoint contexts, each with a transmit ring, a completion ring and a doorbell page."""
    keys: int = 1024
    """Slots of the key table; a power of two."""
    peers: int = 128
    """Peer table entries, each an initiator's packet delivery context (PDC); a power of two. With 0 the NIC has no
    initiator: it answers others' requests and sends none."""
    target_pdcs: int = 64
    """Packet delivery contexts kept for initiators elsewhere."""
    window: int = 256
    """Request packets a PDC may have unacknowledged, and answers a target PDC keeps; a power of two, at most 4096."""
    out_of_order_entries: int = 32
    """Packets of all target PDCs together that are kept until those before them have come: 0 (none) to 256."""
    payload: int = 4096
    """Most payload bytes in one frame; a multiple of 64."""
    lines: int = 256
    """Lines (of ``data_width`` bits) that the memory pipeline holds in flight."""
    receives: int = 64
    """Receives that a context may have posted; a power of two, at least 2. With 0, and 0 as ``unexpected``, the NIC
    has no message matching: it refuses peers' messages."""
    unexpected: int = 64
    """Messages that a context may keep until a receive comes; a power of two, at least 2."""
    event_rings: bool = True
    """Whether contexts may have event rings, which an initiator and messages need. A NIC without them refuses
    requests with immediate data."""
    return_data: bool = False
    """Whether the target can send data of READs in the return direction of their PDC. Only the model can."""
    event_counters: int = 64
    """Event counters, number 0 (none) included; a power of two, at most 256."""
    datatypes: tuple[Datatype, ...] = tuple(Datatype)
    """Datatypes that the atomic unit implements."""
    ops: tuple[Op, ...] = tuple(Op)
    """Operations that the atomic unit implements."""
    single_cycle_products: bool = True
    """Whether the atomic unit multiplies integers within one cycle, at the expense of the clock, or in a pipeline."""
    clock_hz: int = 250_000_000
    """Clock that cycle counts are converted to seconds with."""

    def __post_init__(self) -> None:
        if self.data_width not in (128, 256, 512):
            raise ValueError(f"data_width must be 128, 256 or 512, got {self.data_width}")
        for name in ("keys", "target_pdcs", "window", "lines", "event_counters"):
            if not _power_of_two(getattr(self, name)):
                raise ValueError(f"{name} must be a power of two, got {getattr(self, name)}")
        if self.peers and not _power_of_two(self.peers):
            raise ValueError(f"peers must be 0 or a power of two, got {self.peers}")
        if self.peers + self.target_pdcs > _MAX_PDCS:
            raise ValueError(
                f"peers and target_pdcs must be at most {_MAX_PDCS} together, got {self.peers + self.target_pdcs}"
            )
        if self.window > _MAX_SYN_PACKETS:
            raise ValueError(f"window must be at most {_MAX_SYN_PACKETS}, got {self.window}")
        for name in ("receives", "unexpected"):
            value = getattr(self, name)
            if value and not (_power_of_two(value) and value >= 2):
                raise ValueError(f"{name} must be 0 or a power of two from 2 on, got {value}")
        if bool(self.receives) != bool(self.unexpected):
            raise ValueError(f"unexpected must be 0 if receives is, and only then, got {self.unexpected}")
        if not isinstance(self.event_rings, bool):
            raise ValueError(f"event_rings must be True or False, got {self.event_rings}")
        if not self.event_rings and (self.peers or self.receives):
            raise ValueError(f"event_rings must be True with an initiator or messages, got {self.event_rings}")
        if not isinstance(self.return_data, bool):
            raise ValueError(f"return_data must be True or False, got {self.return_data}")
        if not 2 <= self.event_counters <= 256:
            raise ValueError(f"event_counters must be 2 to 256, got {self.event_counters}")
        if not 0 <= self.out_of_order_entries <= 256:
            raise ValueError(f"out_of_order_entries must be 0 to 256, got {self.out_of_order_entries}")
        if not 1 <= self.contexts <= 32:
            raise ValueError(f"contexts must be 1 to 32, got {self.contexts}")
        if self.payload % 64 or not 64 <= self.payload <= 8192:
            raise ValueError(f"payload must be a multiple of 64 from 64 to 8192 bytes, got {self.payload}")
        if not isinstance(self.single_cycle_products, bool):
            raise ValueError(f"single_cycle_products must be True or False, got {self.single_cycle_products}")

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def has_initiator(self) -> bool:
        """Whether the NIC can send requests."""
        return self.peers > 0

    @property
    def has_messages(self) -> bool:
        """Whether the NIC can receive messages."""
        return self.receives > 0

    @property
    def reserved_pdcs(self) -> range:
        """Numbers of the target PDCs that are kept for the contexts, one for each in order.

        None where that were more than a quarter of all.
        """
        count = self.contexts if 4 * self.contexts <= self.target_pdcs else 0
        return range(self.target_pdcs - count, self.target_pdcs)

    @property
    def window_after_loss(self) -> int:
        """Request packets that a PDC may have unacknowledged after a loss: fewer than a target like this keeps."""
        return min(self.window, max(_LEAST_AFTER_LOSS, self.out_of_order_entries * 3 // 4))

    def cells(self) -> tuple[Cell, ...]:
        """List the (form, operation, datatype) cells that a NIC built with these parameters executes."""
        return tuple(
            cell for cell in cells(extensions=True) if cell.op in self.ops and cell.datatype in self.datatypes
        )


_TINY = NicParameters(
    data_width=128, contexts=2, keys=64, peers=8, target_pdcs=8, window=32, out_of_order_entries=8, payload=1024,
    lines=16, receives=8, unexpected=8, event_counters=16, datatypes=(Datatype.FI_INT64, Datatype.FI_UINT64),
    ops=tuple(op for op in Op if op not in (Op.FI_PROD, Op.FI_DIFF)),
)  # fmt: skip
_NODE = replace(_TINY, peers=0, receives=0, unexpected=0, event_rings=False)
BUILDS: dict[str, NicParameters] = {"full": NicParameters(), "tiny": _TINY, "node": _NODE}
"""NICs that have names. ``full`` has everything. ``tiny`` is built in a small part of the time; its atomics are of
64-bit integers, without products. ``node`` is ``tiny`` without an initiator, messages and event rings: memory
that others use."""


def known_builds() -> str:
    """List the names of :data:`BUILDS`, for messages and help."""
    *others, last = BUILDS
    return f"{', '.join(others)} or {last}"


def named_build(name: str) -> NicParameters:
    """Return the parameters of one of :data:`BUILDS`. Raises ValueError for another name."""
    if name not in BUILDS:
        raise ValueError(f"unknown build {name!r}; expected {known_builds()}")
    return BUILDS[name]
