"""Virtual sensors on real captures that nobody here made: `python -m benchmarks.captures ../shared/data`.

The hand-carried radar is processed by the commands of `docs/sensors/radar_odom.md`, as a user pastes them. The drive
is 50 sweeps of KITTI at 16 to 20 m/s, whose INS knows lengths well (0.05 m/s) and places badly (0.45 m).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import rover_pipeline as rp
from benchmarks.measure import print_versions
from benchmarks.results import record
from benchmarks.rough import straight
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.importers.clouds import import_clouds
from rover_pipeline.radar.options import VelocitySection
from rover_pipeline.radar.velocity import ego_velocity
from rover_pipeline.table import find_step

PAGE = Path(__file__).parents[1] / "docs" / "sensors" / "radar_odom.md"
#: The manual calls the recording by the name of its file.
BAG = "ti_mmwave_radar_imu.bag"
#: Rate of the drive's sweeps, Hz.
_RATE = 10.0


def process_hand_carried(captures: Path, folder: Path) -> rp.Trace:
    """Run the commands of the manual in `folder`, which gets the trace `hand`."""
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / BAG).symlink_to(captures.resolve() / "bags" / BAG)
    # The commands of the environment of this process, activated or not.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", commands], cwd=folder, check=True, capture_output=True, env=os.environ | {"PATH": path}
    )
    return rp.open(folder / "hand")


def hand_carried(captures: Path, folder: Path) -> None:
    """40 s of a radar of points and an IMU, carried by hand and back to about where it was picked up."""
    trace = process_hand_carried(captures, folder)
    of = f"{BAG}: 412 frames, 40 s carried by hand"
    odom = trace["radar_odom"]
    pos = odom.pos[odom.valid]
    way, apart = np.linalg.norm(np.diff(pos, axis=0), axis=1).sum(), np.linalg.norm(pos[-1] - pos[0])
    record("radar_odom/hand valid", f"{100 * odom.valid.mean():.0f}", "%", of=of, world="real")
    record("radar_odom/hand way", f"{way:.1f}", "m", of=of, world="real")
    record("radar_odom/hand end", f"{apart:.2f}", "m", of=of, world="real")
    record("radar_odom/hand share", f"{100 * apart / way:.1f}", "%", of=of, world="real")
    record("radar_velocity/hand valid", f"{100 * trace['radar_velocity'].valid.mean():.0f}", "%", of=of, world="real")


def one_frame(captures: Path) -> None:
    """The velocity of a car by one frame of a 4D radar, beside that of its RTK and INS."""
    folder = captures / "lidar_radar_vod"
    path = next(iter(sorted(folder.glob("*_radar.npy"))))
    cloud = np.load(path).astype("f8")
    distance = np.linalg.norm(cloud[:, :3], axis=1)
    direction = cloud[:, :3] / distance[:, None]
    truth = np.linalg.lstsq(direction, cloud[:, 5] - cloud[:, 4], rcond=None)[0]
    found = ego_velocity(direction, cloud[:, 4], 0.1, VelocitySection())
    error = found.vel - truth
    of = f"View-of-Delft {path.name.partition('_')[0]}: one frame of a 4D radar at {np.linalg.norm(truth):.2f} m/s"
    record("radar_velocity/vod level", f"{np.linalg.norm(error[:2]):.3f}", "m/s", of=of, world="real")
    print(f"determined: {found.determined}, velocity {found.vel.round(3)}, truth {truth.round(3)}")


def kiss_icp_of(clouds: Path, files: list[Path]) -> np.ndarray:
    """Positions, f8 (sweep, 3), m, of KISS-ICP at its defaults without deskewing, which suits it best here."""
    from kiss_icp.config import load_config
    from kiss_icp.kiss_icp import KissICP

    config = load_config(None)
    config.data.deskew = False
    odometry, poses = KissICP(config), []
    for path in files:
        points = np.fromfile(clouds / f"{path.stem}.bin", "<f4").reshape(-1, 4)[:, :3].astype("f8")
        odometry.register_frame(points, np.zeros(len(points)))
        poses.append(odometry.last_pose[:3, 3])
    return np.stack(poses)


def open_road(captures: Path, folder: Path) -> None:
    """Length of the way and ATE of `_odom` where there is little to see."""
    source = captures / "lidar_kitti_0027"
    spec = importlib.util.spec_from_file_location("decode", source / "decode.py")
    assert spec is not None and spec.loader is not None
    decode = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(decode)
    clouds = folder / "clouds"
    clouds.mkdir()
    files = sorted(source.glob("*.npz"))
    for path in files:
        xyz, intensity = decode.load(path)
        np.column_stack([xyz, intensity]).astype("<f4").tofile(clouds / f"{path.stem}.bin")
    truth = np.loadtxt(source / "truth_poses_lidar_from_oxts.txt").reshape(-1, 3, 4)[:, :, 3]
    of = (
        "KITTI 0027, 16 to 20 m/s: 50 sweeps of a car on an open road, INS good to 0.45 m, its path of 91.39 m to 0.1 m"
    )
    trace = folder / "drive"
    import_clouds(clouds, trace, rate=_RATE, start=1.3e9, turning="clockwise", compensated=False)
    run_step(find_step("_odom"), trace, "_odom", Request())
    odom = rp.open(trace)["odom"]
    # Poses are at the ends of sweeps, and the INS where the lidar looks ahead.
    after = odom.ts - 1.3e9 - np.arange(len(files)) / _RATE
    pos = odom.pos[:] - after[:, None] * odom.vel[:]
    way = np.linalg.norm(np.diff(pos, axis=0), axis=1).sum()
    odometry = kiss_icp_of(clouds, files)
    peer = np.linalg.norm(np.diff(odometry, axis=0), axis=1).sum()
    record("odom/open road KISS-ICP way", f"{peer:.2f}", "m", of=f"{of}, deskewing off", world="real")
    record(
        "odom/open road KISS-ICP ATE", f"{straight(odometry, truth):.2f}", "m", of=f"{of}, deskewing off", world="real"
    )
    record("odom/open road valid", f"{odom.valid.sum()} of {len(files)}", of=of, world="real")
    record("odom/open road way", f"{way:.2f}", "m", of=of, world="real")
    record("odom/open road ATE", f"{straight(pos, truth):.2f}", "m", of=of, world="real")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", type=Path, help="the folder of the real captures")
    given = parser.parse_args()
    print_versions("numpy", "scipy", "small_gicp")
    with tempfile.TemporaryDirectory(prefix="captures-") as scratch:
        hand_carried(given.captures, Path(scratch))
        one_frame(given.captures)
        open_road(given.captures, Path(scratch))
