"""Alternatives of steps for a lidar whose sweeps are points, where they are declared for one that measures images."""

from __future__ import annotations

from functools import partial

from rover_pipeline.engine.step import When

#: Why a step cannot be made of points.
NO_IMAGE = "has a lidar of points and no range image (lidar/rng)"
#: What is declared otherwise where a recording's lidar is points.
of_points = partial(When, has=("lidar/xyz",), lacks=("lidar/rng",))
#: The points in the place of an image. Without instants of their own, all points of a sweep are of the instant in ts:
#: the nearest sweep is best then, be it earlier or later.
FROM_POINTS = (
    of_points(
        instead={
            "_lidar_image/rng": {"xyz": "lidar/xyz", "count": "lidar/count?", "time": "lidar/time?"},
            "_lidar_image/rfl": {"intensity": "lidar/intensity?"},
            "_lidar_image/ts": {"lidar_ts": "lidar/ts"},
        }
    ),
    When({"match": "nearest"}, has=("lidar/xyz",), lacks=("lidar/rng", "lidar/time")),
)
#: The images that a lidar has, of those that are read. A lidar without any channel is an error that names it.
OF_IMAGES_THERE = tuple(
    When({"inputs": {name: None}, "outputs": {name: None}}, has=("lidar/rng",), lacks=(f"lidar/{name}",))
    for name in ("rfl", "nir")
)
ONLY_OF_IMAGES = (of_points({"unfit": NO_IMAGE}), *OF_IMAGES_THERE)
