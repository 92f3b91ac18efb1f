"""Options of the rig. Light: the Snakefile reads them, so nothing here imports NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rover_pipeline.options import Options

Vector = Annotated[tuple[float, float, float], Field(description="x, y, z")]

#: Sensors whose pose on the rig can be given; the lidar is the origin.
Mounted = Literal["radar", "camera", "imu"]

#: Rotation, translation, time; and what a variance is smaller than, so that it and its sums are numbers. Layout.
_SEVEN, _LARGEST = Field(min_length=7, max_length=7), 1e12

#: Largest difference of an element of R'R from the identity.
#: Noise: rounding of matrices that are written with three digits, whose errors of 0.0005 add up to 0.0017 at most.
_TOLERANCE = 2e-3


class MountOptions(Options):
    """Pose of a sensor in the lidar frame, both front-left-up, and how late its clock is."""

    translation: Vector = Field((0.0, 0.0, 0.0), description="Of the sensor in the lidar frame, m.")
    rotation: tuple[Vector, Vector, Vector] = Field(
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        description="Lidar-from-sensor: its columns are the sensor's front, left and up in the lidar frame.",
    )
    time_offset: float = Field(
        0.0,
        allow_inf_nan=False,
        description="Added to the sensor's times to have those of the lidar's clock, s; negative if they are late.",
    )
    covariance: Annotated[tuple[Annotated[tuple[float, ...], _SEVEN], ...], _SEVEN] | None = Field(
        None,
        description="Of the error of this pose, 7x7: a rotation vector, rad, a translation, m, both in the lidar "
        "frame, and time_offset, s, as `rover-pipeline calibrate rig` writes it. null = the pose is taken for exact.",
    )

    @field_validator("translation", "rotation")
    @classmethod
    def _finite(cls, value: tuple[object, ...]) -> tuple[object, ...]:
        if not all(math.isfinite(each) for row in value for each in (row if isinstance(row, tuple) else (row,))):
            raise ValueError("must be finite numbers")
        return value

    @field_validator("rotation")
    @classmethod
    def _is_rotation(cls, rows: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector]:
        columns = list(zip(*rows, strict=True))
        error = max(abs(_dot(columns[i], columns[j]) - (i == j)) for i in range(3) for j in range(3))
        if error > _TOLERANCE:
            raise ValueError(
                f"is no rotation: its columns are not orthogonal unit vectors, R'R differs from the identity by up to "
                f"{error:.3g} where {_TOLERANCE:g} is allowed"
            )
        (a, b, c), (d, e, f), (g, h, i) = rows
        if (determinant := a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) < 0:
            raise ValueError(
                f"is a reflection: its determinant is {determinant:.3g} and must be 1; the frame is front-left-up"
            )
        return rows

    @field_validator("covariance")
    @classmethod
    def _is_covariance(cls, rows: tuple[tuple[float, ...], ...] | None) -> tuple[tuple[float, ...], ...] | None:
        if any(not 0 <= row[i] < _LARGEST for i, row in enumerate(rows or ())):
            raise ValueError(f"is no covariance: variances lie between 0 and {_LARGEST:g}")
        for (i, row), (j, other) in itertools.product(enumerate(rows or ()), repeat=2):
            limit = math.sqrt(row[i] * other[j])
            if not (abs(row[j]) <= limit * (1 + _TOLERANCE) and abs(row[j] - other[i]) <= limit * _TOLERANCE):
                raise ValueError(f"is no covariance: see row {i + 1}, column {j + 1}")
        if not _is_positive(rows or ()):
            raise ValueError(
                "is no covariance: it is not positive semidefinite, a sum of errors has a negative variance"
            )
        return rows


class OwnRegion(Options):
    """A part of the lidar's view in which the rig itself is seen: all within `range` in a sector, or a box."""

    azimuth: tuple[float, float] = Field(
        (-180.0, 180.0), description="From and to, degrees, to the left of the lidar's front."
    )
    elevation: tuple[float, float] = Field((-90.0, 90.0), description="From and to, degrees, upward.")
    range: float = Field(0.0, ge=0, allow_inf_nan=False, description="Largest distance from the lidar, m.")
    box: tuple[Vector, Vector] | None = Field(
        None, description="Two opposite corners, m, lidar frame: the smallest x, y, z and the largest."
    )

    @model_validator(mode="after")
    def _holds_something(self) -> OwnRegion:
        if (self.box is None) == (self.range == 0):
            raise ValueError("must have either a range, m, with a sector of azimuth and elevation, or a box")
        pairs = list(zip(*self.box, strict=True)) if self.box else [self.azimuth, self.elevation]
        if any(not low < high for low, high in pairs):
            raise ValueError("must have limits that rise, the smaller one first")
        return self


