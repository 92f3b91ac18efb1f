"""The table of all formats of datasets. Light: it imports no maths, and the workflow asks it too.

A new format is a model of options in `datasets/options.py`, with a field of its name in `ExportSection`, an entry here
and a module in `export/`. The entry's rule and its line in `info` and `check` follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DatasetFormat:
    """A format of datasets.

    Attributes:
        name: of the format, of its section in `export`, and of its rule.
        summary: one line for the user.
        module: dotted name of its module, which has the functions

            write(job: rover_pipeline.export.dataset.ExportJob) -> None
            describe(folder: Path) -> dict[str, object]       figures for `rover-pipeline info`, as JSON can hold them
            problems(folder: Path) -> Iterator[str]           one line each for `rover-pipeline check`

        version: raised whenever the same inputs and options give other bytes.
        marks: glob patterns by which a folder is recognised, all of which must match; `{name}` is its own name.
        kind: what happens where a dataset is already. new = only one that this program made is replaced, as a whole;
            update = the format adds to it (`ExportJob.older`); merge = new files go into a folder that is there, such
            as the recording itself, and never over others.
        splits: whether the format has training, validation and test.
    """

    name: str
    summary: str
    module: str
    version: int
    marks: tuple[str, ...]
    kind: Literal["new", "update", "merge"] = "new"
    splits: bool = True


DATASETS: dict[str, DatasetFormat] = {
    each.name: each
    for each in (
        DatasetFormat(
            "kitti",
            "sequences as KITTI's odometry benchmark has them: velodyne, times, calib, poses",
            "rover_pipeline.export.kitti",
            version=1,
            marks=("sequences/*/velodyne",),
        ),
        DatasetFormat(
            "edgefirst",
            "EdgeFirst datasets: pictures, radar cubes, point clouds and depth as a folder and a ZIP, with an Arrow "
            "table of poses and boxes (extra `edgefirst`)",
            "rover_pipeline.export.edgefirst",
            version=1,
            marks=("{name}.arrow", "{name}"),
        ),
        DatasetFormat(
            "roverp",
            "poses, trajectory and matched samples beside the sensors, as the I/Q-1M recordings have them; never over "
            "files that are there",
            "rover_pipeline.export.roverp",
            version=1,
            marks=("_lidar/pose.npz",),
            kind="merge",
            splits=False,
        ),
        DatasetFormat(
            "nerfstudio",
            "transforms.json with the lens and poses, pictures, and a seed cloud from the map",
            "rover_pipeline.export.nerfstudio",
            version=1,
            marks=("transforms.json",),
        ),
        DatasetFormat(
            "l5kit",
            "scenes of the rig and what moves around it at 10 Hz, for l5kit (zarr)",
            "rover_pipeline.export.l5kit.dataset",
            version=1,
            marks=(".zgroup", "scenes/.zarray", "frames/.zarray", "agents/.zarray"),
        ),
        DatasetFormat(
            "rslearn",
            "the ground from above in windows of time and place, for rslearn (GeoTIFF, GeoJSON; extra `rslearn`)",
            "rover_pipeline.export.rslearn.dataset",
            version=1,
            marks=("config.json", "windows/*/*/metadata.json"),
        ),
        DatasetFormat(
            "mda",
            "a file for each key frame, with its picture, annotations and their revisions (MDA 0.1.0)",
            "rover_pipeline.export.mda.dataset",
            version=1,
            marks=("*/*.mda",),
            kind="update",
        ),
    )
}
