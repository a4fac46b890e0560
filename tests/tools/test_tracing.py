"""Events of NICs, put together to operations; programs of others recorded; and the command that does it.

Covers ``cli/trace.py``, ``tracing/atomic.py``, ``tracing/durations.py``, ``tracing/recorder.py``,
``tracing/scripts.py`` and ``tracing/waveforms.py``.
"""

import contextlib
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import amoeba
import numpy as np
import pytest
from amoeba import MrAccess, Op
from amoeba.libfabric.objects.cluster import open_cluster
from amoeba.nic import watching
from amoeba_model.impairments import Impairments
from amoeba_model.network import Network
from amoeba_model.parameters import NicParameters
from amoeba_model.trace import Stage, TraceEvent
from amoeba_model.wire.uet import ReturnCode
from amoeba_tools.cli import app
from amoeba_tools.random_access import run_gups
from amoeba_tools.tracing import Posted, Recorder, Recording, Reported, operations_of
from amoeba_tools.tracing.durations import durations, spans
from amoeba_tools.tracing.scripts import run_script
from amoeba_tools.tracing.waveforms import write_views
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
REMOTE = MrAccess.FI_REMOTE_READ | MrAccess.FI_REMOTE_WRITE
ATOMIC_STAGES = {
    Stage.OPERAND, Stage.REQUEST_SENT, Stage.REQUEST_RECEIVED, Stage.REQUEST_CHECKED, Stage.EXECUTED,
    Stage.LINE_WRITTEN, Stage.RESPONSE_SENT, Stage.RESPONSE_RECEIVED,
}  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})


class Pair:
    """NIC 1 reaches memory of NIC 0."""

    def __init__(self, fabric, size):
        self.exits = exits = contextlib.ExitStack()
        owner, user = (exits.enter_context(fabric.domain(nic)) for nic in (0, 1))
        self.memory = np.zeros(size, np.uint8)
        self.region = exits.enter_context(owner.mr_reg(self.memory, REMOTE))
        queues = [exits.enter_context(domain.cq_open()) for domain in (owner, user)]
        vectors = [exits.enter_context(domain.av_open()) for domain in (owner, user)]
        server = exits.enter_context(owner.endpoint(cq=queues[0], av=vectors[0]))
        self.queue, peers = queues[1], vectors[1]
        self.client = exits.enter_context(user.endpoint(cq=self.queue, av=peers))
        self.peer = peers.insert(server.getname())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.exits.close()

    def write(self, size):
        self.client.write(np.ones(size, np.uint8), self.peer, self.region.address, self.region.key)
        self.queue.sread()


def writes(*sizes):
    """A program that does nothing else."""

    def program(fabric):
        with Pair(fabric, 1 << 15) as pair:
            for size in sizes:
                pair.write(size)

    return program


def recorded(program, **options):
    """The only recording of ``program(fabric)`` on two models, and its operations but for those that close."""
    with Recorder() as recorder, open_cluster(["model", "model"], **options) as fabric:
        program(fabric)
    (recording,) = recorder.recordings
    return recording, [each for each in operations_of(recording) if each.text != "CLOSE"]


def test_every_update_of_gups_is_an_operation_with_all_its_stages():
    """Both NICs update both tables, and count their packets alike, so that PSNs alone tell nothing."""
    recording, operations = recorded(lambda fabric: run_gups(fabric, table_bits=7, window=32))
    assert len(operations) == 4 << 7
    assert {each.text for each in operations} == {"ATOMIC FI_BXOR FI_UINT64, 8 B"}
    assert Counter(len(each.packets) for each in operations) == {1: 4 << 7}
    assert {packet.target for each in operations for packet in each.packets} == {0, 1}
    for operation in operations:
        (packet,) = operation.packets
        stages = [event.stage for _, event in packet.events if event.stage is not Stage.LINE_READ]
        assert set(stages) == ATOMIC_STAGES
        assert len(stages) == len(ATOMIC_STAGES)
        cycles = [event.cycle for _, event in packet.events]
        assert cycles == sorted(cycles)
        assert [event.stage for _, event in operation.events[:2]] == [Stage.DOORBELL, Stage.DESCRIPTOR]
        assert {nic for nic, event in packet.events if event.stage is Stage.EXECUTED} == {packet.target}
        request, answer = (recording.frames[number] for number in packet.frames)
        assert (request[0], answer[0]) == (operation.nic, packet.target)


