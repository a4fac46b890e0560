"""Packets on PCI Express, as people are told of them. The hardware's own: ``system/test_link_packets_rtl.py``.

Covers ``amoeba_model/tlp.py`` and ``tracing/packets.py``.
"""

from dataclasses import replace

import pytest
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.parameters import NicParameters
from amoeba_model.pci import MSIX_BAR, REGISTER_BAR
from amoeba_model.registers import DOORBELL_PAGE, DOORBELL_PAGE_SIZE, bar_blocks
from amoeba_model.tlp import CompletionStatus, LinkPacket, PacketKind
from amoeba_model.trace import Requester
from amoeba_tools.tracing import Recording, Traced, packets_of, trace_fetch_atomic
from amoeba_tools.tracing.packets import PURPOSES, purpose

PARAMETERS = NicParameters()
READ = LinkPacket(100, PacketKind.READ, 0x1234_5678, 32, 0, 5, Requester.LINE_TABLE, CompletionStatus.SC)


def register_write(offset, data=0, bar=REGISTER_BAR):
    return READ._replace(kind=PacketKind.REGISTER_WRITE, address=offset, data=data, user=bar)


def test_every_component_that_accesses_host_memory_has_a_purpose():
    assert set(PURPOSES) == set(Requester)
    for requester in Requester:
        for kind in (PacketKind.READ, PacketKind.WRITE, PacketKind.COMPLETION):
            assert purpose(READ._replace(kind=kind, user=requester), PARAMETERS) == PURPOSES[requester]


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (register_write(DOORBELL_PAGE + 3 * DOORBELL_PAGE_SIZE, 9), "doorbell: transmit_tail = 0x9, context 3"),
        (register_write(DOORBELL_PAGE + 0x14, 1), "doorbell: receive_tail = 0x1, context 0"),
        (register_write(DOORBELL_PAGE + DOORBELL_PAGE_SIZE + 8), "arm, context 1"),
        (register_write(DOORBELL_PAGE + 0xFFC), "no register, context 0"),
        (register_write(0x40, 1 << 14), "device.retransmit_timeout = 0x4000"),
        (register_write(0xFFC), "no register"),
        (READ._replace(kind=PacketKind.REGISTER_READ, address=0xC, user=0), "device: what block it is"),
        (register_write(0x10, 7, MSIX_BAR), "MSI-X table"),
        (READ._replace(kind=PacketKind.INTERRUPT, user=0xFF, data=7), "MSI-X message, vector 7"),
        (READ._replace(kind=PacketKind.COMPLETION, size=0, status=CompletionStatus.UR), "line, UR"),
    ],
)
def test_a_packet_is_told_with_what_it_is_for(packet, told):
    assert purpose(packet, PARAMETERS) == told


def test_every_register_is_told_by_its_name():
    for placed in bar_blocks(PARAMETERS):
        for register in placed.block.registers:
            last = placed.address(register.name, register.count - 1)
            assert purpose(register_write(last), PARAMETERS) == f"{placed.block.name}.{register.name}"


def test_only_reads_and_what_answers_them_have_a_tag_and_only_the_host_s_come_from_it():
    tagged = {PacketKind.READ, PacketKind.COMPLETION, PacketKind.REGISTER_READ, PacketKind.REGISTER_COMPLETION}
    by_host = {PacketKind.COMPLETION, PacketKind.REGISTER_READ, PacketKind.REGISTER_WRITE}
    for kind in PacketKind:
        packet = READ._replace(kind=kind)
        assert packet.tag == (5 if kind in tagged else None)
        assert packet.by_host == (kind in by_host)
        assert (packet.requester is None) == (packet.bar is not None or kind == PacketKind.INTERRUPT)


def test_packets_of_several_nics_are_in_the_order_of_their_cycles():
    recording = Recording(
        parameters=[PARAMETERS] * 2,
        packets=[(0, READ._replace(cycle=130)), (0, register_write(DOORBELL_PAGE, 1)._replace(cycle=98)), (1, READ)],
    )
    shown = packets_of(Traced(41, 42, (), recording, 100))
    assert [(each.cycle, each.nic, each.place) for each in shown] == [
        (-2, 0, "BAR 0 + 0x20000"), (0, 1, "0x12345678"), (30, 0, "0x12345678"),
    ]  # fmt: skip
    assert [each.by_host for each in shown] == [True, False, False]


def test_the_model_has_no_packets():
    with open_cluster(["model", "model"]) as fabric:
        traced = trace_fetch_atomic(fabric)
        assert [device.link_packets() for device in fabric.devices] == [[], []]
    assert packets_of(replace(traced)) == []
