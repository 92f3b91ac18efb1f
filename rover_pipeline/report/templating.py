"""The templates of the pages, and names of files. Nothing here draws: lists of recordings need no Matplotlib."""

from __future__ import annotations

import functools

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rover_pipeline import __version__
from rover_pipeline.format.info import size_text
from rover_pipeline.report import formatting
from rover_pipeline.report.draw.svg import colour_name

#: Name of the folder that the page is published in.
REPORT = "_report"
PAGE, SUMMARY = "index.html", "summary.json"


@functools.cache
def environment() -> Environment:
    """The templates, and the filters that they use."""
    loader = PackageLoader("rover_pipeline.report")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for function in (
        formatting.count, formatting.duration, formatting.elapsed, formatting.metres, formatting.milliseconds,
        formatting.offset, formatting.percent, formatting.ppm, formatting.significant, formatting.utc,
    ):  # fmt: skip
        templates.filters[function.__name__] = function
    templates.filters |= {"size": size_text, "code": _mark_code, "colour": colour_name}
    templates.globals["version"] = __version__
    templates.globals["include_raw"] = lambda name: Markup(loader.get_source(templates, name)[0])
    return templates


def _mark_code(text: str) -> Markup:
    """Text as HTML, with the parts between backticks as code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in parts)
