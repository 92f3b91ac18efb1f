"""What the power campaign records: what the fault campaign disturbs, and what else is published."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import export_dataset
from rover_pipeline.export.mda.commands import main as mda
from rover_pipeline.export.mda.files import add_revision
from rover_pipeline.format.failures import FOLDER, MEMORY, record_failure, write_memory
from rover_pipeline.format.files import replace_file
from tests.campaign.datasets import FORMATS, dataset_trace, make_dataset
from tests.campaign.subjects import Subject, subjects
from tests.kit import STAMP, environment, small_trace


class Publish(NamedTuple):
    """What is recorded.

    Attributes:
        by_file: its files are replaced one by one, each of them whole.
        timed: it tells a time.
        datasets: folders that `check` looks at, besides traces.
        share: of the states that are judged of others; slow ones have a smaller one.
    """

    subject: Subject
    by_file: bool = False
    timed: bool = False
    datasets: tuple[str, ...] = ()
    share: float = 1.0


#: Slow ones: seconds, not hundredths, for each state.
_SHARES = {"_odom": 0.2, "_objects": 0.1, "simulate": 0.25, "_report": 0.6}


@functools.cache
def publishes() -> dict[str, Publish]:
    """All by their names."""
    known = {
        name: Publish(subject, datasets=("new",), share=0.5)
        if name.startswith("dataset ")
        else Publish(subject, share=_SHARES.get(name, 1.0))
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
        "command": Publish(_command((), "rec"), share=0.03),
        "command, elsewhere": Publish(_command(("output_root=out",), "out/rec"), share=0.03),
        "mda extract": Publish(Subject(_mda, _extract, ("new2",), replaces=False), True),
        "options": Publish(_small(lambda rec, stamp: write_memory(rec, {"radar.calibration": stamp}), f"rec/{MEMORY}")),
        "marker": Publish(_small(lambda rec, stamp: replace_file(rec / ".marker", json.dumps(stamp)), "rec/.marker")),
        "failure": Publish(
            _small(
                lambda rec, _: record_failure(rec, "_odom", "for a reason", may_pass=False), f"rec/{FOLDER}/_odom.json"
            ),
            timed=True,
        ),
    }


def _small(write: Callable[[Path, str], object], result: str) -> Subject:
    def prepare(folder: Path) -> None:
        small_trace(folder / "rec", 2, sensors=("radar",))

    return Subject(prepare, lambda folder, stamp, _: write(folder / "rec", stamp), (result,))


def _command(more: tuple[str, ...], place: str) -> Subject:
    """A whole run, with stamps, markers and remembered options."""

    def prepare(folder: Path) -> None:
        small_trace(folder / "rec", 2, sensors=("radar", "imu"))

    def run(folder: Path, stamp: str, _threads: int) -> None:
        # Another run had other options of one of the results.
        option = f"imu.gravity={9.81 if stamp == STAMP else 9.82}"
        command = ["run", "rec", "--outputs", "imu_filtered,radar_times", "--cores", "2", "--config", *more, option]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rover_pipeline", *command],
            cwd=folder, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise FormatError(done.stderr[-1000:])

    names = ("_imu_filtered", "_radar_times", MEMORY)
    return Subject(prepare, run, tuple(f"{place}/{name}" for name in names))


def _extract(folder: Path, _stamp: str, _threads: int) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        mda(["extract", str(min((folder / "new").rglob("*.mda"))), "-o", str(folder / "new2")])


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
