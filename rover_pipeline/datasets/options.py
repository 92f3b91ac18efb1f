"""Options of the section `export`: what holds for every format of a dataset. The Snakefile reads this module."""

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
        """The channels that an export reads, as `sensor/channel`; one that ends with `?` is read where it is there.

        Names are those of types: `radar/iq` and `_radar_points/xyz` are of a radar that may be called otherwise.
        """
        return ()

    def several(self) -> tuple[str, ...]:
        """Types of which all sensors of a recording are exported, where they have what `needs` names; else the main."""
        return ()


#: The channels of `_odom` that make a trajectory, and those of `_objects` that annotations are made from.
_TRAJECTORY = tuple(f"_odom/{name}" for name in ("pos", "rot", "vel", "acc", "avel"))
_OBJECTS = tuple(f"_objects/{name}" for name in ("centre", "extent", "yaw", "vel", "track", "probability", "count"))
#: The channels that a deskewed sweep and a pose are made from, of either kind of lidar, of images or of points.
SWEEPS = (
    *("lidar/ts", "lidar/rng?", "lidar/rfl?", *_TRAJECTORY),
    *("lidar/xyz?", "lidar/count?", "lidar/time?", "lidar/intensity?"),
)


class KittiOptions(DatasetOptions):
    """KITTI's odometry benchmark."""

    every: int = Field(1, ge=1, description="Only every n-th sweep.")

    def needs(self) -> tuple[str, ...]:
        return (*SWEEPS, "camera/video.avi?", "camera/camera.json?", "_camera_pose/rot?")


#: Kinds of files of an EdgeFirst sample, by their suffix.
EdgefirstFile = Literal[
    "camera.jpeg", "depth.png", "radar.png", "radar.pcd", "lidar.pcd", "lidar.png", "lidar.jpeg"
]  # fmt: skip

#: The channels that each kind is made from, besides those of every export.
_EDGEFIRST_NEEDS: dict[EdgefirstFile, tuple[str, ...]] = {
    "camera.jpeg": ("camera/video.avi",),
    "depth.png": ("_camera_depth/depth",),
    "radar.png": ("radar/ts", "radar/iq?", "radar/radar.json?", "_sync/radar"),
    "radar.pcd": ("radar/ts", "radar/iq?", "radar/radar.json?", "_radar_points/xyz", "_radar_points/doppler",
                  "_radar_points/snr", "_radar_points/count", "_radar_pose/pos?", "_radar_pose/rot?", "_sync/radar"),
    "lidar.pcd": (),
    "lidar.png": (),
    "lidar.jpeg": ("lidar/rfl?",),
}  # fmt: skip


class EdgefirstOptions(DatasetOptions):
    """EdgeFirst datasets: samples at the lidar's times, with the nearest picture and radar frame, and a table."""

    files: tuple[EdgefirstFile, ...] = Field(
        tuple(_EDGEFIRST_NEEDS),
        description="Kinds of files of each sample. A sample for which one of them cannot be made is left out. Leave "
        "out those whose sensor the recordings lack. Readers need camera.jpeg. A lidar that is points gives no "
        "lidar.png and lidar.jpeg, a radar that is points no radar.png and radar.pcd: a note says so.",
    )
    every: int = Field(1, ge=1, description="Only every n-th sweep.")
    zip: bool = Field(True, description="An archive of the files beside them, NAME.zip, as the uploader takes it.")
    annotations: bool = Field(True, description="Boxes of `_objects`, where it is there or can be made.")

    def needs(self) -> tuple[str, ...]:
        of_files = [reference for name in self.files for reference in _EDGEFIRST_NEEDS[name]]
        boxes = (*_OBJECTS, "_camera_pose/pos", "_camera_pose/rot", "camera/camera.json") if self.annotations else ()
        camera = ("camera/video.avi", "_sync/camera")
        return tuple(dict.fromkeys((*SWEEPS, *camera, *of_files, *(f"{each}?" for each in boxes))))


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

    def several(self) -> tuple[str, ...]:
        return ("radar", "camera")


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

    def several(self) -> tuple[str, ...]:
        return ("camera",)


