"""The templates of the pages, and names of files. Nothing here draws: lists of recordings need no Matplotlib."""

from __future__ import annotations

import functools
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rover_pipeline import __version__
from rover_pipeline.draw import formatting
from rover_pipeline.draw.theme import colour_name
from rover_pipeline.errors import counted
from rover_pipeline.format.info import size_text

#: Name of the folder that the page is published in.
REPORT = "_report"
PAGE, SUMMARY = "index.html", "summary.json"
#: The list of words, in the checkout and in the installed package.
GLOSSARY = Path("docs", "glossary.md")


@functools.cache
def environment() -> Environment:
    """The templates, and the filters that they use."""
    loader = PackageLoader("rover_pipeline.report")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    for function in (
        counted, formatting.duration, formatting.elapsed, formatting.metres, formatting.milliseconds,
        formatting.offset, formatting.percent, formatting.ppm, formatting.significant, formatting.utc,
    ):  # fmt: skip
        pages.filters[function.__name__] = function
    pages.filters |= {"size": size_text, "code": _mark_code, "colour": colour_name}
    pages.globals |= {"version": __version__, "glossary": glossary(), "word": _word}
    pages.globals["include_raw"] = lambda name: Markup(loader.get_source(pages, name)[0])
    return pages


@functools.cache
def glossary() -> dict[str, str]:
    """The words on the page of a recording and what they mean: the first table of the manual's glossary."""
    package = Path(__file__).parents[1]
    folder = next(each for each in (package / "bundle", package.parent) if (each / GLOSSARY).exists())
    table = (folder / GLOSSARY).read_text(encoding="utf-8").split("\n## ")[1]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {names: meaning for names, meaning in rows[1:] if not names.startswith("---")}


def _word(text: str, name: str = "") -> Markup:
    """A word as a link to what it means, at the end of the page; the word alone where the glossary does not have it.
    `name`: of the entry, where the text is another form of it."""
    for names, meaning in glossary().items():
        if (name or text.lower()) in names.split(", "):
            anchor = f"word-{names.split(', ')[0].replace(' ', '-')}"
            return Markup('<a class="word" href="#{}" title="{}">{}</a>').format(anchor, meaning.replace("`", ""), text)
    return escape(text)


def _mark_code(text: str) -> Markup:
    """Text as HTML, with the parts between backticks as code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in parts)
