"""The real drives as lidars of fewer beams, of 5 Hz and with a narrow view would have seen them, beside KISS-ICP.

    python -m benchmarks.drives_degraded [--captures ../shared/data] [--only NAME ...] [--kept WHAT ...]

Rings of the 64 are left out, every other sweep, and what is not ahead. Both run on what is left, ours
through the command line. The motion within each sweep is undone by the poses of the INS, as datasets publish their
clouds, so that a sweep which is left out leaves nothing behind. Figures go to `benchmarks/results.json`, into the table
of `benchmarks.drives`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from benchmarks.drives import CAPTURES, DRIVES, Poses, Truth, command, figures, imported, record, truth_of_drive
from benchmarks.drives_peers import Clouds, kiss_icp
from rover_pipeline.format.sensor import Sensor

#: One ring and one sweep in how many are kept, and the angle of view, degrees, by what is measured.
KEPT = {
    "10 Hz": (1, 1, 360), "5 Hz": (1, 2, 360), "32 beams, 5 Hz": (2, 2, 360), "16 beams": (4, 1, 360),
    "16 beams, 5 Hz": (4, 2, 360), "120 degrees": (1, 1, 120), "60 degrees": (1, 1, 60),
}  # fmt: skip


def rings(points: np.ndarray) -> np.ndarray:
    """The number of the ring of each point, i8 (N,): KITTI lists one ring after the other, each from ahead."""
    azimuth = np.arctan2(points[:, 1], points[:, 0]) % (2 * np.pi)
    return np.concatenate([[0], np.cumsum(np.diff(azimuth) < -np.pi)])


def undistorted(lidar: Sensor, truth: Truth, numbers: range, every: int, view: float) -> Iterator[np.ndarray]:
    """Points, f8 (N, 3), m, of some sweeps with one ring in `every`, as seen from where the lidar looked ahead.

    Args:
        view: the angle around ahead in which points are kept, degrees.
    """
    rot = Slerp(truth.ts, Rotation.from_matrix(truth.rot))
    counts, ts = (lidar.channel(each).read() for each in ("count", "ts"))
    for number in numbers:
        points, times = (lidar.channel(name).read(number, number + 1)[0][: counts[number]] for name in ("xyz", "time"))
        ahead = np.abs(np.arctan2(points[:, 1], points[:, 0])) <= np.radians(view / 2)
        kept = ahead & (rings(points) % every == every // 2)
        at = np.clip(ts[number] + times[kept].astype("f8"), truth.ts[0], truth.ts[-1])
        pos = np.stack([np.interp(at, truth.ts, axis) for axis in truth.pos.T], 1)
        yield (rot(at).apply(points[kept]) + pos - truth.pos[number]) @ truth.rot[number]


def measure(
    captures: Path, name: str, every_ring: int, every_sweep: int, view: float, folder: Path
) -> dict[str, dict[str, float]]:
    """Figures of ours and of KISS-ICP."""
    lidar, whole = Sensor(imported(captures, name, "ours", folder) / "lidar"), truth_of_drive(captures, name)
    numbers = range(1, len(whole.ts) - 1, every_sweep)  # what is outside of the truth's time cannot be undone
    clouds = list(undistorted(lidar, whole, numbers, every_ring, view))
    ts, pos, rot, speed = (each[numbers.start : numbers.stop : numbers.step] for each in whole[:4])
    truth = Truth(ts, pos, rot, speed, whole.pos_sigma, whole.vel_sigma)
    source, trace = (folder / f"{name}-{every_ring}-{every_sweep}-{view}-{part}" for part in ("clouds", "trace"))
    source.mkdir()
    for number, cloud in enumerate(clouds):
        np.column_stack([cloud, np.zeros(len(cloud))]).astype("<f4").tofile(source / f"{number:06d}.bin")
    (source / "timestamps.txt").write_text("".join(f"{t:.9f}\n" for t in ts.tolist()))
    command("import", "clouds", str(source), "-o", str(trace), "--compensated")
    command("run", str(trace), "--outputs", "odom")
    odom = Sensor(trace / "_odom")
    channels = [odom.channel(each).read() for each in ("pos", "rot", "cov", "valid")]
    found = Poses(channels[0], channels[1], channels[2], channels[3] != 0)
    peer = kiss_icp(Clouds(clouds, [np.zeros(len(each)) for each in clouds]), deskew=False)
    return {"ours": figures(found, truth), "KISS-ICP, one instant": figures(Poses(*peer), truth)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=Path, default=CAPTURES)
    parser.add_argument("--only", nargs="+", default=list(DRIVES), choices=DRIVES)
    parser.add_argument("--kept", nargs="+", default=list(KEPT), choices=KEPT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drives-") as scratch:
        for name in given.only:
            for what in given.kept:
                for who, found in measure(given.captures, name, *KEPT[what], Path(scratch)).items():
                    record(f"{name}, {what}, {who}", found, DRIVES[name].of)


if __name__ == "__main__":
    main()
