"""Sphinx' settings for the documentation's site, which `scripts/site.py` assembles and builds."""

from amoeba.core.release import RELEASE

project = "Amoeba"
copyright = "the Amoeba contributors, BSD-2-Clause"
version = release = RELEASE

extensions = [
    "myst_parser",  # pages are Markdown, as a forge shows them
    "sphinx.ext.autodoc",
    "numpydoc",  # docstrings have NumPy's sections
]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

autosummary_generate = False  # numpydoc brings it along; the API's pages are made by the script
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
suppress_warnings = [
    "autodoc.duplicate_object",  # `amoeba` and `amoeba.fi` offer the same objects under two names
    "app.add_node",
]

html_theme = "furo"
html_title = f"Amoeba {RELEASE}"
html_static_path = ["static"]
html_css_files = ["amoeba.css"]
html_js_files = ["filter.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
