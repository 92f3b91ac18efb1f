"""Mounts of real cameras by pictures, beside the published ones: `python -m benchmarks.mounts ../shared/data`.

Starts are drawn: rotations and translations about every axis, at most 5 degrees and 20 cm off.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from benchmarks.drives import clouds_of
from benchmarks.measure import print_versions
from benchmarks.results import record
from rover_pipeline.calibrate.camera_mount import estimate_camera
from rover_pipeline.calibrate.outlines import Pair
from rover_pipeline.camera.lens import Lens
from rover_pipeline.kinematics.mount import Mount
from rover_pipeline.kinematics.mounts import COMPONENTS, changed, compare, difference

#: Ahead, left and up of a camera by what its lens calls right, down and ahead.
AXES = np.array([[0.0, 0, 1], [-1, 0, 0], [0, -1, 0]])


def kitti(source: Path) -> tuple[list[Pair], Mount]:
    """Pairs of twelve places, and the published mount. Sweeps of other days are moved to where that mount is right."""
    pairs: list[Pair] = []
    first = np.eye(4)
    for (xyz, _), path in zip(clouds_of(source), sorted(source.glob("*_calib.txt")), strict=True):
        rows = (line.partition(":") for line in path.read_text().splitlines() if line.strip())
        known = {name: np.array(values.split(), dtype=float) for name, _, values in rows}
        projection, camera = known["P2"].reshape(3, 4), np.eye(4)
        camera[:3, :3] = known["R0_rect"].reshape(3, 3)
        camera = camera @ np.vstack([known["Tr_velo_to_cam"].reshape(3, 4), [0, 0, 0, 1]])
        camera[:3, 3] += np.linalg.solve(projection[:, :3], projection[:, 3])
        first = first if pairs else camera
        moved = np.linalg.inv(first) @ camera
        grey = cv2.imread(str(path.with_name(path.name.replace("_calib.txt", ".jpg"))), cv2.IMREAD_GRAYSCALE)
        assert grey is not None
        lens = Lens(*grey.shape[::-1], *projection[[0, 1, 0, 1], [0, 1, 2, 2]])
        pairs.append(Pair(xyz @ moved[:3, :3].T + moved[:3, 3], grey, lens))
    return pairs, mount_of(np.linalg.inv(first))


def dgp(source: Path) -> Iterator[tuple[str, list[Pair], Mount]]:
    """Each camera, its pairs, and the published mount. Sweeps are moved to the instants of the pictures."""
    scene = json.loads((source / "scene.json").read_text())
    poses = {each["file"]: np.array(each["pose"]) for each in scene["data"]}
    files = sorted(source.glob("*_LIDAR.npz"))
    for camera in ("CAMERA_01", "CAMERA_05", "CAMERA_06", "CAMERA_08"):
        known = scene["calibration"]
        lidar, body = (np.array(known[name]["body_from_sensor"]) for name in ("LIDAR", camera))
        published = np.linalg.inv(lidar) @ body
        pairs = []
        for (xyz, _), path, picture in zip(
            clouds_of(source), files, sorted(source.glob(f"*_{camera}.jpg")), strict=True
        ):
            grey = cv2.imread(str(picture), cv2.IMREAD_GRAYSCALE)
            assert grey is not None
            moved = published @ np.linalg.inv(poses[picture.name]) @ poses[path.name]
            numbers = (known[camera]["intrinsics"][key] for key in ("fx", "fy", "cx", "cy"))
            pairs.append(Pair(xyz @ moved[:3, :3].T + moved[:3, 3], grey, Lens(*grey.shape[::-1], *numbers)))
        yield camera, pairs, mount_of(published)


def mount_of(pose: np.ndarray) -> Mount:
    """The mount of a camera by the pose of its optical frame in the lidar's, f8 (4, 4)."""
    return Mount(pose[:3, 3], pose[:3, :3] @ AXES.T)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", type=Path, help="the folder of the real captures")
    parser.add_argument("--starts", type=int, default=8)
    given = parser.parse_args()
    print_versions("numpy", "scipy", "opencv-python-headless")
    pairs, true = kitti(given.captures / "lidar_camera_kitti_object")
    errors, squares = [], []
    rng = np.random.default_rng(36)
    for number in range(given.starts):
        start = changed(true, np.append(np.radians(rng.uniform(-5, 5, 3)), [*rng.uniform(-0.2, 0.2, 3), 0.0]))
        found = estimate_camera(pairs, start)
        if not found.adopted:
            print(number, "refused:", *found.remarks)
            continue
        error = difference(true, found.mount)[:6]
        errors.append(error)
        squares.append(error @ np.linalg.solve(found.covariance[:6, :6], error) / 6)
        print(number, np.degrees(error[:3]).round(3), error[3:].round(4), f"NEES {squares[-1]:.2f}", flush=True)
    turns, shifts = np.array(errors)[:, :3], np.array(errors)[:, 3:]
    of = f"{given.starts} starts up to 5 degrees and 20 cm off, 12 pairs of KITTI's object benchmark"
    record("mounts/kitti adopted", str(len(errors)), of=of, world="real")
    record("mounts/kitti rotation", f"{np.degrees(np.sqrt(np.mean(turns**2))):.3f}", "degrees", of=of, world="real")
    record("mounts/kitti translation", f"{100 * np.sqrt(np.mean(shifts**2)):.2f}", "cm", of=of, world="real")
    record("mounts/kitti NEES", f"{np.mean(squares):.2f}", of=of, world="real")
    deviation = compare(true, estimate_camera(pairs, true))
    record("mounts/kitti called wrong", str(int(deviation.is_wrong)), of=f"the published mount, {of}", world="real")
    named = []
    for number, size in enumerate([np.radians(1.0)] * 3 + [0.05] * 3):
        declared = changed(true, np.eye(7)[number] * size)
        deviation = compare(declared, estimate_camera(pairs, declared))
        named.append(deviation.is_wrong and deviation.component == number and deviation.error[number] < 0)
        print(COMPONENTS[number], named[-1], deviation, flush=True)
    counted = ", ".join(f"{name} {int(each)}" for name, each in zip(COMPONENTS, named, strict=False))
    record("mounts/kitti found", f"{counted} of 1", of=f"1 degree or 5 cm wrong, {of}", world="real")
    refused = 0
    for camera, few, true in dgp(given.captures / "lidar_camera_dgp"):
        found = estimate_camera(few, true)
        refused += not found.adopted
        print(camera, found.adopted, *found.remarks)
    record("mounts/dgp refused", str(refused), of="4 cameras of another rig with 3 pairs each", world="real")


if __name__ == "__main__":
    main()
