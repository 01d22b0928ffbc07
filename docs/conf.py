"""Sphinx configuration of the documentation site; `make docs` builds it with warnings as errors."""

import importlib.metadata
import os
import re
import resource
import sys
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.util import logging

# Cells of the tutorials that call `lvmrs` find the command of this environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

project = html_title = "lvmrs"
release = importlib.metadata.version("lvmrs")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
suppress_warnings = ["ref.python"]  # a name in a docstring that several classes have, such as `samples`
highlight_language = "none"

# Headings have the anchors that GitHub gives them, so that links work here and there.
myst_heading_anchors = 4
# Lines that begin with "%" or "+++" are text, as on GitHub; to MyST they would be comments and breaks.
myst_disable_syntax = ["myst_line_comment", "myst_block_break", "myst_target"]

# Each build executes the tutorials in empty folders; a cell that raises fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
_MOST_SECONDS = 120  # of processor time of all tutorials: a busy machine takes longer by the clock

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"no-value": True}

html_theme = "furo"
html_copy_source = False
html_show_copyright = False


def setup(app):  # type: ignore[no-untyped-def]
    """Lead links to CONTRIBUTING.md to the page that includes it; shorten long defaults; limit the tutorials' time."""

    def lead(app, name, source):  # type: ignore[no-untyped-def]
        source[0] = source[0].replace("](../CONTRIBUTING.md", "](contributing.md")

    def shorten(app, what, name, value, options, signature, returns):  # type: ignore[no-untyped-def]
        return re.sub(r"\([\d., e-]{80,}\)", "(…)", signature or "") or None, returns

    def limit(app, error):  # type: ignore[no-untyped-def]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # the kernels, and what they started
        seconds = used.ru_utime + used.ru_stime
        logging.getLogger(__name__).info("tutorials: %.0f s of processor time", seconds)
        if error is None and seconds > _MOST_SECONDS:
            raise ExtensionError(f"the tutorials took {seconds:.0f} s of processor time, and at most {_MOST_SECONDS}")

    app.connect("build-finished", limit)
    app.connect("source-read", lead)
    app.connect("autodoc-process-signature", shorten)
