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
from benchmarks.results import record

#: The recording, as documents call it: `rover-pipeline simulate TRACE --preset indoor --duration 6 --seed 0`.
OF = "six seconds of the preset `indoor`"
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
    _valid("radar_velocity", sensor)
    record("radar_velocity/indoor velocity", f"{100 * _rms(error):.1f}", "cm/s", of=OF)
    record("radar_velocity/indoor NEES", f"{normalised.mean() / 3:.2f}", of=f"for each degree of freedom, {OF}")
    for name in TIMES:
        times = trace[f"{name}_times"]
        truth = trace["truth" if name == "lidar" else f"truth_{name}"]
        error = 1e3 * (times.smooth[times.valid] - truth.true_ts[times.valid])
        late = 1e3 * (times.ts - times.smooth[:])
        _valid(f"{name}_times", times)
        record(f"{name}_times/indoor error", f"{1e3 * error.std():.0f}", "microseconds", of=OF)
        record(f"{name}_times/indoor latency", f"{error.mean():.1f}", "ms", of=OF)
        record(f"{name}_times/indoor scatter", f"{late.std():.2f}", "ms", of=OF)
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
    _valid(name, sensor)
    record(f"{name}/indoor position", f"{1e3 * _rms(error):.2f}", "mm", of=OF)
    record(f"{name}/indoor rotation", f"{_rms(angle[:, None]):.3f}", "degrees", of=OF)
    record(f"{name}/indoor velocity", f"{100 * _rms(vel):.2f}", "cm/s", of=OF)


def _radar_odom(trace: rp.Trace) -> None:
    sensor, truth = trace["radar_odom"], trace["truth_radar"]
    valid = np.flatnonzero(sensor.valid)
    first, last = valid[0], valid[-1]
    moved = sensor.rot[first].T @ (sensor.pos[last] - sensor.pos[first])
    really = truth.rot[first].T @ (truth.pos[last] - truth.pos[first])
    way = np.linalg.norm(np.diff(truth.pos[first : last + 1], axis=0), axis=1).sum()
    off = np.linalg.norm(moved - really)
    _valid("radar_odom", sensor)
    record("radar_odom/indoor end", f"{1e3 * off:.0f}", "mm", of=OF)
    record("radar_odom/indoor way", f"{way:.1f}", "m", of=OF)


def _imu(trace: rp.Trace) -> None:
    sensor, truth = trace["imu_filtered"], trace["truth_imu"]
    valid = sensor.valid
    up = Rotation.from_quat(sensor.quat[valid]).inv().apply([0, 0, 1])
    true_up = truth.rot[valid][:, 2]  # the world of the simulator has z up
    tilt = np.degrees(np.arccos(np.clip(np.einsum("ni,ni->n", up, true_up), -1, 1)))
    rate = sensor.avel[valid] - truth.avel[valid]
    felt = np.einsum("nji,nj->ni", truth.rot[valid], truth.acc[valid] + [0, 0, 9.80665])
    _valid("imu_filtered", sensor)
    record("imu_filtered/indoor tilt", f"{_rms(tilt[:, None]):.2f}", "degrees", of=OF)
    record("imu_filtered/indoor rate", f"{np.degrees(_rms(rate)):.2f}", "degrees/s", of=OF)
    record("imu_filtered/indoor acceleration", f"{_rms(sensor.acc[valid] - felt):.3f}", "m/s2", of=OF)


def _valid(name: str, sensor: rp.Sensor) -> None:
    record(f"{name}/indoor valid", f"{100 * sensor.valid.mean():.0f}", "%", of=OF)


def _rms(error: np.ndarray) -> float:
    """Root mean square of the lengths of vectors, (sample, axis)."""
    return float(np.sqrt(np.square(error).sum(axis=1).mean()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
