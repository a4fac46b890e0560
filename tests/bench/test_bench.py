"""``make bench`` measures, and keeps its measurements; no limits in time, no large builds."""

import subprocess

import pytest
from amoeba_model.atomic.matrix import Cell
from amoeba_model.opcodes import Datatype, Form, Op
from amoeba_model.parameters import NicParameters

from bench import (
    batches,
    driver_rate,
    libfabric,
    limits,
    messages,
    mpi,
    nic,
    others,
    pcie,
    ucp_host,
    ucp_memory,
    ucp_messages,
)
from bench.engine import CellCycles, measure_cells
from bench.limits import MESSAGE_LIMITS, UCP_MESSAGE_LIMIT, Limit, limit_of, match_limit, search_limit
from bench.peer import Call, request_response_rate
from bench.report import Grid, cycles_grid, misses_grid, number, replace_section


def cycles(form, op, datatype, independent=1.0, chain=1.0, latency=0):
    return CellCycles(Cell(form, op, datatype), independent, chain, latency)


@pytest.mark.parametrize(
    ("op", "datatype", "latency", "independent", "chain"),
    [
        (Op.FI_SUM, Datatype.FI_INT64, 1, 1, 1),
        (Op.FI_PROD, Datatype.FI_UINT128, 9, 1, 1),
        (Op.FI_BXOR, Datatype.FI_UINT8, 1, 1, 1),
        (Op.FI_MIN, Datatype.FI_DOUBLE, 1, 1, 1),
        (Op.FI_LOR, Datatype.FI_FLOAT_COMPLEX, 1, 1, 1),
        (Op.FI_SUM, Datatype.FI_DOUBLE, 7, 1, 6),
        (Op.FI_DIFF, Datatype.FI_FLOAT, 5, 1, 5),
        (Op.FI_SUM, Datatype.FI_BFLOAT16, 7, 1, 7),
        (Op.FI_PROD, Datatype.FI_FLOAT16, 10, 1, 10),
        (Op.FI_PROD, Datatype.FI_DOUBLE_COMPLEX, 18, 4, 18),
        (Op.FI_SUM, Datatype.FI_DOUBLE_COMPLEX, 6, None, None),
        (Op.FI_MAX, Datatype.FI_LONG_DOUBLE, 1, 4, 4),
        (Op.FI_SUM, Datatype.FI_LONG_DOUBLE_COMPLEX, 6, 4, 6),
        (Op.FI_SUM, Datatype.FI_FLOAT8_E4M3, 8, None, None),
    ],
)
def test_the_limits_are_those_that_were_asked_for(op, datatype, latency, independent, chain):
    assert limit_of(Cell(Form.BASE, op, datatype), latency) == Limit(independent, chain)


def test_a_limit_that_is_missed_says_by_how_much():
    assert Limit(1, 6).misses(1.0, 6.0) == []
    assert Limit(1, 6).misses(1.25, 7.0) == ["independent 1.25 instead of 1", "chain 7 instead of 6"]
    assert Limit(None, None).misses(100, 100) == []


def test_no_cell_may_be_slower_than_its_limit():
    assert cycles(Form.BASE, Op.FI_SUM, Datatype.FI_INT8, chain=2.0).misses == ["chain 2 instead of 1"]
    assert cycles(Form.BASE, Op.FI_PROD, Datatype.FI_DOUBLE, independent=2.0, latency=10).misses
    assert not cycles(Form.BASE, Op.FI_PROD, Datatype.FI_DOUBLE, chain=10.0, latency=10).misses
    assert cycles(Form.BASE, Op.FI_PROD, Datatype.FI_INT8, chain=8.0, latency=8).misses == ["chain 8 instead of 1"]


