"""The table of all virtual sensors: what each needs and makes. Light: it imports no maths.

Rules, validation, the documentation and `outputs: default` ask it. A new virtual sensor is an entry in the table of
its room.
"""

from __future__ import annotations

from rover_pipeline.camera.table import STEPS as CAMERA
from rover_pipeline.engine.step import Step, decorated_step
from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.imu.table import STEPS as IMU
from rover_pipeline.lidar.table import STEPS as LIDAR
from rover_pipeline.mapping.table import STEPS as MAPPING
from rover_pipeline.occupancy.table import STEPS as OCCUPANCY
from rover_pipeline.odometry.table import STEPS as ODOMETRY
from rover_pipeline.poses.table import STEPS as POSES
from rover_pipeline.radar.table import STEPS as RADAR
from rover_pipeline.report.table import STEPS as REPORT
from rover_pipeline.sync.table import STEPS as SYNC

#: Virtual sensors and folders of files, by name.
TABLE: dict[str, Step] = {
    each.sensor: each
    for each in (*LIDAR, *RADAR, *ODOMETRY, *POSES, *SYNC, *OCCUPANCY, *CAMERA, *IMU, *MAPPING, *REPORT)
}


def find_step(name: str) -> Step:
    """A step by the name of its virtual sensor, `_radar_points`, or by the dotted name of a user's function.

    Raises:
        ConfigError: there is no such step.
    """
    if name in TABLE:
        return TABLE[name]
    if name.startswith("_"):
        raise ConfigError(f"step {name}: is not in the table; {did_you_mean(name, TABLE)}")
    return decorated_step(name)
