"""Declaration of `_objects`."""

from __future__ import annotations

from functools import partial

from rover_pipeline.engine.step import Output, Rate, Run, Shown, Step, When
from rover_pipeline.kinematics.options import ODOMETRY
from rover_pipeline.lidar.kinds import FROM_POINTS
from rover_pipeline.objects.options import CLASSES, ObjectsOptions

_RADAR = tuple(f"_radar_points/{channel}?" for channel in ("ts", "valid", "xyz", "doppler", "count"))
_f4 = partial(Output, type="f4")

STEPS = (
    Step(
        sensor="_objects",
        function="rover_pipeline.objects.steps:objects",
        version=9,
        sections=("objects", "lidar", "rig", "sync.times"),
        uses={"rig": ("name", "radar")},
        options=ObjectsOptions,
        inputs={"rng": "_lidar_image/rng"},
        whole={"odometry": ODOMETRY},
        by_range=("_radar_points/xyz", "_radar_points/doppler"),
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml?",
            "sidecar": "radar/radar.json?",
            "radar": "radar/meta.json?",
            "up": "_odom/up.json?",
        },
        outputs={
            "centre": _f4("Middle of the box in the world, m; NaN past `count`. [object, xyz], nearest first."),
            "extent": _f4(
                "Length, width and height of the box along its own axes, m, the same in all of a track. [object, xyz]"
            ),
            "vel": _f4("Velocity in the world, m/s. [object, xyz]"),
            "vel_sd": _f4(
                "Standard deviation of a horizontal component of vel, m/s, from how well the track fits. [object]"
            ),
            "yaw": _f4("Where the box heads in the world, rad, to the left of x. [object]"),
            "track": Output("Number of the track; -1 past `count`. [object]", type="i4"),
            "probability": _f4(
                f"Probability of each class by rules of size and speed, not learned: {', '.join(CLASSES)}. "
                "[object, class]"
            ),
            "measured": Output(
                "1 = the sweep has a cluster of the object, 0 = between sweeps that have one. [object]", type="u1"
            ),
            "count": Output("Number of objects.", type="u2"),
        },
        alternatives=(When({"whole": {"points": _RADAR}}, options={"radar": True}), *FROM_POINTS),
        run=Run(recording=True, cost=Rate(("lidar",), 300, 0.01, 500)),
        shown=Shown(
            summary="Bodies that move: boxes around clusters of lidar points above the ground, tracked; with radial "
            "velocities of `_radar_points` where there are some. Classes follow stated rules, unsupervised."
        ),
    ),
)
