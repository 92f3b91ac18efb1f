"""What of the manual is made from the code while MkDocs builds it: the page of options, links to it, the navigation.

`options.md` holds every option with its default. What `sensors/` says of channels stands in the files themselves:
`python -m rover_pipeline.table docs/sensors/*.md` renews it, so that the pages can be read without the site too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from rover_pipeline.config import Config
from rover_pipeline.engine.step import Step
from rover_pipeline.table import TABLE

#: The line of a page of `sensors/` that names sections of the configuration.
_OPTIONS = re.compile(r"^Options: (.*)\.$", re.MULTILINE)
#: The list of sensors in its order: the rooms that declare them, by domain.
DOMAINS = {
    "Lidar": ("lidar",),
    "Radar": ("radar",),
    "Motion": ("odometry", "poses", "imu"),
    "Times": ("sync",),
    "Camera": ("camera",),
    "Labels": ("occupancy", "objects"),
    "Whole recordings": ("mapping", "report"),
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List all virtual sensors in the navigation."""
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Virtual sensors" in entry:
            entry["Virtual sensors"] += [f"sensors/{name[1:]}.md" for name in _in_order()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page that no file holds."""
    files.append(File.generated(config, "options.md", content=options_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead from the sections that a virtual sensor depends on to their options."""
    if not page.file.src_uri.startswith("sensors/"):
        return markdown

    def linked(match: re.Match[str]) -> str:
        return re.sub(r"`([^`]+)`", lambda name: f"[{name[0]}](../options.md#{anchor(name[1])})", match[0])

    return _OPTIONS.sub(linked, markdown)


def _room(step: Step) -> str:
    return step.name.split(".")[1]


def _in_order() -> list[str]:
    rooms = [room for group in DOMAINS.values() for room in group]
    return sorted(TABLE, key=lambda name: rooms.index(_room(TABLE[name])))


def anchor(name: str) -> str:
    """The place in the page of options of a section, or of the section that a single option is in."""
    sections = {section for section, _ in _sections("", Config)}
    while name not in sections:
        name = name.rpartition(".")[0]
    return name.replace(".", "") or "top-level"


def options_page() -> str:
    """Every option with its default, section by section."""
    lines = [
        "# Options",
        "",
        "Every option, with its default. Set them in a copy of `config/config.yaml`, or on the command line:",
        "",
        "```sh",
        "rover-pipeline run TRACE --config odometry.world=gravity radar.points.cfar=ca",
        "snakemake --profile profiles/local --config traces=TRACE odometry='{world: gravity}'",
        "```",
    ]
    for section, model in _sections("", Config):
        lines += ["", f"## {section or 'Top level'} {{#{anchor(section)}}}", ""]
        lines += ["| option | default | what it does |", "| --- | --- | --- |"]
        for name, field in model.model_fields.items():
            if not _model_of(field.annotation):
                default = _text(field.get_default(call_default_factory=True))
                lines.append(f"| `{name}` | `{default}` | {(field.description or '').replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def _sections(prefix: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Dotted names of sections, and their models."""
    if any(not _model_of(field.annotation) for field in model.model_fields.values()):
        yield prefix, model
    for name, field in model.model_fields.items():
        if inner := _model_of(field.annotation):
            yield from _sections(f"{prefix}.{name}".lstrip("."), inner)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _text(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, (tuple, list)) else str(value)
