"""The documentation's pictures say what is, stand on a page, and can be read on light and dark ones.

That they are fresh, `make lint` finds out; that the RTL is what its measured ones show, `system/test_commands.py`.
"""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import amoeba
import pytest

from tests.support.browser import chromium
from tests.support.drawings import SVG, lines_of

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


def words(name):
    """All text in a picture, and all hints."""
    root = ET.parse(ROOT / "docs" / "pictures" / f"{name}.svg").getroot()
    return [each.text or "" for tag in ("text", "title") for each in root.iter(f"{SVG}{tag}")]


def test_every_picture_is_on_a_page():
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    assert PICTURES
    for path in PICTURES:
        assert f"](pictures/{path.name})" in pages, f"{path.name} is on no page"


@pytest.mark.parametrize(
    ("picture", "headers"),
    [
        ("frame-request", ("pds_request", "ses_request", "atomic_extension")),
        ("frame-answer", ("pds_ack", "ses_response_data")),
        ("frame-nack", ("pds_nack",)),
    ],
)
def test_frames_have_every_field_of_their_headers_with_its_width(picture, headers):
    page = (ROOT / "docs" / "generated" / "wire.md").read_text()
    shown = words(picture)
    for header in headers:
        section = page.partition(f"\n## {header}\n")[2].partition("\n## ")[0]
        fields = re.findall(r"^\|[^|]*\| (\d+) \| `(\w+)` \|", section, re.M)
        assert fields
        for width, field in fields:
            assert any(text.startswith(f"{field}, {width} bits:") for text in shown), f"{header}.{field}"


def test_the_block_diagram_has_the_blocks_of_the_written_one():
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## Block diagram")[2].partition("\n```\n")[2]
    written = text.partition("\n```\n")[0]
    shown = set(words("block-diagram"))
    hardware = {
        name
        for path in (ROOT / "hw" / "amoeba_hw").rglob("*.py")
        for name in re.findall(r"^class (\w+)\(wiring\.Component\)", path.read_text(), re.M)
    }
    # what stands deeper than the picture goes
    deeper = {"DescriptorCheck", "FastLanes", "Arithmetic", "ReceiveFetch", "KeptReceives", "MatchUnit"}
    for name in set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", written)) & hardware - deeper:
        assert name in shown, name
    assert shown >= {"descriptor_reads", "line_writes", "request_payload", "memory_requests", "key_stores"}


def test_the_objects_are_those_that_a_domain_and_a_fabric_make():
    shown = words("api-objects")
    for made in ("Endpoint", "CompletionQueue", "AddressVector", "MemoryRegion", "Counter", "ScalableEndpoint"):
        assert made in shown
        assert made in amoeba.__all__
    for call in ("cq_open", "av_open", "mr_reg ...", "endpoint", "domain", "passive_ep"):
        assert call in shown


def test_the_timeline_has_every_step_and_its_page_the_same_cycles():
    steps = json.loads((ROOT / "docs" / "pictures" / "life-of-an-atomic.json").read_text())["steps"]
    shown = words("life-of-an-atomic")
    for step in steps:
        assert f"{step['cycle']} {step['stage'].lower().replace('_', ' ')}" in shown
    page = (ROOT / "docs" / "life-of-an-atomic.md").read_text()
    told = {int(cycle) for cycle in re.findall(r"^\| (\d+) \|", page, re.M)}
    assert told <= {step["cycle"] for step in steps}
    assert len(told) > 10


def test_matching_costs_what_the_benchmark_has_measured():
    table = (ROOT / "docs" / "benchmarks.md").read_text().partition("| length of the list |")[2].partition("<!--")[0]
    lines = [line for line in table.splitlines() if not line.startswith("| -")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    points = sum(bool(cell) for row in rows[1:] if len(row) == 7 for cell in (row[1], row[3], *row[5:]))
    drawn = lines_of((ROOT / "docs" / "pictures" / "match-cost.svg").read_text(), "line")
    assert sum(map(len, drawn)) == points > 10


def test_words_stand_out_from_what_is_behind_them_light_and_dark():
    contrast = """() => {
      const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((each) => {
        const part = each / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
      });
      const light = (colour) => { const [r, g, b] = parts(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const back = light(getComputedStyle(document.querySelector(".back")).fill);
      return Math.min(...[...document.querySelectorAll("text")].map((each) => {
        const own = light(getComputedStyle(each).fill);
        return (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05);
      }));
    }"""
    with chromium() as visit:
        for path in PICTURES:
            page = visit.open(path.as_uri())
            backs = set()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                backs.add(page.evaluate("getComputedStyle(document.querySelector('.back')).fill"))
                assert page.evaluate(contrast) >= 4.5, f"{path.name}, {scheme}"  # WCAG 2.2, 1.4.3
            assert len(backs) == 2, path.name
        assert visit.errors == []
