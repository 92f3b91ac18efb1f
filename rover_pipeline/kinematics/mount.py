"""Extrinsics: the pose of each sensor in the lidar frame. Who states it: `stated.py`.

Where nobody states it, the sensor is assumed to have the pose of the lidar.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from rover_pipeline.errors import FormatError, explain
from rover_pipeline.kinematics.options import Mounted, MountOptions, RigOptions
from rover_pipeline.kinematics.rotation import nearest, skew
from rover_pipeline.kinematics.state import State
from rover_pipeline.kinematics.stated import Source, find_stated
from rover_pipeline.numerics.linear import matmul


class Mount(NamedTuple):
    """A sensor's pose in the lidar frame."""

    translation: np.ndarray  #: f8 (3,), m.
    rotation: np.ndarray  #: f8 (3, 3), lidar-from-sensor, orthonormal to machine precision.
    #: where the pose comes from: a section, or the name of a rig; "identity" when nobody gave one.
    source: Source = "config"
    #: s, added to the sensor's times to have those of the lidar's clock; negative if they are late.
    time_offset: float = 0.0
    #: f8 (7, 7), of the error of the pose: rotation vector, rad, translation, m, both in the lidar frame, and time
    #: offset, s. The true mount is exp(r) R, translation + t, time_offset + s. None = none is stated.
    covariance: np.ndarray | None = None

    @property
    def known(self) -> bool:
        """Whether somebody gave the pose."""
        return self.source != "identity"

    def describe(self) -> dict[str, object]:
        """For the provenance: who states the pose, and the largest deviations, degrees, m, s, if it states them."""
        if self.covariance is None:
            return {"extrinsics": self.source}
        sigma = np.sqrt(np.diag(self.covariance))
        values = (np.degrees(sigma[:3].max()), sigma[3:6].max(), sigma[6])
        return {"extrinsics": self.source, "extrinsics_sigma": [float(f"{each:.2g}") for each in values]}

    def seen_from(self, other: Mount) -> Mount:
        """The same pose in the frame of another sensor, by whose clock times are then."""
        into, late = other.rotation.T, self.time_offset - other.time_offset
        way, covariance = self.translation - other.translation, None
        if self.covariance is not None or other.covariance is not None:
            # Their errors are independent. An error of the other's rotation moves what is away from it.
            covariance = np.zeros((7, 7))
            for mount, arm in ((self, 0 * way), (other, way)):
                turned = np.eye(7)
                turned[:6, :6] = np.kron(np.eye(2), into)
                turned[3:6, :3] = matmul(-into, skew(arm))
                if mount.covariance is not None:
                    covariance += matmul(turned, mount.covariance, turned.T)
        return Mount(matmul(into, way), matmul(into, self.rotation), self.source, late, covariance)

    def errors(self, state: State) -> np.ndarray:
        """Covariance of what the mount's error does to the sensor's poses in N states, f8 (N, 6, 6).

        It is of a displacement and a rotation vector, both in the frame of the sensor, m and rad; zero where the mount
        states none.
        """
        stated = np.zeros((7, 7)) if self.covariance is None else self.covariance
        jacobian = np.zeros((len(state.pos), 6, 7))
        jacobian[:, 3:, :3] = jacobian[:, :3, 3:6] = self.rotation.T
        jacobian[:, :3, 6], jacobian[:, 3:, 6] = np.einsum("nji,nj->ni", state.rot, state.vel), state.avel
        return np.asarray(matmul(jacobian, stated, np.swapaxes(jacobian, 1, 2)))

    def carried(self, cov: np.ndarray) -> np.ndarray:
        """Covariance of poses of the lidar as that of poses of the sensor, f8 (N, 6, 6), each in its own frame."""
        jacobian = np.kron(np.eye(2), self.rotation.T)
        jacobian[:3, 3:] = matmul(-self.rotation.T, skew(self.translation))
        return np.asarray(matmul(jacobian, cov, jacobian.T))


#: The lidar itself, or a sensor whose pose nobody gave. Layout.
IDENTITY = Mount(np.zeros(3), np.eye(3), "identity")


def find_mount(sensor: str, rig: RigOptions, recorded: str | None) -> Mount:
    """Pose of a sensor in the lidar frame. Arguments and errors as of `find_stated`."""
    stated = find_stated(sensor, rig, recorded)
    return IDENTITY if stated is None else _mount(*stated)


def mount_entry(mount: Mount) -> dict[str, Any]:
    """A mount as the section `rig` writes it."""
    rotation, time_offset = mount.rotation.tolist(), mount.time_offset
    return {"translation": mount.translation.tolist(), "rotation": rotation, "time_offset": time_offset}


def mount_of_entry(entry: Any, name: str) -> Mount:
    """The mount of `mount_entry`, of a lidar in `lidars.json` of `_odom`. Raises FormatError: it is no rigid pose."""
    try:
        options = MountOptions.model_validate(entry)
    except ValidationError as error:
        raise FormatError(f"_odom/lidars.json: {name}: {explain(error)}; make it again") from error
    return _mount(options, "config.yaml")


def _mount(options: MountOptions, source: Source) -> Mount:
    # A matrix in a text file is rounded, so the nearest rotation is used.
    rotation = nearest(np.array(options.rotation))
    covariance = None if options.covariance is None else np.array(options.covariance, "f8")
    return Mount(np.array(options.translation, "f8"), rotation, source, options.time_offset, covariance)


def mount_warnings(sensor: Mounted, rig: RigOptions, mount: Mount) -> list[str]:
    """What a user should know about a pose that was found: doubts about a named rig, or that it lacks the sensor."""
    if mount.source == "iq1m" and sensor == "radar":
        return [
            "rig iq1m: the radar's pose is in doubt: the comment in the published URDF, which is taken, puts it "
            "(0.060, 0, -0.132) m from the lidar, the numbers there (0.006, 0, -0.033); measure it and set `rig.radar`"
        ]
    if rig.name and not mount.known:
        return [f"rig {rig.name} does not say where the {sensor} is: it gets the lidar's pose; set `rig.{sensor}`"]
    return []
