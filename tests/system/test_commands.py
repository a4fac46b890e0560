"""The ``amoeba`` command on RTL NICs: what they are, what they execute, and the life of one atomic."""

import json
import struct
from itertools import pairwise
from pathlib import Path

import google_crc32c
import pytest
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba_model.trace import BusState, Channel, Stage
from amoeba_sim import rtl
from amoeba_tools.cli import app
from amoeba_tools.random_access import run_gups
from amoeba_tools.tracing import Recorder, operations_of, trace_fetch_atomic
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap
from typer.testing import CliRunner

from tests.support.pairs import PAIRS

ROOT = Path(__file__).parents[2]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_info_says_the_same_of_rtl_and_model():
    of_rtl, of_model = (json.loads(run("info", "--device", kind, "--json")) for kind in ("rtl", "model"))
    assert of_rtl.pop("name") == "rtl (256-bit, 8 contexts)"
    assert of_model.pop("name") == "model (256-bit, 8 contexts)"
    assert of_rtl == of_model


def test_info_prints_the_tables_of_an_rtl_nic():
    printed = run("info", "-v", "--device", "rtl")
    for words in ("rtl (256-bit, 8 contexts)", "250 MHz", "4096 bytes", "0x414d0002", "MSWAP", "FLOAT8_E5M2"):
        assert words in printed


def test_an_rtl_nic_executes_the_whole_matrix_and_all_extensions():
    printed = run("matrix", "--device", "rtl")
    assert "414 of 414 cells" in printed
    assert "132 of 132 extensions" in printed


@pytest.mark.parametrize("kinds", PAIRS)
def test_every_pair_tells_the_same_life_of_an_atomic(kinds):
    with open_cluster(kinds.split(",")) as fabric:
        traced = trace_fetch_atomic(fabric, initial=41, operand=1)
    assert (traced.fetched, traced.stored) == (41, 42)
    assert [(step.nic, step.event.stage) for step in traced.steps if step.event.stage is not Stage.LINE_WRITTEN] == [
        (0, Stage.DOORBELL),
        (0, Stage.DESCRIPTOR),
        (0, Stage.OPERAND),
        (0, Stage.REQUEST_SENT),
        (1, Stage.REQUEST_RECEIVED),
        (1, Stage.REQUEST_CHECKED),
        (1, Stage.LINE_READ),
        (1, Stage.EXECUTED),
        (1, Stage.RESPONSE_SENT),
        (0, Stage.RESPONSE_RECEIVED),
        (0, Stage.RESULT_WRITTEN),
        (0, Stage.COMPLETION_WRITTEN),
        (0, Stage.INTERRUPT),
    ]
    at = {step.event.stage: step.cycle for step in traced.steps}
    assert at[Stage.EXECUTED] <= at[Stage.LINE_WRITTEN] <= at[Stage.RESPONSE_SENT]
    assert [sender for sender, _ in traced.frames] == [0, 1]


def test_the_frames_of_an_rtl_trace_have_the_bytes_of_the_specification(tmp_path):
    path = tmp_path / "atomic.pcapng"
    printed = run("trace", "--device", "rtl", "--pcapng", path)
    for words in ("found 41, left 42", "RequestChecker", "completion written", "FETCHING_ATOMIC"):
        assert words in printed
    request, answer = rdpcap(str(path))
    assert (request[IP].src, request[IP].dst, request[UDP].dport) == ("10.0.0.1", "10.0.0.2", 4793)
    assert (answer[IP].src, answer[IP].dst, answer[UDP].dport) == ("10.0.0.2", "10.0.0.1", 4793)
    assert (request[Ether].src, request[Ether].dst) == ("02:00:00:00:00:01", "02:00:00:00:00:02")
    assert request.time < answer.time

    asked, told = (bytes(frame[UDP].payload) for frame in (request, answer))
    for frame in (request, answer):
        assert struct.unpack("<I", bytes(frame)[-4:]) == (google_crc32c.value(bytes(frame)[26:-4]),)
    # From here on typed by hand after the headers of UET. ROD_REQ, standard header follows, acknowledge request
    # and SYN; nothing answered yet; PSN; first PDC, first packet.
    psn = asked[4:8]
    assert asked[:12] == bytes.fromhex("198c ffff") + psn + bytes.fromhex("0001 0000")
    # FETCHING_ATOMIC; DELIVERY_COMPLETE, START and END; message 0; job 1; process 1; context 0
    assert asked[12:24] == bytes.fromhex("04 23 0000 00 000001 0001 0000")
    # initiator: context 0; header data 0; 8 bytes
    assert (asked[32:36], asked[44:52], asked[52:56]) == (bytes(4), bytes(8), bytes.fromhex("00000008"))
    # SUM, UINT64; the operand 1
    assert asked[56:-4] == bytes.fromhex("02 07 00 00 00 00 00 00 00 00 00 01")
    # ACK, response with data follows; up to this PSN; first PDC as a target, behind those of 128 peers; first PDC
    assert told[:12] == bytes.fromhex("3a80 0000") + psn + bytes.fromhex("0081 0001")
    # WITH_DATA, OK; message 0; job 1; 8 bytes of data, 8 of memory, offset 0; the old value 41
    assert told[12:-4] == bytes.fromhex("02 01 0000 00 000001 0000 0008 00000008 00000000 00 00 00 00 00 00 00 29")


