"""Extras as messages and pages name them."""

import re
import tomllib
from pathlib import Path

import pytest
from amoeba_model.extras import installation

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
FOLDERS = ("bench", "docs", "driver", "examples", "hw", "model", "scripts", "sim", "tests", "tools")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml", ROOT / "Makefile"]
TEXTS = [*PAGES, *(path for folder in FOLDERS for end in ("*.py", "*.md") for path in (ROOT / folder).rglob(end))]
NAMED = re.compile(r"""installation\(["'](\w+)["']\)|pip install ['"]?\.\[([\w,]+)\]""")


def test_an_extra_is_installed_from_a_checkout():
    assert installation("sim") == "in a checkout of Amoeba, run pip install '.[sim]'"


def test_every_extra_that_is_named_exists():
    named = {
        extra
        for path in TEXTS
        for found in NAMED.finditer(path.read_text(encoding="utf-8"))
        for extra in (found[1] or found[2]).split(",")
    }
    assert named <= set(EXTRAS)
    assert {"sim", "c", "hw", "cluster"} <= named


@pytest.mark.parametrize("name", ["amoeba-nic", "amoeba_nic", "amoeba"])
def test_nobody_is_told_to_install_amoeba_from_an_index(name):
    order = re.compile(rf"""pip install (?:-\S+ )*['"]?{name}\b""")
    assert not [path for path in TEXTS if path != Path(__file__) and order.search(path.read_text(encoding="utf-8"))]
