"""Sphinx' settings for the documentation's site, which `scripts/site.py` assembles and builds."""

import sys
from pathlib import Path

from amoeba.core.release import RELEASE

sys.path.insert(0, str(Path(__file__).parent))

project = "Amoeba"
copyright = "the Amoeba contributors, BSD-2-Clause"
version = release = RELEASE

extensions = [
    "myst_parser",  # pages are Markdown, as a forge shows them
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",  # tables of names, and a page for each class
    "numpydoc",  # docstrings have NumPy's sections
    "sphinx_design",  # cards
    "sphinx_copybutton",
    "docstrings",  # examples of classes, and references by public names
    "pages",  # for narrow screens
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["examples"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

autosummary_generate = False  # scripts/api_pages.py writes the pages of classes
autosummary_ignore_module_all = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 90
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
suppress_warnings = [
    "autodoc.duplicate_object",  # `amoeba` and `amoeba.fi` offer the same objects under two names
    "app.add_node",
]

# Copies what a reader types, without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ |# "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .gp, .go, .c1"

html_theme = "furo"
html_title = f"Amoeba {RELEASE}"
html_static_path = ["static"]
html_css_files = ["amoeba.css"]
html_js_files = ["filter.js", "theme.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
