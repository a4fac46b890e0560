"""The documentation's site: built without a warning, every link leads somewhere, every public name is there.

No page is wider than a phone, has no title, or shows an internal name.
"""

import base64
import importlib
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.browser import chromium

ROOT = Path(__file__).parents[2]
FACES = (
    *("amoeba", "amoeba.fi", "amoeba.aio", "amoeba.ucp", "amoeba.ucx"),
    *("amoeba_tools.conformance", "amoeba_tools.explore"),
)
pytestmark = [pytest.mark.long, pytest.mark.ci, pytest.mark.timeout(1500)]  # of which the first test builds the site


class Page(HTMLParser):
    """The links of a page, and its anchors."""

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


class Look(NamedTuple):
    """A page in a browser."""

    wide: bool
    """Whether it is wider than a phone."""
    text: str
    errors: list[str]


@pytest.fixture(scope="session")
def looks(pages):
    """Each page, opened on a phone and then shown in a window of usual size."""
    found = {}
    with chromium() as visit:
        for path in sorted(pages):
            before = len(visit.errors)
            visit.page.set_viewport_size({"width": 390, "height": 844})
            page = visit.open(path.as_uri())
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            page.set_viewport_size({"width": 1280, "height": 900})
            content = "body" if path.name == "trace.html" else "article"  # the embedded trace is a page of its own
            found[path] = Look(wide, page.locator(content).inner_text().strip(), visit.errors[before:])
    return found


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
    """Or on a page that its module's page lists: that of a class, of a group of functions."""
    own = site / "api" / f"{face}.html"
    listed = {own, *((own.parent / unquote(urlsplit(link).path)).resolve() for link in pages[own].links)}
    anchors = {anchor for path in listed & set(pages) for anchor in pages[path].anchors}
    missing = [name for name in importlib.import_module(face).__all__ if f"{face}.{name}" not in anchors]
    assert not missing


def classes_of(face):
    """The classes of a public module that are neither errors nor numbers, nor of an earlier module; their names."""
    earlier = {getattr(importlib.import_module(each), name) for each in FACES[: FACES.index(face)]
               for name in importlib.import_module(each).__all__
               if isinstance(getattr(importlib.import_module(each), name), type)}  # fmt: skip
    for name in importlib.import_module(face).__all__:
        value = getattr(importlib.import_module(face), name)
        is_class = isinstance(value, type) and value not in earlier and value.__name__ == name
        if is_class and not issubclass(value, BaseException) and not hasattr(value, "__members__"):
            yield name


@pytest.mark.parametrize("face", FACES)
def test_every_class_has_a_page_of_its_own(pages, site, face):
    names = list(classes_of(face))
    assert names
    missing = [name for name in names if f"{face}.{name}" not in getattr(
        pages.get(site / "api" / f"{face}.{name}.html"), "anchors", ())]  # fmt: skip
    assert not missing


def test_an_example_is_on_the_page_of_its_class_with_its_output(site):
    page = text_of((site / "api" / "amoeba.Window.html").read_text())
    assert "amoeba.run_team(program" in page
    assert "[10, 10, 10, 10]" in page
    assert "# Prints:" not in page


def test_every_page_has_a_title_of_its_own(site, pages):
    titles = {path: re.search(r"<title>(.*?)</title>", path.read_text(), re.S)[1].strip() for path in pages}
    assert [path.name for path, title in titles.items() if not title.partition("- Amoeba")[0].strip()] == []
    assert not [path.name for path, title in titles.items() if "no title" in title or title.startswith("&lt;")]
    api = [title for path, title in titles.items() if path.parent.name == "api"]
    assert len(api) == len(set(api)) > 100


def test_no_page_shows_an_internal_name(site):
    """Types of signatures have public names, or those of Python's and NumPy's documentation."""
    inner = r"\bamoeba\.(?:libfabric|openucx|core|transport|nic|devices)\.[\w.]+"
    leak = re.compile(rf"~[a-z_]+\.\w+|<locals>|{inner}|\._[A-Za-z]\w+| at 0x[0-9a-f]{{6}}")
    found = {}
    for path in (site / "api").glob("*.html"):
        signatures = re.findall(r'<dt class="sig[^>]*>(.*?)</dt>', path.read_text(), re.S)
        shown = [text_of(each) for each in signatures]
        if leaks := {match for text in shown for match in leak.findall(text)}:
            found[path.name] = sorted(leaks)
    assert found == {}