def test_the_picture_of_an_atomics_life_is_what_the_rtl_does():
    """After a reset the key table clears its slots first: what is drawn is the second one's life."""
    with open_cluster(["rtl", "rtl"]) as fabric:
        trace_fetch_atomic(fabric)
        traced = trace_fetch_atomic(fabric)
    drawn = json.loads((ROOT / "docs" / "pictures" / "life-of-an-atomic.json").read_text())["steps"]
    assert [{"cycle": step.cycle, "nic": step.nic, "stage": step.event.stage.name} for step in traced.steps] == drawn
    # a frame of 114 bytes has four beats of 32, its answer of 86 three
    for nic, frames in ((0, (4, 3)), (1, (3, 4))):
        for channel, beats in zip((Channel.LINK_TRANSMIT, Channel.LINK_RECEIVE), frames, strict=True):
            changes = [event for at, event in traced.recording.buses if at == nic and event.channel is channel]
            moved = sum(
                after.cycle - event.cycle
                for event, after in pairwise(changes)
                if event.state is BusState.MOVES
            )
            assert moved == beats, (nic, channel)
    # the host answers the descriptor's read 250 cycles after its address
    asked, given = (
        next(event.cycle for at, event in traced.recording.buses if at == 0 and event.channel is channel)
        for channel in (Channel.HOST_READ_ADDRESS, Channel.HOST_READ_DATA)
    )
    assert given - asked == 250


def test_operations_of_a_workload_on_rtl_have_all_their_stages():
    with Recorder() as recorder, open_cluster(["rtl", "model"]) as fabric:
        assert run_gups(fabric, table_bits=5, window=16).passed
    (recording,) = recorder.recordings
    operations = [each for each in operations_of(recording) if each.text != "CLOSE"]
    assert len(operations) == 4 << 5
    for operation in operations:
        (packet,) = operation.packets
        seen = [event.stage for _, event in packet.events if event.stage is not Stage.LINE_READ]
        assert sorted(seen) == [
            Stage.OPERAND, Stage.REQUEST_SENT, Stage.REQUEST_RECEIVED, Stage.REQUEST_CHECKED, Stage.EXECUTED,
            Stage.LINE_WRITTEN, Stage.RESPONSE_SENT, Stage.RESPONSE_RECEIVED,
        ]  # fmt: skip
    assert {nic for nic, _ in recording.buses} == {0}


@pytest.fixture
def without_waves(monkeypatch):
    """RTL NICs of the usual build even if waveforms are asked for, which would be another build of minutes."""
    usual = rtl.open_rtl
    monkeypatch.setattr(rtl, "open_rtl", lambda parameters, *, waves=None: usual(parameters))


@pytest.mark.parametrize(
    ("devices", "names"), [("model,rtl", ["life.vcd"]), ("rtl,rtl", ["life-0.vcd", "life-1.vcd"])]
)
def test_every_rtl_nic_writes_its_waveform(without_waves, monkeypatch, tmp_path, devices, names):
    running, written = set(), []

    def start(device, path):
        running.add(device)
        written.append(path)

    monkeypatch.setattr(rtl.RtlDevice, "start_waves", start)
    monkeypatch.setattr(rtl.RtlDevice, "stop_waves", lambda device: running.remove(device))
    assert "found 41, left 42" in run("trace", "--device", devices, "--vcd", tmp_path / "life.vcd")
    assert written == [tmp_path / name for name in names]
    assert running == set()


def test_a_waveform_that_cannot_be_written_is_an_error(without_waves, tmp_path):
    result = CliRunner().invoke(app, ["trace", "--device", "rtl", "--vcd", str(tmp_path / "life.vcd")])
    assert result.exit_code == 1
    assert "no waveform to" in result.stderr
    assert "Traceback" not in result.output
