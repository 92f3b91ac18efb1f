"""Declaration of the map."""

from __future__ import annotations

from rover_pipeline.engine.step import Rate, Run, Shown, Step, When
from rover_pipeline.kinematics.options import ODOMETRY
from rover_pipeline.lidar.kinds import FROM_POINTS, OF_IMAGES_THERE
from rover_pipeline.mapping.options import MapStepOptions

#: Channels of `_objects` that give the boxes of what moves, and their velocities.
_OBJECTS = tuple(f"_objects/{channel}" for channel in ("ts", "count", "centre", "extent", "yaw", "vel"))

STEPS = (
    Step(
        sensor="_map",
        function="rover_pipeline.mapping.steps:build",
        version=9,
        sections=("map", "lidar", "sync.times"),
        options=MapStepOptions,
        inputs={"rng": "_lidar_image/rng", "rfl": "_lidar_image/rfl"},
        whole={"odometry": ODOMETRY},
        files={"metadata": "lidar/lidar.json", "lidars": "_odom/lidars.json?", "up": "_odom/up.json?"},
        alternatives=(
            When({"whole": {"objects": _OBJECTS}}, options={"remove_moving": True}),
            *FROM_POINTS,
            *OF_IMAGES_THERE,
        ),
        products={
            "map.ply": "Points, one a voxel: x, y, z in the frame of _odom, m; intensity, mean reflectivity; count.",
            "occupancy.pgm": "What stands at the heights of the config, in map_server's pixels.",
            "occupancy.yaml": "Where and how large its cells are.",
            "bev.png": "The same from above, with the path of the lidar.",
        },
        run=Run(recording=True, beside=("lidar",), cost=Rate(("lidar",), 35, 0.1, 900)),
        shown=Shown(
            default=True, summary="Point cloud, occupancy grid for ROS map_server, and a picture of both from above."
        ),
    ),
)