def test_recording_changes_no_cycle():
    def cycles(fabric):
        return run_gups(fabric, table_bits=6).cycles

    with open_cluster(["model", "model"]) as fabric:
        alone = cycles(fabric)
    seen = []
    recorded(lambda fabric: seen.append(cycles(fabric)))
    assert seen == [alone]


def test_a_long_write_is_one_operation_of_many_packets():
    _, operations = recorded(writes(20_000))
    (operation,) = operations
    payload = NicParameters().payload
    lengths = [packet.header.payload_length for packet in operation.packets]
    assert lengths == [payload] * 4 + [20_000 - 4 * payload]
    assert {packet.header.request_length for packet in operation.packets} == {20_000}
    assert operation.text == "WRITE, 20,000 B"
    assert operation.status == ReturnCode.OK
    assert [event.stage for _, event in operation.events] == [
        Stage.DOORBELL, Stage.DESCRIPTOR, Stage.COMPLETION_WRITTEN, *[Stage.INTERRUPT] * (len(operation.events) - 3),
    ]  # fmt: skip
    written = sum(event.stage is Stage.LINE_WRITTEN for packet in operation.packets for _, event in packet.events)
    assert written >= 20_000 // 32


def test_a_chain_of_descriptors_is_one_operation():
    def scattered(fabric):
        pieces = [np.full(100, value, np.uint8) for value in (1, 2, 3)]
        with Pair(fabric, 1 << 12) as pair:
            pair.client.writev(pieces, pair.peer, pair.region.address, pair.region.key)
            pair.queue.sread()

    recording, operations = recorded(scattered)
    (operation,) = operations
    assert sum(event.stage is Stage.DESCRIPTOR for _, event in operation.events) == 3
    assert len([posted for posted in recording.posted if posted.chained]) == 2
    assert operation.status == ReturnCode.OK


def test_packets_that_were_sent_again_say_so():
    recording, operations = recorded(writes(*[20_000] * 6), impairments=Impairments(seed=3, loss=0.15))
    again = sum(packet.sent_again for each in operations for packet in each.packets)
    sent = Counter(event.stage for nic, event in recording.events if nic == 1)[Stage.REQUEST_SENT]
    assert again > 0
    assert sum(len(each.packets) for each in operations) + again + 1 >= sent
    assert all(each.status == ReturnCode.OK and len(each.packets) == 5 for each in operations)
    assert any("lost" in frame.remark for _, frame in recording.frames)


def test_an_operation_that_fails_has_its_status():
    def refused(fabric):
        with Pair(fabric, 64) as pair:
            pair.client.write(np.ones(8, np.uint8), pair.peer, pair.region.address, pair.region.key + 1)
            with pytest.raises(amoeba.ErrorAvailableError):
                pair.queue.sread()

    _, operations = recorded(refused)
    assert [ReturnCode(each.status) for each in operations] == [ReturnCode.BAD_MKEY]


def test_a_fence_that_sends_nothing_has_no_packets_and_takes_nobody_elses():
    """Made by hand: of a refused descriptor, a NOP and a write, only the last one has packets."""
    write = {"opcode": 1, "op": 0, "datatype": 0, "flags": 1, "length": 8, "peer": 0}
    posted = [Posted(10, 0, 0, 0, write), Posted(11, 0, 0, 1, write | {"opcode": 0}), Posted(12, 0, 0, 2, write)]
    refusal = TraceEvent(20, Stage.COMPLETION_WRITTEN, 0, 0, 0, ReturnCode.LOCAL_BAD_PEER)
    events = [(0, TraceEvent(each.cycle, Stage.DESCRIPTOR, 0, 0, each.producer, 0)) for each in posted]
    with open_cluster(["model", "model"]) as fabric, Pair(fabric, 64) as pair:
        fabric.network.recording = True
        pair.write(8)
        frames = [(1 - sender, frame) for sender, frame in fabric.network.log]
    recording = Recording(
        ["a", "b"], [NicParameters()] * 2, 100, [*events, (0, refusal)], [], frames, posted, [Reported(0, refusal, 0)]
    )
    operations = operations_of(recording)
    found = [(each.text, len(each.packets)) for each in operations]
    assert found == [("WRITE, 8 B", 0), ("NOP", 0), ("WRITE, 8 B", 1)]
    assert operations[0].status == ReturnCode.LOCAL_BAD_PEER


