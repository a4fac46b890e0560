"""The documentation's site: built without a warning, every link leads somewhere, every public name is there."""

import importlib
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.browser import chromium

ROOT = Path(__file__).parents[2]
FACES = (
    *("amoeba", "amoeba.fi", "amoeba.aio", "amoeba.ucp", "amoeba.ucx"),
    *("amoeba_tools.conformance", "amoeba_tools.explore"),
)
pytestmark = pytest.mark.long


class Page(HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if values.get("id"):
            self.anchors.add(values["id"])
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(values[name])


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    output = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "scripts" / "site.py", "--output", output]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr
    return output / "html"


@pytest.fixture(scope="session")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_link_leads_somewhere_within_the_site(site, pages):
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert parts.scheme in ("http", "https", "mailto", "data"), f"{path.name}: {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            found = target.is_file() and (
                not parts.fragment or target.suffix != ".html" or unquote(parts.fragment) in pages[target].anchors
            )
            if not found:
                lost.append(f"{path.relative_to(site)}: {link}")
    assert not lost


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        text = path.read_text()
        for link in page.links:
            if urlsplit(link).netloc:
                assert f'src="{link}"' not in text, f"{path.relative_to(site)} loads {link}"
                assert f'<link rel="stylesheet" type="text/css" href="{link}"' not in text


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_is_on_its_page(pages, site, face):
    anchors = pages[site / "api" / f"{face}.html"].anchors
    missing = [name for name in importlib.import_module(face).__all__ if f"{face}.{name}" not in anchors]
    assert not missing


def test_every_module_of_the_model_that_offers_anything_has_a_page(site):
    offering = []
    for path in sorted((ROOT / "model" / "amoeba_model").rglob("*.py")):
        parts = path.relative_to(ROOT / "model").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if "__all__" in path.read_text() and name != "amoeba_model":
            offering.append(name)
    assert len(offering) > 50
    assert [name for name in offering if not (site / "api" / f"{name}.html").exists()] == []


def test_pages_render_without_an_error_light_and_dark(site, pages):
    colours = set()
    for dark in (False, True):
        with chromium(dark=dark) as visit:
            for path in sorted(pages) if not dark else [site / "index.html", site / "api" / "amoeba.html"]:
                page = visit.open(path.as_uri())
                if path.name != "search.html":  # which is empty until something is asked
                    assert page.locator("article").inner_text().strip(), path.name
                assert visit.errors == [], path.relative_to(site)
            colours.add(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_the_search_finds_fi_atomic(site):
    with chromium() as visit:
        page = visit.open((site / "search.html").as_uri() + "?q=fi_atomic")
        page.wait_for_selector("#search-results li")
        found = page.locator("#search-results li a").all_inner_texts()
        assert any("fi_atomic" in text for text in found), found


def test_a_filter_leaves_the_rows_with_all_its_words(site):
    with chromium() as visit:
        page = visit.open((site / "testplan.html").as_uri())
        rows = "article tbody tr:visible"
        everything = page.locator(rows).count()
        page.locator(".table-filter").fill("timeout rtl")
        left = [text.lower() for text in page.locator(rows).all_inner_texts()]
        assert 0 < len(left) < everything
        assert all("timeout" in text and "rtl" in text for text in left)
        page = visit.open(page.url)  # as somebody does who was sent the link
        assert page.locator(rows).count() == len(left)
        page.locator(".table-filter").fill("")
        assert page.locator(rows).count() == everything
        assert visit.errors == []
