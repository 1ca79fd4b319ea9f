"""The site that `make docs` builds."""

import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "degroot"
author = "the degroot developers"
copyright = author
release = metadata.version("degroot")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "commands",
    "elsewhere",
    "properties",
]
exclude_patterns = ["gallery"]  # the sources of the examples; what was made of them is in `examples`
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function

# -- pages -------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [(r"py:class", r".*")]  # docstrings say types in words, or name those of other projects

# -- docstrings --------------------------------------------------------------------------------------------------------

autosummary_generate = False
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings say it in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # types are words, not names to look up
napoleon_use_ivar = False

# -- the gallery -------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",  # all of them run
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}

# -- looks -------------------------------------------------------------------------------------------------------------

html_theme = "furo"
html_title = "degroot"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"
copybutton_here_doc_delimiter = "END"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

_mathjax = find_spec("sphinx-mathjax-offline")  # so that formulas need no other host
if _mathjax and _mathjax.origin:
    html_static_path.append(str(Path(_mathjax.origin).parent / "static" / "mathjax" / "tex-svg.js"))
    mathjax_path = "tex-svg.js"