def test_producer_indices_that_come_round_are_told_apart():
    recording, operations = recorded(writes(*[8] * 5))
    # as if the ring had 2**16 more descriptors between any two of them
    again = [posted._replace(producer=0) for posted in recording.posted if posted.fields["opcode"] == 1]
    recording.posted[:] = again
    recording.reported[:] = [one._replace(descriptor=0) for one in recording.reported][: len(again)]
    assert [each.status for each in operations_of(recording) if each.index is not None] == [ReturnCode.OK] * 5
    assert len(operations) == 5


def test_what_was_posted_before_the_recording_is_an_operation_too():
    with open_cluster(["model", "model"]) as fabric, Pair(fabric, 64) as pair, Recorder() as recorder:
        for device in fabric.devices:
            recorder.attached(device, fabric.network)
        pair.write(8)
    (recording,) = recorder.recordings
    assert recording.posted == []  # nobody said where the rings lie
    (operation,) = operations_of(recording)
    assert (operation.text, operation.index, operation.status) == ("WRITE, 8 B", None, None)
    assert [packet.target for packet in operation.packets] == [0]


def test_a_recording_ends_at_its_limit_and_the_program_goes_on():
    with Recorder(limit=500) as recorder, open_cluster(["model", "model"]) as fabric:
        result = run_gups(fabric, table_bits=7)
        assert not any(device.tracing for device in fabric.devices)
        assert not fabric.network.recording
    assert result.passed
    (recording,) = recorder.recordings
    assert recording.cut_off is not None
    assert 500 <= len(recording.events) < 3000
    assert operations_of(recording)


def test_two_networks_are_two_recordings_and_one_is_recorded_once():
    with Recorder() as recorder:
        for _ in range(2):
            with open_cluster(["model", "model"]) as fabric:
                writes(8)(fabric)
    assert len(recorder.recordings) == 2
    with Recorder(), Recorder(), pytest.raises(amoeba.FabricError, match="recorded already"):
        open_cluster(["model", "model"])
    with open_cluster(["model"]) as fabric:
        assert fabric.network.observer is None


def test_nics_that_detach_are_asked_before_they_go():
    asked = []

    class Observer:
        def stepped(self):
            asked.append("step")

        def detaching(self, device):
            asked.append(device.cycles)

    with open_cluster(["model"]) as fabric:
        network: Network = fabric.network
        network.observer = Observer()
        network.step()
        device = fabric.devices[0]
        network.detach(device)
        assert asked == ["step", device.cycles]


def test_rings_are_not_read_once_their_context_is_stopped(monkeypatch):
    """Their memory may be gone then."""
    lying, gone, read = {}, set(), []

    class Noting:
        def attached(self, device, network):
            pass

        def enabled(self, device, parameters, context, rings):
            lying[device, context] = rings
            gone.difference_update({rings.transmit_base, rings.completion_base})

        def disabled(self, device, context):
            rings = lying.pop((device, context))
            gone.update({rings.transmit_base, rings.completion_base})

    entry = watching._entry

    def noted(record, base, index, size):
        assert base not in gone
        read.append(record.name)
        return entry(record, base, index, size)

    monkeypatch.setattr(watching, "_entry", noted)
    with Recorder() as recorder, watching.watching(Noting()), open_cluster(["model", "model"]) as fabric:
        for _ in range(3):
            writes(8, 8)(fabric)
    assert gone
    assert set(read) == {"tx_descriptor", "completion"}
    (recording,) = recorder.recordings
    assert sum(each.text == "WRITE, 8 B" and each.status == ReturnCode.OK for each in operations_of(recording)) == 6


