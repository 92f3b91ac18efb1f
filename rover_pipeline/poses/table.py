"""Declarations of the poses of the other sensors of the rig."""

from __future__ import annotations

from typing import get_args

from rover_pipeline.engine.step import MAIN, SMALL, Output, Run, Shown, Step, When
from rover_pipeline.kinematics.options import ODOMETRY, RADAR_ODOMETRY, Mounted
from rover_pipeline.poses.options import PosesOptions

#: Files of the recording that a sensor needs besides `config.yaml`.
_SIDECARS = {"radar": {"sidecar": "radar/radar.json?", "radar": "radar/meta.json?"}}
#: Instant of a sample that its pose is of, where it is not the time stamp.
_INSTANTS = {"radar": " in the middle of the frame's chirps"}


_RADAR_ODOMETRY = {"odometry": RADAR_ODOMETRY, "cov": "_radar_odom/cov?"}
_OF_RADAR = When({"whole": _RADAR_ODOMETRY}, options={"odometry": "radar"})
#: A recording without a lidar has no other trajectory.
_WITHOUT_LIDAR = When(
    {"whole": _RADAR_ODOMETRY, "constants": {"odometer": "radar"}},
    has=("radar/ts", "imu/ts"),
    lacks=("lidar/ts",),
)

STEPS = tuple(
    Step(
        sensor=f"_{sensor}_pose",
        function="rover_pipeline.poses.steps:poses",
        version=8 if sensor == "radar" else 7,
        sections=("poses", "rig", "sync.times"),
        uses={"rig": tuple(dict.fromkeys(("name", sensor, "radar")))},
        options=PosesOptions,
        inputs={"ts": f"{sensor}/ts"},
        whole={"odometry": ODOMETRY, "cov": "_odom/cov?"},
        files={"config": "config.yaml?", **_SIDECARS.get(sensor, {})},
        constants={"sensor": sensor, "main": MAIN},
        alternatives=(_OF_RADAR, _WITHOUT_LIDAR),
        outputs={
            "pos": Output(
                f"Position in the world{_INSTANTS.get(sensor, '')}, m; NaN where odometry has none. [xyz]", type="f8"
            ),
            "rot": Output("World-from-sensor rotation. [world, sensor]", type="f8"),
            "vel": Output("Velocity in the world, m/s. [xyz]", type="f8"),
            "acc": Output("Acceleration in the world, without gravity, m/s2. [xyz]", type="f8"),
            "cov": Output(
                "Covariance of pos and rot, of a displacement and then a rotation vector, both in the frame of the "
                "sensor, m and rad: that of the odometry, of the motion in gaps of it, and of the mount where `rig` "
                "states one. [xyz and rotation, xyz and rotation]",
                type="f4",
            ),
        },
        run=Run(recording=True, brief=True, cost=SMALL, threads=1),
        shown=Shown(
            default=True,
            summary=f"The {'IMU' if sensor == 'imu' else sensor}'s pose in the world{_INSTANTS.get(sensor, '')}, from "
            "`_odom` and `rig`; NaN and "
            "`valid` = 0 where the odometry is not known.",
        ),
    )
    for sensor in get_args(Mounted)
)
