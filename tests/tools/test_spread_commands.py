"""The commands whose work is spread: the same results as alone, what failed named, and Ctrl-C.

Covers ``cli/spreading.py`` and ``conformance/shares.py``.
"""

import importlib
import json
import os
import re
from pathlib import Path

import pytest
from amoeba_tools import soak
from amoeba_tools.cli import app
from amoeba_tools.conformance import checks
from amoeba_tools.conformance.shares import Share, outcomes_of, run_share
from typer.testing import CliRunner

RECORDING = Path(__file__).parents[1] / "data" / "libfabric-1.17-sockets.npz"
GUPS = "gups:table_size=6:updates=128"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "100"})


def facts(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def scheduler():
    distributed = pytest.importorskip("distributed", reason="clusters need the extra amoeba-nic[cluster]")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(params=["processes", "cluster"])
def spread_out(request):
    """Options that spread the work."""
    if request.param == "processes":
        return ["--jobs", "2"]
    return ["--scheduler", request.getfixturevalue("scheduler")]


def test_replay_finds_the_same_in_the_same_order(spread_out):
    arguments = ("replay", RECORDING, "--cells", "SUM/*INT*", "--vector", 64)
    assert facts(*arguments, *spread_out) == facts(*arguments)


def test_conformance_finds_the_same_in_the_same_order(spread_out):
    alone, shared = (facts("conformance", "--page", "fi_cq", *options) for options in ((), spread_out))
    assert list(shared["checks"].items()) == list(alone["checks"].items())
    assert (shared["devices"], shared["passed"]) == (alone["devices"], True)


def test_ucps_conformance_is_shared_out_too():
    alone, shared = (
        facts("conformance", "--api", "ucp", "--page", "ucp_put_nbx", *options) for options in ((), ("-j", 2))
    )
    assert shared["checks"] == alone["checks"]


def test_soak_runs_with_seeds_one_after_the_other(spread_out):
    arguments = ("soak", "--operations", 30, "--loss", 0.05, "--seed", 7)
    found = facts(*arguments, "--runs", 3, *spread_out)
    assert [one["seed"] for one in found] == [7, 8, 9]
    assert all(one["passed"] for one in found)
    alone = facts("soak", "--operations", 30, "--loss", 0.05, "--seed", 8)
    same = ("operations", "cycles", "counters", "traffic", "total", "posted")
    assert {name: found[1][name] for name in same} == {name: alone[name] for name in same}


def test_several_soaks_run_in_this_process_as_well():
    result = run("soak", "--operations", 20, "--runs", 2)
    assert result.exit_code == 0
    assert re.search(r"2 runs, [1-9]\d* operations, each once, verified", result.output)


def test_a_soak_that_goes_wrong_tells_its_seed_and_how_to_repeat_it(monkeypatch):
    module = importlib.import_module("amoeba_tools.cli.soak")

    def wrong_for_8(job):
        if job.links.seed == 9:
            raise RuntimeError("no NIC")
        result = soak.soak_once(job)
        problems = ("it was done twice",) if job.links.seed == 8 else ()
        return soak.dataclasses.replace(result, problems=problems)

    monkeypatch.setattr(module, "soak_once", wrong_for_8)
    result = run("soak", "--operations", 20, "--runs", 3, "--seed", 7)
    assert result.exit_code == 1
    assert "3 runs" in result.output
    assert "2 wrong" in result.output
    assert "seed 8: it was done twice" in result.output
    assert re.search(r"again: amoeba soak --device model,model --operations \d+ --window 16 --seed 8", result.output)
    assert "seed 9: RuntimeError: no NIC" in result.output


def test_cells_whose_worker_dies_are_named_and_the_others_are_there(monkeypatch):
    module = importlib.import_module("amoeba_tools.cli.replay")
    monkeypatch.setattr(module, "replay_cells", die_with_uint8)
    result = run("replay", RECORDING, "--cells", "base/FI_SUM/*INT8", "--jobs", 2)
    assert result.exit_code == 1
    assert "not executed: base/FI_SUM/FI_UINT8: its worker ended with exit status 3" in result.output
    assert re.search(r"base │ FI_SUM    │ FI_INT8 +│ +1,024 │ +0 │", result.output), result.output


def die_with_uint8(job):
    from amoeba_tools.replay import replay_cells

    if any(str(entry.cell).endswith("UINT8") for entry in job.cells):
        os._exit(3)
    return replay_cells(job)


def test_checks_of_a_share_without_a_result_have_failed():
    chosen = checks()[:3]
    outcomes = outcomes_of(chosen, None, "its worker ended")
    assert [(outcome.check, outcome.state, outcome.failure) for outcome in outcomes] == [
        (check, "failed", "its worker ended") for check in chosen
    ]


def test_a_share_is_run_by_ids():
    from amoeba_tools.conformance import open_pair

    chosen = [check for check in checks() if check.page == "fi_cq"][:2]
    outcomes = outcomes_of(chosen, run_share(Share(open_pair, tuple(check.id for check in chosen))), "")
    assert [outcome.check for outcome in outcomes] == chosen
    assert {outcome.state for outcome in outcomes} == {"passed"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("replay", RECORDING, "--jobs", 2, "--scheduler", "tcp://127.0.0.1:1"), "omit --jobs"),
        (("soak", "--jobs", 2, "--listen", "127.0.0.1:0"), "several runs need all ranks in one process"),
        (("conformance", "--jobs", 2, "--listen", "127.0.0.1:0"), "target in another process cannot be spread"),
        (("soak", "--jobs", 0), "Invalid value for '--jobs'"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments, said):
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


def test_a_scheduler_that_is_not_there_is_one_line():
    result = run("soak", "--scheduler", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert "error: FI_ECONNREFUSED: no scheduler at tcp://127.0.0.1:1" in result.output


def test_ctrl_c_says_what_was_done_so_far(monkeypatch):
    module, left = importlib.import_module("amoeba_tools.cli.soak"), [2]

    def then_stop(job):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return soak.soak_once(job)

    monkeypatch.setattr(module, "soak_once", then_stop)
    result = run("soak", "--runs", 5, "--operations", 20)
    assert result.exit_code == 130
    assert re.search(r"interrupted: 2 of 5 runs, [1-9]\d* operations, 0 wrong\n", result.stderr)


# amoeba explore


def test_explore_prints_a_table_and_writes_files(tmp_path):
    files = {name: tmp_path / f"found.{name}" for name in ("csv", "parquet", "svg")}
    pytest.importorskip("pyarrow", reason="Parquet needs the extra amoeba-nic[parquet]")
    arguments = (
        "explore", "--set", "lines=64,256", "--set", "link_latency=20,80", "-w", GUPS, "-d", "model",
        "--store", tmp_path, "--csv", files["csv"], "--parquet", files["parquet"], "--plot", files["svg"], "-j", 2,
    )  # fmt: skip
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    rows = re.findall(r"│ (.) │ +(\d+) │ +(\d+) │ +([\d.]+) │", result.output)
    assert [(lines, latency) for _, lines, latency, _ in rows] == [
        ("64", "20"), ("64", "80"), ("256", "20"), ("256", "80")
    ]  # fmt: skip
    assert [star for star, *_ in rows] == ["*", " ", " ", " "]
    assert "4 results, 0 of them from earlier runs" in result.output
    assert files["csv"].read_text().count("\n") == 5
    assert files["parquet"].read_bytes()[:4] == b"PAR1"
    assert files["svg"].read_text().startswith("<svg")
    again = run(*arguments)
    assert "4 results, 4 of them from earlier runs" in again.output


def test_explore_finds_the_same(spread_out, tmp_path):
    arguments = ("explore", "--set", "link_latency=20,60,80", "-w", GUPS, "-d", "model", "--store")
    assert facts(*arguments, tmp_path / "one", *spread_out) == facts(*arguments, tmp_path / "two")


def test_explore_becomes_a_list_where_the_table_is_too_wide(tmp_path):
    arguments = ["explore", "-w", GUPS, "-d", "model", "--store", tmp_path]
    for axis in ("data_width=128", "lines=64,128", "payload=1024", "target_pdcs=16", "unexpected=16", "keys=64"):
        arguments += ["--set", axis]
    result = CliRunner().invoke(app, [str(word) for word in arguments], env={"COLUMNS": "60"})
    assert result.exit_code == 0
    assert "1 of 2, on the front" in result.output
    assert max(map(len, result.output.splitlines())) <= 60


def test_explore_as_json_says_which_are_on_the_front(tmp_path):
    found = facts("explore", "--set", "link_latency=20,80", "-w", GUPS, "-d", "model", "--store", tmp_path)
    assert [row["front"] for row in found] == [True, False]
    assert found[0]["cycles"] < found[1]["cycles"]


def test_what_failed_is_told_and_exit_status_1(tmp_path):
    result = run("explore", "--set", "ops=SUM,all", "-w", GUPS, "-d", "model", "--store", tmp_path)
    assert result.exit_code == 1
    assert "failed: ops SUM: UnsupportedError: FI_EOPNOTSUPP" in result.output
    assert re.search(r"│ !? +│ all", result.output)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--set", "lines=64"), 2, "nothing to measure: expected a --workload, an --area or both"),
        (("--set", "lines"), 2, "expected AXIS=VALUE,VALUE"),
        (("--set", "lines=64", "--set", "lines=128", "-w", "gups"), 2, "expected each axis once"),
        (("-w", "gupps"), 2, "got 'gupps'"),
        (("-w", "missing.py"), 1, "No such file"),
        (("-w", GUPS, "-d", "fpga"), 2, "unknown device 'fpga'; expected model, rtl"),
        (("-w", GUPS, "-d", "model", "--pareto", "lines"), 2, "expected two columns, got 'lines'"),
        (("-w", GUPS, "-d", "model", "--pareto", "luts,cycles"), 1, "expected a column with numbers"),
        (("-w", GUPS, "-d", "model", "--plot", "x.svg"), 2, "nothing to draw"),
    ],
)
def test_explorations_that_make_no_sense_are_refused(arguments, status, said, tmp_path):
    result = run("explore", *arguments, "--store", tmp_path)
    assert result.exit_code == status, result.output
    assert said in " ".join(result.output.replace("│", " ").split())


def test_an_interrupted_exploration_says_how_to_go_on(tmp_path, monkeypatch):
    from amoeba_tools.explore import store

    put, left = store.Store.put, [2]

    def then_stop(self, *arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        put(self, *arguments)

    arguments = ("explore", "--set", "link_latency=20,40,60,80", "-w", GUPS, "-d", "model", "--store", tmp_path)
    monkeypatch.setattr(store.Store, "put", then_stop)
    result = run(*arguments)
    assert result.exit_code == 130
    assert "interrupted: 2 of 4 results are kept; the same command continues from there" in result.stderr
    monkeypatch.setattr(store.Store, "put", put)
    assert "4 results, 2 of them from earlier runs" in run(*arguments).output