def test_cells_with_equal_figures_share_rows_and_columns():
    measured = [
        cycles(form, op, datatype)
        for form in (Form.BASE, Form.FETCH)
        for op in (Op.FI_MIN, Op.FI_MAX)
        for datatype in (Datatype.FI_INT8, Datatype.FI_INT16)
    ]
    measured += [
        cycles(Form.BASE, Op.FI_SUM, Datatype.FI_INT8, 1.0, 1.0),
        cycles(Form.FETCH, Op.FI_SUM, Datatype.FI_INT8, 1.5, 2.0),
        cycles(Form.BASE, Op.FI_SUM, Datatype.FI_FLOAT, 1.0, 6.0),
    ]
    grid = cycles_grid(measured)
    assert list(grid.header) == ["operations", "INT8", "INT16", "FLOAT"]
    assert grid.rows == [
        ("MIN, MAX", "1 / 1", "1 / 1", ""),
        ("SUM", "base 1 / 1; fetch 1.5 / 2", "", "1 / 6"),
    ]


def test_misses_are_listed_once_for_cells_that_miss_alike():
    measured = [
        cycles(form, Op.FI_PROD, datatype, chain=8.0, latency=8)
        for form in (Form.BASE, Form.FETCH)
        for datatype in (Datatype.FI_INT8, Datatype.FI_UINT8)
    ]
    assert misses_grid(measured).rows == [("PROD", "INT8, UINT8", "chain 8 instead of 1")]


def test_a_grid_becomes_markdown_with_numbers_to_the_right():
    grid = Grid("t", ("what", "figure"), [("a", 1.0), ("b", 12345)])
    assert grid.markdown() == "| what | figure |\n| --- | ---: |\n| a | 1 |\n| b | 12,345 |\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (1.0, "1"), (30.476, "30.5"), (123456.7, "123,457"), (7, "7"), ("x", "x")],
)
def test_figures_have_the_digits_that_mean_something(value, text):
    assert number(value) == text


def test_a_section_of_the_page_is_replaced_and_the_rest_stays():
    page = "head\n<!-- begin x -->\nold\n<!-- end x -->\ntail\n"
    assert replace_section(page, "x", "new\n") == "head\n<!-- begin x -->\nnew\n<!-- end x -->\ntail\n"


@pytest.mark.parametrize("page", ["", "<!-- end x -->\n<!-- begin x -->\n", "<!-- begin x -->\n<!-- end x -->\n" * 2])
def test_a_page_without_the_section_once_is_refused(page):
    with pytest.raises(ValueError, match="expected one <!-- begin x -->"):
        replace_section(page, "x", "new\n")


def test_every_stage_of_an_atomic_is_timed_from_the_doorbell():
    stages = nic.unloaded_latency(kind="model")
    assert stages[0][1:] == ("doorbell", 0)
    assert stages[-1][1] in ("completion written", "interrupt")
    cycles_since = [cycle for *_, cycle in stages]
    assert cycles_since == sorted(cycles_since)
    assert ("NIC 1, Executor", "executed") in [stage[:2] for stage in stages]


def test_atomics_and_transfers_are_measured_between_their_completions():
    rates = nic.fetching_atomics(count=300, kind="model")
    assert len(rates) == 4
    assert all(rate >= 1 for rate in rates.values()), rates
    assert set(nic.small_writes(count=300, kind="model")) == {"one address, 1 peer", "random addresses, 1 peer"}
    assert set(nic.transfers(count=4, kind="model")) == {"write", "read"}


def test_the_link_s_own_pace_is_that_of_its_frames():
    # 114 and 110 bytes in beats of 32; 4,096 bytes in frames of 4,198 and 4,174 bytes: 132 and 131 beats.
    assert nic.link_cycles("fetching atomic") == nic.link_cycles("write") == 4
    assert (nic.link_rate("write"), nic.link_rate("read")) == (4096 / 132, 4096 / 131)


