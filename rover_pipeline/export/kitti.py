"""KITTI's odometry benchmark: sequences of deskewed sweeps with poses.

    sequences/00/velodyne/000000.bin   f4 little endian, x y z reflectance of each return; front-left-up, m, 0 to 1
    sequences/00/times.txt             seconds since the first sweep
    sequences/00/calib.txt             P0 to P3, 3x4 projections of the camera without distortion, and Tr, 3x4,
                                       camera-from-lidar; a camera has the axes right-down-front
    poses/00.txt                       3x4 of the camera frame that a sweep's pose and Tr give, in the first one
    recordings.txt, splits/*.txt       ours: names of the sequences; `SEQUENCE FRAME` of each split

(A. Geiger, P. Lenz, R. Urtasun, Are we ready for autonomous driving? The KITTI vision benchmark suite, CVPR 2012, and
the readme of the odometry development kit.) KITTI's sweeps are deskewed too, and turn by turn with its camera. Sweeps
without a valid pose are left out, so that their number in a sequence is not that in the recording: `times.txt` tells.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np

from rover_pipeline.datasets.options import KittiOptions
from rover_pipeline.datasets.splits import SPLITS, Course
from rover_pipeline.errors import FormatError
from rover_pipeline.export.dataset import ExportJob, Recording
from rover_pipeline.export.sweeps import PosedSweeps
from rover_pipeline.format.files import read_bounded
from rover_pipeline.kinematics.rotation import obliqueness
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.report.read.rig import OPTICAL_FROM_FLU, camera_lens, sensor_mount

#: Sweeps in a part of an export: some seconds of work.
_PART = 256
_POINT_BYTES = 16
#: Bytes of a file that is read whole: a sweep has some megabytes, the poses of ten hours 60.
_MAX_BYTES = 1 << 28


def write(job: ExportJob) -> None:
    """Write a sequence for each recording."""
    options: KittiOptions = job.options
    sequences, courses = [], []
    for number, recording in enumerate(job.recordings):
        sweeps = PosedSweeps(recording.path)
        chosen = sweeps.good[sweeps.good % options.every == 0]
        if not len(chosen):
            raise FormatError(f"{recording.path}: no sweep is left by every: {options.every}; take a smaller one")
        _write_sequence(job, recording, f"{number:02d}", sweeps, chosen)
        sequences.append(f"{number:02d}")
        courses.append(Course(recording.name, sweeps.ts[chosen], sweeps.poses.pos[chosen]))
    names = [each.name for each in job.recordings]
    (job.folder / "recordings.txt").write_text(
        "".join(f"{sequence} {name}\n" for sequence, name in zip(sequences, names, strict=True)), encoding="utf-8"
    )
    (job.folder / "splits").mkdir()
    splits = job.split(courses)
    for code, split in enumerate(SPLITS):
        lines = [
            f"{sequence} {at:06d}\n"
            for sequence, each in zip(sequences, splits, strict=True)
            for at in np.flatnonzero(each == code)
        ]
        (job.folder / "splits" / f"{split}.txt").write_text("".join(lines), encoding="utf-8")


def _write_sequence(job: ExportJob, recording: Recording, name: str, sweeps: PosedSweeps, chosen: np.ndarray) -> None:
    folder = job.folder / "sequences" / name
    (folder / "velodyne").mkdir(parents=True, exist_ok=True)

    def write_sweep(at: int) -> list[Path]:
        sweep = sweeps.read(int(chosen[at]))
        reflectance = np.zeros(len(sweep.xyz)) if sweep.rfl is None else sweep.rfl / 255
        path = folder / "velodyne" / f"{at:06d}.bin"
        path.write_bytes(np.column_stack([sweep.xyz, reflectance]).astype("<f4").tobytes())
        return [path]

    job.in_parts(recording.name, range(len(chosen)), write_sweep, _PART, "sweep")
    times = sweeps.ts[chosen]
    np.savetxt(folder / "times.txt", times - times[0], fmt="%.6e")
    camera_from_lidar = _camera_from_lidar(recording)
    _write_calibration(job, recording, folder / "calib.txt", camera_from_lidar)
    lidar = np.tile(np.eye(4), (len(chosen), 1, 1))
    lidar[:, :3, :3], lidar[:, :3, 3] = sweeps.poses.rot[chosen], sweeps.poses.pos[chosen]
    poses = matmul(camera_from_lidar, inv(lidar[0]), lidar, inv(camera_from_lidar))
    (job.folder / "poses").mkdir(exist_ok=True)
    np.savetxt(job.folder / "poses" / f"{name}.txt", poses[:, :3].reshape(-1, 12), fmt="%.12e")


def _camera_from_lidar(recording: Recording) -> np.ndarray:
    """The transform of lidar coordinates to those of the camera, right-down-front; f8 (4, 4)."""
    mount = sensor_mount(recording.path, "camera")
    transform = np.eye(4)
    transform[:3, :3] = matmul(OPTICAL_FROM_FLU, mount.rotation.T)
    transform[:3, 3] = matmul(-transform[:3, :3], mount.translation)
    return transform


def _write_calibration(job: ExportJob, recording: Recording, path: Path, camera_from_lidar: np.ndarray) -> None:
    """KITTI has four cameras in a row. We have one, so that all four projections are the same."""
    projection = np.eye(3, 4)
    if recording.has("camera/video.avi") and recording.has("camera/camera.json"):
        lens = camera_lens(recording.path)
        projection[0], projection[1] = (lens.fx, 0, lens.cx, 0), (0, lens.fy, lens.cy, 0)
    else:
        job.note(f"{recording.path}: has no camera with a camera.json: P0 to P3 of calib.txt have no focal length")
    if not sensor_mount(recording.path, "camera").known:
        job.note(f"{recording.path}: nobody gave the pose of the camera: Tr turns the lidar's axes and moves nothing")
    rows = [*((f"P{number}", projection) for number in range(4)), ("Tr", camera_from_lidar[:3])]
    lines = (f"{name}: {' '.join(f'{value:.12e}' for value in matrix.reshape(-1))}\n" for name, matrix in rows)
    path.write_text("".join(lines), encoding="utf-8")


def describe(folder: Path) -> dict[str, object]:
    """Sequences, sweeps and the sizes of the splits."""
    sequences = _sequences(folder)
    splits = {split: len(_lines(folder / "splits" / f"{split}.txt")) for split in SPLITS}
    return {
        "sequences": len(sequences),
        "sweeps": {path.name: len(_scans(path)) for path in sequences},
        "seconds": round(sum(_duration(path) for path in sequences), 3),
        "splits": splits if any(splits.values()) else {},
    }


def problems(folder: Path) -> Iterator[str]:
    """Breaches of the benchmark's rules, for each sequence."""
    for sequence in _sequences(folder):
        scans = _scans(sequence)
        if [path.name for path in scans] != [f"{at:06d}.bin" for at in range(len(scans))]:
            yield f"{sequence / 'velodyne'}: files are not numbered 000000.bin, 000001.bin and so on; number them anew"
        yield from _time_problems(sequence / "times.txt", len(scans))
        transform = yield from _calibration_problems(sequence / "calib.txt")
        yield from _pose_problems(folder / "poses" / f"{sequence.name}.txt", len(scans), transform)
        for path in scans:
            yield from _scan_problems(path)
    yield from _split_problems(folder)


