"""Declaration of the virtual sensor that is made from the IMU."""

from __future__ import annotations

from rover_pipeline.engine.step import SMALL, Output, Run, Shown, Step
from rover_pipeline.imu.options import ImuOptions

STEPS = (
    Step(
        sensor="_imu_filtered",
        function="rover_pipeline.imu.steps:filtered",
        version=14,
        sections=("imu", "sync.times"),
        options=ImuOptions,
        inputs={"acc": "imu/acc", "avel": "imu/avel"},
        outputs={
            "acc": Output(
                "Acceleration without bias, gravity included, m/s2, in the IMU's frame. [xyz]", type="f4", unit="m/s2"
            ),
            "avel": Output("Angular velocity without bias, rad/s, in the IMU's frame. [xyz]", type="f4", unit="rad/s"),
            "quat": Output(
                "World-from-imu; z of the world is up, its x level and ahead of the first sample. [xyzw]", type="f4"
            ),
        },
        run=Run(recording=True, threads=1, cost=SMALL),
        shown=Shown(
            summary="Acceleration and angular velocity without bias, and the orientation, world-from-imu with z up."
        ),
    ),
)
