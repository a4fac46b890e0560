"""Sizes of blocks at any parameters: counted by Yosys once for each content."""

import dataclasses
import subprocess
import sys

import pytest
from amoeba_hw.blocks import BLOCKS
from amoeba_hw.synthesis import ToolStoppedError, harness_rtlil
from amoeba_model.opcodes import Datatype, Op
from amoeba_model.parameters import NicParameters
from amoeba_sim import area
from amoeba_sim.area import Area, count_area
from amoeba_tools.explore import Store, explore
from amoeba_tools.explore.run import AREAS, FAMILIES

SMALL = NicParameters(
    data_width=128, contexts=1, keys=16, peers=2, target_pdcs=2, window=16, payload=256, lines=16, receives=2,
    unexpected=2, event_counters=2, datatypes=(Datatype.FI_UINT64,), ops=(Op.FI_BOR,), single_cycle_products=False,
)  # fmt: skip


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(area, "cache_directory", lambda: tmp_path / "verilated")
    return tmp_path / "area"


@pytest.fixture
def counted(cache, monkeypatch):
    """The input of Yosys; it answers at once, with the input's length."""
    given = []

    def count(text):
        given.append(text)
        return Area(len(text), 2, 3, 4)

    monkeypatch.setattr(area, "FAMILIES", {"ecp5": (True, count), "ultrascale": (False, count)})
    return given


def test_the_driver_knows_all_blocks_and_families():
    assert tuple(BLOCKS) == AREAS == area.BLOCK_NAMES
    assert tuple(area.FAMILIES) == FAMILIES


def test_a_grid_has_the_sizes_that_yosys_counts(cache, tmp_path):
    more = (Op.FI_BOR, Op.FI_SUM)
    axes = {"ops": [SMALL.ops, more], "lines": [16, 32]}
    found = explore(axes, area="FastLanes", base=SMALL, store=Store(tmp_path / "store"))
    assert [row["error"] for row in found.rows] == [None] * 4
    assert [row["block"] for row in found.rows] == ["FastLanes"] * 4
    sizes = [(row["luts"], row["registers"], row["dsps"], row["block_rams"]) for row in found.rows]
    assert sizes[0] == sizes[1], "lanes do not depend on the number of lines ..."
    assert sizes[2] == sizes[3]
    assert len(list(cache.iterdir())) == 2, "... so that Yosys was asked twice, not four times"
    # a bit of OR takes a LUT at least, one of a sum that is in a carry chain does, too
    assert sizes[2][0] >= sizes[0][0] + 2 * 64 > 128
    assert sizes[0][2:] == (0, 0)
    assert found.front("luts") == list(found.rows[:2])


def test_what_was_counted_is_remembered_by_content(counted, cache):
    first = count_area("FastLanes", "ecp5", SMALL)
    assert count_area("FastLanes", "ecp5", dataclasses.replace(SMALL, lines=64)) == first
    assert len(counted) == 1
    count_area("FastLanes", "ultrascale", SMALL)
    count_area("FastLanes", "ecp5", dataclasses.replace(SMALL, ops=(Op.FI_BAND,)))
    assert len(counted) == 3
    for kept in cache.iterdir():
        kept.write_text('{"luts": 1}')
    assert count_area("FastLanes", "ecp5", SMALL) == first
    assert len(counted) == 4


def test_the_same_parameters_are_the_same_text_in_every_process():
    code = (
        "import hashlib; from amoeba_hw.blocks import BLOCKS; from amoeba_hw.synthesis import harness_rtlil;"
        "from amoeba_model.opcodes import *; from amoeba_model.parameters import NicParameters;"
        "p = NicParameters(data_width=128, lines=16, datatypes=tuple(Datatype)[:4], ops=(Op.FI_BOR, Op.FI_SUM));"
        "print(hashlib.sha256(harness_rtlil(BLOCKS['FastLanes'][1](p)).encode()).hexdigest())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"}, capture_output=True,
            text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1


def test_global_reset_is_the_ecp5s_alone(counted):
    count_area("FastLanes", "ecp5", SMALL)
    count_area("FastLanes", "ultrascale", SMALL)
    ecp5, ultrascale = counted
    assert "\\GSR" in ecp5
    assert "\\GSR" not in ultrascale
    assert ultrascale == harness_rtlil(BLOCKS["FastLanes"][1](SMALL))


@pytest.mark.parametrize(
    ("block", "family", "said"),
    [("Nic", "ecp5", "a block of FastLanes, .*, Core, got 'Nic'"), ("Core", "asic", "a family of ecp5, ultrascale")],
)
def test_what_there_is_not_is_refused(block, family, said):
    with pytest.raises(ValueError, match=said):
        count_area(block, family, SMALL)


def test_a_block_that_yosys_cannot_do_is_a_row_with_an_error(counted, monkeypatch, tmp_path):
    def fail(text):
        if len(text) == longest:
            raise ToolStoppedError("yosys failed", "ran out of memory")
        return Area(len(text), 2, 3, 4)

    axes = {"ops": [(Op.FI_BOR,), (Op.FI_BOR, Op.FI_SUM)]}
    explore(axes, area="FastLanes", base=SMALL, store=Store(tmp_path / "first"))
    longest = max(map(len, counted))
    monkeypatch.setattr(area, "FAMILIES", {"ecp5": (True, fail)})
    for kept in (tmp_path / "area").iterdir():
        kept.unlink()
    found = explore(axes, area="FastLanes", base=SMALL, store=Store(tmp_path / "second"))
    good, bad = found.rows
    assert (good["error"], good["dsps"]) == (None, 3)
    assert "ran out of memory" in bad["error"]
    assert bad["luts"] is None
