"""``amoeba perf``: what it measures, checks and prints, on models; two processes are in tests/system.

Covers ``cli/perf.py``, ``perf/meter.py``, ``perf/payloads.py``, ``perf/plan.py``, ``perf/report.py``,
``perf/ucp_memory.py``, ``perf/ucp_messages.py``, ``perf/ucp_side.py`` and ``perf/ucp_tests.py``.
"""

import csv
import io
import json
import math
import re

import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba_tools.cli import app
from amoeba_tools.perf import PerfPlan, catalog, meter, report, run, run_plans, ucp_memory, ucp_messages
from amoeba_tools.perf.meter import Clock, Meter, PerfResult
from amoeba_tools.perf.payloads import Findings, Payloads
from typer.testing import CliRunner

from tests.support.commands import usage_error

UCX_TESTS = [
    "tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd",
    "ucp_swap", "ucp_cswap", "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw",
]  # fmt: skip
"""As ``ucx_perftest -h`` of UCX 1.12.1 lists those of UCP."""
ATOMICS = {"ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"}


def perf(*arguments):
    return CliRunner().invoke(app, ["perf", *map(str, arguments)], env={"COLUMNS": "200"})


def facts_of(*arguments):
    result = perf(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def measured(**fields):
    plan = PerfPlan("ucp", **{"iterations": 20, "warmup": 3, **fields})
    (result,) = run_plans([plan], ["model", "model"])
    return result


def test_the_tests_have_the_names_of_ucx_perftest_in_its_order():
    assert list(catalog.tests_of("ucp")) == UCX_TESTS


@pytest.mark.parametrize("test", UCX_TESTS)
def test_each_test_runs_and_verifies_what_it_moves(test):
    result = measured(test=test)
    assert (result.verified, result.errors, result.iterations, result.size) == (True, (), 20, 8)
    assert result.percentile > 0
    assert result.overall == result.average > 0
    assert result.rate_overall == pytest.approx(1e6 / result.overall)
    assert result.bandwidth_overall == pytest.approx(result.rate_overall * 8 / 2**20)


@pytest.mark.parametrize(
    ("test", "sizes"),
    [(test, size) for test in UCX_TESTS if test not in ATOMICS for size in (1, 64, 65, 5000, 70_000)]
    + [(test, 4) for test in sorted(ATOMICS)],
)
def test_messages_of_every_length_arrive(test, sizes):
    assert measured(test=test, sizes=(sizes,), iterations=6, warmup=1).verified


@pytest.mark.parametrize("test", ["tag_lat", "tag_sync_bw", "ucp_am_bw"])
def test_empty_messages_are_messages(test):
    result = measured(test=test, sizes=(0,))
    assert result.verified
    assert result.bandwidth_overall == 0 < result.rate_overall


@pytest.mark.parametrize(
    "test", ["tag_lat", "tag_bw", "stream_bw", "ucp_am_bw", "ucp_put_bw", "ucp_put_lat", "ucp_get"]
)
@pytest.mark.parametrize("layouts", [("iov", "iov"), ("iov", "contig"), ("contig", "iov")])
def test_pieces_of_memory_hold_one_message(test, layouts):
    result = measured(test=test, sizes=(3, 5000, 70), layouts=layouts, iterations=6, warmup=1)
    assert result.verified
    assert result.size == 5073


@pytest.mark.parametrize("window", [1, 2, 7, 100])
@pytest.mark.parametrize(
    "test", ["tag_bw", "ucp_put_bw", "ucp_get", "ucp_fadd", "ucp_swap", "ucp_cswap", "ucp_am_bw"]
)
def test_any_number_of_operations_may_be_in_flight(test, window):
    assert measured(test=test, outstanding=window, iterations=150).verified


@pytest.mark.parametrize(
    ("test", "fields"),
    [
        ("tag_bw", {"wildcard": True}),
        ("tag_lat", {"unexpected": True}),
        ("tag_bw", {"unexpected": True, "outstanding": 4}),
        ("stream_lat", {"receive_mode": "recv_data"}),
        ("stream_bw", {"receive_mode": "recv_data", "sizes": (3000,)}),
        ("ucp_am_lat", {"header": 100}),
        ("tag_lat", {"thread_mode": "multi"}),
        ("tag_lat", {"thread_mode": "serialized", "error_handling": True}),
        ("ucp_put_lat", {"nonblocking": True}),
        ("ucp_get", {"warmup": 0, "iterations": 1}),
    ],
)
def test_options_change_how_it_is_done_and_not_what_arrives(test, fields):
    assert measured(test=test, **fields).verified


def wrong_messages(patch):
    content = ucp_messages.Channel.content
    patch.setattr(ucp_messages.Channel, "content", lambda self, number: content(self, number + (number == 10)))


def wrong_memory(patch):
    patch.setattr(ucp_memory._Get, "prepare_target", lambda self: None)


def wrong_puts(patch):
    put = ucp_memory._Put.post
    patch.setattr(ucp_memory._Put, "post", lambda self, number: None if number == 20 else put(self, number))


def wrong_atomics(patch):
    operand = ucp_memory._Atomics.operand
    patch.setattr(ucp_memory._Atomics, "operand", lambda self, number: operand(self, 2 * number))


@pytest.mark.parametrize(
    ("test", "wrong"),
    [(test, wrong_messages) for test in UCX_TESTS if test.startswith(("tag", "stream", "ucp_am"))]
    + [(test, wrong_atomics) for test in sorted(ATOMICS)]
    + [("ucp_get", wrong_memory), ("ucp_put_bw", wrong_puts)],
)
def test_what_arrives_wrong_is_told_and_is_exit_status_1(test, wrong, monkeypatch):
    wrong(monkeypatch)
    result = perf("-t", test, "-n", 20, "-w", 3, "--json")
    assert result.exit_code == 1
    assert "wrong: " in result.stderr
    (facts,) = json.loads(result.stdout)
    assert not facts["verified"]
    assert facts["errors"]
    unchecked = perf("-t", test, "-n", 20, "-w", 3, "--json", "--no-verify")
    assert unchecked.exit_code == 0
    assert json.loads(unchecked.stdout)[0]["verified"] is False


def test_a_put_that_never_comes_ends_the_run_with_an_error(monkeypatch):
    monkeypatch.setattr(run, "PATIENCE", 0.05)
    monkeypatch.setattr(Payloads, "of", lambda self, number: b"\xff" * 8)
    result = perf("-t", "ucp_put_lat", "-n", 5)
    assert result.exit_code == 1
    assert "FI_ETIMEDOUT" in result.stderr


def test_an_operation_that_fails_ends_the_run_with_its_error(monkeypatch):
    connect = run.UcpBench.client

    def client(self, plan):
        made = connect(self, plan)
        inner = made.connect
        made.connect = lambda told: inner({**told, "address": told["address"] + (1 << 32)})
        return made

    monkeypatch.setattr(run.UcpBench, "client", client)
    for test in ("ucp_get", "ucp_put_bw", "ucp_fadd", "ucp_add"):
        result = perf("-t", test, "-n", 5, "-s", 8)
        assert result.exit_code == 1
        assert result.stderr.strip().splitlines()[-1].startswith("error: UCS_ERR_"), result.stderr


def test_ctrl_c_prints_what_was_done(monkeypatch):
    update = Meter.update

    def interrupting(self):
        update(self)
        if self.iterations == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(Meter, "update", interrupting)
    result = perf("-t", "tag_bw", "-t", "tag_lat", "-n", 30, "--json")
    assert result.exit_code == 130
    assert "interrupted after 7 of 30 iterations" in result.stderr
    (facts,) = json.loads(result.stdout)
    assert (facts["test"], facts["iterations"], facts["interrupted"]) == ("tag_bw", 7, True)
    assert facts["overall"] > 0
    table = perf("-t", "tag_lat", "-n", 30)
    assert table.stdout.splitlines()[-1].split()[:2] == ["Final:", "7"]


def test_the_table_has_the_lines_of_ucx_perftest():
    lines = perf("-t", "tag_lat", "-s", 16, "-n", 10).stdout.splitlines()
    assert lines[1].startswith("| API:          protocol layer  ")
    assert lines[2].startswith("| Test:         tag match latency ")
    assert lines[6].startswith("| Message size: 16 ")
    assert lines[9:12] == [
        "|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |",  # noqa: E501
        "+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+",
        "|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |",  # noqa: E501
    ]
    assert {len(line) for line in lines[:13]} == {len(lines[0])}
    name, count, *numbers = lines[13].split()
    assert (name, count) == ("Final:", "10")
    assert [float(number) >= 0 for number in numbers] == [True] * 7


def test_the_table_of_final_numbers_names_the_test():
    lines = perf("-t", "ucp_put_bw", "-n", 2000, "-f", "-N", "-R", 99.5).stdout.splitlines()
    assert lines[9].startswith("|              |              |       overhead (usec) ")
    assert "|    Test      | # iterations | 99.5%ile |" in lines[11]
    assert lines[-1].split()[:2] == ["ucp_put_bw", "2,000"]


def test_comma_separated_values_have_a_row_for_each_test_and_size():
    result = perf("-t", "tag_lat", "-t", "ucp_get", "-s", 8, "-s", "16,48", "-n", 10, "-v")
    assert result.exit_code == 0
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == [
        "test", "size", "iterations", "50.0_percentile_lat", "avg_lat", "overall_lat", "avg_bw", "overall_bw",
        "avg_mr", "overall_mr",
    ]  # fmt: skip
    assert [row[:3] for row in rows[1:]] == [
        [test, size, "10"] for test in ("tag_lat", "ucp_get") for size in ("8", "64")
    ]


def test_json_says_what_was_measured_and_on_what():
    (facts,) = facts_of("-t", "ucp_get", "-n", 10, "-O", 4, "-s", "16,48", "-D", "iov")
    assert facts["plan"]["sizes"] == [16, 48]
    assert facts["plan"]["layouts"] == ["iov", "iov"]
    assert (facts["plan"]["warmup"], facts["window"], facts["size"]) == (1, 4, 64)
    assert [name.split()[0] for name in facts["devices"]] == ["model", "model"]
    assert (facts["cycles"], facts["modelled"]) == (None, None), "a model's cycles are no hardware's"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-t", "put_lat"), "test: .*'put_lat'"),
        (("-t", "tag_lat", "--api", "mpi"), "--api: .*'mpi'"),
        (("-t", "tag_lat", "-s", "eight"), "--size: .*'eight'"),
        (("-t", "tag_lat", "-s", "8,"), "--size: .*'8,'"),
        (("-t", "stream_lat", "-s", 0), "size: expected 1 to .*, got 0"),
        (("-t", "ucp_get", "-s", 0), "size: expected 1 to .*, got 0"),
        (("-t", "ucp_fadd", "-s", 16), "size: expected 4 or 8 bytes .*, got 16"),
        (("-t", "ucp_fadd", "-s", "4,4"), "size: expected 4 or 8 bytes .*, got 8"),
        (("-t", "ucp_fadd", "-D", "iov"), "layout: expected contig .*'iov'"),
        (("-t", "tag_lat", "-n", 0), "'--iterations' .*greater than or equal to 1"),
        (("-t", "tag_lat", "-O", 0), "'--outstanding' .*greater than or equal to 1"),
        (("-t", "tag_lat", "-O", 5000), "outstanding operations: .*, got 5000"),
        (("-t", "tag_lat", "-D", "stride"), "layout: .*'stride'"),
        (("-t", "tag_lat", "-D", "iov,iov,iov"), "--layout: .*'iov,iov,iov'"),
        (("-t", "tag_lat", "-r", "peek"), "receive mode: .*'peek'"),
        (("-t", "tag_lat", "-M", "many"), "thread mode: .*'many'"),
        (("-t", "tag_lat", "-R", 101), "'--percentile' .*less than or equal to 100"),
        (("-t", "tag_lat", "-d", "abacus"), "--device: .*'abacus'"),
        (("-t", "tag_lat", "-d", "model,model,model"), "--device: 3 devices .* 2 ranks"),
        (("-t", "tag_lat", "--csv", "--json"), "expected --csv or --json, got both"),
        (("127.0.0.1",), "--test: "),
    ],
)
def test_wrong_options_are_usage_errors(arguments, said):
    assert re.search(said, usage_error(perf(*arguments)))


