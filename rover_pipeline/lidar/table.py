"""Declarations of the virtual sensors that are made from the lidar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rover_pipeline.engine.step import Has, Output, Step
from rover_pipeline.kinematics.references import ODOMETRY
from rover_pipeline.lidar.kinds import has_points, only_of_images, without_missing
from rover_pipeline.lidar.options import PointsOptions

_TS = "lidar/ts"
_POINT_CHANNELS = {
    "intensity": Output("Intensity, in the unit of lidar/intensity; NaN past count. [point]", type="f4"),
    "ring": Output("Number of the beam. [point]", type="u2"),
    "time": Output("Instant of each point after ts, s; NaN past count. [point]", type="f4", unit="s"),
}
_IMAGES = {"rng": "lidar/rng", "rfl": "lidar/rfl", "nir": "lidar/nir"}


def _points_variant(options: PointsOptions) -> Mapping[str, Any]:
    """Deskewed points need the odometry, and say to which instant they belong."""
    if not options.compensate:
        return {}
    seen_from = "all as seen from where the lidar was at the instant that ts refers to (lidar.ts_reference), by _odom."
    return {"whole": {"odometry": ODOMETRY}, "outputs": {"xyz": _points(seen_from)}}


def _adapt_points(step: Step, has: Has) -> Step:
    """Of points: the same ones, with what is known of each of them."""
    if not has_points(has):
        return without_missing(step, has)
    known = [name for name in _POINT_CHANNELS if has(f"lidar/{name}")]
    xyz = step.outputs["xyz"]
    described = xyz.desc.replace("where there is no return", "past count").replace("beam, column, xyz", "point, xyz")
    described = described.replace("its column's own instant", "its own instant")
    return replace(
        step,
        inputs={"xyz": "lidar/xyz", "count": "lidar/count", **{each: f"lidar/{each}" for each in known}, "ts": _TS},
        outputs={
            "xyz": replace(xyz, desc=described),
            "count": Output("Number of points of the sweep.", type="u4"),
            **{each: _POINT_CHANNELS[each] for each in known},
        },
        function="rover_pipeline.lidar.points_step:of_points",
        inspect="rover_pipeline.lidar.points_step:inspect_points",
    )


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
        adapt=only_of_images,
        first=True,
        default=True,
        summary="Range (mm), reflectivity and near infrared, decompressed and destaggered.",
    ),
    Step(
        sensor="_lidar_points",
        function="rover_pipeline.lidar.points_step:points",
        version=3,
        sections=("lidar.points", "sync.times"),
        options=PointsOptions,
        inputs={**_IMAGES, "ts": _TS},
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
        adapt=_adapt_points,
        summary="Points in the sensor frame, m, NaN without a return, columns in time order. "
        "`lidar: {points: {compensate: true}}` undoes the motion within sweeps (deskew).",
    ),
)
