"""The documentation: `make docs` builds it into build/docs. Nothing in it is loaded from anywhere else."""

import json
import logging
import re
import shutil
import sys
import warnings
from pathlib import Path

import latex2mathml.converter
import matplotlib
from docutils.nodes import SkipNode, literal as literal_node, reference
from numpy.typing import ArrayLike
from sphinx.addnodes import pending_xref
from sphinx.ext import autosummary
from sphinx.util.typing import stringify_annotation

import itergp

matplotlib.use("Agg")
logging.getLogger("jax").setLevel(logging.WARNING)  # it would tell of every device that it did not find
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for reading_order and reference

from reference import page  # noqa: E402

(HERE / "api.md").write_text(page(), encoding="utf-8")  # before Sphinx looks for pages and their summaries

project = "itergp"
author = "The itergp developers"
copyright = "The itergp developers, MIT licence"
version = release = itergp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["stepping/**"]
templates_path = ["_templates"]
default_role = "literal"
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autosummary.WELL_KNOWN_ABBREVIATIONS += ("Alg.", "Cor.", "Eq.", "Prop.", "Thm.")  # no sentence ends there

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "reading_order.ReadingOrder",
    "capture_repr": (),
    "reset_modules": ("matplotlib",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "furo"
html_title = "itergp"
html_static_path = ["_static"]
html_css_files = ["calm.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#5b3f8f", "color-brand-content": "#1c5f94"},
    "dark_css_variables": {"color-brand-primary": "#b79be0", "color-brand-content": "#7db9e8"},
}

# Formulas: LaTeX becomes MathML while building, which browsers draw by themselves: no script, no download.


HAT = re.compile(r'<mover accent="true"><mrow><mi>(\w)</mi></mrow><mo>&#x0005E;</mo></mover>')


def mathml(latex, display):
    """A hat is one letter with its accent, which looks right also where no mathematical font is installed."""
    return HAT.sub('<mi class="hat">\\1\u0302</mi>', latex2mathml.converter.convert(latex, display=display))


def visit_math(translator, node):
    translator.body.append(mathml(node.astext(), "inline"))
    raise SkipNode


def visit_math_block(translator, node):
    translator.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>\n')
    raise SkipNode


# Docstrings are sentences with formulas in them as one writes them: |v|, mu_*, kernel_. What is neither in
# backticks nor emphasis is no markup.

LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
MARKUP = re.compile(r"[|*]|(?<=\w)_(?!\w)")
EMPHASIS = re.compile(r"(\*\*[^*\s][^*]*[^*\s]\*\*|(?<![\w*])\*[^*\s](?:[^*]*[^*\s])?\*(?![\w*]))")


def read_docstring(app, what, name, thing, options, lines):
    """Formulas stay as they are written; a section with an underlined title becomes a list of what it
    names."""
    text = "".join(
        part if LITERAL.fullmatch(part) else escaped(part) for part in LITERAL.split("\n".join(lines))
    )
    text = re.sub(r"^(\w+)\n-{4,}$", r".. rubric:: \1\n", text, flags=re.MULTILINE)
    lines[:] = re.sub(r"^(\w[\w\\, ]*) : ", r"\1\n    ", text, flags=re.MULTILINE).splitlines()


def escaped(text):
    """Stars and bars that are no emphasis, and underscores at the end of a name, which would be
    references."""
    return "".join(
        part if EMPHASIS.fullmatch(part) else MARKUP.sub(r"\\\g<0>", part) for part in EMPHASIS.split(text)
    )


def make_page_of_experiment(app, docname, source):
    """The folder of an experiment holds a table, a figure, and what is known about the run: together they
    are a page."""
    if docname.startswith("results/") and docname.endswith("/table"):
        folder = HERE / Path(docname).parent
        about = json.loads((folder / "about.json").read_text())
        figure = "![](figure.png)\n\n" if (folder / "figure.png").exists() else ""
        said = (
            f"{about['title'][0].upper()}{about['title'][1:]} ({about['figure of the paper']}; "
            f"`{about['command']}`)."
        )
        source[0] = f"# {folder.name.replace('-', ' ').capitalize()}\n\n{said}\n\n{figure}{source[0]}"


def leave_out_what_is_missing(app, docname, source):
    """Entries of the contents whose page is not written yet."""
    if docname == "index":
        source[0] = "".join(
            line for line in source[0].splitlines(keepends=True) if not names_missing_page(line)
        )


def names_missing_page(line):
    entry = re.fullmatch(r"[^`|]+<([\w/-]+)>\s*", line)
    return entry is not None and not (HERE / f"{entry[1]}.md").exists()


def unlink_files(app, doctree):
    """Links to files of the repository that are no pages, such as a test, remain as text."""
    for link in list(
        doctree.findall(lambda node: isinstance(node, pending_xref) and node["reftype"] == "myst")
    ):
        target = (HERE / Path(app.env.docname).parent / link["reftarget"].partition("#")[0]).resolve()
        if target.exists() and (target.is_dir() or not target.is_relative_to(HERE)):
            link.replace_self(link.children)


def link_names(app, doctree):
    """`itergp.Posterior.mean` in a text leads to the reference, where that has it."""
    for literal in list(doctree.findall(literal_node)):
        if re.fullmatch(r"itergp(\.\w+)+", literal.astext()) and not isinstance(literal.parent, reference):
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=literal.astext(), refexplicit=True
            )
            literal.replace_self(link)
            link += literal


ARRAY_LIKE = {
    stringify_annotation(ArrayLike, mode)
    for mode in ("smart", "fully-qualified-except-typing", "fully-qualified")
}


def shorten_types(app, what, name, thing, options, signature, returned):
    """ArrayLike by its name, and not as the twelve types that it stands for."""
    for text in ARRAY_LIKE:
        signature = signature and signature.replace(text, "ArrayLike")
    return signature, returned


def copy_the_stepping_page(app, error):
    """It is one page of its own, with its scripts: copied as it is."""
    if error is None and (HERE / "stepping").is_dir():
        shutil.copytree(HERE / "stepping", Path(app.outdir) / "stepping", dirs_exist_ok=True)


def setup(app):
    # examples end without plt.show()
    warnings.filterwarnings("ignore", message="Matplotlib is currently using agg")
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("source-read", make_page_of_experiment)
    app.connect("source-read", leave_out_what_is_missing)
    app.connect("doctree-read", unlink_files)
    app.connect("doctree-read", link_names)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("build-finished", copy_the_stepping_page)
