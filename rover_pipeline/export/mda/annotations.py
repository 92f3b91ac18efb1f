"""The texts of annotations: JSON with sorted keys, and numbers that keep their places.

A later revision stores only the blocks of ten bytes that are new. When a number changes, the text must not shift, or
all blocks after it were new. So numbers are padded with blanks, which JSON allows, to a width that they rarely exceed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rover_pipeline.export.objects import Objects
from rover_pipeline.kinematics.rotation import from_matrix

#: Characters and decimals of positions and sizes in m, speeds in m/s, parts of a quaternion, angles in rad, shares.
_METRES, _SPEED, _UNIT, _ANGLE, _SHARE = (12, 4), (9, 3), (10, 7), (8, 4), (6, 3)


class Fixed:
    """A number, or an array of numbers, with a width and a number of decimals. What is not finite becomes null."""

    def __init__(self, value: Any, form: tuple[int, int]) -> None:
        self._value, self._form = np.asarray(value, "f8"), form

    def __str__(self) -> str:
        if self._value.ndim:
            return f"[{','.join(str(Fixed(each, self._form)) for each in self._value)}]"
        width, decimals = self._form
        value = round(float(self._value), decimals) if math.isfinite(self._value) else None
        return "null".rjust(width) if value is None else f"{value + 0.0:{width}.{decimals}f}"  # adding 0 turns -0 to 0


def json_text(content: Any) -> str:
    """JSON of one line, ASCII, with sorted keys and without blanks but for those of `Fixed`."""
    if isinstance(content, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}:{json_text(content[key])}" for key in sorted(content)) + "}"
    if isinstance(content, Fixed):
        return str(content)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return f"[{','.join(map(json_text, content))}]"
    return json.dumps(content)


def microseconds(ts: float) -> int:
    """A time, s, as the whole number of microseconds since the epoch; seconds as f8 hold no more."""
    return round(ts * 1e6)


def pose_text(sensor: str, ts: float, valid: bool, pos: np.ndarray, rot: np.ndarray, vel: np.ndarray) -> str:
    """The pose of a sensor.

    Args:
        ts: of the sample, s.
        pos, vel: f8 (3,), m and m/s, in the world of `_odom`; rot: f8 (3, 3), world-from-sensor, front-left-up.
    """
    quat = np.full(4, np.nan)
    if np.isfinite(rot).all():
        quat = from_matrix(rot).as_quat(canonical=True)
    return json_text(
        {
            "frame": "world of _odom, from sensor, front-left-up",
            "pos_m": Fixed(pos, _METRES),
            "quat_xyzw": Fixed(quat, _UNIT),
            "sensor": sensor,
            "time_us": microseconds(ts),
            "valid": int(valid),
            "vel_mps": Fixed(vel, _SPEED),
        }
    )


def objects_text(ts: float, objects: Objects | None, classes: Sequence[str]) -> str:
    """Objects at the time of a sample. They are moved there along their velocities from the sweep that shows them.

    Args:
        ts: of the sample, s.
        objects: of one sweep; None = there is none near enough, and the objects are not known.
    """
    rows = None
    if objects is not None:
        objects = objects.moved(ts - objects.ts)
        rows = [
            {
                "centre_m": Fixed(objects.centre[at], _METRES),
                "extent_m": Fixed(objects.extent[at], _METRES),
                "probability": Fixed(objects.probability[at], _SHARE),
                "track": int(objects.track[at]),
                "vel_mps": Fixed(objects.vel[at], _SPEED),
                "yaw_rad": Fixed(objects.yaw[at], _ANGLE),
            }
            for at in np.argsort(objects.track, kind="stable").tolist()
        ]
    content = {"classes": list(classes), "frame": "world of _odom", "objects": rows, "time_us": microseconds(ts)}
    return json_text(content)


def quality_text(measures: Mapping[str, float | None]) -> str:
    """Measures of quality by name; None or NaN = not known.

    Args:
        measures: standard deviations in m and rad, and shares.
    """
    return json_text({name: Fixed(math.nan if value is None else value, _UNIT) for name, value in measures.items()})
