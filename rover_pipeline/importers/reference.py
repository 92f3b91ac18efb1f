"""`_reference`: poses that came with a recording, from an INS, from its makers or from topics of a bag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import FormatError, counted, naming
from rover_pipeline.format.files import replace_json
from rover_pipeline.format.meta import raw
from rover_pipeline.format.provenance import PROVENANCE, of_source
from rover_pipeline.format.sensor import TS, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.importers.times import given_text, require_steady
from rover_pipeline.kinematics.rotation import nearest, obliqueness

REFERENCE = "_reference"
_MAX_LIST_BYTES = 1 << 28  # Schedule.
#: Channels: their shapes and descriptions. Layout.
_CHANNELS = {
    "pos": ((3,), "Position of {body} in the world of the reference, m. [xyz]"),
    "rot": ((3, 3), "Rotation, world from {body}. [world xyz, body xyz]"),
    "vel": ((3,), "Velocity of {body} in the world, m/s. [xyz]"),
    "acc": ((3,), "Acceleration of {body} in the world, m/s2. [xyz]"),
    "avel": ((3,), "Angular velocity in the frame of {body}, rad/s. [xyz]"),
    "cov": ((6, 6), "Covariance of pos and rot that the source states. [xyz and rotation, xyz and rotation]"),
}
#: Standard deviations of roll, pitch and yaw of an INS with two antennas, rad. Noise: data sheet of the OXTS RT3003.
_ANGLES_RAD = np.radians([0.03, 0.03, 0.1])


class ReferenceWriter(SensorWriter):
    """Writes the virtual sensor `_reference` of a new trace. Closing it writes its provenance too.

    Args:
        trace: folder of the trace.
        channels: `pos` and `rot`, and what else there is of the states of `_odom`.
        body: what the poses are of: `lidar`, or the name of another body whose mount is not known.
        command: the import, such as `import kitti`.
        options: what the poses came from, for the provenance; inputs: fingerprints of these files, by name.
    """

    def __init__(
        self,
        trace: Path,
        channels: Iterable[str],
        *,
        body: str,
        command: str,
        options: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        self._states = [name for name in _CHANNELS if name in set(channels)]
        shown = f"the {body}" if body else "a body without a name"
        specs = {
            name: raw("f8", shape, desc.format(body=shown))
            for name, (shape, desc) in _CHANNELS.items()
            if name in self._states
        }
        super().__init__(trace / REFERENCE, {VALID: VALID_SPEC, **specs})
        self._provenance = of_source(REFERENCE, command, {**options, "body": body}, sorted(self.specs), inputs)

    def append(self, **samples: np.ndarray | float | bytes) -> None:
        """Add poses: `ts` f8 (N,), seconds, and the states, f8 (N, ...).

        Poses that are not finite, or whose rotation is none, are not valid.
        """
        states = {name: np.asarray(samples[name], "f8") for name in self._states}
        stated = [each.reshape(len(each), -1) for name, each in states.items() if name != "cov"]
        finite = np.isfinite(np.concatenate(stated, axis=1)).all(1)
        super().append(ts=samples[TS], valid=finite & _are_rotations(states["rot"]), **states)

    def close(self) -> None:
        super().close()
        replace_json(self.path / PROVENANCE, self._provenance)


def write_reference(
    trace: Path, ts: np.ndarray, states: Mapping[str, np.ndarray], *, command: str, source: str, body: str = "lidar"
) -> int:
    """Write the virtual sensor `_reference` of a new trace from all its poses, and return their number.

    The arguments are those of `ReferenceWriter` and its `append`; `source` is what the poses came from. Raises
    FormatError where the times do not increase, jump, or are not between 1990 and 2100.
    """
    require_steady(ts, Path(source))
    with ReferenceWriter(trace, states, body=body, command=command, options={"source": source}) as writer:
        writer.append(ts=ts, **states)
    return len(ts)


def ins_covariance(sigma: np.ndarray) -> np.ndarray:
    """Covariances of poses, f8 (N, 6, 6), by the deviation of positions, f8 (N,), m, that an INS states; 0 = none."""
    known = np.where(sigma > 0, sigma, np.nan)[:, None]
    deviations = np.hstack([known, known, known, np.tile(_ANGLES_RAD, (len(sigma), 1))])
    return np.asarray(deviations[:, :, None] ** 2 * np.eye(6))


def read_poses(path: Path, ts: Sequence[float] | np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Poses of a text file: times, f8 (N,), s, and `pos` and `rot`.

    `path`: TUM (`time x y z qx qy qz qw` a line), or KITTI (a 3x4 matrix a line, one for each of the times `ts`).
    Raises FormatError where the file is none of them, or has another number of poses than there are sweeps.
    """
    listed = given_text(path, _MAX_LIST_BYTES).splitlines()
    lines = [line.replace(",", " ").split() for line in listed if line.strip() and line[0] != "#"]
    widths = {len(line) for line in lines}
    if widths not in ({8}, {12}):
        raise FormatError(f"{path}: must have 8 numbers a line (TUM: time, position, xyzw) or 12 (KITTI: 3x4)")
    with naming(f"{path}: holds what is no number", ValueError):
        table = np.array(lines, "f8")
    if widths == {12}:
        if len(table) != len(ts):
            raise FormatError(f"{path}: has {counted(len(table), 'pose')} for {counted(len(ts), 'sweep')}")
        matrices = table.reshape(-1, 3, 4)
        return np.asarray(ts), {"pos": matrices[:, :, 3], "rot": _orthogonal(matrices[:, :, :3])}
    length = np.linalg.norm(table[:, 4:], axis=1)
    whole = np.isfinite(length) & (np.abs(length - 1) < 0.01)
    safe = np.where(whole[:, None], table[:, 4:], [0, 0, 0, 1])
    rot = Rotation.from_quat(safe).as_matrix()
    rot[~whole] = np.nan
    return table[:, 0], {"pos": table[:, 1:4], "rot": rot}


def _are_rotations(rot: np.ndarray) -> np.ndarray:
    return obliqueness(rot) < 2e-3  # a rounding by 1e-3


def _orthogonal(rot: np.ndarray) -> np.ndarray:
    """The rotations that matrices of few digits stand for; NaN for those that stand for none."""
    good = _are_rotations(rot)[:, None, None]
    return np.asarray(np.where(good, nearest(np.where(good, rot, np.eye(3))), np.nan))
