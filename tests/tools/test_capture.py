"""Captures: what other people's tools read in them."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from amoeba import MrAccess, Op, open_cluster
from amoeba_model.frames import Frame
from amoeba_model.impairments import Impairments
from amoeba_model.udp_network import OUTSIDE
from amoeba_tools.capture import write_pcapng
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

DISSECTOR = Path(__file__).parents[2] / "docs" / "generated" / "amoeba_uet.lua"
CLOCK = 250_000_000


def packets(path):
    """(bytes, metadata) of all packets."""
    with RawPcapNgReader(str(path)) as reader:
        return list(reader)


def atomics_over(path, links):
    """Capture 16 sums into another NIC's counter over a link where nothing is lost for good."""
    counter = np.zeros(1, np.uint64)
    with (
        open_cluster(["model", "model"], impairments=links) as fabric,
        fabric.domain(0) as target,
        target.mr_reg(counter, MrAccess.FI_REMOTE_WRITE) as region,
        target.endpoint(cq=target.cq_open(), av=target.av_open()) as served,
        fabric.domain(1) as source,
        source.cq_open() as queue,
        source.av_open() as peers,
        source.endpoint(cq=queue, av=peers) as endpoint,
    ):
        fabric.network.recording = True
        peer = peers.insert(served.getname())
        for _ in range(16):
            endpoint.atomic(np.uint64(1), peer, region.address, region.key, Op.FI_SUM)
        for _ in range(16):
            queue.sread(timeout=30)
        assert counter[0] == 16
        write_pcapng(path, fabric.network.log, CLOCK)
        return list(fabric.network.log)


def test_scapy_reads_bytes_times_names_and_comments(tmp_path):
    path = tmp_path / "x.pcapng"
    frames = [
        (0, Frame(0, b"a" * 60)),
        (1, Frame(1, b"b" * 61, "lost")),
        (0, Frame(2, b"c" * 1, "bits flipped: 3")),
        (OUTSIDE, Frame((1 << 32) * CLOCK + 1, b"d" * 9000)),
    ]
    write_pcapng(path, frames, CLOCK)
    read = packets(path)
    assert [data for data, _ in read] == [frame.data for _, frame in frames]
    assert [meta.comments for _, meta in read] == [None, [b"lost"], [b"bits flipped: 3"], None]
    assert [meta.ifname for _, meta in read] == [b"NIC 0", b"NIC 1", b"NIC 0", b"outside"]
    assert {(meta.linktype, meta.tsresol) for _, meta in read} == {(1, 10**9)}
    times = [(meta.tshigh << 32) + meta.tslow for _, meta in read]
    assert times == [0, 4, 8, (1 << 32) * 10**9 + 4], "cycles are 4 ns"


def test_a_capture_of_nothing_is_a_capture(tmp_path):
    write_pcapng(tmp_path / "empty.pcapng", [], CLOCK)
    assert packets(tmp_path / "empty.pcapng") == []


def test_frames_of_an_impaired_link_are_read_with_what_became_of_them(tmp_path):
    """Delay alone: what the NICs cannot mend yet must not happen to them."""
    path = tmp_path / "impaired.pcapng"
    log = atomics_over(path, Impairments(seed=1, delay=500))
    read = packets(path)
    assert len(read) == len(log) == 32
    assert [(meta.comments or [b""])[0].decode() for _, meta in read] == [frame.remark for _, frame in log]
    assert sum(bool(meta.comments) for _, meta in read) > 25
    for data, _ in read:
        packet = Ether(data)
        assert {packet[IP].src, packet[IP].dst} == {"10.0.0.1", "10.0.0.2"}
        assert packet[UDP].dport == 4793


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_the_generated_dissector_decodes_a_capture(tmp_path):
    path = tmp_path / "uet.pcapng"
    atomics_over(path, Impairments(seed=1, delay=500))
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", path, "-T", "json"]
    decoded = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert len(decoded) == 32
    assert all("amoeba_uet" in packet["_source"]["layers"] for packet in decoded)
