"""Packets that the NIC on PCI Express and its host have exchanged, as the simulation reports them."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.tlp import PacketKind
from amoeba_tools.cli import app
from amoeba_tools.tracing import packets_of, trace_fetch_atomic
from typer.testing import CliRunner

from tests.support.pcie_rtl import LINKS, SMALL

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


def place_of(place):
    """A place in a BAR, or in its page: pages of memory are others each time."""
    return place if place.startswith("BAR") else place[-3:]


def test_the_documentation_s_packets_are_those_of_the_hardware():
    """After a reset the key table clears its slots first: what is shown is the second one's packets."""
    with open_cluster(["rtl+pcie", "rtl+pcie"]) as fabric:
        trace_fetch_atomic(fabric)
        traced = trace_fetch_atomic(fabric)
    shown = json.loads((ROOT / "docs" / "pictures" / "fetch-add-tlps.json").read_text())["packets"]
    found = [
        {
            "cycle": each.cycle,
            "nic": each.nic,
            "from": "host" if each.by_host else "NIC",
            "kind": each.kind,
            "tag": each.tag,
            "place": place_of(each.place),
            "bytes": each.size,
            "for": each.purpose,
        }
        for each in packets_of(traced)
        if not each.purpose.startswith("arm")  # which depends on how fast this program waits
    ]
    for row in shown:
        row["place"] = place_of(row["place"])
    assert found == shown, "make pictures ARGS=--measure"


def test_the_command_prints_link_packets(tmp_path):
    result = CliRunner().invoke(app, ["trace", "--device", "rtl+pcie", "--tlps"], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    printed = result.output.partition("packets on PCI Express")[2].partition("frame of")[0]
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    for words in ("doorbell: transmit_tail = 0x1", "descriptor", "line", "result", "completion", "MSI-X message"):
        assert any(words in line for line in lines), words
    assert sum("MSI-X" in line for line in lines) == 1


@pytest.mark.parametrize("link", list(LINKS))
def test_packets_are_recorded_while_it_is_asked_for_and_answers_fit_their_reads(link):
    from amoeba_sim.rtl import PcieLink

    options = {"host": "pcie", "link": PcieLink(**LINKS[link]), "host_latency": 40, "stall": 0.2, "seed": 3}
    with open_cluster(["rtl", "rtl"], SMALL, rtl_options=options) as fabric:
        traced = trace_fetch_atomic(fabric)
        assert [device.link_packets() for device in fabric.devices] == [[], []]  # none behind the trace
        outstanding = defaultdict(int)
        counted = defaultdict(int)
        for nic, packet in sorted(traced.recording.packets, key=lambda at: at[1].cycle):
            counted[packet.kind] += 1
            if packet.kind == PacketKind.READ:
                assert outstanding[nic, packet.tag] == 0
                outstanding[nic, packet.tag] = packet.address << 16 | packet.size
            elif packet.kind == PacketKind.COMPLETION:
                address, left = outstanding[nic, packet.tag] >> 16, outstanding[nic, packet.tag] & 0xFFFF
                assert packet.address == address
                assert 0 < packet.size <= left
                rest = left - packet.size
                outstanding[nic, packet.tag] = (address + packet.size) << 16 | rest if rest else 0
        assert set(outstanding.values()) == {0}
        assert counted[PacketKind.INTERRUPT] == 1
        assert counted[PacketKind.READ] == 2  # descriptor and line
        assert counted[PacketKind.WRITE] >= 3  # line, result and completion
        written = [packet for _, packet in traced.recording.packets if packet.kind == PacketKind.WRITE]
        assert [packet.data for packet in written if packet.size == 8] == [traced.stored, traced.fetched]
