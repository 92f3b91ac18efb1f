"""Declarations of the virtual sensors that show lidar returns in the geometry of other sensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rover_pipeline.engine.step import Output, Step
from rover_pipeline.kinematics.references import ODOMETRY
from rover_pipeline.lidar.kinds import from_points
from rover_pipeline.occupancy.options import DepthOptions, OccupancyOptions

if TYPE_CHECKING:
    from rover_pipeline.numerics.nearest import Match

_FILES = {
    "metadata": "lidar/lidar.json",
    "config": "config.yaml?",
    "sidecar": "radar/radar.json?",
    "radar": "radar/meta.json?",
}
_SWEEP = {"rng": "_lidar_image/rng", "lidar_ts": "_lidar_image/ts"}
_IMU = {"imu_ts": "imu/ts?", "imu_acc": "imu/acc?", "imu_valid": "imu/valid?"}
#: The sweep that is under way at an instant, by the instant of a sweep that its time stamp refers to.
_UNDER_WAY: Mapping[str, Match] = {"end": "next", "middle": "nearest", "start": "previous"}
_STILL = " Made as if the rig stood still: motion within sweeps is not undone."


def _cells_variant(output: Callable[[str], Output]) -> Callable[[OccupancyOptions], Mapping[str, Any]]:
    """What depends on the options: whose frames there are, and what is needed to know the motion and the tilt."""

    def variant(options: OccupancyOptions) -> Mapping[str, Any]:
        frames: dict[str, Any] = {}
        instant = "As seen at the instant that ts refers to (lidar.ts_reference)."
        whole: dict[str, Any] = {}
        if options.at == "radar":
            match = _UNDER_WAY[options.lidar.ts_reference]
            frames = {"inputs": {**dict.fromkeys(_SWEEP), "ts": "radar/ts"}, "nearest": _SWEEP, "match": match}
            instant = "As seen in the middle of the radar frame's chirps."
            whole["radar_ts"] = "radar/ts"
        if options.motion or options.level:
            whole["odometry"] = ODOMETRY
        if options.level:
            whole |= _IMU
        outputs = {"occupancy": output(instant if options.motion else _STILL.strip())}
        return {**frames, "whole": whole, "outputs": outputs}

    return variant


def _depth_variant(options: DepthOptions) -> Mapping[str, Any]:
    match = _UNDER_WAY[options.lidar.ts_reference]
    if options.motion:
        return {"match": match, "whole": {"odometry": ODOMETRY, "recorded_ts": "camera/ts"}}
    return {"match": match, "outputs": {"depth": _depth(_STILL)}}


def _depth(more: str = "") -> Output:
    text = f"Distance along the camera's axis to the nearest return, mm; 0 = none. [row, column].{more}"
    return Output(text, type="u2", unit="mm")


def _cells(sensor: str, flat: bool, axes: str, summary: str) -> Step:
    def output(instant: str = "") -> Output:
        # Nearly all cells are empty, so that three dimensions with compression take less space than two without it.
        text = f"1 = a lidar return is in the cell. {axes}. {instant}".strip()
        return Output(text, "raw" if flat else "lzmaf", type="u1")

    return Step(
        sensor=sensor,
        function="rover_pipeline.occupancy.steps:occupancy",
        version=4,
        sections=("occupancy", "rig", "lidar", "sync.times"),
        uses={"rig": ("name", "radar", "imu")},
        options=OccupancyOptions,
        inputs=_SWEEP,
        files=_FILES,
        constants={"flat": flat},
        outputs={"occupancy": output()},
        variant=_cells_variant(output),
        adapt=from_points,
        inspect="rover_pipeline.occupancy.steps:inspect_cells",
        sidecars=("axes.json",),
        default=flat,
        summary=summary,
    )


STEPS = (
    _cells(
        "_bev",
        flat=True,
        axes="[azimuth, range], to the right, away",
        summary="Cells of azimuth and range that hold lidar returns, in the radar's frame and with its range bins, at "
        "one instant: motion within the sweep is undone with `_odom`. `occupancy: {at: radar}` makes them for the "
        "frames of the radar.",
    ),
    _cells(
        "_occupancy",
        flat=False,
        axes="[elevation, azimuth, range], up, to the right, away",
        summary="The same cells with elevation as a third dimension.",
    ),
    Step(
        sensor="_camera_depth",
        function="rover_pipeline.occupancy.depth_steps:depth",
        version=6,
        sections=("depth", "camera.lens", "rig", "lidar", "sync.times"),
        uses={"rig": ("name", "camera")},
        options=DepthOptions,
        inputs={"ts": "camera/ts"},
        nearest=_SWEEP,
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml?",
            "intrinsics": "camera/camera.json",
            "recorded": "camera/meta.json",
            "published": "_camera/meta.json?",
        },
        outputs={"depth": _depth()},
        variant=_depth_variant,
        adapt=from_points,
        inspect="rover_pipeline.occupancy.depth_steps:inspect_lens",
        sidecars=("camera.json",),
        summary="Depth of the nearest lidar return in each pixel at the picture's instant, mm along the camera's axis, "
        "0 = none.",
    ),
)
