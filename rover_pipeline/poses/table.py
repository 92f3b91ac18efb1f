"""Declarations of the poses of the other sensors of the rig."""

from __future__ import annotations

from typing import get_args

from rover_pipeline.engine.step import Output, Step
from rover_pipeline.kinematics.options import Mounted
from rover_pipeline.kinematics.references import ODOMETRY
from rover_pipeline.poses.options import PosesOptions

STEPS = tuple(
    Step(
        sensor=f"_{sensor}_pose",
        function="rover_pipeline.poses.steps:poses",
        version=1,
        sections=("poses", "rig", "sync.times"),
        options=PosesOptions,
        inputs={"ts": f"{sensor}/ts"},
        whole={"odometry": ODOMETRY},
        files={"config": "config.yaml?", **({"sidecar": "radar/radar.json?"} if sensor == "radar" else {})},
        constants={"sensor": sensor},
        outputs={
            "pos": Output("Position in the world, m; NaN where odometry tells of none. [xyz]", type="f8", unit="m"),
            "rot": Output("World-from-sensor rotation. [world, sensor]", type="f8"),
            "vel": Output("Velocity in the world, m/s. [xyz]", type="f8", unit="m/s"),
            "acc": Output("Acceleration in the world, without gravity, m/s2. [xyz]", type="f8", unit="m/s2"),
        },
        recording=True,
        default=True,
        summary=f"The {'IMU' if sensor == 'imu' else sensor}'s pose in the world, from `_odom` and `rig`; NaN and "
        "`valid` = 0 where the odometry is not known.",
    )
    for sensor in get_args(Mounted)
)
