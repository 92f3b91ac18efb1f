"""What the power campaign records: what the fault campaign disturbs, and what else is published."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.mda.files import add_revision
from rover_pipeline.format.failures import FOLDER, record_failure
from rover_pipeline.format.memory import MEMORY, write_memory
from rover_pipeline.format.meta import replace_file
from tests.campaign.datasets import FORMATS, dataset_trace, make_dataset
from tests.campaign.subjects import Subject, subjects
from tests.kit import small_trace


class Publish(NamedTuple):
    """What is recorded.

    Attributes:
        by_file: its files are replaced one by one, each of them whole.
        timed: it tells a time.
        datasets: folders that `check` looks at, besides traces.
    """

    subject: Subject
    by_file: bool = False
    timed: bool = False
    datasets: tuple[str, ...] = ()


@functools.cache
def publishes() -> dict[str, Publish]:
    """All by their names."""
    known = {
        name: Publish(subject, datasets=("new",) if name.startswith("dataset ") else ())
        for name, subject in subjects().items()
    }
    return known | {
        "mda update": Publish(Subject(_mda, _update, ("new",), replaces=False, shared="new"), True, datasets=("new",)),
        "dataset kitti, replaced": Publish(Subject(_older_kitti, _kitti, ("new",), replaces=False), datasets=("new",)),
        "roverp into the recording": Publish(
            Subject(_roverp_base, _roverp, _roverp_results(), replaces=False, shared="rec/.roverp"),
            True,
            datasets=("rec",),
        ),
        "options": Publish(_small(lambda rec, stamp: write_memory(rec, {"radar.calibration": stamp}), f"rec/{MEMORY}")),
        "marker": Publish(_small(lambda rec, stamp: replace_file(rec / ".marker", json.dumps(stamp)), "rec/.marker")),
        "failure": Publish(
            _small(lambda rec, _: record_failure(rec, "_odom", "for a reason", may_pass=False), f"rec/{FOLDER}/_odom.json"),
            timed=True,
        ),
    }


def _small(write: Callable[[Path, str], object], result: str) -> Subject:
    def prepare(folder: Path) -> None:
        small_trace(folder / "rec", 2, sensors=("radar",))

    return Subject(prepare, lambda folder, stamp, _: write(folder / "rec", stamp), (result,))


def _mda(folder: Path) -> None:
    make_dataset("mda", dataset_trace(folder / "rec"), folder / "new")


def _update(folder: Path, _stamp: str, _threads: int) -> None:
    add_revision(min((folder / "new").rglob("*.mda")), "notes", "a tree\n")


def _older_kitti(folder: Path) -> None:
    _kitti_every(2, folder)


def _kitti_every(every: int, folder: Path) -> None:
    if every > 1:
        dataset_trace(folder / "rec")
    settings = {"splits": {"by": "recording"}, "options": {"every": every}}
    export_dataset("kitti", [str(folder / "rec")], folder / "new", settings=settings, replace=True)


def _kitti(folder: Path, _stamp: str, _threads: int) -> None:
    _kitti_every(1, folder)


def _roverp_base(folder: Path) -> None:
    dataset_trace(folder / "rec")


def _roverp(folder: Path, _stamp: str, _threads: int) -> None:
    make_dataset("roverp", folder / "rec", folder / "rec")


def _roverp_results() -> tuple[str, ...]:
    return tuple(f"rec/{name}" for name in (".roverp", "_slam", "_lidar", "_radar", "_camera", "_fusion"))


assert "mda" in FORMATS