def _sequences(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "sequences").iterdir() if path.is_dir())


def _scans(sequence: Path) -> list[Path]:
    return sorted((sequence / "velodyne").glob("*.bin"))


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return read_bounded(path, _MAX_BYTES, "any list").decode("utf-8", "replace").splitlines()


def _duration(sequence: Path) -> float:
    lines = _lines(sequence / "times.txt")
    return float(lines[-1]) - float(lines[0]) if lines else 0.0


def _numbers(path: Path, columns: int) -> np.ndarray | None:
    """A text file of numbers, f8 (row, columns); None where it is not."""
    try:
        rows = np.loadtxt(_lines(path) or ["nan"], ndmin=2)
    except (OSError, FormatError, ValueError):
        return None
    return rows if rows.shape[1] == columns and np.isfinite(rows).all() else None


def _time_problems(path: Path, count: int) -> Iterator[str]:
    times = _numbers(path, 1)
    if times is None or len(times) != count:
        yield f"{path}: must hold a time, s, for each of the {count} sweeps; export it again"
    elif times[0, 0] != 0 or (np.diff(times[:, 0]) <= 0).any():
        yield f"{path}: times must begin with 0 and increase; export it again"


def _calibration_problems(path: Path) -> Generator[str, None, np.ndarray | None]:
    found = dict(line.split(":", 1) for line in _lines(path) if ":" in line)
    values = {name: found[name].split() for name in ("P0", "P1", "P2", "P3", "Tr") if name in found}
    lacking = [name for name in ("P0", "P1", "P2", "P3", "Tr") if len(values.get(name, ())) != 12]
    if lacking:
        yield f"{path}: must give 12 numbers for each of P0 to P3 and Tr; {lacking[0]} has not; export it again"
        return None
    transform = np.array(values["Tr"], "f8").reshape(3, 4)
    if obliqueness(transform[None, :, :3])[0] >= 1e-5:
        yield f"{path}: Tr is no rigid transform; export it again"
    elif matmul(transform[2, :3], [1, 0, 0]) < 0.5:
        yield f"{path}: Tr does not take the lidar's front to the camera's third axis; are the axes of a camera meant?"
    return transform


