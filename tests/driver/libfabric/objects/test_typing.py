"""``mypy --strict`` checks a program that uses the driver."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAM = """\
from amoeba import CompletionQueue, CqDataEntry, CqFormat, Domain, fi


def use(domain: Domain, chosen: CqFormat) -> None:
    reveal_type(domain.cq_open())
    reveal_type(domain.cq_open(CqFormat.FI_CQ_FORMAT_CONTEXT).read())
    reveal_type(domain.cq_open(CqFormat.FI_CQ_FORMAT_MSG).sread(timeout=1))
    queue = domain.cq_open(CqFormat.FI_CQ_FORMAT_DATA)
    reveal_type(queue.sread()[0].data)
    reveal_type(queue.readfrom(2))
    reveal_type(domain.cq_open(CqFormat.FI_CQ_FORMAT_TAGGED, size=5).sreadfrom())
    reveal_type(domain.cq_open(chosen))
    reveal_type(fi.fi_cq_read(queue, 1))
    domain.cq_open().read()[0].data


def data_of(queue: CompletionQueue[CqDataEntry]) -> int:
    return queue.read()[0].data
"""
REVEALED = [
    "CompletionQueue[CqEntry]",
    "list[CqEntry]",
    "list[CqMsgEntry]",
    "int",
    "list[tuple[CqDataEntry, int]]",
    "list[tuple[CqTaggedEntry, int]]",
    "CompletionQueue[Any]",
    "list[CqDataEntry]",
]


def test_the_format_of_a_queue_says_what_its_entries_have(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--strict", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    revealed = re.findall(r'Revealed type is "(.*)"', checked.stdout)
    # without modules, and named tuples by their names
    short = [re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", found) for found in revealed]
    plain = [re.sub(r"tuple\[[\w, ]*, fallback=(\w+)\]", r"\1", found) for found in short]
    assert plain == REVEALED, checked.stdout + checked.stderr
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1
    assert '"CqEntry" has no attribute "data"' in errors[0]
