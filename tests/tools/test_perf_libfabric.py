"""``amoeba perf --api libfabric``: fabtests' names, all that moves verified, one process or two.

Covers ``perf/catalog.py``, ``perf/fi_memory.py``, ``perf/fi_side.py`` and ``perf/fi_tests.py``.
"""

import json

import pytest
from amoeba.core.errno import Errno
from amoeba.core.errors import FabricError
from amoeba_tools.cli import app
from amoeba_tools.perf import PerfPlan, catalog, fi_memory, fi_side, run_plans
from typer.testing import CliRunner

from tests.support.commands import usage_error

TESTS = ["rdm_pingpong", "rdm_tagged_pingpong", "rma_pingpong", "bw", "rdm_tagged_bw", "rma_bw", "rdm_atomic"]
MOVING = TESTS[:-1]


def measured(test, kinds=("model", "model"), **fields):
    plan = PerfPlan("libfabric", test, **{"iterations": 20, "warmup": 3, **fields})
    (result,) = run_plans([plan], list(kinds))
    return result


def perf(*arguments):
    return CliRunner().invoke(app, ["perf", "--api", "libfabric", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_tests_have_the_names_of_fabtests_programs():
    assert list(catalog.tests_of("libfabric")) == TESTS


@pytest.mark.parametrize("test", TESTS)
def test_each_test_runs_and_verifies_what_it_moves(test):
    result = measured(test)
    assert (result.verified, result.errors, result.iterations, result.size) == (True, (), 20, 8)
    assert result.rate_overall == pytest.approx(1e6 / result.overall)


@pytest.mark.parametrize("test", MOVING)
@pytest.mark.parametrize("size", [1, 64, 65, 5000, 70_000])
def test_messages_of_every_length_arrive(test, size):
    assert measured(test, sizes=(size,), iterations=6, warmup=1).verified


@pytest.mark.parametrize("window", [1, 3, 500])
@pytest.mark.parametrize("test", ["bw", "rma_bw", "rdm_atomic"])
def test_any_window_is_kept(test, window):
    assert measured(test, outstanding=window, iterations=600, warmup=0).verified


@pytest.mark.parametrize("op", ["write", "read", "writedata"])
def test_rma_reads_and_writes(op):
    assert measured("rma_bw", op=op, sizes=(100,)).verified


@pytest.mark.parametrize("op", catalog.tests_of("libfabric")["rdm_atomic"].operations)
def test_every_atomic_leaves_what_the_model_says(op):
    assert measured("rdm_atomic", op=op, datatype="int32", sizes=(64,), outstanding=4).verified


@pytest.mark.parametrize("datatype", ["int8", "uint64", "float", "double_complex", "uint128"])
def test_atomics_have_every_datatype(datatype):
    assert measured("rdm_atomic", op="fetch_sum", datatype=datatype, sizes=(64,)).verified


def test_on_rtl_there_are_cycles():
    result = measured("rdm_atomic", kinds=("rtl", "rtl"), iterations=5, warmup=1)
    assert result.verified
    assert result.cycles > 100
    assert result.modelled > 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"test": "rma_bw", "op": "sum"}, "op: expected write, read, writedata"),
        ({"test": "bw", "op": "write"}, "op: expected no op for bw"),
        ({"test": "rdm_atomic", "datatype": "quark"}, "datatype: expected one of int8"),
        ({"test": "rdm_atomic", "sizes": (12,)}, "a multiple of 8 bytes"),
        ({"test": "tag_lat"}, "test: expected one of rdm_pingpong"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, said):
    with pytest.raises(FabricError, match=said) as caught:
        PerfPlan("libfabric", **fields)
    assert caught.value.fi_errno == Errno.FI_EINVAL


def test_what_the_nic_cannot_do_is_an_error_and_no_result():
    with pytest.raises(FabricError):
        measured("rdm_atomic", op="band", datatype="double")


def wrong_content(patch):
    content = fi_side.FiMessages.content
    patch.setattr(fi_side.FiMessages, "content", lambda self, number: content(self, number + (number == 10)))


def no_target(patch):
    patch.setattr(fi_memory._Read, "prepare_target", lambda self: None)


def another_state(patch):
    after = fi_memory._Element.after
    patch.setattr(fi_memory._Element, "after", lambda self, count: after(self, count + 1))


@pytest.mark.parametrize(
    ("sabotage", "fields"),
    [
        (wrong_content, {"test": "bw"}),
        (wrong_content, {"test": "rdm_tagged_pingpong"}),
        (no_target, {"test": "rma_bw", "op": "read"}),
        (another_state, {"test": "rdm_atomic"}),
        (another_state, {"test": "rdm_atomic", "op": "fetch_sum"}),
    ],
)
def test_what_is_wrong_is_found(monkeypatch, sabotage, fields):
    sabotage(monkeypatch)
    result = measured(**fields)
    assert result.errors
    assert not result.verified


def test_the_command_prints_what_was_measured():
    result = perf("-t", "rma_bw", "-o", "read", "-s", 64, "-s", 128, "-n", 10, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert [(each["test"], each["size"], each["verified"]) for each in facts] == [
        ("rma_bw", 64, True), ("rma_bw", 128, True),
    ]  # fmt: skip
    assert {each["plan"]["op"] for each in facts} == {"read"}
    shown = perf("-t", "rdm_atomic", "-o", "fetch_bxor", "-z", "int16", "-s", 2, "-n", 10).output
    assert "fetch_bxor on int16" in shown
    assert "--test: tag_lat is a test of --api ucp" in usage_error(perf("-t", "tag_lat"))
