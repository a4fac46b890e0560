"""README names only files and commands that exist. `docs/test_blocks.py` runs its programs."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_both_apis_have_a_program_in_the_readme():
    assert [re.findall(r"^import (amoeba[.\w]*)", program, re.M) for program in PROGRAMS] == [
        ["amoeba"],
        ["amoeba"],
        ["amoeba.ucx"],
    ]


def test_the_first_program_prints_what_stands_below_it(capsys):
    exec(compile(PROGRAMS[0], "the first program of README.md", "exec"), {})
    assert capsys.readouterr().out == re.search(r"```text\n(.*?)```", README, re.S)[1]


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / link).exists(), f"{page} links to {link}, which is not there"


def test_there_are_as_many_recorded_vectors_as_it_says():
    with np.load(ROOT / "tests" / "data" / "libfabric-1.17-sockets.npz") as recorded:
        vectors = sum(len(recorded[name]) for name in recorded.files if name.endswith("/target"))
    assert f"| {vectors:,} [recorded vectors]" in README


def test_every_command_in_the_readme_exists():
    from amoeba_tools.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"(?:^\$ |`)amoeba ([\w-]+)", README, re.M))
    assert named
    assert named <= known
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`?make ([\w-]+)", README)) <= targets
