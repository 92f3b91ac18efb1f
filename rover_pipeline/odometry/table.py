"""Declaration of the odometry."""

from __future__ import annotations

from rover_pipeline.engine.step import Output, Rate, Run, Shown, Step
from rover_pipeline.lidar.kinds import FROM_POINTS
from rover_pipeline.odometry.options import OdometryOptions

STEPS = (
    Step(
        sensor="_odom",
        function="rover_pipeline.odometry.steps:odom",
        version=42,
        sections=("odometry", "lidar", "rig", "sync.times"),
        uses={"rig": ("name", "imu", "own")},
        options=OdometryOptions,
        inputs={"rng": "_lidar_image/rng"},
        files={"metadata": "lidar/lidar.json", "config": "config.yaml?"},
        whole={"imu_ts": "imu/ts?", "imu_avel": "imu/avel?", "imu_acc": "imu/acc?", "imu_valid": "imu/valid?"},
        outputs={
            "pos": Output(
                "Position of the lidar at the instant that ts refers to, m. [xyz]; the world is the first valid pose, "
                "made level with odometry.world: gravity.",
                type="f8",
                unit="m",
            ),
            "rot": Output("World-from-lidar rotation. [world, lidar]", type="f8"),
            "vel": Output("Velocity in the world, m/s. [xyz]", type="f8", unit="m/s"),
            "acc": Output("Acceleration in the world, m/s2. [xyz]", type="f8", unit="m/s2"),
            "avel": Output("Angular velocity in the lidar frame, rad/s. [xyz]", type="f8", unit="rad/s"),
            "inliers": Output("Share of the sweep's points that lie on planes of other sweeps.", type="f4"),
            "residual": Output("Root mean square distance of those from their planes, m.", type="f4", unit="m"),
            "information": Output(
                "Smallest eigenvalue of the information of the sweep about its displacement and, times the "
                "points' distance, rotation, 1/m2: small where the surroundings leave a direction open.",
                type="f8",
                unit="1/m2",
            ),
            "cov": Output(
                "Covariance of pos and rot, of a displacement and then a rotation vector, both in the lidar frame, m "
                "and rad. [xyz and rotation, xyz and rotation]",
                type="f4",
            ),
        },
        alternatives=FROM_POINTS,
        run=Run(
            recording=True,
            first=True,
            part="segment",
            beside=("lidar", "imu"),
            sidecars=("lidars.json", "up.json"),
            cost=Rate(("lidar",), 100, 0.002, 900),
        ),
        shown=Shown(
            default=True,
            summary="The lidar's trajectory: its state at each sweep, in the world of its first valid pose, and how "
            "well each sweep fits the map.",
        ),
    ),
)
