"""Options of the section `export`: what every format of a dataset can be told. The Snakefile reads this module."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rover_pipeline.options import Options


class SplitOptions(Options):
    """Training, validation and test, the same in every format."""

    by: Literal["time", "recording", "place"] = Field(
        "time",
        description="time = contiguous blocks of time; recording = whole recordings; place = square cells of the "
        "ground, in each recording's own world, so that a place that is seen twice has one split.",
    )
    train: float = Field(0.7, ge=0, description="Share of the time for training; the three need not add up to 1.")
    validation: float = Field(0.15, ge=0, description="Share of the time for validation.")
    test: float = Field(0.15, ge=0, description="Share of the time for test.")
    block_s: float = Field(20.0, gt=0, description="by: time. Length of a block, s.")
    gap_s: float = Field(
        2.0,
        ge=0,
        description="by: time. Samples of two splits are at least so far apart, s: what is nearer to the boundary of "
        "two blocks than half of it is left out, where their splits differ.",
    )
    cell_m: float = Field(20.0, gt=0, description="by: place. Edge of a cell, m.")
    gap_m: float = Field(
        2.0,
        ge=0,
        description="by: place. Samples of two splits are at least so far apart, m: what is nearer to a cell of "
        "another split is left out.",
    )
    seed: int = Field(0, ge=0, description="Another seed gives another choice of blocks, recordings or cells.")

    @model_validator(mode="after")
    def _shares(self) -> SplitOptions:
        if not self.train + self.validation + self.test > 0:
            raise ValueError("train, validation and test must not all be 0")
        return self


class DatasetOptions(Options):
    """Options of one format. Each has a model of its own, even if there is nothing to choose."""

    def needs(self) -> tuple[str, ...]:
        """The channels that an export reads, as `sensor/channel`; one that ends with `?` is read where it is there."""
        return ()


#: The channels that a deskewed sweep and a pose are made from.
_SWEEPS = ("lidar/rng", "lidar/rfl?", "_odom/pos", "_odom/rot", "_odom/vel", "_odom/acc", "_odom/avel")


class KittiOptions(DatasetOptions):
    """KITTI's odometry benchmark."""

    every: int = Field(1, ge=1, description="Only every n-th sweep.")

    def needs(self) -> tuple[str, ...]:
        return (*_SWEEPS, "camera/video.avi?", "camera/camera.json?", "_camera_pose/rot?")


class ExportSection(Options):
    """Datasets in other formats."""

    root: str | None = Field(
        None,
        description="Folder of the datasets that the workflow makes, ROOT/FORMAT. null = `exports` in the folder in "
        "which the command was typed.",
    )
    splits: SplitOptions = Field(SplitOptions(), description="Training, validation and test, the same in every format.")
    kitti: KittiOptions = Field(KittiOptions(), description="KITTI's odometry benchmark.")
