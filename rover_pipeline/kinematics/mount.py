"""Extrinsics: the pose of each sensor in the lidar frame.

It comes from the section `rig` of the configuration, else from the same section of the recording's own `config.yaml`.
Where neither gives it, the sensor is assumed to have the pose of the lidar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
from pydantic import ValidationError

from rover_pipeline.errors import ConfigError, explain
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.kinematics.options import Mounted, MountOptions, RigOptions


class Mount(NamedTuple):
    """A sensor's pose in the lidar frame.

    Attributes:
        translation: f8 (3,), m.
        rotation: f8 (3, 3), lidar-from-sensor, orthonormal to machine precision.
        source: where the pose comes from; "identity" when nobody gave one.
    """

    translation: np.ndarray
    rotation: np.ndarray
    source: Literal["config", "config.yaml", "identity"] = "config"

    @property
    def known(self) -> bool:
        """Whether somebody gave the pose."""
        return self.source != "identity"


#: The lidar itself, or a sensor whose pose nobody gave.
IDENTITY = Mount(np.zeros(3), np.eye(3), "identity")


def find_mount(sensor: Mounted, rig: RigOptions, recorded: str | None) -> Mount:
    """Pose of a sensor in the lidar frame.

    Args:
        rig: section of the configuration.
        recorded: text of the recording's `config.yaml`; None when there is none.

    Raises:
        ConfigError: the recording's section does not hold a rigid pose.
        FormatError: the recording's `config.yaml` is not YAML.
    """
    configured: MountOptions | None = getattr(rig, sensor)
    if configured is not None:
        return _mount(configured, "config")
    from_recording = _recorded(sensor, recorded)
    return _mount(from_recording, "config.yaml") if from_recording else IDENTITY


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
    # A matrix in a text file is rounded, so the nearest rotation is used.
    left, _, right = np.linalg.svd(np.array(options.rotation, "f8"))
    return Mount(np.array(options.translation, "f8"), left @ right, source)
