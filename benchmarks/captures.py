"""Virtual sensors on real captures that nobody here made: `python -m benchmarks.captures ../shared/data`.

The hand-carried radar is processed by the commands of `docs/sensors/radar_odom.md`, as a user pastes them. Drives with
a lidar are those of `benchmarks.drives`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader

import rover_pipeline as rp
from benchmarks.measure import print_versions
from benchmarks.results import record
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.radar.options import VelocitySection
from rover_pipeline.radar.velocity import ego_velocity

PAGE = Path(__file__).parents[1] / "docs" / "sensors" / "radar_odom.md"
#: The manual calls the recording by the name of its file.
BAG = "ti_mmwave_radar_imu.bag"


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
    provenance = read_provenance(folder / "hand" / "_radar_odom")
    assert provenance is not None
    late, deviation = (1e3 * provenance["measured"][f"time_offset_{what}"] for what in ("s", "sd"))
    record("radar_odom/hand late", f"{late:.0f} \u00b1 {deviation:.0f}", "ms", of=of, world="real")
    record("radar_velocity/hand valid", f"{100 * trace['radar_velocity'].valid.mean():.0f}", "%", of=of, world="real")


def latency(captures: Path) -> None:
    """The time from the middle of the chirps of the hand-carried radar to the arrival of its cloud, by its triggers."""
    arrivals: dict[str, list[float]] = {}
    stamps: dict[str, list[float]] = {}
    with AnyReader([captures / "bags" / BAG]) as reader:
        for connection, time, raw in reader.messages():
            message: Any = reader.deserialize(raw, connection.msgtype)
            stamp = getattr(message, "header", message).stamp
            arrivals.setdefault(connection.topic, []).append(time * 1e-9)
            stamps.setdefault(connection.topic, []).append(stamp.sec + stamp.nanosec * 1e-9)
    imu, clouds, triggers = "/sensor_platform/imu", "/ti_mmwave/radar_scan_pcl", "/sensor_platform/radar_right/trigger"
    clock = np.median(np.subtract(arrivals[imu], stamps[imu]))
    # There is one trigger more than clouds, so that the first cloud is that of the first one.
    took = np.subtract(arrivals[clouds], clock) - stamps[triggers][:-1] - 18.5e-3 / 2
    of = f"{BAG}: {len(took)} clouds; a frame lasts 18.5 ms"
    record("radar_odom/hand latency", f"{1e3 * np.median(took):.1f}", "ms", of=of, world="real")


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", type=Path, help="the folder of the real captures")
    given = parser.parse_args()
    print_versions("numpy", "scipy", "small_gicp")
    with tempfile.TemporaryDirectory(prefix="captures-") as scratch:
        hand_carried(given.captures, Path(scratch))
        latency(given.captures)
        one_frame(given.captures)
