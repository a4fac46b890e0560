"""Explorations: grids, workloads, what is measured and kept, tables and fronts.

Covers ``amoeba_model/settings.py``, ``explore/grid.py``, ``explore/measure.py``, ``explore/run.py``,
``explore/store.py``, ``explore/table.py``, ``explore/workloads.py``, ``cli/explore.py`` and
``amoeba_sim/content.py``.
"""

import csv
import io
import json
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from amoeba import Errno, FabricError, open_cluster
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_tools.explore import (
    AXES,
    Exploration,
    GupsWorkload,
    PerfWorkload,
    ScriptWorkload,
    Store,
    explore,
    grid,
    measure,
    read_axis,
    read_workload,
)
from amoeba_tools.explore import run as run_module
from amoeba_tools.plots import svg_of
from amoeba_tools.random_access import run_gups
from amoeba_tools.spread import open_engine

from tests.support.drawings import SVG, lines_of

GUPS = "gups:table_size=6:updates=128"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def refused(message):
    return pytest.raises(FabricError, match=message)


# Grids


def test_a_grid_has_all_combinations_and_the_last_axis_varies_first():
    points = grid({"data_width": [128, 512], "link_latency": [10, 20]}, NicParameters(lines=64))
    assert [(p.parameters.data_width, p.link_latency) for p in points] == [(128, 10), (128, 20), (512, 10), (512, 20)]
    assert {p.parameters.lines for p in points} == {64}
    assert {p.host_latency for p in points} == {250}


def test_without_axes_there_is_one_nic():
    assert [point.parameters for point in grid({})] == [NicParameters()]


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("lines=64,256", "lines", (64, 256)),
        ("host_latency=40", "host_latency", (40,)),
        ("single_cycle_products=true,False", "single_cycle_products", (True, False)),
        ("ops=SUM+fi_bxor,all", "ops", ((Op.FI_SUM, Op.FI_BXOR), tuple(Op))),
        ("datatypes=UINT64", "datatypes", ((Datatype.FI_UINT64,),)),
    ],
)
def test_axes_are_read(text, name, values):
    assert read_axis(text) == (name, values)


def test_integers_and_floats_are_groups_of_datatypes():
    _, (integers, floats) = read_axis("datatypes=integers,floats")
    assert {Datatype.FI_INT8, Datatype.FI_UINT128} <= set(integers)
    assert {Datatype.FI_FLOAT, Datatype.FI_LONG_DOUBLE} <= set(floats)
    assert not set(integers) & set(floats)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lines", "expected AXIS=VALUE,VALUE, with an axis of data_width, .*, got 'lines'"),
        ("width=128", "got 'width=128'"),
        ("lines=many", "lines: expected a whole number, got 'many'"),
        ("lines=64,", "lines: expected a whole number, got ''"),
        ("single_cycle_products=1", "expected true or false, got '1'"),
        ("ops=SUM+ADD", "expected some of all, .*, joined by [+], got 'ADD'"),
    ],
)
def test_what_is_no_axis_is_refused(text, said):
    with refused(said) as caught:
        read_axis(text)
    assert caught.value.fi_errno == Errno.FI_EINVAL


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"width": [128]}, f"expected an axis of {', '.join(AXES)}, got 'width'"),
        ({"lines": []}, "lines: expected a sequence of values"),
        ({"lines": "64"}, "lines: expected a sequence of values, got '64'"),
        ({"ops": [[Op.FI_SUM]]}, "ops: expected numbers, or tuples of members"),
        ({"lines": [64, 64]}, "lines: expected different values, got 64, 64"),
        ({"lines": [65]}, "lines must be a power of two, got 65"),
        ({"data_width": [64]}, "data_width must be 128, 256 or 512, got 64"),
        ({"link_latency": [0]}, "link_latency: expected cycles, at least one, got 0"),
        ({"host_latency": ["x"]}, "host_latency: expected cycles, at least one, got x"),
        ({"payload": ["many"]}, "not all arguments converted|unsupported operand|payload"),
    ],
)
def test_what_no_nic_can_be_is_refused(axes, said):
    with refused(said):
        grid(axes)


# Workloads


