"""Declarations of the virtual sensors that show lidar returns in the geometry of other sensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rover_pipeline.engine.step import Output, Step
from rover_pipeline.kinematics.references import ODOMETRY
from rover_pipeline.occupancy.options import DepthOptions, OccupancyOptions

_FILES = {
    "metadata": "lidar/lidar.json",
    "config": "config.yaml?",
    "sidecar": "radar/radar.json?",
    "radar": "radar/meta.json?",
}


def _level(options: OccupancyOptions) -> Mapping[str, Any]:
    """To remove the tilt, the rotation of the lidar and the accelerometer are read too."""
    if not options.level:
        return {}
    imu = {"imu_ts": "imu/ts?", "imu_acc": "imu/acc?", "imu_valid": "imu/valid?"}
    return {"inputs": {"rot": "_odom/rot"}, "whole": {"odometry": ODOMETRY, **imu}}


def _motion(options: DepthOptions) -> Mapping[str, Any]:
    return {"whole": {"odometry": ODOMETRY, "recorded_ts": "camera/ts"}} if options.motion else {}


def _cells(sensor: str, flat: bool, axes: str, summary: str) -> Step:
    # Nearly all cells are empty, so that three dimensions with compression take less space than two without it.
    cells = Output(f"1 = a lidar return is in the cell. {axes}.", "raw" if flat else "lzmaf", type="u1")
    return Step(
        sensor=sensor,
        function="rover_pipeline.occupancy.steps:occupancy",
        version=1,
        sections=("occupancy", "rig"),
        options=OccupancyOptions,
        inputs={"rng": "_lidar_image/rng"},
        files=_FILES,
        constants={"flat": flat},
        outputs={"occupancy": cells},
        variant=_level,
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
        summary="Cells of azimuth and range that hold lidar returns, in the radar's frame and with its range bins.",
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
        version=3,
        sections=("depth", "camera.lens", "rig", "lidar", "sync.times"),
        options=DepthOptions,
        inputs={"ts": "camera/ts"},
        nearest={"rng": "_lidar_image/rng", "lidar_ts": "_lidar_image/ts"},
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml?",
            "intrinsics": "camera/camera.json",
            "recorded": "camera/meta.json",
            "published": "_camera/meta.json?",
        },
        outputs={
            "depth": Output(
                "Distance along the camera's axis to the nearest return, mm; 0 = none. [row, column]",
                type="u2",
                unit="mm",
            )
        },
        variant=_motion,
        inspect="rover_pipeline.occupancy.depth_steps:inspect_lens",
        sidecars=("camera.json",),
        summary="Depth of the nearest lidar return in each pixel, mm along the camera's axis, 0 = none.",
    ),
)
