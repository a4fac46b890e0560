"""``amoeba trace --perfetto``: the Trace Event Format, by its own rules.

Covers ``tracing/perfetto.py``.
"""

import json
from collections import defaultdict

import pytest
from amoeba import open_cluster
from amoeba_model.trace import Stage
from amoeba_tools.cli import app
from amoeba_tools.random_access import run_gups
from amoeba_tools.tracing import Recorder, operations_of, trace_fetch_atomic
from amoeba_tools.tracing.perfetto import trace_events, write_perfetto
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def atomic():
    with open_cluster(["model", "model"]) as fabric:
        return trace_fetch_atomic(fabric)


@pytest.fixture(scope="module")
def workload():
    with Recorder() as recorder, open_cluster(["model", "model"]) as fabric:
        run_gups(fabric, table_bits=5)
    return recorder.recordings[0]


def slices_of(events):
    """The slices as (begin event, end event), checked by the rules of nestable asynchronous events."""
    stacks, found = defaultdict(list), []
    for event in events:
        key = (event["pid"], event.get("cat"), event.get("id"))
        if event["ph"] == "b":
            assert not stacks[key] or event["ts"] >= stacks[key][-1]["ts"]
            stacks[key].append(event)
        elif event["ph"] == "e":
            begin = stacks[key].pop()
            assert begin["name"] == event["name"]
            assert begin["ts"] <= event["ts"]
            found.append((begin, event))
    assert not any(stacks.values())
    return found


def test_the_stages_of_an_atomic_end_in_the_cycles_of_the_trace(atomic):
    recording = atomic.recording
    hertz = recording.clock_hz
    first = min(event.cycle for _, event in recording.events)
    ends = {(end["name"], end["ts"]) for begin, end in slices_of(trace_events(recording, operations_of(recording)))}
    for step in atomic.steps:
        if step.event.stage in (Stage.REQUEST_RECEIVED, Stage.EXECUTED, Stage.RESPONSE_RECEIVED):
            name = step.event.stage.name.lower().replace("_", " ")
            assert (name, round((step.event.cycle - first) / hertz * 1e6, 6)) in ends


def test_every_operation_and_packet_of_a_workload_is_a_slice_of_its_initiator(workload):
    operations = operations_of(workload)
    slices = slices_of(trace_events(workload, operations))
    outer = {(begin["cat"], begin["id"]): begin for begin, _ in slices if "NIC" not in begin["args"]}
    assert len({key for key in outer if key[0] == "operation"}) == len(operations) > 64
    assert sum(kind == "packet" for kind, _ in outer) == sum(len(each.packets) for each in operations)
    assert {begin["pid"] for begin in outer.values()} == {0, 1}
    told = [begin["args"].get("status") for (kind, _), begin in outer.items() if kind == "operation"]
    assert told == [None if each.status is None else "OK" for each in operations]
    assert "OK" in told


def test_every_frame_is_an_instant_of_its_sender(workload):
    instants = [event for event in trace_events(workload, []) if event["ph"] == "i"]
    assert [event["pid"] for event in instants] == [sender for sender, _ in workload.frames]
    assert [event["args"]["bytes"] for event in instants] == [len(frame.data) for _, frame in workload.frames]


def test_networks_have_processes_of_their_own(tmp_path, workload, atomic):
    path = tmp_path / "both.json"
    shown = write_perfetto(path, [atomic.recording, workload], "both")
    assert shown == 1 + len(operations_of(workload))
    told = json.loads(path.read_text())
    names = {event["pid"]: event["args"]["name"] for event in told["traceEvents"] if event["ph"] == "M"}
    both = (atomic.recording, workload)
    models = [f"NIC {number}: {name}" for each in both for number, name in enumerate(each.names)]
    assert names == dict(enumerate(models))
    assert len(names) == 4
    assert told["otherData"] == {"title": "both"}


@pytest.mark.parametrize("program", [[], ["gups", "--table-size", "4"]])
def test_the_command_writes_the_file(tmp_path, program):
    path = tmp_path / "trace.json"
    done = CliRunner().invoke(app, ["trace", "--perfetto", str(path), *program])
    assert done.exit_code == 0, done.output
    assert f"operations: {path}" in done.output.replace("\n", "")
    assert slices_of(json.loads(path.read_text())["traceEvents"])
