"""The ``amoeba`` command, as typed.

Covers ``__main__.py``, ``cli/app.py``, ``cli/gups.py``, ``cli/info.py`` and ``cli/options.py``.
"""

import json
import re
import subprocess
import sys
from importlib import metadata

import amoeba
import pytest
from amoeba import EndpointAddress, open_cluster
from amoeba_model.trace import Stage
from amoeba_tools import random_access
from amoeba_tools.cli import app
from amoeba_tools.tracing import COMPONENTS, trace_fetch_atomic
from typer.testing import CliRunner

from tests.support.commands import usage_error

SMALL = ["--table-size", "6"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_gups_prints_a_verified_result():
    result = run("gups", *SMALL)
    assert result.exit_code == 0
    for words in ("0, verified", "cycles per update", "GUPS", "64 words", "256, 64 outstanding", "at 250 MHz"):
        assert words in result.output


def test_gups_prints_json_and_nothing_else():
    result = run("gups", *SMALL, "--json", "--ranks", 3, "--updates", 100, "--window", 5, "--seed", 9)
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert (facts["errors"], facts["faults"], facts["passed"]) == (0, [], True)
    assert (facts["updates"], facts["window"], len(facts["devices"])) == (100, 5, 3)
    assert facts["cycles_per_update"] == facts["cycles"] / 100


def test_gups_exits_with_1_on_any_error(monkeypatch):
    # a verification that applies another part of the stream must find the table wrong
    apply = random_access.apply_stream
    monkeypatch.setattr(random_access, "apply_stream", lambda table, at, n: apply(table, at + 1, n))
    result = run("gups", *SMALL)
    assert result.exit_code == 1
    assert "of 64" in result.output


def test_failures_are_one_line_and_status_1():
    result = run("gups", "--table-size", 1, "--ranks", 3)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: FI_EINVAL: ")
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gups", "--device", "fpga"), "--device: .*'fpga'"),
        (("gups", "--device", "model,model", "--ranks", 3), "--ranks: 2 devices .* 3 ranks"),
        (("gups", "--window", 2000), "'--window': .*less than or equal to 1024"),
        (("gups", "--ranks", 0), "'--ranks': .*greater than or equal to 1"),
        (("gups", "--listen", "7471"), "--listen: expected HOST:PORT, got '7471'"),
        (("gups", "--listen", "127.0.0.1:65536"), "--listen: expected HOST:PORT, got '127.0.0.1:65536'"),
        (("gups", "--connect", ":7471"), "--connect: expected HOST:PORT, got ':7471'"),
        (("gups", "--listen", "127.0.0.1:0", "--connect", "127.0.0.1:7471"), "--connect: .* got both"),
        (("gups", "--connect", "127.0.0.1:7471", "--ranks", 2), "--ranks: the process with --listen sets"),
        (("gups", "--listen", "127.0.0.1:0", "--device", "model,model"), "--ranks: 2 devices .* 1 rank"),
        (("trace", "--vcd", "x.vcd"), "--vcd: only an RTL NIC"),
        (("info", "--device", "abacus"), "--device: .*'abacus'"),
        (("info", "--caps", "FI_RMA|FI_TELEPATHY"), "--caps: .*'FI_TELEPATHY'"),
        (("info", "--ep_type", "FI_EP_PIGEON"), "--ep_type: .*'FI_EP_PIGEON'"),
        (("info", "--mode", "FI_HASTE"), "--mode: .*'FI_HASTE'"),
        (("info", "--addr_format", "FI_POSTCODE"), "--addr_format: .*'FI_POSTCODE'"),
    ],
)
def test_wrong_options_are_usage_errors(arguments, said):
    assert re.search(said, usage_error(run(*arguments)))


@pytest.mark.parametrize("devices", [["-d", "model,model,model"], ["-d", "model", "-d", "model", "-d", "model"]])
def test_devices_are_listed_or_repeated(devices):
    assert len(json.loads(run("gups", *SMALL, "--json", *devices).stdout)["devices"]) == 3


def test_the_rtl_without_its_simulator_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "amoeba_sim.rtl", None)
    result = run("gups", "--device", "rtl")
    assert result.exit_code == 1
    assert "FI_ENOSYS" in result.stderr
    assert "in a checkout of Amoeba, run pip install '.[sim]'" in result.stderr


def test_info_prints_the_lines_of_fi_info():
    result = run("info")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        line
        for ep_type in ("FI_EP_RDM", "FI_EP_MSG", "FI_EP_DGRAM")
        for line in (
            "provider: amoeba",
            "    fabric: model",
            "    domain: amoeba0",
            "    version: 0.1",
            f"    type: {ep_type}",
            "    protocol: FI_PROTO_UNSPEC",
        )
    ]


def test_info_with_v_prints_every_attribute_and_what_the_device_is():
    result = run("info", "-v")
    assert result.exit_code == 0
    modes = "        mr_mode: [ FI_MR_LOCAL, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED ]"
    for words in ("fi_info:", "        inject_size: 64", modes):
        assert words in result.output.splitlines()
    for words in ("model (256-bit, 8 contexts)", "250 MHz", "4096 bytes", "10.4 ms", "0x414d0002", "FLOAT8_E5M2"):
        assert words in result.output


