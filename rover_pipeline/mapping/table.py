"""Declaration of the map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rover_pipeline.engine.step import Has, Step
from rover_pipeline.kinematics.references import ODOMETRY
from rover_pipeline.lidar.kinds import from_points, without_missing
from rover_pipeline.mapping.options import MapStepOptions

#: Channels of `_objects` that tell what moves where, and how.
_OBJECTS = tuple(f"_objects/{channel}" for channel in ("ts", "count", "centre", "extent", "yaw", "vel"))


def _variant(options: MapStepOptions) -> Mapping[str, Any]:
    return {"whole": {"objects": _OBJECTS}} if options.remove_moving else {}


def _adapt(step: Step, has: Has) -> Step:
    return without_missing(from_points(step, has), has)


STEPS = (
    Step(
        sensor="_map",
        function="rover_pipeline.mapping.steps:build",
        version=5,
        sections=("map", "lidar", "sync.times"),
        options=MapStepOptions,
        recording=True,
        inputs={"rng": "_lidar_image/rng", "rfl": "_lidar_image/rfl"},
        whole={"odometry": ODOMETRY},
        files={"metadata": "lidar/lidar.json"},
        variant=_variant,
        adapt=_adapt,
        products={
            "map.ply": "Points, one a voxel: x, y, z in the frame of _odom, m; intensity, mean reflectivity; count.",
            "occupancy.pgm": "What stands at the heights of the config, in map_server's pixels.",
            "occupancy.yaml": "Where and how large its cells are.",
            "bev.png": "The same from above, with the path of the lidar.",
        },
        default=True,
        summary="Point cloud, occupancy grid for ROS map_server, and a picture of both from above.",
    ),
)