def test_workloads_are_read_and_named_by_what_is_unusual():
    assert read_workload("gups") == GupsWorkload()
    assert read_workload(GUPS) == GupsWorkload(table_size=6, updates=128)
    assert read_workload(GUPS).name == GUPS
    test = read_workload("rma_bw:size=4096:op=read:iterations=9")
    assert isinstance(test, PerfWorkload)
    assert (test.plan.api, test.plan.sizes, test.plan.op, test.plan.iterations) == ("libfabric", (4096,), "read", 9)
    assert read_workload(test.name) == test
    assert read_workload("tag_lat:size=8+16").plan.sizes == (8, 16)
    assert read_workload("tag_lat:size=8+16").name == "tag_lat:size=8+16"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gupps", "expected gups, a file that ends in .py, or one of tag_lat, .*rdm_atomic; got 'gupps'"),
        ("gups:size=4", "expected options of ranks, table_size, updates, window, got 'size=4'"),
        ("gups:updates", "got 'updates'"),
        ("gups:updates=x", "expected a number for updates, got 'x'"),
        ("gups:ranks=1", "expected numbers of at least 1, and 2 to 32 ranks"),
        ("rma_bw:op=fly", "op: expected write, read, writedata, got 'fly'"),
    ],
)
def test_what_is_no_workload_is_refused(text, said):
    with refused(said):
        read_workload(text)


def test_a_script_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_workload(str(tmp_path / "missing.py"))


# Explorations


def test_each_row_is_what_the_workload_takes_by_itself(store):
    found = explore({"link_latency": [30, 90]}, [GUPS], device="model", store=store)
    for row, latency in zip(found.rows, (30, 90), strict=True):
        with open_cluster(["model"] * 2, latency=latency) as fabric:
            alone = run_gups(fabric, table_bits=6, updates=128)
        assert (row["link_latency"], row["operations"], row["cycles"]) == (latency, 128, alone.cycles)
        assert row["cycles_per_operation"] == alone.cycles / 128
        assert row["operations_per_second"] == pytest.approx(250e6 * 128 / alone.cycles)
    assert found.failures == ()


@pytest.mark.parametrize("name", ["tag_lat", "rma_bw:size=256", "rdm_atomic"])
def test_tests_of_both_apis_are_workloads(name, store):
    (row,) = explore({"data_width": [512]}, [f"{name}:iterations=4:warmup=0"], device="model", store=store).rows
    assert row["error"] is None
    assert row["operations"] == (8 if name == "tag_lat" else 4)
    assert row["cycles"] > 0


SCRIPT = """
import numpy as np
from amoeba import MrAccess, Op

def workload(fabric):
    owner, user = fabric.domain(0), fabric.domain(1)
    counter = np.zeros(1, np.uint64)
    with (
        owner.mr_reg(counter, MrAccess.FI_REMOTE_WRITE) as region, owner.cq_open() as its_queue,
        owner.av_open() as its_peers, owner.endpoint(cq=its_queue, av=its_peers) as server,
        user.cq_open() as queue, user.av_open() as peers, user.endpoint(cq=queue, av=peers) as client,
    ):
        peer = peers.insert(server.getname())
        for _ in range(3):
            client.atomic(np.uint64(1), peer, region.address, region.key, Op.FI_SUM)
            queue.sread()
    assert counter[0] == 3
    return 3
"""


@pytest.mark.parametrize("device", ["model", "rtl"])
def test_a_script_of_ones_own_is_a_workload(device, store, tmp_path):
    path = tmp_path / "three.py"
    path.write_text(SCRIPT)
    (row,) = explore({"host_latency": [40]}, [str(path)], device=device, store=store).rows
    assert row["error"] is None
    assert (row["workload"], row["operations"]) == ("three", 3)
    assert row["cycles_per_operation"] > 50


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "has no function workload"),
        ("def workload(fabric): pass", "is to return how many operations it was, got None"),
        ("def workload(fabric): return 0", "got 0"),
        ("def workload(fabric): return True", "got True"),
        ("def workload(fabric): raise KeyError('mine')", "KeyError: 'mine'"),
        ("def workload(fabric", "SyntaxError"),
        ("import sys; sys.exit('enough')", "SystemExit: enough"),
    ],
)
def test_what_is_wrong_with_a_script_stands_in_its_row(text, said, store):
    workload = ScriptWorkload("mine.py", text)
    found = explore({"link_latency": [50]}, [workload, GUPS], device="model", store=store)
    assert said in found.rows[0]["error"]
    assert found.rows[0]["cycles"] is None
    assert found.rows[1]["cycles"] > 0
    assert found.failures == (found.rows[0],)


