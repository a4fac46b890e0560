"""``amoeba perf --peers``: a client that works with several NICs in turn; on models, and once on RTL.

Covers ``perf/exchange.py``, ``perf/run.py`` and ``perf/sides.py``.
"""

import csv
import io
import json

import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba_tools.cli import app
from amoeba_tools.explore.workloads import read_workload
from amoeba_tools.perf import APIS, PerfPlan, answer_plans, catalog, fi_memory, fi_side, run_plans, ucp_memory
from amoeba_tools.perf.compare import comparison, name_of, plot_of
from amoeba_tools.perf.exchange import arriving
from amoeba_tools.plots import svg_of
from typer.testing import CliRunner

from tests.support.drawings import lines_of

TESTS = [(api, test) for api in APIS for test in catalog.tests_of(api)]


def measured(api, test, kinds=("model", "model"), **fields):
    plan = PerfPlan(api, test, **{"iterations": 23, "warmup": 4, "peers": 3, **fields})
    (result,) = run_plans([plan], list(kinds))
    return result


def perf(*arguments):
    return CliRunner().invoke(app, ["perf", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.mark.parametrize(("api", "test"), TESTS)
def test_each_test_works_with_each_peer_and_verifies_what_it_moves(api, test):
    result = measured(api, test)
    assert (result.verified, result.errors, result.iterations, result.peers) == (True, (), 23, 3)


@pytest.mark.parametrize(("api", "test"), [each for each in TESTS if "fadd" not in each[1]])
def test_a_window_is_shared_by_the_peers(api, test):
    assert measured(api, test, outstanding=5, peers=4, iterations=150, warmup=7).verified


@pytest.mark.parametrize(
    ("api", "test", "fields"),
    [
        ("ucp", "ucp_am_bw", {"sizes": (70_000,), "outstanding": 1, "peers": 8}),  # whose answers come at once
        ("ucp", "tag_bw", {"unexpected": True, "outstanding": 4}),
        ("ucp", "stream_bw", {"receive_mode": "recv_data", "sizes": (3000,)}),
        ("ucp", "stream_lat", {"layouts": ("iov", "iov"), "sizes": (3, 70)}),
        ("ucp", "ucp_get", {"outstanding": 143, "peers": 7, "iterations": 1100}),  # 1,001 places
        ("libfabric", "rma_bw", {"op": "read", "outstanding": 143, "peers": 7, "iterations": 1100}),
        ("libfabric", "rma_bw", {"op": "writedata"}),
        ("libfabric", "rdm_atomic", {"op": "fetch_bxor", "outstanding": 8}),
        ("libfabric", "rdm_atomic", {"op": "cswap_ne", "datatype": "int16", "outstanding": 8}),
        ("libfabric", "bw", {"peers": 31, "iterations": 64}),
        ("ucp", "tag_lat", {"peers": 31, "iterations": 64}),
    ],
)
def test_options_hold_for_every_peer(api, test, fields):
    assert measured(api, test, **fields).verified


@pytest.mark.parametrize(("api", "test"), [("ucp", "tag_bw"), ("ucp", "ucp_put_lat"), ("libfabric", "rma_bw")])
def test_one_iteration_with_each_peer_is_enough(api, test):
    for warmup in (0, 1, 7):
        assert measured(api, test, iterations=5, warmup=warmup, peers=5).verified


def test_on_rtl_there_are_cycles():
    result = measured("libfabric", "rdm_atomic", kinds=("rtl", "rtl"), iterations=4, warmup=2, peers=2)
    assert result.verified
    assert result.cycles > 100


def lost_write(patch):
    post = fi_memory._Write.post

    def posting(self, number, place):
        if number != 20:
            return post(self, number, place)
        self.free.append(place)
        return iter(())

    patch.setattr(fi_memory._Write, "post", posting)


def to_the_wrong_peer(patch):
    where = fi_memory._Write.where
    patch.setattr(fi_memory._Write, "where", lambda self, number: where(self, number + (number == 20)))


def atomic_at_the_wrong_peer(patch):
    where = fi_memory._Atomic.where
    patch.setattr(fi_memory._Atomic, "where", lambda self, number: where(self, number + (number == 20)))


def message_to_the_wrong_peer(patch):
    """Two that come next to each other are exchanged: each peer gets as many as it waits for."""
    content = fi_side.FiMessages.content
    swapped = {19: 20, 20: 19}
    patch.setattr(fi_side.FiMessages, "content", lambda self, number: content(self, swapped.get(number, number)))


def put_at_the_wrong_peer(patch):
    peer = ucp_memory._Put.peer
    patch.setattr(ucp_memory._Put, "peer", lambda self, number: peer(self, number + (number == 20)))


def add_at_the_wrong_peer(patch):
    peer = ucp_memory._Add.peer
    patch.setattr(ucp_memory._Add, "peer", lambda self, number: peer(self, number + (number == 20)))


@pytest.mark.parametrize(
    ("sabotage", "api", "test", "at"),
    [
        (lost_write, "libfabric", "rma_bw", {2}),
        (to_the_wrong_peer, "libfabric", "rma_bw", {2}),
        (atomic_at_the_wrong_peer, "libfabric", "rdm_atomic", {0, 2}),
        (message_to_the_wrong_peer, "libfabric", "bw", {1, 2}),
        (put_at_the_wrong_peer, "ucp", "ucp_put_bw", {0, 2}),
        (add_at_the_wrong_peer, "ucp", "ucp_add", {0, 2}),
    ],
)
def test_what_is_wrong_at_a_peer_is_found_there(monkeypatch, sabotage, api, test, at):
    sabotage(monkeypatch)
    result = measured(api, test)
    assert not result.verified
    assert {error.partition(": ")[0] for error in result.errors} == {f"at peer {index}" for index in at}


def test_messages_come_to_a_server_by_its_index_and_to_the_client_as_often_as_it_has_servers():
    def first(test, index):
        numbers = arriving(PerfPlan("ucp", test, peers=3), index)
        return [number for number, _ in zip(numbers, range(6), strict=False)]

    assert first("ucp_am_bw", 1) == first("ucp_am_lat", 1) == [1, 4, 7, 10, 13, 16]
    assert first("ucp_am_lat", None) == [0, 1, 2, 3, 4, 5]
    assert first("ucp_am_bw", None) == [0, 0, 0, 1, 1, 1]


def test_the_command_runs_each_number_of_peers_and_has_a_column_of_them():
    result = perf("-t", "tag_lat", "-t", "ucp_get", "--peers", 1, "--peers", 4, "-n", 10, "-w", 0, "--csv")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["test"], row["size"], row["peers"], row["iterations"]) for row in rows] == [
        (test, "8", peers, "10") for peers in ("1", "4") for test in ("tag_lat", "ucp_get")
    ]
    assert "peers" not in perf("-t", "tag_lat", "-n", 5, "--csv").stdout


