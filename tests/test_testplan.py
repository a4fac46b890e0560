"""The test plan names tests that exist, and its page is fresh."""

import re

import pytest

from tests import testplan
from tests.testplan import PAGE, PLAN, ROOT, Feature, features, page, problems, resolve

GOOD = 'id = "a.b"\nstatement = "s"\nsource = "x"\ndevices = ["model"]\ntests = []\n'


@pytest.fixture(scope="module")
def plan() -> list[Feature]:
    return features(PLAN.read_text(encoding="utf-8"))


def test_every_test_bench_and_proof_that_the_plan_names_exists(plan: list[Feature]) -> None:
    assert list(problems(plan)) == []


def test_the_page_is_fresh(plan: list[Feature]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(plan), "run make generated"


def test_the_documents_that_features_come_from_exist(plan: list[Feature]) -> None:
    """``architecture``, ``wire.md`` and kin lie in docs/; ``hw/amoeba_hw/target`` has a README with these headings;
    manual pages like ``fi_rma(3)`` stand in libfabric.md."""
    manual = (PAGE.parent / "libfabric.md").read_text(encoding="utf-8")
    for feature in plan:
        for source in feature.source.split("; "):
            place = source.split(":")[0].split()[0]
            if place.startswith("fi_"):
                assert place.rstrip(",") in manual, f"{feature.id}: {source}"
            elif (ROOT / place).is_dir():
                readme = (ROOT / place / "README.md").read_text(encoding="utf-8")
                headings = set(re.findall(r"^#+ (.*)$", readme, re.MULTILINE))
                _, _, named = source.partition(": ")
                assert not named or set(named.split(", ")) <= headings, f"{feature.id}: {source}"
            else:
                name = place if place.endswith(".md") else f"{place}.md"
                assert (PAGE.parent / name).is_file(), f"{feature.id}: {source}"


@pytest.mark.parametrize(
    "reference",
    [
        "system/nowhere",
        "system/rings::no_such_test",
        "cocotb/nic::random_",
        "cocotb/uet_frames",
        "proof/no_such_proof",
        "nowhere/rings",
    ],
)
def test_what_does_not_exist_is_not_found(reference: str) -> None:
    assert resolve(reference)[1] == []
    feature = Feature("a.b", "s", "x", ("model",), (reference,))
    (problem,) = problems([feature])
    assert problem.startswith(f"a.b: expected {reference} to be a test")


@pytest.mark.parametrize(
    ("reference", "test"),
    [
        ("system/rings::rings_wrap", "test_rings_wrap_around_and_the_phase_toggles"),
        ("cocotb/nic::after_a_reset", "after_a_reset_in_mid_traffic_it_works_as_new"),
        ("proof/queue", "queue"),
        ("tools/conformance/sabotage::what_is_broken", "test_what_is_broken_is_found"),
    ],
)
def test_a_beginning_of_a_name_is_enough_for_long_tests_too(reference: str, test: str) -> None:
    assert resolve(reference)[1] == [test]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + 'test = "x"\n', "a.b: expected fields"),
        (GOOD.replace("a.b", "ab"), "expected area.name as id"),
        (GOOD.replace("model", "modem"), "expected some of"),
        (GOOD + "[[feature]]\n" + GOOD, "twice"),
    ],
)
def test_a_plan_that_is_not_well_formed_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        features("[[feature]]\n" + text)


def test_gaps_roadmap_and_broken_guarantees_are_shown_as_such() -> None:
    plan = [
        Feature("a.gap", "s", "x", ("rtl",), ()),
        Feature("a.half", "s", "x", ("model", "rtl"), ("model/network",)),
        Feature("a.later", "s", "x", ("rtl",), (), roadmap=True),
        Feature("a.broken", "s", "x", ("rtl",), ("system/rings",), broken="because"),
    ]
    text = page(plan)
    assert "| **gap** |" in text
    assert "| model/network<br>**gap**: rtl |" in text
    assert "| **roadmap** |" in text
    assert "| **broken**: because<br>system/rings |" in text
    assert "| gap | 1 |" in text
    (problem,) = problems([Feature("a.b", "s", "x", ("rtl",), ("system/rings",), roadmap=True)])
    assert "on the roadmap, and yet there are tests" in problem


def test_check_fails_on_a_stale_page_and_writing_repairs_it(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(testplan, "PAGE", tmp_path / "testplan.md")
    assert testplan.main(["--check"]) == 1
    assert "is stale" in capsys.readouterr().err
    assert testplan.main([]) == 0
    assert testplan.main(["--check"]) == 0