def test_info_answers_hints():
    granted = run("info", "-v", "-c", "FI_RMA|FI_READ", "-t", "FI_EP_RDM").output.splitlines()
    caps = "FI_RMA, FI_READ, FI_TRIGGER, FI_FENCE, FI_RMA_PMEM, FI_LOCAL_COMM, FI_REMOTE_COMM, FI_SOURCE"
    assert f"    caps: [ {caps} ]" in granted
    refused = run("info", "-c", "FI_RMA|FI_COLLECTIVE")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: FI_ENODATA: ")


def test_info_takes_the_hints_of_fi_info():
    every = run("info").output.count("provider: amoeba")
    assert every == 3
    for options in (
        ("-n", "10.0.0.1"),
        ("-n", "10.0.0.1", "-P", "2"),
        ("-m", "FI_CONTEXT|FI_CONTEXT2"),
        ("-a", "FI_FORMAT_UNSPEC"),
        ("-p", "amoeba"),
        ("-f", "model"),
        ("--domain", "amoeba0"),
    ):
        assert run("info", *options).output.count("provider: amoeba") == every
    for options in (
        ("-n", "10.0.0.2"),
        ("-a", "FI_SOCKADDR_IN"),
        ("-p", "tcp"),
        ("-f", "rtl"),
        ("--domain", "amoeba1"),
    ):
        result = run("info", *options)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: FI_ENODATA: ")
    peer = EndpointAddress.unpack(
        bytes.fromhex(_field(run("info", "-v", "-n", "10.0.0.1", "-P", "3/2"), "dest_addr"))
    )
    assert (peer.pid_on_fep, peer.resource_index) == (3, 2)


def _field(result, name):
    """The value of the first field of this name."""
    (line, *_) = (line for line in result.output.splitlines() if line.strip().startswith(f"{name}: "))
    return line.partition(": ")[2]


def test_info_lists_providers_and_versions():
    assert run("info", "-l").output == "amoeba:\n    version: 0.1\n"
    assert run("info", "--version").output == "amoeba: 0.1\nlibfabric api: 1.17\n"


def test_info_as_json():
    facts = json.loads(run("info", "--json").stdout)
    assert (facts["contexts"], facts["keys"], facts["blocks"]["atomics"]) == (8, 1024, 0x1000)
    assert facts["atomics"]["compare"]["FI_MSWAP"][-2:] == ["FI_INT128", "FI_UINT128"]
    assert "FI_ATOMIC_READ" not in facts["atomics"]["base"]


# The trace


def test_the_trace_passes_every_stage_in_order_on_the_right_nic():
    with open_cluster(["model", "model"]) as fabric:
        traced = trace_fetch_atomic(fabric, initial=41, operand=1)
    assert (traced.fetched, traced.stored) == (41, 42)
    stages = [step.event.stage for step in traced.steps]
    assert set(stages) == set(Stage) - {Stage.EVENT_WRITTEN}
    assert stages[0] is Stage.DOORBELL
    assert traced.steps[0].cycle == 0
    cycles = [step.cycle for step in traced.steps]
    assert cycles == sorted(cycles)
    at_the_target = {
        Stage.REQUEST_RECEIVED,
        Stage.REQUEST_CHECKED,
        Stage.LINE_READ,
        Stage.EXECUTED,
        Stage.LINE_WRITTEN,
        Stage.RESPONSE_SENT,
    }
    assert {step.event.stage for step in traced.steps if step.nic == 1} == at_the_target
    assert [sender for sender, _ in traced.frames] == [0, 1]


def test_recording_ends_with_the_trace():
    with open_cluster(["model", "model"]) as fabric:
        trace_fetch_atomic(fabric)
        assert not any(device.tracing for device in fabric.devices)
        assert not fabric.network.recording


def test_every_stage_has_a_component():
    assert set(COMPONENTS) == set(Stage)


def test_trace_prints_stages_and_frames():
    result = run("trace")
    assert result.exit_code == 0
    for words in (
        "found 41, left 42",
        "RequestChecker",
        "completion written",
        "FETCHING_ATOMIC",
        "02:00:00:00:00:01",
    ):
        assert words in result.output


def test_trace_writes_frames_that_others_can_read(tmp_path):
    scapy = pytest.importorskip("scapy.all")
    path = tmp_path / "atomic.pcapng"
    assert run("trace", "--pcapng", path).exit_code == 0
    request, answer = scapy.rdpcap(str(path))
    assert (request["IP"].src, request["IP"].dst, request["UDP"].dport) == ("10.0.0.1", "10.0.0.2", 4793)
    assert (answer["IP"].src, answer["IP"].dst, answer["UDP"].dport) == ("10.0.0.2", "10.0.0.1", 4793)
    assert request.time < answer.time


def test_the_release_is_the_packages():
    release = metadata.version("amoeba-nic")
    assert amoeba.__version__ == release
    assert run("--version").output == f"amoeba {release}\n"
    command = [sys.executable, "-m", "amoeba_tools", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"amoeba {release}\n"


def test_info_says_that_patience_is_of_simulated_time():
    assert " ms of simulated time" in run("info", "-v").output
