"""Where the sensors are on the rig: each one's pose in the lidar frame.

Poses come from the section `rig` of the configuration, else from the same section of the recording's own
`config.yaml`, else the sensor is taken to be where the lidar is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
from pydantic import Field, ValidationError, field_validator

from rover_pipeline.errors import ConfigError, explain
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.options import Options

Vector = Annotated[tuple[float, float, float], Field(description="x, y, z")]

#: Sensors whose place on the rig can be told.
Mounted = Literal["radar", "camera", "imu"]

#: By how much an element of R'R may differ from the identity: matrices are written with three or four digits.
_TOLERANCE = 2e-3


class MountOptions(Options):
    """Pose of a sensor in the lidar frame, both front-left-up."""

    translation: Vector = Field((0.0, 0.0, 0.0), description="Of the sensor in the lidar frame, m.")
    rotation: tuple[Vector, Vector, Vector] = Field(
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
        description="Lidar-from-sensor: its columns are the sensor's front, left and up in the lidar frame.",
    )

    @field_validator("translation", "rotation")
    @classmethod
    def _finite(cls, value: tuple[object, ...]) -> tuple[object, ...]:
        if not np.isfinite(np.array(value, "f8")).all():
            raise ValueError("must be finite numbers")
        return value

    @field_validator("rotation")
    @classmethod
    def _is_rotation(cls, rows: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector, Vector]:
        matrix = np.array(rows)
        error = float(np.abs(matrix.T @ matrix - np.eye(3)).max())
        if error > _TOLERANCE:
            raise ValueError(
                f"is no rotation: its columns are not orthogonal unit vectors, R'R is off the identity by up to "
                f"{error:.3g} where {_TOLERANCE:g} is allowed"
            )
        if (determinant := float(np.linalg.det(matrix))) < 0:
            raise ValueError(
                f"is no rotation: it mirrors (determinant {determinant:.3g}, must be 1); the frame is front-left-up"
            )
        return rows


class RigOptions(Options):
    """Extrinsics: each sensor's pose in the lidar frame, `{translation: [x, y, z], rotation: [[...], [...], [...]]}`
    in metres and as a 3x3 lidar-from-sensor matrix. null = what the recording's config.yaml says in its own `rig`
    section, else the lidar's pose."""

    radar: MountOptions | None = Field(None, description="Of the radar.")
    camera: MountOptions | None = Field(None, description="Of the camera: front along the view, left, up.")
    imu: MountOptions | None = Field(None, description="Of the IMU.")


class Mount(NamedTuple):
    """A sensor's pose in the lidar frame.

    Attributes:
        translation: f8 (3,), m.
        rotation: f8 (3, 3), lidar-from-sensor, orthonormal to machine precision.
        source: where it is from; "identity" when nobody says.
    """

    translation: np.ndarray
    rotation: np.ndarray
    source: Literal["config", "config.yaml", "identity"]

    @property
    def known(self) -> bool:
        """Whether somebody said where the sensor is."""
        return self.source != "identity"


#: The lidar itself, or a sensor that nobody told the place of.
IDENTITY = Mount(np.zeros(3), np.eye(3), "identity")


def find_mount(sensor: Mounted, rig: RigOptions, recorded: str | None) -> Mount:
    """Pose of a sensor in the lidar frame.

    Args:
        rig: section of the configuration.
        recorded: text of the recording's `config.yaml`; None when there is none.

    Raises:
        ConfigError: the recording's section tells no rigid pose.
        FormatError: the recording's `config.yaml` is no YAML.
    """
    configured: MountOptions | None = getattr(rig, sensor)
    if configured is not None:
        return _mount(configured, "config")
    found = _recorded(sensor, recorded)
    return _mount(found, "config.yaml") if found else IDENTITY


def _recorded(sensor: Mounted, text: str | None) -> MountOptions | None:
    section = parse_collection(text).get("rig")
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise ConfigError(
            f"config.yaml: rig: must hold {', '.join(get_args(Mounted))}, is a {type(section).__name__}; correct it, "
            "or set `rig` in the configuration"
        )
    if section.get(sensor) is None:
        return None
    try:
        return MountOptions.model_validate(section[sensor])
    except ValidationError as error:
        raise ConfigError(
            f"config.yaml: rig.{sensor}.{explain(error)}; correct it, or set `rig.{sensor}` in the configuration"
        ) from error


def _mount(options: MountOptions, source: Literal["config", "config.yaml"]) -> Mount:
    # The nearest rotation takes away what rounding in a text file left.
    left, _, right = np.linalg.svd(np.array(options.rotation, "f8"))
    return Mount(np.array(options.translation, "f8"), left @ right, source)
