"""Steps for the two kinds of lidar: one that measures range images, and one whose sweeps are points.

The declarations are written for images. Those of recordings with points read the points instead, and say what they
cannot make. Light: the table of steps imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rover_pipeline.engine.step import Has, Step

#: Why a step cannot be made of points.
NO_IMAGE = "has a lidar of points and no range image (lidar/rng)"
_XYZ, _TIME = "lidar/xyz", "lidar/time"
#: What stands in the place of an image, and of the time stamps that are read with it.
_INSTEAD = {
    "_lidar_image/rng": {"xyz": _XYZ, "count": "lidar/count", "time": _TIME},
    "_lidar_image/rfl": {"intensity": "lidar/intensity"},
    "_lidar_image/ts": {"lidar_ts": "lidar/ts"},
}


def has_points(has: Has) -> bool:
    """Whether a recording's lidar is points."""
    return has(_XYZ) and not has("lidar/rng")


def from_points(step: Step, has: Has) -> Step:
    """A step that reads `_lidar_image`, or the points where the lidar has no image."""
    if not has_points(has):
        return step
    adapted = replace(step, inputs=_replaced(step.inputs, has), nearest=_replaced(step.nearest, has))
    if not has(_TIME) and step.nearest:
        # All points of a sweep are of the instant in ts, so the nearest one is best, be it earlier or later.
        return replace(adapted, match="nearest")
    return adapted


def only_of_images(step: Step, has: Has) -> Step:
    """A step that reads the raw images: of those it has, and of points not at all."""
    if has_points(has):
        return replace(step, unfit=NO_IMAGE)
    return without_missing(step, has)


def without_missing(step: Step, has: Has) -> Step:
    """The step without reflectivity and near infrared where the lidar has none."""
    missing = [name for name in ("rfl", "nir") if not has(f"lidar/{name}")]
    if not missing or not has("lidar/rng"):  # a lidar without any channel is an error that names it
        return step
    return replace(
        step,
        inputs={name: entry for name, entry in step.inputs.items() if name not in missing},
        outputs={name: output for name, output in step.outputs.items() if name not in missing},
    )


def _replaced(references: Mapping[str, str], has: Has) -> dict[str, str]:
    replaced: dict[str, str] = {}
    for argument, reference in references.items():
        for name, instead in _INSTEAD.get(reference, {argument: reference}).items():
            if instead == reference or has(instead) or instead in (_XYZ, "lidar/ts"):
                replaced[name] = instead
    return replaced
