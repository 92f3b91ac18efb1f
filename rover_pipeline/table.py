"""The table of all virtual sensors: what each needs and makes. Light: it imports no maths.

Rules, validation, the documentation and `outputs: default` ask it. A new virtual sensor is an entry in the table of
its room. `python -m rover_pipeline.table README.md docs/sensors/*.md` renews what documents say of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from rover_pipeline.camera.table import STEPS as CAMERA
from rover_pipeline.engine.step import (
    ATTRIBUTE,
    EVERY,
    EVERY_FILE,
    OPTIONAL,
    REFERENCE,
    SMALL,
    Output,
    Run,
    Shown,
    Step,
)
from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.imu.table import STEPS as IMU
from rover_pipeline.lidar.table import STEPS as LIDAR
from rover_pipeline.lookup import load_marked
from rover_pipeline.mapping.table import STEPS as MAPPING
from rover_pipeline.objects.table import STEPS as OBJECTS
from rover_pipeline.occupancy.table import STEPS as OCCUPANCY
from rover_pipeline.odometry.table import STEPS as ODOMETRY
from rover_pipeline.options import PageOptions
from rover_pipeline.poses.table import STEPS as POSES
from rover_pipeline.radar.table import STEPS as RADAR
from rover_pipeline.sync.table import STEPS as SYNC

#: The page of a recording, which shows all the others.
REPORT = Step(
    sensor="_report",
    function="rover_pipeline.report.steps:report",
    version=15,
    sections=("report", "outputs"),
    options=PageOptions,
    reads=("config.yaml", "*/ts", "*/valid", EVERY_FILE),
    products={
        "index.html": "A page that shows the recording at a glance; opens without a network.",
        "summary.json": "The figures of the page, as docs/summary.md describes.",
    },
    run=Run(recording=True, threads=2, waits_for_all=True, cost=SMALL),
    shown=Shown(default=True, summary="A page, `index.html`, that shows the recording at a glance, and its figures."),
)

#: Virtual sensors and folders of files, by name.
TABLE: dict[str, Step] = {
    each.sensor: each
    for each in (*LIDAR, *RADAR, *ODOMETRY, *POSES, *SYNC, *OCCUPANCY, *CAMERA, *IMU, *OBJECTS, *MAPPING, REPORT)
}


def asked_outputs(items: Iterable[str], known: Collection[str], more: Iterable[str] = ()) -> dict[str, bool]:
    """The outputs that `outputs` of the configuration asks for, without underscores -> whether by their names.

    Args:
        items: names, `default` or `all`, also several with commas; `-name` leaves one out that an earlier item named.
        known: names that can be asked for.
        more: names of a user's own outputs that belong to `default` too.

    Raises:
        ConfigError: an item is none of these, or nothing is asked for.
    """
    asked: dict[str, bool] = {}
    for name in (name for item in items for name in item.replace(",", " ").split()):
        plain = name.removeprefix("-").removeprefix("_")
        if name == "default":
            ours = [each.sensor[1:] for each in TABLE.values() if each.shown.default]
            asked = dict.fromkeys([*ours, *more], False) | asked
        elif name == "all":
            asked = dict.fromkeys(known, False) | asked
        elif name.startswith("-") and plain in known:
            asked.pop(plain, None)
        elif name in known:
            asked[name] = True
        else:
            option = TABLE[f"_{plain}"].shown.needs_option if f"_{plain}" in TABLE else None
            hint = f"set {option[0]} to {option[1]}" if option else did_you_mean(plain, [*known, "default", "all"])
            raise ConfigError(f"config: outputs: no rule makes {name!r}; {hint}")
    if not asked:
        raise ConfigError("config: outputs: is empty; use `default`, `all` or names")
    return asked


def find_step(name: str) -> Step:
    """A step by the name of its virtual sensor, `_radar_points`, or by the dotted name of a user's function.

    Raises:
        ConfigError: there is no such step.
    """
    if name in TABLE:
        return TABLE[name]
    if name.startswith("_"):
        raise ConfigError(f"step {name}: is not in the table; {did_you_mean(name, TABLE)}")
    step: Step = load_marked(name, ATTRIBUTE)
    return step


def short_table() -> str:
    """The virtual sensors in one line each, with links to their pages, for the README."""
    rows: dict[str, list[Step]] = {}
    for step in TABLE.values():
        rows.setdefault(_first_statement(step.shown.summary), []).append(step)
    lines = ["| virtual sensor | what it is |", "| --- | --- |"]
    for summary, steps in rows.items():
        names = ", ".join(_page_link(step, "docs/sensors/") for step in steps)
        lines.append(f"| {names} | {summary} |")
    return "\n".join(lines) + "\n"


def full_table() -> str:
    """The virtual sensors with all their channels, for the manual."""
    lines = ["| virtual sensor | channels or files | times of | what it is |", "| --- | --- | --- | --- |"]
    for step in TABLE.values():
        clock = next(iter(step.inputs.values()), "").partition("/")[0]
        times = "" if step.products else _clock(clock)
        channels = [_channel(name, output) for name, output in step.outputs.items() if name != EVERY]
        files = [f"`{name}`" for name in step.products]
        made = ", ".join(channels + files) or "see right"
        lines.append(f"| {_page_link(step)} | {made} | {times} | {step.shown.summary} |")
    return "\n".join(lines) + "\n"


def declaration(step: Step) -> str:
    """What the table says of one virtual sensor, for its page in the manual."""
    name = step.sensor[1:]
    made = "By default" if step.shown.default else f"With `--outputs {name}`"
    if step.inputs and not step.products:
        made += f", at the times of `{_clock(next(iter(step.inputs.values())).partition('/')[0])}`"
    lines = [step.shown.summary, "", f"{made}."]
    outputs = {channel: output for channel, output in step.outputs.items() if channel != EVERY}
    if outputs:
        lines += ["", "| channel | type | axes | unit | what it is |", "| --- | --- | --- | --- | --- |"]
        lines += [
            f"| `{channel}` | {out.type} | {', '.join(out.axes)} | {out.unit} | {out.desc} |"
            for channel, out in outputs.items()
        ]
    if step.products:
        lines += ["", "| file | what it is |", "| --- | --- |"]
        lines += [f"| `{file}` | {text} |" for file, text in step.products.items()]
    read = sorted({entry.removesuffix(OPTIONAL) for entry in step.references()})
    lines += ["", "It reads " + ", ".join(f"`{entry}`" for entry in read) + "."]
    if sections := [section for section in step.sections if section]:
        lines += ["", "Options: " + ", ".join(f"`{section}`" for section in sections) + "."]
    return "\n".join(lines) + "\n"


def _first_statement(summary: str) -> str:
    """A summary without what follows its first full stop or semicolon."""
    return re.split(r"[.;](?: |$)", summary, maxsplit=1)[0].strip() + "."


def _page_link(step: Step, folder: str = "") -> str:
    """The name, bold where it is made by default, as a link to its page."""
    shown = f"`{step.sensor}`"
    return f"[{f'**{shown}**' if step.shown.default else shown}]({folder}{step.sensor[1:]}.md)"


def _channel(name: str, output: Output) -> str:
    axes = f"[{', '.join(output.axes)}]" if output.axes else ""
    return " ".join(filter(None, (f"`{name}`", output.type, axes, output.unit)))


def _clock(sensor: str) -> str:
    """The raw sensor whose times a sensor has."""
    while sensor in TABLE and TABLE[sensor].inputs:
        sensor = next(iter(TABLE[sensor].inputs.values())).partition("/")[0]
    return "sync.reference" if sensor == REFERENCE else sensor


def renewed(document: Path, text: str) -> str:
    """The text of a document with what stands between its marks renewed."""
    makers = {
        "short table of virtual sensors": short_table,
        "table of virtual sensors": full_table,
        "declaration": lambda: declaration(TABLE[f"_{document.stem}"]),
    }
    for mark, make in makers.items():
        marks = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of the {mark} -->)", re.DOTALL)
        text = marks.sub(lambda match, make=make: f"{match[1]}{make()}{match[2]}", text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    for document in map(Path, sys.argv[1:]):
        document.write_text(renewed(document, document.read_text(encoding="utf-8")), encoding="utf-8")
