"""Pipelines that evalio bundles, on sweeps from a file. Run by `benchmarks.rough` with a Python that has evalio.

python benchmarks/evalio_peer.py SWEEPS.npz PIPELINE OUT.npz

`SWEEPS.npz` has `points` f4 (N, 3), m; `seconds` f4 (N,), of each point after the start of its sweep;
`ends` i8 (sweep,), one after the last point of each; `starts` f8 (sweep,), s; `shape` (2,), beams and
columns; `imu_ts`, `avel`, `acc`; and `mount` f8 (4, 4), the IMU's pose in the lidar frame. `OUT.npz` has
`poses` f8 (M, 4, 4) and their `ts`.
"""

from __future__ import annotations

import sys

import numpy as np
from evalio import pipelines, types

#: Parameters that the pipelines need here: none may drop sweeps to keep up, and recordings are too short to calibrate.
PARAMETERS = {
    "CTICP": {},
    "MadICP": {"realtime": False, "deskew": True},
    "GenZICP": {"deskew": True},
    "DLIO": {"imu_calibrate": False, "wait_until_move": False},
}


def main(source: str, name: str, out: str) -> None:
    found = np.load(source)
    beams, columns = (int(value) for value in found["shape"])
    pipeline = getattr(pipelines, name)()
    mount = np.linalg.inv(found["mount"])
    pipeline.set_imu_params(types.ImuParams())
    pipeline.set_lidar_params(types.LidarParams(num_rows=beams, num_columns=columns, min_range=0.5, max_range=100.0))
    pipeline.set_imu_T_lidar(types.SE3.from_mat(mount))
    pipeline.set_params({**pipeline.default_params(), **PARAMETERS[name]})
    pipeline.initialize()
    rates = list(zip(found["imu_ts"], found["avel"].astype("f8"), found["acc"].astype("f8"), strict=True))
    estimates, first = [], 0
    for start, end, stop in zip(found["starts"], [*found["starts"][1:], np.inf], found["ends"], strict=True):
        while rates and rates[0][0] < end:
            ts, avel, acc = rates.pop(0)
            pipeline.add_imu(types.ImuMeasurement(_stamp(ts), avel, acc))
        cloud = zip(found["points"][first:stop].tolist(), found["seconds"][first:stop].tolist(), strict=True)
        points = [types.Point(x=x, y=y, z=z, t=types.Duration.from_sec(t)) for (x, y, z), t in cloud]
        pipeline.add_lidar(types.LidarMeasurement(_stamp(start), points))
        estimates += pipeline.saved_estimates()
        first = stop
    ts = np.array([stamp.to_sec() for stamp, _ in estimates])
    np.savez(out, ts=ts, poses=np.array([pose.to_mat() for _, pose in estimates]).reshape(-1, 4, 4))


def _stamp(seconds: float) -> types.Stamp:
    return types.Stamp.from_nsec(round(float(seconds) * 1e9))


if __name__ == "__main__":
    main(*sys.argv[1:])
