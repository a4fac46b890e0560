"""``amoeba perf`` in two processes, and on hardware."""

import json
import os
import signal

import pytest
from amoeba.devices.bootstrap import Rendezvous
from amoeba_tools.perf import PerfPlan, run_plans, ucp_messages

from tests.support.commands import ended, process

TESTS = {
    "ucp": ["tag_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "stream_bw", "ucp_am_bw"],
    "libfabric": ["rdm_pingpong", "rma_pingpong", "rdm_tagged_bw", "rma_bw", "rdm_atomic"],
}


def server(*arguments):
    return process("perf", "--port", 0, *arguments)


def port_of(started):
    line = started.stderr.readline()
    assert line.startswith("Waiting for connection at 127.0.0.1:"), line
    return line.strip().rpartition(":")[2]


@pytest.mark.parametrize("api", TESTS)
def test_a_client_tells_the_server_of_another_process_what_to_do(api):
    tests = TESTS[api]
    chosen = ["--api", api, *(option for test in tests for option in ("-t", test))]
    with server() as serving:
        client = ["perf", "127.0.0.1", "-p", port_of(serving), *chosen, "-s", 8, "-s", 5000, "-n", 12, "-w", 2]
        with process(*client, "--json") as asking:
            status, output, errors = ended(asking)
            assert status == 0, errors
        status, _, errors = ended(serving)
    assert status == 0, errors
    facts = json.loads(output)
    assert [(one["test"], one["size"]) for one in facts] == [(test, size) for test in tests for size in (8, 5000)]
    assert all(one["verified"] and one["iterations"] == 12 for one in facts)
    assert all(one["cycles"] is None for one in facts), "clocks that also run while waiting measure no speed"
    assert [line for line in errors.splitlines() if line.startswith(f"{tests[0]}, 5000 bytes, on model")]


def test_what_the_server_finds_wrong_is_an_error_of_the_client():
    with server() as serving, Rendezvous.connect("127.0.0.1", int(port_of(serving))) as met:
        plan = PerfPlan("ucp", "tag_bw", iterations=20, warmup=0)
        content = ucp_messages.Channel.content
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ucp_messages.Channel, "content", lambda self, number: content(self, number + 1))
            (result,) = run_plans([plan], ["model"], rendezvous=met)
        assert ended(serving)[0] == 0
    assert not result.verified
    assert result.errors[0].startswith("message 0: ")


@pytest.mark.parametrize("told", [{"test": "tag_lat"}, {**PerfPlan("ucp", "tag_lat").told(), "iterations": -1}, 7])
def test_a_server_refuses_a_plan_that_makes_no_sense(told):
    with server() as serving, Rendezvous.connect("127.0.0.1", int(port_of(serving))) as met:
        met.exchange(told)
        status, _, errors = ended(serving)
    assert status == 1
    assert "error: FI_EINVAL: " in errors


def test_a_server_ends_with_an_error_when_its_client_is_gone():
    with server() as serving:
        client = ["perf", "127.0.0.1", "-p", port_of(serving), "-t", "tag_lat", "-n", 10**7, "-w", 0]
        with process(*client) as asking:
            assert asking.stdout.readline().startswith("+---")
            assert serving.stderr.readline().startswith("tag_lat, 8 bytes")
        status, _, errors = ended(serving)
    assert status == 1
    assert "error: FI_ECONNABORTED" in errors or "error: UCS_ERR_" in errors, "whoever notices first"


@pytest.mark.parametrize("columns", [80, 120])
def test_ctrl_c_prints_the_iterations_so_far(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    with process("perf", "-t", "tag_bw", "-n", 10**7, "-w", 0) as running:
        for line in running.stdout:
            if line.split()[0].isdecimal():  # no header, some of which begin with spaces, too
                break
        os.kill(running.pid, signal.SIGINT)
        status, output, errors = ended(running)
    assert status == 130, errors
    last = output.splitlines()[-1].split()
    assert last[0] == "Final:"
    assert int(last[1]) >= int(line.split()[0])
    assert "interrupted after" in errors


def test_ctrl_c_ends_a_server_that_waits():
    with server() as serving:
        port_of(serving)
        os.kill(serving.pid, signal.SIGINT)
        assert ended(serving)[0] == 130


@pytest.mark.parametrize("test", ["tag_lat", "ucp_fadd"])
def test_hardware_has_cycles_and_the_time_that_they_take(test):
    plan = PerfPlan("ucp", test, iterations=4, warmup=1)
    (result,) = run_plans([plan], ["rtl", "rtl"])
    assert result.verified
    assert 50 < result.cycles < 50_000
    assert result.modelled == pytest.approx(result.cycles / 250)


def test_only_hardware_on_both_sides_has_cycles():
    (result,) = run_plans([PerfPlan("ucp", "ucp_put_lat", iterations=3, warmup=0)], ["model", "rtl"])
    assert result.verified
    assert (result.cycles, result.modelled) == (None, None)