def test_the_table_says_how_many_there_are():
    lines = perf("-t", "tag_lat", "--peers", 4, "-n", 10).stdout.splitlines()
    assert [line.split()[1:3] for line in lines if "Peers" in line] == [["Peers:", "4"]]
    assert "| Devices:      5 x model" in "\n".join(lines)
    assert len({len(line) for line in lines if line[0] in "+|"}) == 1


def test_json_and_the_plot_are_over_the_peers(tmp_path):
    plot = tmp_path / "rate.svg"
    result = perf(
        "--api", "libfabric", "-t", "bw", "-t", "rma_bw", "-n", 10, *("--peers", 1, "--peers", 2, "--peers", 8),
        "--json", "--plot", plot, "--quantity", "rate",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert [(each["test"], each["peers"], len(each["devices"])) for each in facts] == [
        (test, peers, peers + 1) for peers in (1, 2, 8) for test in ("bw", "rma_bw")
    ]
    assert [len(line) for line in lines_of(plot.read_text(), "line")] == [3, 3]
    assert "peers, with messages of 8 bytes" in plot.read_text()


def facts(peers, size=8, overall=10.0):
    plan = {"api": "libfabric", "test": "bw", "op": "", "sizes": [size], "peers": peers}
    return {"plan": plan, "devices": ["model"] * 2, "overall": overall, "bandwidth_overall": 1.0}


def test_with_several_sizes_each_number_of_peers_is_a_line():
    plot = svg_of(plot_of([facts(peers, size) for peers in (1, 4) for size in (8, 64)], "bandwidth"))
    assert "bytes of a message" in plot
    assert ">bw<" in plot
    assert ">bw, 4 peers<" in plot


def test_only_results_with_as_many_peers_are_compared():
    before = facts(1, overall=20.0)
    del before["plan"]["peers"]  # as it was written before there could be more
    rows = comparison([facts(1), facts(2)], [before])
    assert rows == [("bw, 8 bytes", 10.0, 20.0, 2.0), ("bw, 8 bytes, 2 peers", 10.0, None, None)]
    assert name_of(facts(3, 64)) == "bw, 64 bytes, 3 peers"


def test_designs_are_explored_with_several_peers():
    workload = read_workload("rma_bw:peers=3:iterations=6:warmup=0")
    assert workload.name == "rma_bw:iterations=6:warmup=0:peers=3"
    assert workload.plan.peers == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-t", "tag_lat", "--peers", 0), "greater than or equal to 1"),
        (("-t", "tag_lat", "--peers", 32), "less than or equal to 31"),
        (("-t", "tag_lat", "--peers", "two"), "valid integer"),
        (("-t", "tag_lat", "--peers", 5, "-n", 4), "at least as many as there are peers, 5, got 4"),
        (("127.0.0.1", "-t", "tag_lat", "--peers", 2), "--peers are NICs of this process"),
        (("--peers", 2), "expected a test to run"),
    ],
)
def test_wrong_numbers_are_usage_errors(arguments, said):
    result = perf(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("peers", [0, 32, 1.0, None, True])
def test_a_plan_refuses_wrong_numbers(peers):
    with pytest.raises(FabricError, match="peers") as caught:
        PerfPlan("ucp", "tag_lat", peers=peers)
    assert caught.value.fi_errno == Errno.FI_EINVAL


class Met:
    """Another process, which has told this."""

    def __init__(self, told=None):
        self.told = told

    def exchange(self, told):
        return [None, self.told]


def test_another_process_is_one_peer():
    plan = PerfPlan("ucp", "tag_lat", peers=2)
    with pytest.raises(FabricError, match="another process, got 2"):
        next(run_plans([plan], ["model"], rendezvous=Met()))
    with pytest.raises(FabricError, match="another process, got 2"):
        answer_plans("model", Met(plan.told()))
