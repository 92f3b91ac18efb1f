"""Declarations of the virtual sensors that show lidar returns in the geometry of other sensors."""

from __future__ import annotations

from rover_pipeline.engine.step import Output, Rate, Run, Shown, Step, When
from rover_pipeline.kinematics.options import ODOMETRY
from rover_pipeline.lidar.kinds import FROM_POINTS
from rover_pipeline.occupancy.options import DepthOptions, OccupancyOptions

_FILES = {
    "metadata": "lidar/lidar.json",
    "config": "config.yaml?",
    "sidecar": "radar/radar.json?",
    "radar": "radar/meta.json?",
}
_SWEEP = {"rng": "_lidar_image/rng", "lidar_ts": "_lidar_image/ts"}
_IMU = {"imu": ("imu/ts?", "imu/acc?", "imu/valid?")}
#: Where the lidars beside the main one are.
_OTHERS = {"lidars": "_odom/lidars.json?"}
#: Which sweep a frame is given, the one that is under way, by the instant of a sweep that its time stamp refers to.
_UNDER_WAY = {"end": "next", "middle": "nearest", "start": "previous"}
_STILL = " Made as if the rig stood still: motion within sweeps is not undone."


def _depth(more: str = "") -> Output:
    text = f"Distance along the camera's axis to the nearest return, mm; 0 = none. [row, column].{more}"
    return Output(text, type="u2")


def _cells(sensor: str, flat: bool, axes: str, cost: Rate, summary: str) -> Step:
    def outputs(instant: str = "") -> dict[str, Output]:
        # Nearly all cells are empty, so that three dimensions with compression take less space than two without it.
        text = f"1 = a lidar return is in the cell. {axes}. {instant}".strip()
        return {"occupancy": Output(text, "raw" if flat else "lzmaf", type="u1")}

    of_frames = {"inputs": {**dict.fromkeys(_SWEEP), "ts": "radar/ts"}, "nearest": _SWEEP}
    of_ts = "As seen at the instant that ts refers to (lidar.ts_reference)."
    of_chirps = "As seen in the middle of the radar frame's chirps."
    return Step(
        sensor=sensor,
        function="rover_pipeline.occupancy.steps:occupancy",
        version=7,
        sections=("occupancy", "rig", "lidar", "sync.times"),
        uses={"rig": ("name", "radar", "imu")},
        options=OccupancyOptions,
        inputs=_SWEEP,
        files=_FILES,
        constants={"flat": flat},
        outputs=outputs(),
        alternatives=(
            *(
                When({"match": match}, options={"at": "radar", "lidar.ts_reference": each})
                for each, match in _UNDER_WAY.items()
            ),
            When({**of_frames, "whole": {"radar_ts": "radar/ts"}}, options={"at": "radar"}),
            When({"outputs": outputs(of_ts)}, options={"at": "lidar", "motion": True}),
            When({"outputs": outputs(of_chirps)}, options={"at": "radar", "motion": True}),
            When({"outputs": outputs(_STILL.strip())}, options={"motion": False}),
            When({"whole": {"odometry": ODOMETRY}}, options={"motion": True}),
            When({"files": _OTHERS, "run": {"beside": ("lidar",)}}, options={"motion": True}),
            When({"whole": {"odometry": ODOMETRY, **_IMU}}, options={"level": True}),
            *FROM_POINTS,
        ),
        run=Run(inspect="rover_pipeline.occupancy.steps:inspect_cells", sidecars=("axes.json",), cost=cost),
        shown=Shown(default=flat, summary=summary),
    )


STEPS = (
    _cells(
        "_bev",
        flat=True,
        axes="[azimuth, range], to the right, away",
        cost=Rate(("lidar",), 28, 0.1, 400),
        summary="Cells of azimuth and range that hold lidar returns, in the radar's frame and with its range bins, at "
        "one instant: motion within the sweep is undone with `_odom`. `occupancy: {at: radar}` makes them for "
        "the frames of the radar.",
    ),
    _cells(
        "_occupancy",
        flat=False,
        axes="[elevation, azimuth, range], up, to the right, away",
        cost=Rate(("lidar",), 65, 0.05, 400),
        summary="The same cells with elevation as a third dimension.",
    ),
    Step(
        sensor="_camera_depth",
        function="rover_pipeline.occupancy.depth_steps:depth",
        version=9,
        sections=("depth", "camera.lens", "rig", "lidar", "sync.times"),
        uses={"rig": ("name", "camera")},
        options=DepthOptions,
        inputs={"ts": "camera/ts"},
        nearest=_SWEEP,
        files={
            "metadata": "lidar/lidar.json",
            "config": "config.yaml?",
            "intrinsics": "camera/camera.json",
            "recorded": "camera/meta.json",
            "published": "_camera/meta.json?",
        },
        outputs={"depth": _depth()},
        alternatives=(
            *(When({"match": match}, options={"lidar.ts_reference": each}) for each, match in _UNDER_WAY.items()),
            When({"whole": {"odometry": ODOMETRY, "recorded_ts": "camera/ts"}}, options={"motion": True}),
            When({"outputs": {"depth": _depth(_STILL)}}, options={"motion": False}),
            *FROM_POINTS,
        ),
        run=Run(
            inspect="rover_pipeline.occupancy.depth_steps:inspect_lens",
            sidecars=("camera.json",),
            cost=Rate(("lidar", "camera"), 30, 0.7, 400),
        ),
        shown=Shown(
            summary="Depth of the nearest lidar return in each pixel at the picture's instant, mm along the camera's "
            "axis, 0 = none."
        ),
    ),
)