def test_durations_are_from_one_stage_to_the_next():
    _, operations = recorded(writes(8000))
    rows = {Stage(stage): numbers for stage, *numbers in durations(operations)}
    assert rows[Stage.DESCRIPTOR][0] == 1
    assert rows[Stage.REQUEST_SENT][0] == rows[Stage.RESPONSE_RECEIVED][0] == 2
    assert all(least <= median <= most for _, least, median, _, most in rows.values())
    (operation,) = operations
    assert all(before.cycle <= event.cycle for (_, before), (_, event) in spans(operation))
    assert max(event.cycle for _, (_, event) in spans(operation)) == operation.end


# Programs of others


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_a_script_sees_its_arguments_and_what_lies_beside_it(script, tmp_path, capsys):
    (tmp_path / "beside_it.py").write_text("VALUE = 7")
    path = script("import sys, beside_it; print(__name__, sys.argv[1:], beside_it.VALUE); sys.exit(3)")
    before = list(sys.path), sys.argv
    assert run_script(path, ["-n", "2"]) == 3
    assert capsys.readouterr().out == "__main__ ['-n', '2'] 7\n"
    assert (sys.path, sys.argv) == before


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("pass", 0, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('enough')", 1, "enough\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
    ],
)
def test_a_script_ends_as_python_would_end_it(script, capsys, text, status, said):
    assert run_script(script(text), []) == status
    told = capsys.readouterr().err
    assert told.endswith(said)
    assert "runpy" not in told
    with pytest.raises(FileNotFoundError):
        run_script(Path("nowhere.py"), [])


def test_the_command_traces_an_example_as_it_stands(tmp_path):
    page, frames = tmp_path / "page.html", tmp_path / "frames.pcapng"
    result = run("trace", "--html", page, "--pcapng", frames, ROOT / "examples" / "counter.py")
    assert result.exit_code == 0, result.output
    assert re.search(r"^ *request checked +\d+", result.output, re.M)
    assert f"operations: {page}" in result.output.replace("\n", "")
    assert page.stat().st_size > 20_000
    assert frames.stat().st_size > 500


def test_the_command_traces_commands_and_ends_with_their_status(tmp_path, monkeypatch):
    from amoeba_tools import random_access

    page = tmp_path / "gups.html"
    result = run("trace", "--html", page, "gups", "--table-size", 5)
    assert result.exit_code == 0, result.output
    assert "0, verified" in result.output
    assert "<title>gups --table-size 5</title>" in page.read_text()
    apply = random_access.apply_stream
    monkeypatch.setattr(random_access, "apply_stream", lambda table, at, n: apply(table, at + 1, n))
    assert run("trace", "gups", "--table-size", 5).exit_code == 1