@pytest.mark.parametrize("device", ["rtl"])
def test_cycles_are_the_hardwares(device, store):
    """Each update waits for its descriptor, which the NIC reads from host memory; two ranks do so side by side."""
    workload = "gups:table_size=6:updates=64:window=1"
    found = explore({"host_latency": [20, 500]}, [workload], device=device, store=store)
    quick, slow = (row["cycles_per_operation"] for row in found.rows)
    assert slow - quick > 480 / 2, found.rows


def test_a_nic_that_lacks_what_a_workload_needs_is_a_row_with_an_error(store):
    axes = {"ops": [(Op.FI_SUM,), tuple(Op)]}
    lacking, whole = explore(axes, [GUPS], device="model", store=store).rows
    assert (lacking["ops"], whole["ops"]) == ("SUM", "all")
    assert "FI_EOPNOTSUPP" in lacking["error"]
    assert whole["error"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workloads": []}, "expected a workload, a block to count, or both; got neither"),
        ({"device": "fpga"}, "device: expected one of model, r[t]l, got 'fpga'"),
        ({"area": "Nic"}, "area: expected one of FastLanes, .*, Core, got 'Nic'"),
        ({"family": "asic"}, "family: expected one of ecp5, ultrascale, got 'asic'"),
        ({"workloads": [GUPS, GUPS]}, f"expected different workloads, got {GUPS} 2 times"),
    ],
)
def test_senseless_explorations_are_refused_before_anything_is_measured(options, said, store):
    with refused(said):
        explore({}, **{"workloads": [GUPS], "device": "model", "store": store, **options})
    assert not store.folder.exists()


# What is kept


def test_what_was_measured_is_not_measured_again(store, monkeypatch):
    told = []
    first = explore({"lines": [64]}, [GUPS], device="model", store=store)
    monkeypatch.setattr(GupsWorkload, "run", lambda *_: pytest.fail("it was measured before"))
    assert explore({"lines": [64]}, [GUPS], device="model", store=store, progress=told.append) == first
    assert [(now.done, now.total, now.known) for now in told] == [(1, 1, 1)]


def test_other_parameters_workloads_and_programs_are_other_results(store, monkeypatch):
    measured = []
    run = GupsWorkload.run
    monkeypatch.setattr(GupsWorkload, "run", lambda *all_: measured.append(all_) or run(*all_))
    for lines in ([64], [64, 128], [128]):
        explore({"lines": lines}, [GUPS], device="model", store=store)
    assert len(measured) == 2
    explore({"lines": [64]}, [f"{GUPS}:window=8"], device="model", store=store)
    explore({"lines": [64], "link_latency": [77]}, [GUPS], device="model", store=store)
    assert len(measured) == 4
    for module in (measure, run_module):
        monkeypatch.setattr(module, "own_content", lambda device: "changed")
    explore({"lines": [64]}, [GUPS], device="model", store=store)
    assert len(measured) == 5


def test_an_exploration_that_was_interrupted_goes_on(store, monkeypatch):
    def stop(now):
        if now.done == 2:
            raise KeyboardInterrupt

    axes = {"link_latency": [20, 30, 40, 50]}
    with pytest.raises(KeyboardInterrupt):
        explore(axes, [GUPS], device="model", store=store, progress=stop)
    told = []
    found = explore(axes, [GUPS], device="model", store=store, progress=told.append)
    assert told[0].known == 2
    assert len(told) == 3
    assert [row["error"] for row in found.rows] == [None] * 4


def test_what_failed_is_tried_again(store):
    axes = {"ops": [(Op.FI_SUM,)]}
    told = []
    for _ in range(2):
        explore(axes, [GUPS], device="model", store=store, progress=told.append)
    assert [now.known for now in told] == [0, 0, 0, 0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"result": 3}', "\0"])