@pytest.mark.parametrize("operation", ["fetching atomic", "write"])
def test_one_endpoint_s_small_operations_keep_the_link_busy(operation):
    """Exact cycles of the RTL: at the link's own pace on one address, and within twice of it anywhere."""
    figures = nic.fetching_atomics(count=2048) if operation == "fetching atomic" else nic.small_writes(count=2048)
    assert figures["one address, 1 peer"] == nic.link_cycles(operation)
    assert max(figures.values()) <= 2 * nic.link_cycles(operation), figures


def test_long_transfers_fill_the_link():
    rates = nic.transfers()
    assert all(rate >= 0.9 * nic.link_rate(operation) for operation, rate in rates.items()), rates


def test_a_memory_node_keeps_up_with_gigabit_ethernet_at_the_clock_of_its_limits():
    """Exact cycles of the RTL, with a model of a host."""
    transfers = nic.transfers(size=1 << 14, count=8, kind="node")
    assert min(transfers.values()) * limits.NODE_HZ >= limits.NODE_BYTES_PER_SECOND, transfers
    atomics = nic.fetching_atomics(count=256, kind="node", most_peers=1)
    assert max(atomics.values()) * limits.NODE_ATOMICS_PER_SECOND <= limits.NODE_HZ, atomics


def test_a_pcie_link_s_own_pace_is_that_of_its_packets():
    # 280 bytes carry 256 to the host, 276 from it, and 24 ask for 512.
    assert pcie.link_rate() == pytest.approx(32 * 256 / 280)
    assert pcie.link_rate(written=0, read=1) == pytest.approx(32 * 256 / 276)
    assert pcie.both_ways_rate("write") == pytest.approx(32 / (280 / 256 + 24 / 512))
    assert pcie.both_ways_rate("read") == pytest.approx(32 / (560 / 256 + 24 / 512))


def test_transfers_both_ways_are_measured_between_their_completions():
    assert set(pcie.both_ways(count=4, kind="model")) == {"write", "read"}


def test_messages_meet_their_receives_within_the_limits():
    """Exact cycles of the RTL, with the first of each list as the one that matches."""
    rates = messages.message_rates()
    assert set(rates) == set(MESSAGE_LIMITS)
    assert all(cycles <= MESSAGE_LIMITS[name] for name, cycles in rates.items()), rates


def test_a_list_costs_a_cycle_for_each_entry_that_is_looked_at():
    posted, waiting = messages.posted_depths(), messages.waiting_depths()
    assert set(posted) == set(waiting) == set(messages.DEPTHS)
    assert all(cycles <= match_limit(depth) for depth, cycles in posted.items()), posted
    assert all(cycles <= search_limit(depth) for depth, cycles in waiting.items()), waiting


