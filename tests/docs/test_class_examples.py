"""Examples on the pages of classes: each runs, prints what its page shows, and every public class has one."""

import contextlib
import importlib
import io
import runpy
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"


sys.path.insert(0, str(SITE))
EXTENSION = importlib.import_module("docstrings")
"""The site's Sphinx extension, which reads the examples."""


@pytest.mark.parametrize("example", EXTENSION.examples(), ids=lambda example: example.path.stem)
def test_an_example_prints_what_its_page_shows(example):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(example.path))
    assert example.output
    assert printed.getvalue() == example.output + "\n"
    assert example.names, "an example uses public names"


def is_shown(face, name):
    value = getattr(importlib.import_module(face), name)
    return isinstance(value, type) and EXTENSION.example_of(f"{face}.{name}", value) is not None


@pytest.mark.parametrize("face", ["amoeba", "amoeba.aio"])
def test_every_class_and_error_has_an_example(face):
    module = importlib.import_module(face)
    kinds = [name for name in module.__all__ if isinstance(getattr(module, name), type)]
    plain = [name for name in kinds if not hasattr(getattr(module, name), "__members__")
             and not hasattr(getattr(module, name), "__dataclass_fields__")
             and not issubclass(getattr(module, name), tuple | Warning)]  # fmt: skip
    assert len(plain) >= 3
    assert [name for name in plain if not is_shown(face, name)] == []


@pytest.mark.parametrize("name", ["ucp_context_h", "ucp_worker_h", "ucp_ep_h", "Adapters"])
def test_the_first_handles_of_ucp_have_an_example(name):
    assert is_shown("amoeba.ucp", name)


@pytest.mark.parametrize("name", ["Worker", "Context", "Address", "Endpoint", "Memory", "RemoteMemory", "Request"])
def test_the_first_classes_of_ucx_have_an_example(name):
    assert is_shown("amoeba.ucx", name)