def test_a_file_that_was_damaged_counts_as_none(text, store):
    store.put("abcd", "a test", {"cycles": 1})
    assert store.get("abcd") == {"cycles": 1}
    (kept,) = store.folder.rglob("*.json")
    assert json.loads(kept.read_text())["of"] == "a test"
    kept.write_text(text)
    assert store.get("abcd") is None


def test_a_worker_with_other_programs_is_found_out():
    task = measure.CyclesTask("model", grid({})[0], GupsWorkload(), "of another day")
    with refused("differ from those where it was asked for"):
        measure.measure(task)


def test_several_processes_find_the_same(store, tmp_path):
    axes, workloads = {"link_latency": [20, 60], "lines": [32, 64]}, [GUPS, "rdm_pingpong:iterations=3"]
    alone = explore(axes, workloads, device="model", store=store)
    with open_engine(2) as engine:
        together = explore(axes, workloads, device="model", store=Store(tmp_path / "other"), engine=engine)
    assert together == alone


# Tables


def rows(*numbers, workload="gups"):
    return [{"lines": x, "workload": workload, "cycles_per_operation": y, "error": None} for x, y in numbers]


def test_the_front_has_what_nothing_else_beats():
    found = Exploration(tuple(rows((16, 9), (32, 5), (64, 5), (64, 6), (128, 4), (128, 4), (8, None))), ("lines",))
    front = [(row["lines"], row["cycles_per_operation"]) for row in found.front("lines", "cycles_per_operation")]
    assert front == [(16, 9), (32, 5), (128, 4), (128, 4)]
    assert [row["lines"] for row in found.front("lines")] == [8]


def test_workloads_have_fronts_of_their_own():
    found = Exploration((*rows((16, 9)), *rows((8, 1), (16, 2), workload="rma_bw")), ("lines",))
    assert [row["workload"] for row in found.front("lines", "cycles_per_operation")] == ["gups", "rma_bw"]


@pytest.mark.parametrize("column", ["luts", "workload", "error"])
def test_a_front_of_what_has_no_numbers_is_refused(column):
    with refused(f"expected a column with numbers, of lines, cycles_per_operation; got '{column}'"):
        Exploration(tuple(rows((16, 9))), ("lines",)).front("lines", column)


def test_the_table_is_comma_separated_values_with_names(store, tmp_path):
    found = explore({"ops": [(Op.FI_SUM,), tuple(Op)]}, [GUPS], device="model", store=store)
    found.write_csv(tmp_path / "found.csv")
    text = (tmp_path / "found.csv").read_text()
    assert text == found.to_csv()
    read = list(csv.DictReader(io.StringIO(text)))
    assert list(read[0]) == list(found.columns)
    assert (read[0]["cycles"], read[1]["cycles"]) == ("", str(found.rows[1]["cycles"]))


def test_parquet_has_the_same_table(store, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra amoeba-nic[parquet]")
    found = explore({"ops": [(Op.FI_SUM,), tuple(Op)], "lines": [64]}, [GUPS], device="model", store=store)
    found.write_parquet(tmp_path / "found.parquet")
    assert parquet.read_table(tmp_path / "found.parquet").to_pylist() == list(found.rows)


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused(r"in a checkout of Amoeba, run pip install '\.\[parquet\]'") as caught:
        Exploration(tuple(rows((16, 9))), ("lines",)).write_parquet(tmp_path / "found.parquet")
    assert caught.value.fi_errno == Errno.FI_ENOSYS


def test_the_plot_shows_all_nics_and_joins_the_front():
    found = Exploration(tuple(rows((16, 9), (32, 5), (64, 6), (128, 4))), ("lines",))
    text = svg_of(found.plot("lines", "cycles_per_operation"))
    root = ElementTree.fromstring(text)
    assert [title.text for title in root.iter(f"{SVG}title")] == ["lines 16", "lines 32", "lines 64", "lines 128"]
    (corners,) = lines_of(text, "front")
    assert len(corners) == 5, "three points, and a corner between any two"
    across, down = zip(*corners, strict=True)
    assert list(across) == sorted(across)
    assert list(down) == sorted(down), "fewer cycles lie lower, and y grows downwards"
