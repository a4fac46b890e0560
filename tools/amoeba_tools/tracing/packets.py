"""Packets on a NIC's PCI Express link, described for readers."""

from typing import NamedTuple

from amoeba.nic.registers import register_at
from amoeba_model.parameters import NicParameters
from amoeba_model.pci import MSIX_BAR
from amoeba_model.tlp import CompletionStatus, LinkPacket, PacketKind
from amoeba_model.trace import Requester

from amoeba_tools.tracing.atomic import Traced

__all__ = ["PURPOSES", "ShownPacket", "packets_of", "purpose"]

PURPOSES = {
    Requester.DESCRIPTOR_FETCH: "descriptor",
    Requester.OPERAND_FETCH: "operand",
    Requester.COMPARE_FETCH: "operand to compare with",
    Requester.LINE_TABLE: "line",
    Requester.RESULT_WRITER: "result",
    Requester.COMPLETION_WRITER: "completion",
    Requester.EVENT_WRITER: "event",
    Requester.ANSWER_WRITER: "kept answer",
    Requester.ANSWER_FETCH: "kept answer",
    Requester.RECEIVE_FETCH: "receive descriptor",
    Requester.COUNTER_WRITER: "event counter",
}
"""Purpose of a component's reads and writes in host memory."""
_NAMES = {
    PacketKind.READ: "memory read",
    PacketKind.WRITE: "memory write",
    PacketKind.INTERRUPT: "memory write",
    PacketKind.COMPLETION: "completion",
    PacketKind.REGISTER_READ: "memory read",
    PacketKind.REGISTER_WRITE: "memory write",
    PacketKind.REGISTER_COMPLETION: "completion",
}
"""Names in the Base Specification."""


class ShownPacket(NamedTuple):
    """One packet between a NIC and its host."""

    cycle: int
    """Since the NIC has taken the doorbell, of its first beat: the doorbell's own packet comes earlier."""
    nic: int
    """Index of the NIC in the fabric."""
    by_host: bool
    kind: str
    tag: int | None
    place: str
    """The host address, or the BAR and the offset in it."""
    size: int
    """Bytes that it asks for or carries."""
    purpose: str


def packets_of(traced: Traced) -> list[ShownPacket]:
    """Return the PCI Express packets of a traced atomic, by cycle."""
    recording = traced.recording
    return [
        ShownPacket(
            packet.cycle - traced.doorbell, nic, packet.by_host, _NAMES[packet.kind], packet.tag, _place(packet),
            packet.size, purpose(packet, recording.parameters[nic]),
        )
        for nic, packet in sorted(recording.packets, key=lambda at: (at[1].cycle, at[0]))
    ]  # fmt: skip


def purpose(packet: LinkPacket, parameters: NicParameters) -> str:
    """Describe a packet's purpose in a few words; ``parameters`` are those of its NIC."""
    if packet.kind == PacketKind.INTERRUPT:
        return f"MSI-X message, vector {packet.data}"
    if packet.requester is not None:
        words = PURPOSES[packet.requester]
    else:
        words = "MSI-X table" if packet.bar == MSIX_BAR else _register(packet, parameters)
    if packet.status != CompletionStatus.SC:
        words += f", {CompletionStatus(packet.status).name}"
    return words


def _place(packet: LinkPacket) -> str:
    return f"{packet.address:#x}" if packet.bar is None else f"BAR {packet.bar} + {packet.address:#x}"


def _register(packet: LinkPacket, parameters: NicParameters) -> str:
    """Return the name of the accessed register of BAR 0."""
    name, context = register_at(packet.address, parameters)
    told = f" = {packet.data:#x}" if packet.data else ""
    if context is None:
        return f"{name}{told}"
    return f"{'doorbell: ' if name.endswith('_tail') else ''}{name}{told}, context {context}"
