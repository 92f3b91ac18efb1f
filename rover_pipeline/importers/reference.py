"""`_reference`: poses of the lidar that came with a recording, from an INS or from its makers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline import __version__
from rover_pipeline.errors import FormatError
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, versions
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.texts import read_text
from rover_pipeline.importers.times import require_steady

REFERENCE = "_reference"
_MAX_LIST_BYTES = 1 << 28
_DESCRIBED = {
    "pos": ((3,), "Position of the lidar in the world of the reference, m. [xyz]"),
    "rot": ((3, 3), "World-from-lidar rotation. [world, lidar]"),
    "vel": ((3,), "Velocity in the world, m/s. [xyz]"),
    "acc": ((3,), "Acceleration in the world, m/s2. [xyz]"),
    "avel": ((3,), "Angular velocity in the lidar frame, rad/s. [xyz]"),
}


def write_reference(trace: Path, ts: np.ndarray, states: Mapping[str, np.ndarray], *, command: str, source: str) -> int:
    """Write the virtual sensor `_reference` of a new trace; returns the number of poses.

    Args:
        ts: f8 (N,), seconds, increasing.
        states: `pos` and `rot`, and what else there is of the channels of `_odom`, f8 (N, ...). Poses that are not
            finite, or whose rotation is none, are not valid.
        command: the import, such as `import kitti`.
        source: what the poses came from.

    Raises:
        FormatError: the times do not increase, jump, or are not between 1990 and 2100.
    """
    require_steady(ts, Path(source))
    specs = {
        name: ChannelSpec(format="raw", type="f8", shape=shape, desc=desc)
        for name, (shape, desc) in _DESCRIBED.items()
        if name in states
    }
    finite = np.all([np.isfinite(states[name]).reshape(len(ts), -1).all(1) for name in specs], axis=0)
    safe = np.where(finite[:, None, None], states["rot"], np.eye(3))
    orthogonal = np.abs(safe @ np.swapaxes(safe, 1, 2) - np.eye(3)).max((1, 2)) < 1e-6
    valid = finite & orthogonal & (np.linalg.det(safe) > 0)
    with SensorWriter(trace / REFERENCE, {TS: TS_SPEC, VALID: VALID_SPEC, **specs}) as writer:
        writer.append(ts=ts, valid=valid, **{name: states[name] for name in specs})
    provenance = {
        "made_by": MADE_BY,
        "sensor": REFERENCE,
        "step": command,
        "version": __version__,
        "options": {"source": source},
        "inputs": {},
        "packages": versions(),
        "files": sorted([TS, VALID, *specs]),
    }
    replace_file(trace / REFERENCE / PROVENANCE, json.dumps(provenance, indent=2) + "\n")
    return len(ts)


def read_poses(path: Path, ts: Sequence[float] | np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Poses of a text file: times, f8 (N,), s, and `pos` and `rot`.

    Args:
        path: TUM (`time x y z qx qy qz qw` a line), or KITTI (a 3x4 matrix a line, one for each of the times `ts`).

    Raises:
        FormatError: the file is none of them, or has another number of poses than there are sweeps.
    """
    try:
        text = read_text(path, _MAX_LIST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FormatError(f"{path}: {error.strerror}") from error
    lines = [line.replace(",", " ").split() for line in text.splitlines() if line.strip() and line[0] != "#"]
    widths = {len(line) for line in lines}
    if widths not in ({8}, {12}):
        raise FormatError(f"{path}: must have 8 numbers a line (TUM: time, position, xyzw) or 12 (KITTI: 3x4)")
    try:
        table = np.array(lines, "f8")
    except ValueError as error:
        raise FormatError(f"{path}: holds what is no number: {error}") from error
    if widths == {12}:
        if len(table) != len(ts):
            raise FormatError(f"{path}: has {len(table):,} poses for {len(ts):,} sweeps")
        matrices = table.reshape(-1, 3, 4)
        return np.asarray(ts), {"pos": matrices[:, :, 3], "rot": _orthogonal(matrices[:, :, :3])}
    length = np.linalg.norm(table[:, 4:], axis=1)
    whole = np.isfinite(length) & (np.abs(length - 1) < 0.01)
    safe = np.where(whole[:, None], table[:, 4:], [0, 0, 0, 1])
    rot = Rotation.from_quat(safe).as_matrix()
    rot[~whole] = np.nan
    return table[:, 0], {"pos": table[:, 1:4], "rot": rot}


def _orthogonal(rot: np.ndarray) -> np.ndarray:
    """The rotations that matrices of few digits stand for; NaN for those that stand for none."""
    finite = np.isfinite(rot).all((1, 2))
    left, sizes, right = np.linalg.svd(np.where(finite[:, None, None], rot, np.eye(3)))
    nearest = left @ right
    good = finite & (np.abs(sizes - 1).max(1) < 1e-3) & (np.linalg.det(nearest) > 0)
    return np.asarray(np.where(good[:, None, None], nearest, np.nan))