def _pose_problems(path: Path, count: int, transform: np.ndarray | None) -> Iterator[str]:
    poses = _numbers(path, 12)
    if poses is None or len(poses) != count:
        yield f"{path}: must hold 12 numbers for each of the {count} sweeps; export it again"
        return
    matrices = poses.reshape(-1, 3, 4)
    bad = np.flatnonzero(obliqueness(matrices[:, :, :3]) >= 1e-5)
    if len(bad):
        yield f"{path}: line {bad[0] + 1} is no rigid transform; export it again"
    if np.abs(matrices[0] - np.eye(3, 4)).max(initial=0) > 1e-6:
        yield f"{path}: the first pose must be the identity; export it again"


def _scan_problems(path: Path) -> Iterator[str]:
    size = path.stat().st_size
    if size % _POINT_BYTES:
        yield f"{path}: has {size} bytes, which is no multiple of the {_POINT_BYTES} of a point; export it again"
        return
    points = np.frombuffer(read_bounded(path, _MAX_BYTES, "any sweep"), "<f4").reshape(-1, 4)
    if not np.isfinite(points).all() or np.abs(points[:, :3]).max(initial=0) > 1000:
        yield f"{path}: holds points that are not finite or further than 1 km away: is the byte order right?"
    elif points[:, 3].min(initial=0) < 0 or points[:, 3].max(initial=0) > 1:
        yield f"{path}: reflectance must be from 0 to 1"


def _split_problems(folder: Path) -> Iterator[str]:
    seen: dict[str, str] = {}
    for split in SPLITS:
        for line in _lines(folder / "splits" / f"{split}.txt"):
            sequence, _, frame = line.partition(" ")
            if line in seen:
                yield f"{folder / 'splits'}: {line} is in {seen[line]} and in {split}; export it again"
                return
            seen[line] = split
            if not (folder / "sequences" / sequence / "velodyne" / f"{frame}.bin").is_file():
                yield f"{folder / 'splits' / split}.txt: {line} is no sweep of the dataset; export it again"
                return