def test_no_text_has_a_mark_of_sphinx(pages):
    """A name such as ``~collections.abc.Sequence`` is a reference that was not resolved."""
    articles = {path: re.findall(r"<article.*?</article>", path.read_text(), re.S) for path in pages}
    found = {path.name: re.findall(r"~[a-z_]+\.[A-Za-z_]\w*|<locals>|:[a-z]+:`", text_of("".join(each)))
             for path, each in articles.items()}  # fmt: skip
    assert {name: marks for name, marks in found.items() if marks} == {}


def test_parameters_are_names(pages):
    """And not the paragraphs below them."""
    name = re.compile(r"[\w*.]+(, [\w*.]+)*")
    found = {path.name: [text for each in re.findall(r"<dt><strong>(.*?)</strong>", path.read_text(), re.S)
                         if not name.fullmatch(text := text_of(each))] for path in pages}  # fmt: skip
    assert {page: texts for page, texts in found.items() if texts} == {}


def text_of(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_no_page_is_wider_than_a_phone(site, looks):
    assert [str(path.relative_to(site)) for path, look in looks.items() if look.wide] == []


def test_pictures_follow_the_theme_that_the_reader_chooses(site):
    """Although the reader's system is light: a pixel of the picture's background is as dark as the page."""
    with chromium() as visit:
        page = visit.open((site / "index.html").as_uri())
        picture = page.locator("article img").first
        lightness = {}
        for theme in ("light", "dark"):
            page.evaluate("theme => { document.body.dataset.theme = theme; }", theme)
            shot = picture.screenshot(type="png")
            lightness[theme] = page.evaluate(
                """async (data) => {
                  const image = await createImageBitmap(await (await fetch(data)).blob());
                  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
                  canvas.drawImage(image, 0, 0);
                  return canvas.getImageData(2, 2, 1, 1).data[0];
                }""",
                "data:image/png;base64," + base64.b64encode(shot).decode(),
            )
        assert lightness["light"] > 200
        assert lightness["dark"] < 60


def front_page_and_trace(visit, site):
    """Open the front page; return the page and the frame of its embedded trace, once that has been drawn."""
    page = visit.open((site / "index.html").as_uri())
    page.locator("iframe.trace").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe.trace")
    frame.locator("body[data-ready]").wait_for()
    return page, frame


def test_the_embedded_trace_follows_the_theme_button(site):
    """Although the reader's system is light: the button chooses dark, then light, then the system's again."""
    with chromium() as visit:
        page, frame = front_page_and_trace(visit, site)
        looks = []
        for theme in ("dark", "light", "auto"):
            page.locator(".theme-toggle-content .theme-toggle").click()
            assert page.evaluate("document.body.dataset.theme") == theme
            frame.locator(f":root[data-theme={theme}]").wait_for(state="attached")
            looks.append(frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor"))
        assert looks[0] != looks[1] == looks[2]
        assert visit.errors == []


BROKEN = """places => [...document.querySelectorAll(places)].filter((element) => {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), range = document.createRange();
  const line = (place) => {
    range.setStart(texts.currentNode, place);
    range.setEnd(texts.currentNode, place + 1);
    return Math.round(range.getBoundingClientRect().bottom);
  };
  while (texts.nextNode()) {
    for (const { index } of texts.currentNode.data.matchAll(/\\w(?=\\w)/g)) {
      if (line(index) !== line(index + 1)) return true;
    }
  }
  return false;
}).map((element) => element.textContent)"""
"""Finds elements in which a word goes on in another line. The pieces of a name that may break are texts."""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "name",
    ["api/amoeba", "api/amoeba.aio", "api/amoeba.Endpoint", "api/amoeba.SharedTransmitContext", "ucp", "libfabric"],
)
def test_names_break_between_their_words(site, name, width):
    with chromium(width=width, height=844) as visit:
        page = visit.open((site / f"{name}.html").as_uri())
        assert page.evaluate(BROKEN, "h1, h2, td code, .sidebar-tree a") == []


@pytest.mark.parametrize(
    ("page", "marked"),
    [
        ("wire", [("current current-page", "#")]),
        ("api/amoeba.ucx", [("current has-children", "index.html"), ("current current-page", "#")]),
        ("api/amoeba.Endpoint", [("current has-children", "index.html"), ("current current-page", "amoeba.html")]),
    ],
)
def test_the_sidebar_marks_the_page_or_the_module_that_has_it(site, page, marked):
    text = (site / f"{page}.html").read_text()
    entry = re.compile(r'<li class="toctree-l\d (current[^"]*)"><a class="[^"]*" href="([^"]*)"')
    assert entry.findall(text) == marked


def inherited(face, name):
    """Members that a class has from internal classes, and from no other public class."""
    value = getattr(importlib.import_module(face), name)
    public = {getattr(importlib.import_module(each), other) for each in FACES
              for other in importlib.import_module(each).__all__
              if isinstance(getattr(importlib.import_module(each), other), type)}  # fmt: skip
    bases = [base for base in value.__mro__[1:] if base.__module__.startswith("amoeba")]
    elsewhere = {member for base in bases if base in public for member in dir(base)}
    return {member for base in bases for member, each in vars(base).items()
            if not member.startswith("_") and callable(each) and each.__doc__} - elsewhere  # fmt: skip


@pytest.mark.parametrize("face", ["amoeba", "amoeba.aio", "amoeba.ucx"])
def test_the_page_of_a_class_has_the_members_of_internal_classes(pages, site, face):
    found = {f"{face}.{name}.{member}" for name in classes_of(face) for member in inherited(face, name)}
    assert found
    anchors = {anchor for path, page in pages.items() if path.parent.name == "api" for anchor in page.anchors}
    assert found - anchors == set()


@pytest.mark.parametrize(
    ("page", "home"), [("amoeba.ucx.Endpoint", "amoeba.ucx"), ("amoeba_model.nic.peers", "amoeba_model.nic.tables")]
)
def test_a_name_of_several_classes_leads_to_that_of_its_own_module(pages, site, page, home):
    ends = {urlsplit(link).fragment for link in pages[site / "api" / f"{page}.html"].links}
    assert {end for end in ends if end.rpartition(".")[2] == "Request"} == {f"{home}.Request"}


def test_the_front_page_has_the_cards_of_the_readme_and_the_first_program(site):
    with chromium() as visit:
        page = visit.open((site / "index.html").as_uri())
        readme = (ROOT / "README.md").read_text()
        header = readme.partition("## Start here\n\n|")[2].partition("\n")[0]
        titles = [cell.strip() for cell in header.strip("|").split("|")]
        assert page.locator(".sd-card-title").all_inner_texts() == titles
        assert "amoeba.run_team(program" in page.locator("article").inner_text()
        assert page.locator("button.copybtn").count() > 2


def test_the_trace_on_the_front_page_can_be_played_with(site):
    with chromium() as visit:
        _, frame = front_page_and_trace(visit, site)
        assert "operations" in frame.locator("header").inner_text()
        assert visit.errors == []


def test_every_module_of_the_model_that_offers_anything_has_a_page(site):
    offering = []
    for path in sorted((ROOT / "model" / "amoeba_model").rglob("*.py")):
        parts = path.relative_to(ROOT / "model").with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if "__all__" in path.read_text() and name != "amoeba_model":
            offering.append(name)
    assert len(offering) > 50
    assert [name for name in offering if not (site / "api" / f"{name}.html").exists()] == []


def test_pages_render_without_an_error(site, looks):
    assert {str(path.relative_to(site)): look.errors for path, look in looks.items() if look.errors} == {}
    empty = [path.name for path, look in looks.items() if not look.text]
    assert set(empty) <= {"search.html"}  # which is empty until something is asked


def test_pages_are_light_or_dark_as_the_reader_s_system(site):
    colours = set()
    for dark in (False, True):
        with chromium(dark=dark) as visit:
            for path in (site / "index.html", site / "api" / "amoeba.html"):
                assert visit.open(path.as_uri()).locator("article").inner_text().strip(), path.name
            assert visit.errors == []
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
