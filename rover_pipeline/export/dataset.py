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
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rover_pipeline.datasets.options import DatasetOptions, SplitOptions
from rover_pipeline.datasets.splits import SPLITS, Course, assign, named_recordings
from rover_pipeline.datasets.table import DATASETS, DatasetFormat
from rover_pipeline.engine.parallel import ordered_map
from rover_pipeline.engine.progress import progress
from rover_pipeline.engine.step import OPTIONAL
from rover_pipeline.errors import ConfigError
from rover_pipeline.export.layout import Layout
from rover_pipeline.export.output import dataset_output, leave_stamp, merge, older_dataset, publish
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.attempt import remove_left
from rover_pipeline.format.files import exists
from rover_pipeline.format.provenance import fingerprint, require_fresh, versions
from rover_pipeline.format.rig import TYPES
from rover_pipeline.format.texts import parse_json, parse_yaml
from rover_pipeline.format.trace import link_trace
from rover_pipeline.lookup import load

T = TypeVar("T")
#: Samples of a part of an export: some seconds of work, which an interruption costs at most. Schedule.
PART_ITEMS = 128


@dataclass
class ExportJob:
    """What the module of a format is asked to write."""

    format: DatasetFormat  #: entry of the table.
    recordings: tuple[Recording, ...]  #: in the order of their names.
    options: Any  #: of the format, its own model.
    split_options: SplitOptions  #: how samples are split; see `split`.
    threads: int  #: number of samples that may be worked on at the same time.
    folder: Path  #: where the files of the dataset go.
    part: Callable[[str, Callable[[], Iterable[Path]]], bool]  #: makes a part that survives an interruption.
    #: the dataset that this one replaces, for formats that add to it; None where there is none.
    older: Path | None = None
    #: what the user should know; they are printed, and kept in the provenance.
    notes: list[str] = field(default_factory=list)

    @cached_property
    def layout(self) -> Layout:
        """The files of the format."""
        return load(f"{self.format.module}:LAYOUT")

    def key(self, recording: Recording) -> str | None:
        """The name of a recording as a key of paths; None where the dataset is of this one alone."""
        return recording.name if len(self.recordings) > 1 else None

    def save(self, kind: str, value: Any, **keys: object) -> Path:
        """Write a file of the format's layout: its kind, its content, and the keys of its path. Returns the path."""
        path = self.layout.path(self.folder, kind, **keys)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.layout[kind].content.encode(value))
        return path

    def views(self, recording: Recording, type: str) -> list[Recording]:
        """The recording as each sensor of a type sees it, the main one first. Those that lack something are noted. Of a
        type of which the dataset holds one sensor it is the recording alone."""
        main, *others = recording.each(type) if type in self.options.several() else [recording]
        found = [main]
        for view in others:
            needed = (each for each in self.options.needs() if not each.endswith(OPTIONAL))
            lacking = next((each for each in needed if not view.has(each)), None)
            if lacking is None:
                found.append(view)
            else:
                path = view.file(lacking).relative_to(view.path)
                self.note(f"{view.path}: {view.called(type)} is not in the dataset: there is no {path}")
        return found

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
        """The split of each sample of each course: see `splits.assign`. A split that gets nothing is noted."""
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
        load("rover_pipeline.export.making:make_needed")(entries, options.needs(), options.several(), cores=threads)
    recordings = find_recordings(entries, output_root)
    sensors = [each.partition("/")[0] for each in options.needs()]
    for recording in recordings:
        for reference in options.needs():
            if not reference.endswith(OPTIONAL):
                recording.require(reference, name)
        read = dict.fromkeys(view.called(each) for view in recording.each(*options.several()) for each in sensors)
        require_fresh(recording.path, [*read], f"export {name}")
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
        job = ExportJob(format, recordings, options, split_options, threads, output.folder, output.part, older)
        for recording in recordings:
            _note_others(job, recording)
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
        items: `splits={...}`, `FORMAT={...}`, or `KEY=VALUE` for an option of the format; values as in YAML. Raises
            ConfigError for any other one.
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
    """The recordings that entries stand for. Raises as `named_recordings`, which names them."""
    found = []
    for name, (source, place) in named_recordings(entries, output_root).items():
        if output_root is not None and place != source:
            link_trace(source, place)  # a virtual sensor may be wanted from a recording that has no results yet
        found.append(Recording(name, place.absolute()))
    return tuple(found)


def _inputs(recording: Recording, options: DatasetOptions) -> str:
    """Digest of all that an export reads of a recording."""
    prints: dict[str, object] = {}
    for view, reference in product(recording.each(*options.several()), options.needs()):
        if not view.has(reference):
            continue
        channel, sensor = view.file(reference), view.called(reference.partition("/")[0])
        beside = (f"{channel.name}_i", "ts", "valid", recording.rig.sidecar(sensor))
        for path in (channel, *(channel.parent / each for each in beside)):
            if exists(path):
                prints[f"{sensor}/{path.name}"] = fingerprint(path)
    if exists(config := recording.path / "config.yaml"):
        prints["config.yaml"] = fingerprint(config)
    return _digest(prints)


def _note_others(job: ExportJob, recording: Recording) -> None:
    """Note the sensors of types that the format reads of which it holds one, but for the main ones."""
    read = {each.removeprefix("_").partition("/")[0].partition("_")[0] for each in job.options.needs()}
    read |= {"lidar"} if any(each.startswith("_odom/") for each in job.options.needs()) else set()
    for type in (each for each in TYPES if each in read and each not in job.options.several()):
        if others := [each for each in recording.rig.of(type) if each != recording.called(type)]:
            job.note(
                f"{recording.path}: {', '.join(others)} {'is' if len(others) == 1 else 'are'} not in the dataset: of "
                f"each recording it has one {type}, {recording.called(type)}"
            )


def _digest(content: object) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def export_command(arguments: argparse.Namespace) -> Path:
    """Export a dataset. Returns its path. Raises ConfigError where an option of another kind of export was given."""
    for name, given in (("--sensor", arguments.sensor), ("--width", arguments.width)):
        if given is not None:
            raise ConfigError(f"export {arguments.format}: {name} is not for datasets; options are given by --config")
    request, config = arguments.request, arguments.config
    settings = parse_json(request, "--request") if request else dataset_settings(arguments.format, config)
    if arguments.every != 1 and not request:
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
