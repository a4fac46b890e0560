"""The names that the site's Sphinx extensions make: their public names, and where they may break."""

import importlib
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"
sys.path.insert(0, str(SITE))
NAMES, DOCSTRINGS, PAGES = (importlib.import_module(name) for name in ("names", "docstrings", "pages"))


@pytest.mark.parametrize(
    ("module", "name", "page", "full"),
    [
        ("amoeba.openucx.ucxx.endpoint", "Request", "amoeba.ucx.Endpoint", "amoeba.ucx.Request"),  # and UCXRequest
        ("amoeba_model.nic.peers", "Request", "amoeba_model.nic.peers", "amoeba_model.nic.tables.Request"),
        ("amoeba.libfabric.objects.endpoints.passive", "PassiveEndpoint", "amoeba.fi", "amoeba.PassiveEndpoint"),
        ("amoeba.openucx.ucxx.endpoint", "Endpoint.flush", "amoeba.ucx.Worker", "amoeba.ucx.Endpoint.flush"),
        ("amoeba.openucx.ucp.atomics", "Request", "amoeba.ucp.atomics", None),  # internal
        ("amoeba_model.nic.peers", "deque", "amoeba_model.nic.peers", None),  # Python's
        ("amoeba_model.nic.peers", "NoSuchName", "amoeba_model.nic.peers", None),
    ],
)
def test_a_short_name_is_that_of_the_object_that_its_module_means(module, name, page, full):
    assert NAMES.full_name(module, name, page) == full


def test_a_name_that_a_module_imports_for_type_checkers_alone_is_found():
    module = importlib.import_module("amoeba.libfabric.objects.queues.counters")
    assert not hasattr(module, "CompletionQueue")
    assert NAMES.full_name(module.__name__, "CompletionQueue", "amoeba.Counter") == "amoeba.CompletionQueue"


def test_references_of_a_docstring_name_their_object_in_full():
    value = importlib.import_module("amoeba.ucx").Endpoint
    lines = ["A :class:`Request` of :meth:`Endpoint.flush`, :meth:`~Endpoint.flush`, :meth:`flush`; :class:`Other`."]
    DOCSTRINGS.full_references(None, "class", "amoeba.ucx.Endpoint", value, None, lines)
    flush = "amoeba.ucx.Endpoint.flush"
    assert lines == [
        f"A :class:`Request <amoeba.ucx.Request>` of :meth:`Endpoint.flush() <{flush}>`, "
        f":meth:`flush() <{flush}>`, :meth:`flush`; :class:`Other`."
    ]


def test_paragraphs_below_the_parameters_are_put_above_them():
    """numpydoc takes everything below the heading for parameters."""
    head, end = ["Open a device.", ""], ["Raises ValueError, or", "OSError.", ""]
    parameters = ["Parameters", "----------", "kind : str", "    One", "", "    word.", "one, other : int", "", ""]
    results = ["Returns", "-------", "Device", "    Opened."]
    lines = [*head, *parameters, *end]
    DOCSTRINGS.paragraphs_first(None, "function", "open", None, None, lines)
    assert lines == [*head, *end, "", *parameters]
    for right in ([*head, *parameters, *results], head, []):
        lines = list(right)
        DOCSTRINGS.paragraphs_first(None, "function", "open", None, None, lines)
        assert lines == right


def test_types_of_a_signature_have_full_names_and_defaults_have_not():
    value = importlib.import_module("amoeba_model.nic.peers").Peer
    signature = "(request: Request | None = None, many: deque[Request] = <factory>, other: str = Request)"
    full = "~amoeba_model.nic.tables.Request"
    shown = DOCSTRINGS.short_names(None, "class", "amoeba_model.nic.peers.Peer", value, None, signature, None)
    assert shown == (f"(request: {full} | None = None, many: deque[{full}] = ..., other: str = Request)", None)


def test_internal_classes_are_no_bases():
    value = importlib.import_module("amoeba").Endpoint
    bases = list(value.__bases__)
    DOCSTRINGS.public_bases(None, "amoeba.Endpoint", value, None, bases)
    assert bases == [object]
    bases = list(importlib.import_module("amoeba").Window.__bases__)
    DOCSTRINGS.public_bases(None, "amoeba.Window", None, None, bases)
    assert [base.__name__ for base in bases] == ["Sequence"]


@pytest.mark.parametrize(
    ("html", "broken"),
    [
        ("<h1>amoeba.CompletionQueue<a", "<h1>amoeba.<wbr>Completion<wbr>Queue<a"),
        ('<span class="pre">ucp_config_modify</span>', '<span class="pre">ucp_<wbr>config_<wbr>modify</span>'),
        ('<span class="pre">fi_cq_open</span>', '<span class="pre">fi_cq_open</span>'),  # short
        ('<span class="pre">data/ucp-1.12.json</span>', '<span class="pre">data/<wbr>ucp-1.12.<wbr>json</span>'),
        ("<p>amoeba.CompletionQueue</p>", "<p>amoeba.CompletionQueue</p>"),
    ],
)  # fmt: skip
def test_long_names_may_break_between_their_words(html, broken):
    assert PAGES.breakable(html) == broken
