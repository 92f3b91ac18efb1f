"""Extrinsics: the pose of each sensor in the lidar frame.

It comes from the section `rig` of the configuration, else from the same section of the recording's own `config.yaml`.
In each, a sensor's own pose comes before that of the rig that is named. Where none gives it, the sensor is assumed to
have the pose of the lidar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
from pydantic import ValidationError

from rover_pipeline.errors import ConfigError, explain
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.kinematics.options import NAMED_RIGS, Mounted, MountOptions, OwnRegion, RigName, RigOptions
from rover_pipeline.kinematics.rotation import nearest
from rover_pipeline.numerics.linear import matmul


class Mount(NamedTuple):
    """A sensor's pose in the lidar frame.

    Attributes:
        translation: f8 (3,), m.
        rotation: f8 (3, 3), lidar-from-sensor, orthonormal to machine precision.
        source: where the pose comes from: a section, or the name of a rig; "identity" when nobody gave one.
    """

    translation: np.ndarray
    rotation: np.ndarray
    source: Literal["config", "config.yaml", "identity"] | RigName = "config"

    @property
    def known(self) -> bool:
        """Whether somebody gave the pose."""
        return self.source != "identity"

    def seen_from(self, other: Mount) -> Mount:
        """The same pose in the frame of another sensor."""
        into = other.rotation.T
        return Mount(matmul(into, self.translation - other.translation), matmul(into, self.rotation), self.source)


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
    return _of_section(rig, sensor, "config") or _recorded(sensor, recorded) or IDENTITY


def find_own(rig: RigOptions, recorded: str | None) -> tuple[OwnRegion, ...] | None:
    """Where the lidar sees the rig itself; None where nobody says. Arguments and errors as `find_mount`."""
    return rig.own if rig.own is not None else _section(recorded, "own").own


def mount_warnings(sensor: Mounted, rig: RigOptions, mount: Mount) -> list[str]:
    """What a user should know about a pose that was found: doubts about a named rig, or that it lacks the sensor."""
    if mount.source == "iq1m" and sensor == "radar":
        return [
            "rig iq1m: the radar's pose is in doubt: the comment in the published URDF, which is taken, puts it "
            "(0.060, 0, -0.132) m from the lidar, the numbers there (0.006, 0, -0.033); measure it and set `rig.radar`"
        ]
    if rig.name and not mount.known:
        return [f"rig {rig.name} does not tell where the {sensor} is: it gets the lidar's pose; set `rig.{sensor}`"]
    return []


def mount_notes(*sensors: Mounted, rig: RigOptions, recorded: str | None) -> list[str]:
    """What provenance says of sensors whose pose nobody gave; of a named rig `mount_warnings` says so."""
    unknown = [] if rig.name else [each for each in sensors if not find_mount(each, rig, recorded).known]
    text = "rig: nothing says where the {0} is: it is taken to be where the lidar is; set `rig.{0}`"
    return [text.format(each) for each in unknown]


def _of_section(rig: RigOptions, sensor: Mounted, source: Literal["config", "config.yaml"]) -> Mount | None:
    own: MountOptions | None = getattr(rig, sensor)
    if own is not None:
        return _mount(own, source)
    published = NAMED_RIGS[rig.name].get(sensor) if rig.name else None
    return _mount(published, rig.name) if published and rig.name else None


def _recorded(sensor: Mounted, text: str | None) -> Mount | None:
    return _of_section(_section(text, sensor), sensor, "config.yaml")


def _section(text: str | None, wanted: Mounted | Literal["own"]) -> RigOptions:
    """What the recording's own section `rig` says of one thing, or the rig that it names."""
    section = parse_collection(text).get("rig")
    if section is None:
        return RigOptions()
    if isinstance(section, str):
        section = {"name": section}
    if not isinstance(section, Mapping):
        raise ConfigError(
            f"config.yaml: rig: must hold {', '.join(get_args(Mounted))}, is a {type(section).__name__}; correct it, "
            "or set `rig` in the configuration"
        )
    # Nothing else in the section is looked at: what is wrong with it does not concern this sensor.
    key = wanted if section.get(wanted) is not None else "name"
    try:
        return RigOptions.model_validate({key: section.get(key)})
    except ValidationError as error:
        raise ConfigError(
            f"config.yaml: rig.{explain(error)}; correct it, or set `rig.{wanted}` in the configuration"
        ) from error


def _mount(options: MountOptions, source: Literal["config", "config.yaml"] | RigName) -> Mount:
    # A matrix in a text file is rounded, so the nearest rotation is used.
    return Mount(np.array(options.translation, "f8"), nearest(np.array(options.rotation)), source)
