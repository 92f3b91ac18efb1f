"""Declarations of the virtual sensors that are made from the lidar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rover_pipeline.engine.step import Output, Step
from rover_pipeline.kinematics.references import ODOMETRY
from rover_pipeline.lidar.options import PointsOptions

_IMAGES = {"rng": "lidar/rng", "rfl": "lidar/rfl", "nir": "lidar/nir"}


def _points_variant(options: PointsOptions) -> Mapping[str, Any]:
    """Deskewed points need the odometry, and say to which instant they belong."""
    if not options.compensate:
        return {}
    seen_from = "all as seen from where the lidar was at the instant that ts refers to (lidar.ts_reference), by _odom."
    return {"whole": {"odometry": ODOMETRY}, "outputs": {"xyz": _points(seen_from)}}


def _points(seen_from: str) -> Output:
    text = (
        f"Points in the sensor frame, front-left-up, m; NaN where there is no return. [beam, column, xyz], {seen_from}"
    )
    return Output(text, type="f4", unit="m")


STEPS = (
    Step(
        sensor="_lidar_image",
        function="rover_pipeline.lidar.steps:image",
        version=1,
        inputs=_IMAGES,
        files={"metadata": "lidar/lidar.json"},
        outputs={
            "rng": Output(
                "Range, mm; 0 = no return, 65535 = clipped. [beam, column], destaggered.", type="u2", unit="mm"
            ),
            "rfl": Output("Reflectivity. [beam, column], destaggered.", type="u1"),
            "nir": Output("Ambient near infrared, photons. [beam, column], destaggered.", type="u2", unit="photons"),
        },
        default=True,
        summary="Range (mm), reflectivity and near infrared, decompressed and destaggered.",
    ),
    Step(
        sensor="_lidar_points",
        function="rover_pipeline.lidar.points_step:points",
        version=3,
        sections=("lidar.points", "sync.times"),
        options=PointsOptions,
        inputs={**_IMAGES, "ts": "lidar/ts"},
        files={"metadata": "lidar/lidar.json"},
        outputs={
            "xyz": _points("each as seen from where the lidar was at its column's own instant."),
            "rfl": Output("Reflectivity. [beam, column], in the order of the columns' instants.", type="u1"),
            "nir": Output(
                "Ambient near infrared, photons. [beam, column], in the order of the columns' instants.",
                type="u2",
                unit="photons",
            ),
        },
        variant=_points_variant,
        summary="Points in the sensor frame, m, NaN without a return, columns in time order. "
        "`lidar: {points: {compensate: true}}` undoes the motion within sweeps (deskew).",
    ),
)