def test_in_random_order_half_a_list_is_the_most_that_is_looked_at_on_average():
    for depth, (message, receive) in messages.random_orders().items():
        assert message <= match_limit(depth // 2)
        assert receive <= search_limit(depth // 2)


def test_the_model_takes_as_long_for_any_list():
    """The benches' own check, that every message lies in its receive, holds without RTL, too."""
    posted = messages.posted_depths(depths=(1, 64), count=128, kind="model")
    waiting = messages.waiting_depths(depths=(1, 64), kind="model")
    assert posted[1] == posted[64]
    assert waiting[1] == waiting[64]
    assert set(messages.message_rates(count=128, kind="model")) == set(MESSAGE_LIMITS)
    assert set(messages.random_orders(depths=(8,), kind="model")) == {8}


def test_ucp_s_messages_keep_their_pace():
    """Exact cycles of the RTL: 8 for small ones, 90 % of the payload that fits through the link for long ones."""
    small, long = ucp_messages.ucp_message_rates(), ucp_messages.ucp_transfers()
    assert len(small) == 2
    assert len(long) == 3
    assert all(cycles <= UCP_MESSAGE_LIMIT for cycles in small.values()), small
    assert all(rate >= 0.9 * nic.link_rate("write") for rate in long.values()), long


def test_driver_and_peer_report_positive_rates():
    measured = driver_rate.measure(operations=128)
    assert {"atomic", "fetch_atomic", "write, 8 bytes", "tagged send, 8 bytes"} <= set(measured["calls"])
    assert all(call["per_second"] > 0 and call["alone_ns"] > 0 for call in measured["calls"].values())
    assert request_response_rate(operations=100, window=16) > 0


def test_batches_report_what_an_operation_takes():
    measured = batches.measure(batch=32)
    assert {"write", "read", "atomic", "fetch_atomic", "compare_atomic"} <= set(measured["calls"])
    assert all(call["post"] > 0 and call["complete"] > 0 for call in measured["calls"].values())
    assert len(batches.batches_grid(measured).rows) == len(measured["calls"])
    slow = {"batch": 1, "calls": {"write": {"post": 100, "complete": 51}, "read": {"post": 100, "complete": 50}}}
    assert batches.misses(slow) == ["write takes 151 ns instead of 150"]


@pytest.mark.skipif(not mpi.available(), reason="needs mpi4py and mpiexec: pip install '.[bench]'")
def test_mpi_between_two_processes_reports_positive_rates():
    rates = mpi.mpi_rates("shared memory", operations=128, window=16)
    assert set(rates) == {"Fetch_and_op", "Put", "Send"}
    assert all(rate > 0 for rate in rates.values())


@pytest.mark.skipif(libfabric.why_not() is not None, reason=f"{libfabric.why_not()}")
@pytest.mark.parametrize("provider", libfabric.PROVIDERS)
def test_libfabric_between_two_processes_reports_positive_rates(provider):
    rates = libfabric.libfabric_rates(provider, operations=128, window=16)
    assert set(rates) == {"fi_fetch_atomic", "fi_write, 8 bytes", "fi_tsend, 8 bytes"}


def test_what_the_libfabric_program_prints_is_understood():
    printed = '{"fi_write, 8 bytes": {"per_second": 2e6, "call_ns": 400}}\n'
    assert libfabric.parse(printed) == {"fi_write, 8 bytes": Call(2e6, 400)}


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "{}",
        "[1]",
        '{"fi_write": {"per_second": 1}}',
        '{"fi_write": {"per_second": 0, "call_ns": 1}}',
        "fi_write: 1",
    ],
)
def test_what_the_libfabric_program_does_not_print_is_refused(printed):
    with pytest.raises(ValueError, match=r"[Ee]xpect"):
        libfabric.parse(printed)


def test_without_a_compiler_or_headers_libfabric_is_not_measured(monkeypatch):
    libfabric.why_not.cache_clear()
    monkeypatch.setattr(libfabric, "_COMPILERS", ("no-such-compiler",))
    assert libfabric.why_not() == "no C compiler: expected one of no-such-compiler"
    libfabric.why_not.cache_clear()
    monkeypatch.setattr(libfabric, "_COMPILERS", ("false",))
    assert libfabric.why_not() == "no rdma/fabric.h: install libfabric-dev"
    libfabric.why_not.cache_clear()


def test_others_that_are_not_there_or_fail_are_listed_with_the_reason(monkeypatch):
    def broken(provider, operations, window):
        raise subprocess.CalledProcessError(1, "libfabric", stderr="warning\nfi_getinfo: No data available\n")

    monkeypatch.setattr(others, "request_response_rate", lambda operations, window: 100.0)
    monkeypatch.setattr(mpi, "available", lambda: False)
    monkeypatch.setattr(libfabric, "why_not", lambda: None)
    monkeypatch.setattr(libfabric, "libfabric_rates", broken)
    found, missing = others.measure(16, 4)
    assert found == {others.UDP: Call(100.0, 1e7)}
    reasons = dict(missing)
    assert reasons["libfabric's shm"] == "fi_getinfo: No data available"
    assert reasons["shared memory"].startswith("no mpi4py")
    assert len(missing) == len(mpi.TRANSPORTS) + len(libfabric.PROVIDERS)


