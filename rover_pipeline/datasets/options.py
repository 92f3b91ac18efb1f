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


#: Kinds of files of an EdgeFirst sample, by their suffix.
EdgefirstFile = Literal[
    "camera.jpeg", "depth.png", "radar.png", "radar.pcd", "lidar.pcd", "lidar.png", "lidar.jpeg"
]  # fmt: skip

#: The channels that each kind is made from, besides those of every export.
_EDGEFIRST_NEEDS: dict[EdgefirstFile, tuple[str, ...]] = {
    "camera.jpeg": ("camera/video.avi",),
    "depth.png": ("_camera_depth/depth",),
    "radar.png": ("radar/iq", "radar/radar.json", "_sync/radar"),
    "radar.pcd": ("radar/iq", "radar/radar.json", "_radar_points/xyz", "_radar_points/doppler", "_radar_points/snr",
                  "_radar_points/count", "_radar_pose/rot?", "_sync/radar"),
    "lidar.pcd": (),
    "lidar.png": (),
    "lidar.jpeg": ("lidar/rfl",),
}  # fmt: skip

#: The channels that annotations are made from.
_OBJECTS = tuple(f"_objects/{name}?" for name in ("centre", "extent", "yaw", "vel", "track", "probability", "count"))


class EdgefirstOptions(DatasetOptions):
    """EdgeFirst datasets: samples at the lidar's times, with the nearest picture and radar frame, and a table."""

    files: tuple[EdgefirstFile, ...] = Field(
        tuple(_EDGEFIRST_NEEDS),
        description="Kinds of files of each sample. A sample for which one of them cannot be made is left out. Leave "
        "out those whose sensor the recordings lack. Readers need camera.jpeg.",
    )
    every: int = Field(1, ge=1, description="Only every n-th sweep.")
    zip: bool = Field(True, description="An archive of the files beside them, NAME.zip, as the uploader takes it.")
    annotations: bool = Field(True, description="Boxes of `_objects`, where it is there or can be made.")

    def needs(self) -> tuple[str, ...]:
        of_files = [reference for name in self.files for reference in _EDGEFIRST_NEEDS[name]]
        boxes = (*_OBJECTS, "_camera_pose/pos?", "_camera_pose/rot?", "camera/camera.json?") if self.annotations else ()
        camera = ("camera/video.avi", "_sync/camera")
        return tuple(dict.fromkeys((*_SWEEPS, *camera, *of_files, *boxes)))


#: Channels that hold the state of a sensor of the rig.
_STATE = ("pos", "rot", "vel", "acc")


class RoverpOptions(DatasetOptions):
    """Files beside the sensors, as the public I/Q-1M recordings have them."""

    segment: int = Field(
        160,
        ge=1,
        le=4096,
        description="Width and height of the labels of `_camera_model` in `_camera/segment`, pixels.",
    )

    def needs(self) -> tuple[str, ...]:
        poses = (f"_{sensor}_pose/{name}?" for sensor in ("radar", "camera") for name in _STATE)
        return (*(f"_odom/{name}" for name in _STATE), "_sync/lidar", *poses, "_camera_model/labels?")


class NerfstudioOptions(DatasetOptions):
    """Pictures with poses, for nerfstudio."""

    every: int = Field(10, ge=1, description="Only every n-th picture: neighbours of a video show the same.")
    undistort: bool = Field(
        False,
        description="Pictures without the distortion of the lens, encoded anew. false = the recorded pictures and "
        "the model of the lens. Focal lengths stay, so the picture of a fisheye loses its rim.",
    )
    points: int = Field(
        200_000, ge=0, description="Points of the seed cloud, taken evenly from the map's; 0 = no seed cloud."
    )

    def needs(self) -> tuple[str, ...]:
        seed = ("_map/map.ply",) if self.points else ()
        return ("camera/video.avi", "camera/camera.json", "_camera_pose/pos", "_camera_pose/rot", *seed)


class ExportSection(Options):
    """Datasets in other formats."""

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