#: Ends of the name of a file that `rig` can be.
RIG_FILES = (".yaml", ".yml")
#: Rigs whose extrinsics are published.
RigName = Literal["iq1m"]

#: Poses of the sensors of each named rig. That of I/Q-1M is known from its URDF (RadarML/red-rover,
#: processing/catkin_ws/src/slam/red-rover.urdf), relative to the bottom of the lidar's mounting plate, below which all
#: but the lidar are: the lidar's sensor frame is 22 mm above, the IMU 7 mm below. Nothing is turned. The radar is 60 mm
#: in front and 110 mm below by the comment there, a tenth of that by the numbers; the comment is taken, because the
#: authors' later code puts the radar about 0.15 m below the lidar. The camera is not in it. Physics: red-rover.urdf.
NAMED_RIGS: Mapping[RigName, Mapping[Mounted, MountOptions]] = MappingProxyType(
    {
        "iq1m": {
            "radar": MountOptions(translation=(0.06, 0.0, -0.132)),
            "imu": MountOptions(translation=(0.0, 0.0, -0.029)),
        }
    }
)


class RigOptions(Options):
    """Extrinsics: each sensor's pose in the lidar frame, `{translation: [x, y, z], rotation: [[...], [...], [...]],
    time_offset: s, covariance: null}` in metres and as a 3x3 lidar-from-sensor matrix. null = that of the named rig,
    else as in the section `rig` of the recording's config.yaml, or the lidar's pose if there is none. A name alone
    stands for the whole section, and so does that of a file of `rover-pipeline calibrate rig`."""

    name: RigName | None = Field(
        None,
        description="iq1m = the poses of the rig of the I/Q-1M recordings, from its URDF: radar 60 mm ahead and 132 mm "
        "below the lidar, IMU 29 mm below it, nothing turned, no camera. The radar's is in doubt: the URDF's comment, "
        "which is taken, says ten times what its numbers say (6 mm and 33 mm). What is given here for a sensor comes "
        "before it.",
    )
    radar: MountOptions | None = Field(None, description="Pose of the radar.")
    camera: MountOptions | None = Field(None, description="Pose of the camera: its front is along the optical axis.")
    imu: MountOptions | None = Field(None, description="Pose of the IMU.")
    own: tuple[OwnRegion, ...] | None = Field(
        None,
        description="Where the lidar sees the rig itself, or whoever carries it: `_odom` leaves out what is there. A "
        "list of `{azimuth: [from, to], elevation: [from, to], range: m}`, degrees to the left and upward, and of "
        "`{box: [[x, y, z], [x, y, z]]}`, m, in the lidar's frame. [] = nowhere. null = as in "
        "the recording's config.yaml, else nowhere.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named(cls, values: Any) -> Any:
        return {"name": values} if isinstance(values, str) else values


def _dot(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _is_positive(rows: Sequence[tuple[float, ...]]) -> bool:
    """Whether a matrix is positive semidefinite but for rounding: its correlations have a Cholesky decomposition."""
    scale = [math.sqrt(row[i]) or 1.0 for i, row in enumerate(rows)]
    left = [[each / scale[i] / scale[j] for j, each in enumerate(row)] for i, row in enumerate(rows)]
    for k, pivot in enumerate(left):
        pivot[k] += 3 * _TOLERANCE  # six others in its row, each of which four digits change by 1e-3 at most
        if pivot[k] <= 0:
            return False
        for row in left[k + 1 :]:
            row[:] = [a - row[k] / pivot[k] * b for a, b in zip(row, pivot, strict=True)]
    return True


# References that several rooms declare when they need the lidar's trajectory.

#: All of `_odom` that a trajectory is made from; see `Trajectory.of`.
_CHANNELS = ("ts", "pos", "rot", "vel", "acc", "avel", "valid")
ODOMETRY = tuple(f"_odom/{channel}" for channel in _CHANNELS)
#: The same of `_radar_odom`.
RADAR_ODOMETRY = tuple(f"_radar_odom/{channel}" for channel in _CHANNELS)
