"""Errors of virtual sensors on a simulated recording against its truth: `python -m benchmarks.sensors TRACE`.

TRACE was made by `rover-pipeline simulate` and `rover-pipeline run TRACE --outputs all`. The pages of the sensors in
the manual give the figures of six seconds of the preset `indoor`, the recording of their pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import rover_pipeline as rp

POSES = ("radar", "camera", "imu")
TIMES = ("lidar", "radar", "camera", "imu")


def main(path: Path) -> None:
    trace = rp.open(path)
    turn, shift = _into_truth(trace)
    for name in ("odom", *(f"{sensor}_pose" for sensor in POSES)):
        _trajectory(trace, name, turn, shift)
    _radar_odom(trace)
    sensor, truth = trace["radar_velocity"], trace["truth_radar"]
    error = sensor.vel[sensor.valid] - truth.ego_vel[sensor.valid]
    normalised = np.einsum("ni,nij,nj->n", error, np.linalg.inv(sensor["cov"][sensor.valid].astype("f8")), error)
    print(
        f"_radar_velocity: {sensor.valid.mean():.0%} valid, error {_rms(error):.3f} m/s RMS, "
        f"normalised error squared {normalised.mean() / 3:.2f} per degree of freedom"
    )
    for name in TIMES:
        times = trace[f"{name}_times"]
        truth = trace["truth" if name == "lidar" else f"truth_{name}"]
        error = 1e3 * (times.smooth[times.valid] - truth.true_ts[times.valid])
        late = 1e3 * (times.ts - times.smooth[:])
        print(
            f"_{name}_times: error {error.mean():+.2f} ms (smallest latency), {error.std():.3f} ms about it; arrivals "
            f"scatter by {late.std():.2f} ms; {times.valid.mean():.0%} valid"
        )
    _imu(trace)


def _into_truth(trace: rp.Trace) -> tuple[np.ndarray, np.ndarray]:
    """Rotation and translation from the world of `_odom` to that of the truth, by the first valid sweep."""
    odom, truth = trace["odom"], trace["truth"]
    at = int(np.flatnonzero(odom.valid)[0])
    turn = truth.rot[at] @ odom.rot[at].T
    return turn, truth.pos[at] - turn @ odom.pos[at]


def _trajectory(trace: rp.Trace, name: str, turn: np.ndarray, shift: np.ndarray) -> None:
    sensor = trace[name]
    truth = trace["truth" if name == "odom" else f"truth_{name.removesuffix('_pose')}"]
    valid = sensor.valid
    # The pose of the radar is of the middle of the frame's chirps.
    measured = (sensor.provenance or {}).get("measured", {})
    later = float(measured["radar_instant_after_ts_s"]) if name == "radar_pose" else 0.0
    pos = truth.pos[:] + later * truth.vel[:] + later**2 / 2 * truth.acc[:]
    rot = truth.rot[:] @ Rotation.from_rotvec(later * truth.avel[:]).as_matrix()
    error = (sensor.pos[:] @ turn.T + shift - pos)[valid]
    angle = np.degrees(Rotation.from_matrix((np.swapaxes(turn @ sensor.rot[:], 1, 2) @ rot)[valid]).magnitude())
    vel = (sensor.vel[:] @ turn.T - truth.vel[:] - later * truth.acc[:])[valid]
    print(
        f"_{name}: {valid.mean():.0%} valid, position {1e3 * _rms(error):.2f} mm RMS, "
        f"rotation {_rms(angle[:, None]):.3f} degrees, velocity {100 * _rms(vel):.2f} cm/s"
    )


def _radar_odom(trace: rp.Trace) -> None:
    sensor, truth = trace["radar_odom"], trace["truth_radar"]
    valid = np.flatnonzero(sensor.valid)
    first, last = valid[0], valid[-1]
    moved = sensor.rot[first].T @ (sensor.pos[last] - sensor.pos[first])
    really = truth.rot[first].T @ (truth.pos[last] - truth.pos[first])
    way = np.linalg.norm(np.diff(truth.pos[first : last + 1], axis=0), axis=1).sum()
    off = np.linalg.norm(moved - really)
    print(
        f"_radar_odom: {sensor.valid.mean():.0%} valid, ends {1e3 * off:.0f} mm off after {way:.1f} m ({off / way:.1%})"
    )


def _imu(trace: rp.Trace) -> None:
    sensor, truth = trace["imu_filtered"], trace["truth_imu"]
    valid = sensor.valid
    up = Rotation.from_quat(sensor.quat[valid]).inv().apply([0, 0, 1])
    true_up = truth.rot[valid][:, 2]  # the world of the simulator has z up
    tilt = np.degrees(np.arccos(np.clip(np.einsum("ni,ni->n", up, true_up), -1, 1)))
    rate = sensor.avel[valid] - truth.avel[valid]
    felt = np.einsum("nji,nj->ni", truth.rot[valid], truth.acc[valid] + [0, 0, 9.80665])
    print(
        f"_imu_filtered: {valid.mean():.0%} valid, tilt {_rms(tilt[:, None]):.3f} degrees RMS, angular velocity "
        f"{np.degrees(_rms(rate)):.3f} degrees/s, acceleration {_rms(sensor.acc[valid] - felt):.3f} m/s2"
    )


def _rms(error: np.ndarray) -> float:
    """Root mean square of the lengths of vectors, (sample, axis)."""
    return float(np.sqrt(np.square(error).sum(axis=1).mean()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