class L5kitOptions(DatasetOptions):
    """`l5kit`: scenes with the rig and what is around it at one rate."""

    rate: float = Field(10.0, gt=0, le=100, description="Frames a second. l5kit's own datasets have 10.")
    agents: bool = Field(
        True, description="Whether frames have agents, from `_objects`. false = only the rig's own motion is exported."
    )
    threshold: float = Field(
        0.5,
        ge=0.5,
        lt=1,
        description="An object is an agent when its probabilities of being a road user add up to more than this. "
        "l5kit's own filter drops agents at 0.5 and below.",
    )
    max_gap: float = Field(
        0.5, gt=0, description="Longest time between two poses, or two samples of a track, that is filled, s."
    )
    min_frames: int = Field(10, ge=2, description="Shorter scenes and tracks are left out.")
    max_frames: int | None = Field(
        None, ge=2, description="Longer scenes are cut. l5kit's own have 250. null = a scene ends where a gap begins."
    )

    def needs(self) -> tuple[str, ...]:
        return (*_TRAJECTORY, *(_OBJECTS if self.agents else ()))


class RslearnOptions(DatasetOptions):
    """`rslearn`: the ground from above, in windows of time and place."""

    slice_s: float = Field(10.0, gt=0, description="Length of a slice of time, s. A window shows one tile during one.")
    resolution: float = Field(0.1, gt=0.001, le=10, description="Edge of a pixel, m.")
    tile_px: int = Field(256, ge=16, le=4096, description="Edge of a tile, pixels.")
    min_share: float = Field(
        0.005, gt=0, le=1, description="A tile of which less than this share of the pixels was observed is left out."
    )
    every: int = Field(4, ge=1, description="Use every n-th sweep of the lidar and frame of the radar.")
    min_range: float = Field(0.5, ge=0, description="Minimum range of a return, m.")
    max_range: float = Field(40.0, gt=0, description="Maximum range of a return of the lidar, and of a radar bin, m.")
    z_min: float = Field(0.3, description="Minimum height of obstacles above the floor, m.")
    z_max: float = Field(1.8, gt=0, description="Maximum height of obstacles, and of surfaces in `height`, m.")
    radar: bool = Field(True, description="Whether there is a layer of radar power, from `_radar_range_azimuth`.")
    max_azimuth_deg: float = Field(
        60.0, gt=0, le=90, description="Radar power is drawn up to this angle from ahead, degrees."
    )
    objects: bool = Field(True, description="Whether there is a layer of tracks, from `_objects`.")
    latitude: float = Field(0.0, gt=-90, lt=90, description="Where the recording begins, degrees north.")
    longitude: float = Field(0.0, ge=-180, le=180, description="Where the recording begins, degrees east.")

    @model_validator(mode="after")
    def _bands(self) -> RslearnOptions:
        if self.z_min >= self.z_max or self.min_range >= self.max_range:
            raise ValueError("z_min must be below z_max, and min_range below max_range")
        return self

    def needs(self) -> tuple[str, ...]:
        radar = ("_radar_range_azimuth/power", "_radar_range_azimuth/axes.json", "_radar_pose/pos", "_radar_pose/rot")
        return (*SWEEPS, "lidar/lidar.json", *(radar if self.radar else ()), *(_OBJECTS if self.objects else ()))

    def several(self) -> tuple[str, ...]:
        return ("radar",) if self.radar else ()


#: Sensor -> the channel that pictures are made from, and the sensor that holds its poses.
MDA_SOURCES = {
    "camera": ("camera", "video.avi", "_camera_pose"),
    "lidar": ("_lidar_image", "rng", "_odom"),
    "radar": ("_radar_range_azimuth", "power", "_radar_pose"),
}
#: Channels of `_radar_quality`, each a share or a coherence.
RADAR_MEASURES = ("clipped", "interfered", "coherence")


class MdaOptions(DatasetOptions):
    """`mda`: one file for each key frame, with its picture, annotations and their revisions."""

    sensor: Literal["camera", "lidar", "radar"] = Field(
        "camera",
        description="What the pictures are of: the camera as it was recorded, ranges of the lidar (`_lidar_image`) or "
        "power of the radar (`_radar_range_azimuth`), both as 16-bit PNG.",
    )
    period: float = Field(
        1.0, gt=0, description="Time from one key frame to the next, s. The first sample of each period is one."
    )
    objects: bool = Field(True, description="Whether key frames are annotated with `_objects`.")
    max_dt: float = Field(
        0.1, gt=0, description="Longest time from a key frame to the sample that it is annotated from, s."
    )

    def needs(self) -> tuple[str, ...]:
        sensor, channel, poses = MDA_SOURCES[self.sensor]
        quality = tuple(f"_radar_quality/{name}?" for name in RADAR_MEASURES)
        return (
            f"{sensor}/{channel}",
            *(f"{poses}/{name}" for name in ("pos", "rot", "vel")),
            *(_OBJECTS if self.objects else ()),
            "_odom/cov?",
            "camera/camera.json?",
            *quality,
        )

    def several(self) -> tuple[str, ...]:
        return (self.sensor,) if self.sensor != "lidar" else ()  # `_odom` has the poses of one lidar
