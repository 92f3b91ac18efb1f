"""Renews what documents say of virtual sensors: `python -m docs.make_tables README.md docs/sensors/*.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from rover_pipeline.engine.step import EVERY, EVERY_FILE, OPTIONAL, REFERENCE, Output, Step, When
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.table import TABLE


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
    lines += ["", *_what_it_reads(step)]
    if sections := [section for section in step.sections if section]:
        lines += ["", "Options: " + ", ".join(f"`{section}`" for section in sections) + "."]
    return "\n".join(lines) + "\n"


def _what_it_reads(step: Step) -> Iterator[str]:
    """What a step reads with the default options, and what it reads for other options and kinds of sensors."""
    usual = step.for_options(step.options() if step.options else None)
    read = reads(usual)
    needed, optional = ([entry for entry in sorted(read) if read[entry] is each] for each in (False, True))
    yield f"It reads {_listed(needed)}{f'; where it is there, {_listed(optional)}' if optional else ''}."
    if usual.run.beside:
        beside = " and ".join("IMUs" if type == "imu" else f"{type}s" for type in usual.run.beside)
        yield f"Of further {beside} it reads the same."
    otherwise: dict[str, list[str]] = {}
    for when in step.alternatives:
        changed = replace(usual, alternatives=(replace(when, options={}, has=(), lacks=()),)).for_options(None)
        if found := _listed(sorted(reads(changed).keys() - read)):
            otherwise.setdefault(found, []).append(_condition(step, when))
    if otherwise:
        yield "\nOther options and sensors add to this, or replace some of it:\n"
        yield from (f"- {', or '.join(conditions)}: {found}" for found, conditions in otherwise.items())


def reads(step: Step) -> dict[str, bool]:
    """What is read, as `sensor/channel` or a file -> whether the step can do without. With a channel come the times of
    its sensor and what it says of their validity, which a raw sensor need not."""
    entries = set(step.references())
    for entry in entries - {*step.files.values(), *step.reads}:
        sensor = entry.partition("/")[0]
        entries |= {f"{sensor}/{channel}{OPTIONAL * entry.endswith(OPTIONAL)}" for channel in (TS, VALID)}
    if EVERY_FILE in entries:
        entries = {entry for entry in entries if entry == EVERY_FILE or not entry.startswith(f"{EVERY}/")}
    found = {entry.removesuffix(OPTIONAL) for entry in entries}
    return {entry: entry not in entries or (entry.endswith(f"/{VALID}") and entry[0] != "_") for entry in found}


def _condition(step: Step, when: When) -> str:
    """For which options and channels of the recording something is declared otherwise."""
    options = [
        f"`{name if '.' in name else f'{step.sections[0]}.{name}'}: {str(value).lower()}`"
        for name, value in when.options.items()
    ]
    given = f"with {' and '.join(options)}" if options else ""
    there = f"where there is {_listed(when.has)}" if when.has else ""
    absent = f"no {_listed(when.lacks)}" if when.lacks else ""
    return ", ".join(filter(None, (given, " and ".join(filter(None, (there, absent))))))


def _listed(entries: Iterable[str]) -> str:
    """References as a list for people."""

    def named(entry: str) -> str:
        sensor, _, channel = entry.partition("/")
        of_all = {EVERY: "all raw sensors", REFERENCE: f"the sensor `{_clock(REFERENCE)}`"}
        if entry == EVERY_FILE:
            return "all files of the sensors and of the other results"
        return f"`{channel}` of {of_all[sensor]}" if sensor in of_all else f"`{entry}`"

    return ", ".join(map(named, entries))


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
