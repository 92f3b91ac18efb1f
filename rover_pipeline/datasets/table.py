"""The table of all formats of datasets. Light: it imports no maths, and the workflow asks it too.

A new format is an object of `DatasetFormat` and a module. Ours are here; an installed package adds its own by an entry
point of the group `rover_pipeline.exports` (`docs/how-to/own-format.md`). The rule of a format, its section of
options, and its lines in `info` and `check` follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from rover_pipeline.datasets.options import (
    DatasetOptions,
    EdgefirstOptions,
    KittiOptions,
    L5kitOptions,
    MdaOptions,
    NerfstudioOptions,
    RoverpOptions,
    RslearnOptions,
    SplitOptions,
)
from rover_pipeline.lookup import Registry
from rover_pipeline.options import Options


@dataclass(frozen=True)
class DatasetFormat:
    """A format of datasets.

    Attributes:
        name: of the format, of its section in `export`, and of its rule.
        summary: one line for the user.
        module: dotted name of its module, which has

            LAYOUT: rover_pipeline.export.layout.Layout       its files, from which they are written and checked
            write(job: rover_pipeline.export.dataset.ExportJob) -> None

            and where the layout does not say enough

            describe(folder: Path) -> dict[str, object]       figures for `rover-pipeline info`, as JSON can hold them
            relations(folder: Path, found: rover_pipeline.export.layout.Files) -> Iterator[str]
                                                              problems between files, for `rover-pipeline check`

        options: the model of its options, which also names the channels that it reads.
        version: raised whenever the same inputs and options give other bytes.
        marks: glob patterns by which a folder is recognised, all of which must match; `{name}` is its own name. Without
            any, only datasets are recognised that this program has made.
        kind: what happens where a dataset is already. new = only one that this program made is replaced, as a whole;
            update = the format adds to it (`ExportJob.older`); merge = new files go into a folder that is there, such
            as the recording itself, and never over others.
        splits: whether the format has training, validation and test.
    """

    name: str
    summary: str
    module: str
    options: type[DatasetOptions]
    version: int = 1
    marks: tuple[str, ...] = ()
    kind: Literal["new", "update", "merge"] = "new"
    splits: bool = True


DATASETS = Registry(
    "rover_pipeline.exports",
    DatasetFormat,
    (
        DatasetFormat(
            "kitti",
            "sequences as KITTI's odometry benchmark has them: velodyne, times, calib, poses",
            "rover_pipeline.export.kitti",
            KittiOptions,
            version=2,
            marks=("sequences/*/velodyne",),
        ),
        DatasetFormat(
            "edgefirst",
            "EdgeFirst datasets: pictures, radar cubes, point clouds and depth as a folder and a ZIP, with an Arrow "
            "table of poses and boxes (extra `edgefirst`)",
            "rover_pipeline.export.edgefirst",
            EdgefirstOptions,
            version=2,
            marks=("{name}.arrow", "{name}"),
        ),
        DatasetFormat(
            "roverp",
            "poses, trajectory and matched samples beside the sensors, as the I/Q-1M recordings have them; never over "
            "files that are there",
            "rover_pipeline.export.roverp",
            RoverpOptions,
            version=2,
            marks=("_*/pose.npz",),
            kind="merge",
            splits=False,
        ),
        DatasetFormat(
            "nerfstudio",
            "transforms.json with the lens and poses, pictures, and a seed cloud from the map",
            "rover_pipeline.export.nerfstudio",
            NerfstudioOptions,
            version=2,
            marks=("transforms.json",),
        ),
        DatasetFormat(
            "l5kit",
            "scenes of the rig and what moves around it at 10 Hz, for l5kit (zarr)",
            "rover_pipeline.export.l5kit.dataset",
            L5kitOptions,
            version=2,
            marks=(".zgroup", "scenes/.zarray", "frames/.zarray", "agents/.zarray"),
        ),
        DatasetFormat(
            "rslearn",
            "the ground from above in windows of time and place, for rslearn (GeoTIFF, GeoJSON; extra `rslearn`)",
            "rover_pipeline.export.rslearn.dataset",
            RslearnOptions,
            version=2,
            marks=("config.json", "windows/*/*/metadata.json"),
        ),
        DatasetFormat(
            "mda",
            "a file for each key frame, with its picture, annotations and their revisions (MDA 0.1.0)",
            "rover_pipeline.export.mda.dataset",
            MdaOptions,
            version=2,
            marks=("*/*.mda",),
            kind="update",
        ),
    ),
)


class ExportSection(Options):
    """Datasets in other formats. A format that a package adds has a key of its name, too."""

    model_config = ConfigDict(extra="allow")

    root: str | None = Field(
        None,
        description="Folder of the datasets that the workflow makes, ROOT/FORMAT. null = `exports` in the folder in "
        "which the command was typed.",
    )
    splits: SplitOptions = Field(SplitOptions(), description="Training, validation and test, the same in every format.")
    kitti: KittiOptions = Field(KittiOptions(), description="KITTI's odometry benchmark.")
    edgefirst: EdgefirstOptions = Field(EdgefirstOptions(), description="EdgeFirst datasets.")
    roverp: RoverpOptions = Field(RoverpOptions(), description="Poses as the I/Q-1M recordings have them.")
    nerfstudio: NerfstudioOptions = Field(NerfstudioOptions(), description="Pictures with poses, for nerfstudio.")
    l5kit: L5kitOptions = Field(L5kitOptions(), description="Scenes of L5Kit.")
    rslearn: RslearnOptions = Field(RslearnOptions(), description="Windows of rslearn.")
    mda: MdaOptions = Field(MdaOptions(), description="MDA files.")

    @model_validator(mode="before")
    @classmethod
    def _options_of_packages(cls, values: Any) -> Any:
        """Options of formats that packages add become their models. Any other unknown key is an error."""
        if not isinstance(values, Mapping):
            return values
        found = dict(values)
        for name in values.keys() - cls.model_fields.keys():
            if name not in DATASETS:
                unknown: Any = {"type": "extra_forbidden", "loc": (name,), "input": values[name]}
                raise ValidationError.from_exception_data(cls.__name__, [unknown])
            found[name] = DATASETS[name].options.parse(values[name], f"export.{name}")
        return found

    def of(self, name: str) -> DatasetOptions:
        """The options of a format, by default its own."""
        return getattr(self, name, None) or DATASETS[name].options()
