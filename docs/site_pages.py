"""Pages of the manual that are made from the code, so that they cannot differ from it. MkDocs calls these functions.

`options.md` holds every option with its default. A page of `sensors/` is a written text, `docs/sensors/NAME.md`, with
the declaration of the virtual sensor put in front of it; a sensor without a text has its declaration alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from rover_pipeline.config import Config
from rover_pipeline.engine.step import Step
from rover_pipeline.table import TABLE

DOCS = Path(__file__).parent
#: The mark in a page of `sensors/` that the declaration replaces.
DECLARATION = "<!-- declaration -->"
#: Order and headings of the list of sensors: a domain and the rooms that declare its sensors.
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
    """Add the pages that no file holds."""
    generated = {"options.md": options_page(), "sensors/index.md": sensors_page()}
    for name in TABLE:
        if not (DOCS / "sensors" / f"{name[1:]}.md").exists():
            generated[f"sensors/{name[1:]}.md"] = f"# `{name}`\n\n{DECLARATION}\n"
    for path, content in generated.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the declaration of a virtual sensor into its page."""
    name = f"_{Path(page.file.src_uri).stem}"
    if page.file.src_uri.startswith("sensors/") and name in TABLE:
        if DECLARATION not in markdown:
            raise ValueError(f"{page.file.src_uri}: has no line {DECLARATION}")
        return markdown.replace(DECLARATION, declaration(TABLE[name]))
    return markdown


def _room(step: Step) -> str:
    return step.name.split(".")[1]


def _in_order() -> list[str]:
    rooms = [room for group in DOMAINS.values() for room in group]
    return sorted(TABLE, key=lambda name: rooms.index(_room(TABLE[name])))


def sensors_page() -> str:
    """The list of all virtual sensors."""
    lines = [
        "# Virtual sensors",
        "",
        "A virtual sensor is a directory beside the raw ones whose name begins with an underscore. It has `ts`, the",
        "time of each sample in seconds since 1970, and `valid`: 0 says that a sample is not to be trusted.",
        "All channels have as many samples as `ts`. `provenance.json` says what made it.",
        "Those in **bold** are made by default.",
    ]
    for domain, rooms in DOMAINS.items():
        lines += ["", f"## {domain}", "", "| name | what it is |", "| --- | --- |"]
        for name in _in_order():
            if _room(TABLE[name]) in rooms:
                shown = f"**`{name}`**" if TABLE[name].default else f"`{name}`"
                lines.append(f"| [{shown}]({name[1:]}.md) | {TABLE[name].summary} |")
    return "\n".join(lines) + "\n"


def declaration(step: Step) -> str:
    """What the table of steps says of a virtual sensor, as Markdown."""
    name = step.sensor[1:]
    lines = [step.summary, ""]
    if (DOCS / "pictures" / f"{name}.png").exists():
        lines += [f"![{step.sensor} of a simulated recording](../pictures/{name}.png)", ""]
    inputs = list(step.inputs.values())
    made = "By default" if step.default else f"With `--outputs {name}`"
    if inputs:
        made += f", at the times of `{inputs[0].partition('/')[0]}`"
    lines += [f"{made}. Version {step.version} of the step."]
    if step.outputs:
        lines += ["", "| channel | type | what it is |", "| --- | --- | --- |"]
        for channel, output in step.outputs.items():
            unit = f", {output.unit}" if output.unit else ""
            lines.append(f"| `{channel}` | {output.type}{unit} | {output.desc} |")
    if step.products:
        lines += ["", "| file | what it is |", "| --- | --- |"]
        lines += [f"| `{file}` | {text} |" for file, text in step.products.items()]
    read = sorted({entry.removesuffix("?") for entry in step.references()})
    lines += ["", "It reads " + ", ".join(f"`{entry}`" for entry in read) + "."]
    sections = [section for section in step.sections if section]
    if sections:
        links = ", ".join(f"[`{section}`](../options.md#{section.replace('.', '')})" for section in sections)
        lines += ["", f"Options: {links}."]
    return "\n".join(lines)


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
        title = section or "Top level"
        lines += ["", f"## {title}" + (f" {{#{section.replace('.', '')}}}" if section else ""), ""]
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