def test_what_happened_until_an_error_is_shown(script):
    path = script(
        """
        import amoeba
        with amoeba.open_cluster(["model"]) as fabric:
            raise KeyError("the program's own")
        """
    )
    result = run("trace", path)
    assert result.exit_code == 1
    assert "the program's own" in result.output
    assert "no simulated NIC" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.py"], "unknown program 'nowhere.py'; expected a file or one of conformance, endpoint"),
        (["--device", "rtl", "gups"], "behind its name"),
        (["--vcd", "a.vcd", "--fst", "a.fst"], "expected --vcd or --fst, got both"),
        (["--fst", "a.fst"], "only an RTL NIC has waveforms"),
        (["--tlps"], "only a NIC on PCI Express has packets: add --device"),
        (["--tlps", "--device", "rtl,model"], "only a NIC on PCI Express has packets"),
        (["--tlps", "gups"], "--tlps prints the packets of one atomic"),
        (["--events", "0", "gups"], "Invalid value"),
        (["gups", "--nope"], "No such option"),
    ],
)
def test_mistakes_are_told_and_leave_no_file(arguments, said, tmp_path):
    result = run("trace", "--html", tmp_path / "page.html", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_a_program_without_rtl_has_no_waveform_and_is_told_so(tmp_path):
    result = run("trace", "--vcd", tmp_path / "wave.vcd", "gups", "--table-size", 4)
    assert result.exit_code == 0
    assert "no waveform: no RTL NIC was opened" in result.output
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_program_and_leaves_the_page(script, tmp_path):
    path = script(
        """
        import amoeba, os, signal
        from amoeba_tools.random_access import run_gups
        with amoeba.open_cluster(["model", "model"]) as fabric:
            run_gups(fabric, table_bits=4)
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                fabric.devices[0].advance()
        """
    )
    command = [sys.executable, "-m", "amoeba_tools", "trace", "--html", tmp_path / "page.html", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ)
    assert done.returncode == 130, done.stderr
    assert "page of" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_written_is_told_before_the_program_runs(script, tmp_path):
    result = run("trace", "--html", tmp_path / "missing" / "page.html", script("print('it ran')"))
    assert result.exit_code == 1
    assert "it ran" not in result.output
    assert "No such file or directory" in result.stderr


def test_children_of_a_program_write_no_page(script, tmp_path):
    """A fork that ends as the program does ends quietly: the page is the parent's."""
    path = script(
        """
        import os, sys, amoeba
        with amoeba.open_cluster(["model", "model"]) as fabric, fabric.domain(0):
            pass
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        """
    )
    command = [sys.executable, "-m", "amoeba_tools", "trace", "--html", tmp_path / "page.html", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("page of") == 1


# Views of waveforms


def test_views_name_the_waveform_and_the_ports_bus_by_bus(tmp_path):
    gtkwave, surfer = write_views(tmp_path / "nic.fst", NicParameters(data_width=128))
    saved = gtkwave.read_text()
    assert f'[dumpfile] "{tmp_path / "nic.fst"}"' in saved
    assert "[timestart] 0\n*-1.000000 -1\n" in saved  # 2 ns in a pixel
    signals = re.findall(r"^TOP\.boundary\.nic\.(\w+)(?:\[(\d+):0\])?$", saved, re.M)
    assert ("host__rdata", "127") in signals
    assert ("clk", "") in signals
    commands = surfer.read_text().splitlines()
    assert [line.split()[1] for line in commands if line.startswith("variable_add")] == [
        f"TOP.boundary.nic.{name}" for name, _ in signals
    ]
    assert {line.split()[0] for line in commands} == {"divider_add", "variable_add", "zoom_fit"}
    # widths as the hardware's own table of ports has them, which does not list the trace's
    ports = dict(
        re.findall(r"^\| `(\w+)` \| \w+ \| (\d+) \|", (ROOT / "hw" / "rtl" / "README.md").read_text(), re.M)
    )
    for name, last in signals:
        if name not in ("clk", "rst") and not name.startswith("trace__"):
            assert int(ports[name]) == int(last or 0) + 1, name
    stages = [name for name, _ in signals if name.startswith("trace__")]
    assert stages == [f"trace__{stage.name.lower()}__valid" for stage in Stage]


def test_views_of_a_nic_on_pcie_have_its_streams_of_packets_with_their_widths(tmp_path):
    from amaranth.hdl import Shape
    from amoeba_hw.pcie import interfaces

    gtkwave, surfer = write_views(tmp_path / "nic.fst", NicParameters(data_width=128), pcie=True)
    signals = dict(re.findall(r"^TOP\.boundary\.nic\.([\w.]+)(?:\[(\d+):0\])?$", gtkwave.read_text(), re.M))
    for name, layout in {
        "requests__payload": interfaces.request_beat(128),
        "completions__payload": interfaces.completion_beat(128),
        "register_requests__payload": interfaces.REGISTER_REQUEST,
        "register_completions__payload": interfaces.REGISTER_COMPLETION,
        "configuration": interfaces.CONFIGURATION,
    }.items():
        assert int(signals[f"link__{name}"]) + 1 == Shape.cast(layout).width
    assert "host.merger.run" in signals
    assert not any(name.startswith(("host__", "bar__")) for name in signals)
    assert [line.split()[1] for line in surfer.read_text().splitlines() if line.startswith("variable_add")] == [
        f"TOP.boundary.nic.{name}" for name in signals
    ]


def test_a_fetching_atomic_of_models_has_no_buses():
    with Recorder() as recorder, open_cluster(["model", "model"]) as fabric, Pair(fabric, 64) as pair:
        found = np.zeros(1, np.uint64)
        pair.client.fetch_atomic(np.uint64(1), found, pair.peer, pair.region.address, pair.region.key, Op.FI_SUM)
        pair.queue.sread()
    (recording,) = recorder.recordings
    assert recording.buses == []  # the model has none
    assert operations_of(recording)[0].text == "FETCH_ATOMIC FI_SUM FI_UINT64, 8 B"