def test_the_driver_is_compared_with_the_same_calls_of_libfabric():
    calls = {"write, 8 bytes": {"per_second": 1000, "alone_ns": 4000, "driver_share": 0.25}}
    elsewhere = {others.UDP: Call.alone(2000.0), ("fi_write, 8 bytes", "libfabric's shm"): Call(4000.0, 500.0)}
    rates = others.rates_grid(calls, elsewhere).rows
    assert rates[0] == ("write, 8 bytes", 1000, 0.5, 4000, "25%")
    assert rates[1][0] == "8 bytes there and back over UDP"
    assert rates[2] == ("fi_write, 8 bytes, libfabric's shm", 4000, 2.0, 500, "0%")
    (ratio,) = others.ratios_grid(calls, elsewhere).rows
    assert ratio == ("write, 8 bytes", "fi_write, libfabric's shm", 8.0, 0.25)
    assert others.ratios_grid(calls, {others.UDP: Call.alone(1.0)}).rows == []


def test_integer_cells_take_one_cycle_per_beat():
    # The parameters of tests/hw/memory/test_engine.py, so that both use one build.
    integers = (Datatype.FI_INT8, Datatype.FI_UINT16, Datatype.FI_INT32, Datatype.FI_UINT64)
    cells = [
        Cell(Form.BASE, Op.FI_SUM, Datatype.FI_UINT64),
        Cell(Form.FETCH, Op.FI_MIN, Datatype.FI_INT32),
        Cell(Form.FETCH, Op.FI_PROD, Datatype.FI_UINT64),
        Cell(Form.BASE, Op.FI_PROD, Datatype.FI_INT8),
        Cell(Form.FETCH, Op.FI_ATOMIC_READ, Datatype.FI_UINT16),
        Cell(Form.COMPARE, Op.FI_CSWAP, Datatype.FI_INT8),
        Cell(Form.COMPARE, Op.FI_MSWAP, Datatype.FI_UINT64),
    ]
    measured = measure_cells(cells, NicParameters(data_width=256, lines=64, datatypes=integers))
    assert [(cell.cell, cell.independent, cell.chain) for cell in measured] == [(cell, 1, 1) for cell in cells]
    assert all(not cell.misses and cell.latency == 0 for cell in measured)


def test_ucp_s_memory_operations_take_what_the_link_takes_on_the_model():
    figures = ucp_memory.cycles(count=600, kind="model")
    assert figures["8-byte put"] <= 2 * nic.link_cycles("write")
    assert figures["8-byte fetching atomic"] <= 2 * nic.link_cycles("fetching atomic")
    assert figures["64 KiB put"] >= 0.9 * nic.link_rate("write")
    assert figures["64 KiB get"] >= 0.9 * nic.link_rate("read")


def test_ucp_s_host_time_is_measured_beside_libfabric_s_of_the_same_operations():
    ours, libfabrics = ucp_host.host_times(windows=2, rounds=1)
    assert list(ours) == list(libfabrics)
    assert {"put", "get", "fetching atomic", "tagged send", "tagged receive", "active message"} <= set(ours)
    assert min(*ours.values(), *libfabrics.values()) > 0


def test_what_takes_ucp_too_long_is_a_miss():
    ours, libfabrics = {"put": 2.6, "get": 2.5}, {"put": 2.0, "get": 2.0}
    assert ucp_host.misses(ours, libfabrics) == ["put"]
    grid = ucp_host.host_grid(ours, libfabrics)
    assert [row[3] for row in grid.rows] == [1.3, 1.25]


def test_ucp_s_messages_take_what_the_link_takes_on_the_model():
    small = ucp_messages.ucp_message_rates(count=256, kind="model")
    assert all(cycles <= UCP_MESSAGE_LIMIT for cycles in small.values()), small
    assert all(rate >= 0.9 * nic.link_rate("write") for rate in ucp_messages.ucp_transfers(4, "model").values())
