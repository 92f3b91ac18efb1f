"""Mounts of radars beside a lidar, and what they could be at best: `python -m benchmarks.radar_mounts FOLDER`.

Recordings of 30 s with all chirps of their presets are made in FOLDER, and used again, as `python -m tests.campaign
mounts --whole` makes them. The mount that is declared is the true one. Beside each error stands the bound of Cramer and
Rao: the deviation that is left where the errors of all points are independent, and as large as the points state.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.measure import print_versions
from benchmarks.results import record
from rover_pipeline.calibrate.radar_mount import Echoes, calibrate
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.mounts import COMPONENTS, PRIOR_SIGMA, difference
from rover_pipeline.kinematics.rotation import skew
from rover_pipeline.kinematics.trajectory import Trajectory
from rover_pipeline.poses.options import PosesSection
from rover_pipeline.radar.ego_motion import tangents
from rover_pipeline.validation.mounts import radar_echoes
from rover_pipeline.validation.rig import read_trajectory
from tests.campaign.mounts import record as make

#: Kinds of recordings and their first number, which nothing was chosen on.
CARS, WALKS, FIRST = ("car",), ("tiny", "indoor", "outdoor"), 200
#: Radars by what they are called here.
RADARS = {"radar_front": "ahead", "radar_left": "to the side", "radar_rear": "one row", "radar": "walk"}
#: Pitch and yaw.
SHOWN = (1, 2)


def bound(echoes: Echoes, trajectory: Trajectory, true: Mount) -> np.ndarray:
    """Standard deviations of the components by independent errors of the points as they are stated, f8 (7,)."""
    times, frame = np.unique(echoes.times, return_inverse=True)
    clock = IDENTITY._replace(time_offset=true.time_offset)
    (state, known), (later, also) = (trajectory.at(times + shift, clock) for shift in (0.0, 0.01))
    chosen = (known & also)[frame]
    echoes, frame = echoes.select(chosen), frame[chosen]
    moved, after = (
        np.einsum("nji,nj->ni", each.rot, each.vel) + np.cross(each.avel, true.translation) for each in (state, later)
    )
    slopes = np.concatenate([skew(moved), skew(state.avel), (after - moved)[:, :, None] / 0.01], axis=2)
    velocity = (moved @ true.rotation)[frame]
    across = velocity[:, 1:] - velocity[:, :1] * tangents(echoes.direction)
    sigma = np.sqrt(echoes.sigma**2 + ((echoes.error * across) ** 2).sum(axis=1))
    along = (echoes.direction @ true.rotation.T) / sigma[:, None]
    rows = np.einsum("ni,nij->nj", along, slopes[frame])
    return np.sqrt(np.diag(np.linalg.inv(rows.T @ rows + np.diag(PRIOR_SIGMA**-2.0))))


def errors_of(echoes: Echoes, trajectory: Trajectory, true: Mount) -> tuple[np.ndarray, float, int, np.ndarray]:
    """The error of each component, its square in the stated covariance, how many are observed, and the bounds."""
    found = calibrate(echoes, trajectory, true)
    error, seen = difference(true, found.mount), found.observed
    square = error[seen] @ np.linalg.solve(found.covariance[np.ix_(seen, seen)], error[seen]) if seen.any() else 0.0
    return np.where(seen, error, np.nan), float(square), int(seen.sum()), bound(echoes, trajectory, true)


def described(values: np.ndarray) -> str:
    """Pitch and yaw that are observed, in degrees."""
    parts = zip(SHOWN, np.degrees(values[list(SHOWN)]), strict=True)
    return ", ".join(f"{COMPONENTS[i]} {each:.3f}" for i, each in parts if np.isfinite(each)) + " degrees"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the recordings are, or are made")
    parser.add_argument("--cars", type=int, default=7)
    parser.add_argument("--walks", type=int, default=2, help="of each kind of walk")
    given = parser.parse_args()
    print_versions("numpy", "scipy")
    groups: dict[str, list[tuple[object, ...]]] = {}
    kinds = [(kind, given.cars) for kind in CARS] + [(kind, given.walks) for kind in WALKS]
    for kind, number in ((kind, FIRST + i) for kind, count in kinds for i in range(count)):
        trace = given.folder / f"{kind}-{number}"
        mounts = make(trace, kind, number, whole=True)
        trajectory = read_trajectory(trace, PosesSection().max_gap)
        for sensor in (each for each in mounts if each in RADARS):
            echoes = radar_echoes(trace, sensor)
            assert echoes is not None
            whole = errors_of(echoes, trajectory, mounts[sensor])
            single = errors_of(echoes._replace(spread=0 * echoes.spread), trajectory, mounts[sensor])
            groups.setdefault(RADARS[sensor], []).append((*whole, single[0]))
            print(trace.name, sensor, described(whole[0]), f"NEES {whole[1] / max(whole[2], 1):.2f}", flush=True)
    for name, found in groups.items():
        error, squares, freedom, bounds, single_error = map(np.array, zip(*found, strict=True))
        of = f"{len(found)} recordings of 30 s, all chirps: {'walks' if name == 'walk' else 'a car'}"
        with np.errstate(invalid="ignore"):
            rms = [np.sqrt(np.nanmean(each**2, axis=0)) for each in (error, bounds, single_error)]
            largest = np.nanmax(np.abs(error), axis=0)
        figures = dict(zip(("error", "bound", "without spread"), rms, strict=True)) | {"largest": largest}
        for what, values in figures.items():
            record(f"radar mounts/{name} {what}", described(values), of=of, world="simulated")
        record(f"radar mounts/{name} NEES", f"{squares.sum() / freedom.sum():.2f}", of=of, world="simulated")


if __name__ == "__main__":
    main()