def test_a_plan_survives_the_way_to_another_process():
    plan = PerfPlan("ucp", "tag_bw", (1, 2), 5, 0, 3, layouts=("iov", "contig"), percentile=12.5)
    assert PerfPlan.from_told(json.loads(json.dumps(plan.told()))) == plan


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": [-1]},
        {"sizes": ["8"]},
        {"sizes": 8},
        {"sizes": []},
        {"test": 3},
        {"test": "tag"},
        {"api": "uct"},
        {"iterations": 0},
        {"iterations": True},
        {"warmup": -1},
        {"outstanding": 1 << 40},
        {"layouts": ["iov"]},
        {"header": 1 << 20},
        {"percentile": "50"},
        {"percentile": math.nan},
        {"verify": 1},
        {"more": 1},
    ],
)
def test_a_plan_of_another_process_is_checked(change):
    told = {**PerfPlan("ucp", "tag_bw").told(), **change}
    with pytest.raises(FabricError) as raised:
        PerfPlan.from_told(told)
    assert raised.value.errno == Errno.FI_EINVAL


def test_what_is_no_plan_is_none():
    for told in (None, [], "tag_lat", {}, {"test": "tag_lat"}):
        with pytest.raises(FabricError):
            PerfPlan.from_told(told)


class Time:
    """Time that passes when it is told to, and a clock of 250 MHz beside it."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(meter.time, "perf_counter", lambda: self.now)
        self.clock = Clock(lambda: round(self.now * 250e6), 250_000_000)


def test_results_are_those_of_the_times(monkeypatch):
    time = Time(monkeypatch)
    measuring = Meter(PerfPlan("ucp", "tag_lat", (1 << 20,)), time.clock)
    time.now = 5.0
    measuring.start()
    for duration in (0.2, 0.1, 0.3):
        time.now += duration
        measuring.update()
    time.now += 0.6  # until everything has arrived
    measuring.finish()
    result = measuring.result()
    assert result.iterations == 3
    assert result.percentile == pytest.approx(0.1e6), "half of the middle one"
    assert result.overall == result.average == pytest.approx(1.2e6 / 6)
    assert result.rate_overall == result.bandwidth_overall == pytest.approx(5)
    assert result.cycles == pytest.approx(0.2 * 250e6)
    assert result.modelled == pytest.approx(0.2e6)


def test_results_on_the_way_are_of_the_last_second(monkeypatch):
    time, told, done = Time(monkeypatch), [], []
    measuring = Meter(PerfPlan("ucp", "tag_bw"), None, told.append, done.append)
    for duration in (0.5, 0.5, 2.0, 0.25):
        time.now += duration
        measuring.update()
    measuring.finish()
    assert [(result.iterations, result.average, result.overall) for result in told] == [
        (2, pytest.approx(0.5e6), pytest.approx(0.5e6)),
        (3, pytest.approx(2e6), pytest.approx(1e6)),
    ]
    last = measuring.result()
    assert (last.average, last.overall) == (pytest.approx(0.25e6), pytest.approx(3.25e6 / 4))
    assert done == [2, 1, 1]


@pytest.mark.parametrize(("rank", "expected"), [(0, 1), (50, 5), (89.9, 9), (100, 10)])
def test_the_percentile_is_an_element_as_ucx_perftest_takes_it(rank, expected, monkeypatch):
    time = Time(monkeypatch)
    measuring = Meter(PerfPlan("ucp", "tag_bw", percentile=rank))
    for duration in (3, 1, 2, 10, 9, 8, 4, 5, 7, 6):
        time.now += duration
        measuring.update()
    assert measuring.result().percentile == pytest.approx(expected * 1e6)


def test_no_iterations_are_zeros():
    result = Meter(PerfPlan("ucp", "tag_bw")).result()
    assert (result.iterations, result.overall, result.rate_overall, result.percentile) == (0, 0, 0, 0)


@pytest.mark.parametrize("places", [1, 7, 32, 77, 512, 1001])
@pytest.mark.parametrize("size", [1, 8, 100])
def test_messages_at_one_place_differ_from_one_to_the_next(size, places):
    payloads = Payloads(size, places)
    for number in range(50):
        content = payloads.of(number)
        assert len(content) == size
        assert content[-1] != 0
        assert content != payloads.of(number + 1)
        assert places == 1001 or content != payloads.of(number + places)


def test_findings_are_the_first_few_and_a_count():
    findings = Findings()
    findings.expect(1, 1, "same")
    for number in range(20):
        findings.expect(bytes(100), number, f"number {number}")
    assert findings.count == 20
    assert len(findings.first) == 8
    assert findings.first[0] == "number 0: expected 0, got 0000000000000000... (100 bytes)"


def test_cycles_are_two_columns_more():
    plan = PerfPlan("ucp", "tag_lat")
    result = PerfResult("tag_lat", 8, 10, 50.0, 1, 2, 3, 4, 5, 6, 7, cycles=150.25, modelled=0.601)
    lines = report.header(plan, ("rtl", "rtl"), cycles=True, final_only=False).splitlines()
    assert {len(line) for line in lines[-5:]} == {len(lines[-1])}
    row = report.row(result, final=True, final_only=False, thousands=False)
    assert row.split()[-2:] == ["150.25", "0.6010"]
    assert len(row) <= len(lines[-1])
    assert report.csv_row(result).endswith(",150.25,0.6010")
    assert report.csv_header(50, cycles=True).endswith(",cycles,modelled_lat")
    assert report.facts(plan, ("rtl",), result)["cycles"] == 150.25


def test_a_narrow_table_has_80_columns_and_the_overall_numbers():
    plan = PerfPlan("ucp", "tag_lat", percentile=99.9)
    result = PerfResult("tag_lat", 8, 10, 50.0, 1, 2, 3, 4, 5, 6, 7, cycles=150.25, modelled=0.601)
    devices = ("rtl (256-bit, 8 contexts, with its PCI Express endpoint)", "model (256-bit, 8 contexts)")
    lines = report.header(plan, devices, cycles=True, final_only=False, narrow=True).splitlines()
    row = report.row(result, final=True, final_only=False, thousands=False, narrow=True)
    assert max(map(len, [*lines, row])) == 80
    assert lines[-2].split() == ["count", "99.9%ile", "average", "overall", "MB/s", "msg/s", "cycles", "usec"]
    assert row.split() == ["Final:", "10", "1.000", "2.000", "3.000", "5.00", "7", "150.25", "0.6010"]
    assert "endpoint), model (256-bit" in " ".join(" ".join(lines).replace("|", " ").split())


def test_the_table_is_narrow_where_the_terminal_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "108")
    assert not report.is_narrow(cycles=False)
    assert report.is_narrow(cycles=True)
    monkeypatch.setenv("COLUMNS", "107")
    assert report.is_narrow(cycles=False)
