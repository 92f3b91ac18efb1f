"""Declarations of the virtual sensors that are made from the lidar."""

from __future__ import annotations

from rover_pipeline.engine.step import MAIN, Output, Rate, Run, Shown, Step, When
from rover_pipeline.kinematics.options import ODOMETRY
from rover_pipeline.lidar.kinds import OF_IMAGES_THERE, ONLY_OF_IMAGES, of_points
from rover_pipeline.lidar.options import PointsOptions

_TS = "lidar/ts"
_POINT_CHANNELS = {
    "intensity": Output("Intensity, in the unit of lidar/intensity; NaN past count. [point]", type="f4"),
    "ring": Output("Number of the beam. [point]", type="u2"),
    "time": Output("Instant of each point after ts, s; NaN past count. [point]", type="f4"),
}
_IMAGES = {"rng": "lidar/rng", "rfl": "lidar/rfl", "nir": "lidar/nir"}


def _points(*, compensated: bool = False, sent: bool = False) -> Output:
    """The points: of an image, or as the lidar sent them; all seen from one instant, or each from its own."""
    own = "its own instant" if sent else "its column's own instant"
    instant = f"each as seen from where the lidar was at {own}."
    if compensated:
        instant = "all as seen from where the lidar was at the instant that ts refers to (lidar.ts_reference)"
        instant += ", by _odom."
    nothing, axes = ("past count", "point, xyz") if sent else ("where there is no return", "beam, column, xyz")
    text = f"Points in the sensor frame, front-left-up, m; NaN {nothing}. [{axes}], {instant}"
    return Output(text, type="f4")


#: Deskewed points need the odometry. A lidar that sends points gives the same ones, with what is known of each of them.
_OTHER_POINTS = (
    When(
        {
            "whole": {"odometry": ODOMETRY, "recorded_ts": _TS},
            "files": {"lidars": "_odom/lidars.json?"},
            "constants": {"own": _TS, "main": MAIN},
        },
        options={"compensate": True},
    ),
    When({"outputs": {"xyz": _points(compensated=True)}}, options={"compensate": True}),
    *OF_IMAGES_THERE,
    of_points(
        {
            "function": "rover_pipeline.lidar.points_step:of_points",
            "run": {"inspect": "rover_pipeline.lidar.points_step:inspect_points"},
            "inputs": {**dict.fromkeys(_IMAGES), "xyz": "lidar/xyz", "count": "lidar/count"},
            "outputs": {
                **dict.fromkeys(_IMAGES),
                "xyz": _points(sent=True),
                "count": Output("Number of points of the sweep.", type="u4"),
            },
        }
    ),
    of_points({"outputs": {"xyz": _points(compensated=True, sent=True)}}, options={"compensate": True}),
    *(
        When(
            {"inputs": {name: f"lidar/{name}"}, "outputs": {name: output}},
            has=("lidar/xyz", f"lidar/{name}"),
            lacks=("lidar/rng",),
        )
        for name, output in _POINT_CHANNELS.items()
    ),
)

STEPS = (
    Step(
        sensor="_lidar_image",
        function="rover_pipeline.lidar.steps:image",
        version=1,
        inputs=_IMAGES,
        files={"metadata": "lidar/lidar.json"},
        outputs={
            "rng": Output("Range, mm; 0 = no return, 65535 = clipped. [beam, column], destaggered.", type="u2"),
            "rfl": Output("Reflectivity. [beam, column], destaggered.", type="u1"),
            "nir": Output("Ambient near infrared, photons. [beam, column], destaggered.", type="u2"),
        },
        alternatives=ONLY_OF_IMAGES,
        run=Run(first=True, cost=Rate(("lidar",), 80, 2.4)),
        shown=Shown(default=True, summary="Range (mm), reflectivity and near infrared, decompressed and destaggered."),
    ),
    Step(
        sensor="_lidar_points",
        function="rover_pipeline.lidar.points_step:points",
        version=4,
        sections=("lidar.points", "sync.times"),
        options=PointsOptions,
        inputs={**_IMAGES, "ts": _TS},
        files={"metadata": "lidar/lidar.json"},
        outputs={
            "xyz": _points(),
            "rfl": Output("Reflectivity. [beam, column], in the order of the columns' instants.", type="u1"),
            "nir": Output(
                "Ambient near infrared, photons. [beam, column], in the order of the columns' instants.", type="u2"
            ),
        },
        alternatives=_OTHER_POINTS,
        run=Run(cost=Rate(("lidar",), 90, 7.0)),
        shown=Shown(
            summary="Points in the sensor frame, m, NaN without a return, columns in time order. "
            "`lidar: {points: {compensate: true}}` undoes the motion within sweeps (deskew)."
        ),
    ),
)
