"""Datasets: exports of one or many recordings into one folder, in a format that others train from.

This module does what all formats have in common: it looks for what is missing before any work begins, identifies what
the result depends on, and hands an `ExportJob` to the module of the format. Its `write` fills `job.folder`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rover_pipeline.datasets.options import DatasetOptions, SplitOptions
from rover_pipeline.datasets.recordings import named_recordings
from rover_pipeline.datasets.splits import SPLITS, Course, assign
from rover_pipeline.datasets.table import DATASETS, DatasetFormat
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError
from rover_pipeline.export.dataset_output import (
    DatasetOutput,
    dataset_output,
    leave_stamp,
    merge,
    older_dataset,
    publish,
)
from rover_pipeline.export.layout import Layout
from rover_pipeline.format.attempt import remove_left
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import fingerprint, versions
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.stale import require_fresh, run_command
from rover_pipeline.format.texts import parse_json, parse_yaml
from rover_pipeline.format.trace import Trace, channels_of, link_trace
from rover_pipeline.lookup import load
from rover_pipeline.table import TABLE

T = TypeVar("T")
#: Ends a reference to a channel that is read where it is there.
OPTIONAL = "?"
#: Samples of a part of an export: some seconds of work, which an interruption costs at most. Schedule.
PART_ITEMS = 128


@dataclass(frozen=True)
class Recording:
    """A recording that is exported.

    Attributes:
        name: unique among those of the export; letters, digits, `-` and `_` only.
        path: directory of its sensors, raw and virtual.
    """

    name: str
    path: Path

    def has(self, reference: str) -> bool:
        """Whether there is a channel, `sensor/channel`, or a file of a product, `_map/map.ply`."""
        sensor, _, channel = reference.removesuffix(OPTIONAL).partition("/")
        return exists(self.file(sensor, channel))

    def file(self, sensor: str, channel: str) -> Path:
        """Path of a channel. Published traces keep a channel of some raw sensors in a copy of the sensor."""
        holder = self.sensor(sensor, channel).path if exists(self.path / sensor / META) else self.path / sensor
        return holder / channel

    def sensor(self, sensor: str, channel: str) -> Sensor:
        """The sensor that holds a channel."""
        return Trace(self.path).source(sensor, channel)

    def require(self, reference: str, format: str) -> None:
        """Raise FormatError, which says what to make and how, when a channel that the format needs is not there."""
        if self.has(reference):
            return
        sensor, _, channel = reference.partition("/")
        if not sensor.startswith("_"):
            raise FormatError(f"{self.path}: export {format} needs the raw sensor channel {reference}, which it lacks")
        unfit = TABLE[sensor].for_recording(channels_of(self.path)).unfit if sensor in TABLE else ""
        if unfit:  # it can never be made of this recording
            raise FormatError(
                f"{self.path}: export {format} needs {sensor} ({channel}), which cannot be made: the recording {unfit}"
            )
        raise FormatError(
            f"{self.path}: export {format} needs the virtual sensor {sensor} ({channel}), which is not there; make it: "
            f"{run_command(self.path, [sensor])}"
        )


@dataclass
class ExportJob:
    """What the module of a format is asked to write.

    Attributes:
        format: entry of the table.
        recordings: in the order of their names.
        options: of the format, its own model.
        split_options: how samples are split; see `split`.
        threads: number of samples that may be worked on at the same time.
        output: the dataset that is being made. `output.part` makes a part that survives an interruption.
        older: the dataset that this one replaces, for formats that add to it; None where there is none.
        notes: what the user should know; they are printed, and kept in the provenance.
    """

    format: DatasetFormat
    recordings: tuple[Recording, ...]
    options: Any
    split_options: SplitOptions
    threads: int
    output: DatasetOutput
    older: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """Where the files of the dataset go."""
        return self.output.folder

    @cached_property
    def layout(self) -> Layout:
        """The files of the format."""
        layout: Layout = load(f"{self.format.module}:LAYOUT")
        return layout

    def part(self, key: str, make: Callable[[], Iterable[Path]]) -> bool:
        """See `DatasetOutput.part`."""
        return self.output.part(key, make)

    def save(self, kind: str, value: Any, **keys: object) -> Path:
        """Write a file of the format's layout. Returns its path.

        Args:
            kind: the name of the file in the layout; value: its content; keys: of its path.
        """
        path = self.layout.path(self.folder, kind, **keys)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.layout[kind].content.encode(value))
        return path

    def in_parts(
        self, name: str, items: Sequence[T], write: Callable[[T], Iterable[Path]], unit: str, after: str = ""
    ) -> None:
        """Write the files of each item, in parts that survive an interruption, and show the progress.

        Args:
            name: of the recording, or of what it is here; unit: what the items are called.
            write: gives the paths of the files of an item.
            after: what else the files depend on that is not in the identity of the dataset.
        """

        def make(part: Sequence[T]) -> Iterator[Path]:
            return chain.from_iterable(ordered_map(write, part, threads=self.threads, done=lambda item: advance(1)))

        with progress(f"export {name}", len(items), unit) as advance:
            for start in range(0, len(items), PART_ITEMS):
                part = items[start : start + PART_ITEMS]
                if not self.part(f"{name} {start} {after}", partial(make, part)):
                    advance(len(part))

    def note(self, text: str) -> None:
        """Print a note for the user, once."""
        if text not in self.notes:
            self.notes.append(text)
            print(f"export {self.format.name}: {text}", file=sys.stderr, flush=True)

    def split(self, courses: Sequence[Course]) -> list[np.ndarray]:
        """The split of each sample of each recording: see `splits.assign`. A split that gets nothing is noted."""
        splits = assign(courses, self.split_options)
        used = {SPLITS[code] for each in splits for code in np.unique(each[each >= 0])}
        empty = [name for name in SPLITS if getattr(self.split_options, name) and name not in used]
        if empty:
            self.note(
                f"no sample is left for {' and '.join(empty)}: the recordings are too short or too few for `splits` "
                f"(by: {self.split_options.by})"
            )
        return splits


def export_dataset(
    name: str,
    entries: Sequence[str],
    out: Path,
    *,
    settings: Mapping[str, Any],
    threads: int = 1,
    replace: bool = False,
    output_root: Path | None = None,
    stamp: str | None = None,
    make: bool = False,
) -> Path:
    """Export recordings as one dataset, whole or not at all. The same call again changes nothing.

    Args:
        name: a key of `DATASETS`.
        entries: traces, directories of traces, or glob patterns.
        settings: `splits` and `options`, plain values; what is not given has its default.
        replace: an older dataset of ours, of other inputs or options, gives way.
        output_root: tree of results that belongs to the traces, as in the configuration.
        stamp: name of an empty file that the workflow wants in the dataset.
        make: first make what is missing or stale, with the options that the recordings remember.

    Raises:
        FormatError: a recording lacks what the format needs, or has it stale. The message says how to make it.
        InTheWayError: something else is at `out`, or another process is making this dataset.
    """
    format = DATASETS[name]
    options = format.options.parse(settings.get("options", {}), f"export.{name}")
    split_options = SplitOptions.parse(settings.get("splits", {}), "export.splits")
    out = out.absolute()
    if make:
        load("rover_pipeline.export.making:make_needed")(entries, options.needs(), cores=threads)
    recordings = find_recordings(entries, output_root)
    for recording in recordings:
        for reference in options.needs():
            if not reference.endswith(OPTIONAL):
                recording.require(reference, name)
        require_fresh(recording.path, [each.partition("/")[0] for each in options.needs()], f"export {name}")
    asked = {"options": options.model_dump(mode="json")}
    asked |= {"splits": split_options.model_dump(mode="json")} if format.splits else {}
    inputs = {each.name: _inputs(each, options) for each in recordings}
    identity = _digest({"format": name, "version": format.version, **asked, "inputs": inputs, "versions": versions()})
    older: Path | None = None
    if format.kind != "merge":
        found = older_dataset(out, name, identity=identity, replace=replace or format.kind == "update")
        if found == "same":
            print(f"{out}: is there already, of the same inputs and options", file=sys.stderr)
            remove_left(out)
            leave_stamp(out, stamp)
            return out
        older = out if found else None
    begin = time.monotonic()
    with dataset_output(out, identity) as output:
        job = ExportJob(format, recordings, options, split_options, threads, output, older)
        load(f"{format.module}:write")(job)
        provenance = {
            "format": name,
            "version": format.version,
            "identity": identity,
            **asked,
            "recordings": {each.name: {"path": str(each.path), "inputs": inputs[each.name]} for each in recordings},
            "notes": job.notes,
            "versions": versions(),
            "time": {"seconds": round(time.monotonic() - begin, 3), "finished": time.time()},
        }
        if format.kind == "merge":
            merge(output, out, provenance, stamp, replace=replace)
        else:
            older_dataset(out, name, identity=identity, replace=True)  # nobody has come in between
            publish(output, out, provenance, stamp)
    return out


def dataset_settings(name: str, items: Sequence[str]) -> dict[str, Any]:
    """The `settings` of `export_dataset` from the command line.

    Args:
        items: `splits={...}`, `FORMAT={...}`, or `KEY=VALUE` for an option of the format; values as in YAML.

    Raises:
        ConfigError: an item is none of these.
    """
    settings: dict[str, Any] = {"splits": {}, "options": {}}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"--config {item}: must be KEY=VALUE")
        value = parse_yaml(text, f"--config {key}")
        target = {"splits": "splits", name: "options"}.get(key)
        if target is None:
            settings["options"][key] = value
        elif isinstance(value, Mapping):
            settings[target] |= value
        else:
            raise ConfigError(f"--config {key}: must be a mapping, such as {{{'by: time' if key == 'splits' else ''}}}")
    return settings


def find_recordings(entries: Sequence[str], output_root: Path | None = None) -> tuple[Recording, ...]:
    """The recordings that entries stand for, with names that follow from their paths.

    Raises:
        FormatError: there are none, or two have the same name.
    """
    found = []
    for name, (source, place) in named_recordings(entries, output_root).items():
        if output_root is not None and place != source:
            link_trace(source, place)  # a virtual sensor may be wanted from a recording that has no results yet
        found.append(Recording(name, place.absolute()))
    return tuple(found)


def _inputs(recording: Recording, options: DatasetOptions) -> str:
    """Digest of all that an export reads of a recording."""
    prints: dict[str, object] = {}
    for reference in options.needs():
        sensor, _, channel = reference.removesuffix(OPTIONAL).partition("/")
        if not recording.has(reference):
            continue
        place = recording.file(sensor, channel).parent
        for path in (place / channel, place / f"{channel}_i", place / "ts", place / "valid", place / f"{sensor}.json"):
            if exists(path):
                prints[f"{sensor}/{path.name}"] = fingerprint(path)
    if exists(config := recording.path / "config.yaml"):
        prints["config.yaml"] = fingerprint(config)
    return _digest(prints)


def _digest(content: object) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def export_command(arguments: argparse.Namespace) -> Path:
    """Export a dataset. Returns its path.

    Raises:
        ConfigError: an option of another kind of export was given.
    """
    for name, given in (("--sensor", arguments.sensor), ("--width", arguments.width)):
        if given is not None:
            raise ConfigError(f"export {arguments.format}: {name} is not for datasets; options are given by --config")
    settings: dict[str, Any]
    if arguments.request:
        settings = parse_json(arguments.request, "--request")
    else:
        settings = dataset_settings(arguments.format, arguments.config)
        if arguments.every != 1:
            settings["options"]["every"] = arguments.every
    return export_dataset(
        arguments.format,
        arguments.traces,
        arguments.out,
        settings=settings,
        threads=arguments.threads,
        replace=arguments.replace,
        output_root=Path(arguments.output_root) if arguments.output_root else None,
        stamp=arguments.stamp,
        make=arguments.make,
    )
