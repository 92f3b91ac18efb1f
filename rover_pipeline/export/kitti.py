"""KITTI's odometry benchmark: sequences of deskewed sweeps with poses.

    sequences/00/velodyne/000000.bin   f4 little endian, x y z reflectance of each return; front-left-up, m, 0 to 1
    sequences/00/times.txt             seconds since the first sweep
    sequences/00/calib.txt             P0 to P3, 3x4 projections of the camera without distortion, and Tr, 3x4,
                                       camera-from-lidar; a camera has the axes right-down-front
    poses/00.txt                       3x4 of the camera frame that a sweep's pose and Tr give, in the first one
    recordings.txt, splits/*.txt       ours: names of the sequences; `SEQUENCE FRAME` of each split

(A. Geiger, P. Lenz, R. Urtasun, Are we ready for autonomous driving? The KITTI vision benchmark suite, CVPR 2012, and
the readme of the odometry development kit.) KITTI's sweeps are deskewed too, and turn by turn with its camera. Sweeps
without a valid pose are left out, so that a sweep has another number in the sequence than in the recording; `times.txt`
gives its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from rover_pipeline.datasets.options import KittiOptions
from rover_pipeline.datasets.splits import SPLITS, Course
from rover_pipeline.errors import FormatError
from rover_pipeline.export.contents import Content, Lines, Numbers, Records
from rover_pipeline.export.dataset import ExportJob
from rover_pipeline.export.layout import File, Files, Layout
from rover_pipeline.export.recording import Recording
from rover_pipeline.export.sweeps import PosedSweeps
from rover_pipeline.kinematics.rotation import obliqueness
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.validation.rig import OPTICAL_FROM_FLU

#: Rows of `calib.txt`.
_MATRICES = ("P0", "P1", "P2", "P3", "Tr")


class _Calibration(Content):
    """`NAME: 12 numbers` for each matrix, f8 (3, 4)."""

    def encode(self, value: Mapping[str, np.ndarray]) -> bytes:
        rows = ((name, " ".join(f"{each:.12e}" for each in value[name].reshape(-1))) for name in _MATRICES)
        return "".join(f"{name}: {numbers}\n" for name, numbers in rows).encode()

    def decode(self, data: bytes) -> dict[str, np.ndarray]:
        lines = data.decode("utf-8", "replace").splitlines()
        found = {name: text.split() for name, _, text in (line.partition(":") for line in lines)}
        if lacking := [name for name in _MATRICES if len(found.get(name, ())) != 12]:
            raise ValueError(f"must give 12 numbers for each of P0 to P3 and Tr; {lacking[0]} has not; export it again")
        return {name: np.array(found[name], "f8").reshape(3, 4) for name in _MATRICES}


#: The files of a dataset. Layout.
LAYOUT = Layout(
    sweeps=File(
        "sequences/{sequence}/velodyne/{frame:06d}.bin",
        Records(("xyz", "<f4", (3,)), ("reflectance", "<f4")),
        {
            "holds points further than 1 km away: is the byte order right?": lambda rows: np.abs(rows["xyz"]) <= 1000,
            "reflectance must be from 0 to 1": lambda rows: (rows["reflectance"] >= 0) & (rows["reflectance"] <= 1),
        },
    ),
    times=File(
        "sequences/{sequence}/times.txt",
        Numbers(1, "%.9e"),  # of the six decimals of KITTI an hour leaves milliseconds
        {"times must begin with 0 and increase": lambda rows: np.diff(rows[:, 0], prepend=-rows[:1, 0] - 1e-9) > 0},
        keep=lambda rows: rows[:, 0],
    ),
    calibration=File(
        "sequences/{sequence}/calib.txt",
        _Calibration(),
        {
            "Tr is no rigid transform": lambda matrices: obliqueness(matrices["Tr"][None, :, :3]) < 1e-5,
            "Tr does not take the lidar's front to the camera's third axis; are the axes of a camera meant?": (
                lambda matrices: matrices["Tr"][2, 0] >= 0.5
            ),
        },
    ),
    poses=File(
        "poses/{sequence}.txt",
        Numbers(12, "%.12e"),
        {
            "line {line} is no rigid transform": lambda rows: obliqueness(rows.reshape(-1, 3, 4)[:, :, :3]) < 1e-5,
            "the first pose must be the identity": lambda rows: np.abs(rows[:1] - np.eye(3, 4).reshape(-1)) <= 1e-6,
        },
        keep=lambda rows: rows[:, 0],
    ),
    splits=File("splits/{split}.txt", Lines(), optional=True, keep=list),
    recordings=File("recordings.txt", Lines(), optional=True),
)


def write(job: ExportJob) -> None:
    """Write a sequence for each recording."""
    options: KittiOptions = job.options
    courses = []
    sequences = [f"{number:02d}" for number in range(len(job.recordings))]
    for sequence, recording in zip(sequences, job.recordings, strict=True):
        sweeps = PosedSweeps(recording)
        for note in sweeps.reader.notes:
            job.note(f"{recording.path}: {note}")
        chosen = sweeps.good[sweeps.good % options.every == 0]
        if not len(chosen):
            raise FormatError(f"{recording.path}: no sweep is left by every: {options.every}; take a smaller one")
        _write_sequence(job, recording, sequence, sweeps, chosen)
        courses.append(Course(recording.name, sweeps.ts[chosen], sweeps.poses.pos[chosen]))
    job.save("recordings", (f"{name} {each.name}" for name, each in zip(sequences, job.recordings, strict=True)))
    splits = job.split(courses)
    for code, split in enumerate(SPLITS):
        chosen_of = zip(sequences, splits, strict=True)
        lines = (f"{sequence} {at:06d}" for sequence, each in chosen_of for at in np.flatnonzero(each == code))
        job.save("splits", lines, split=split)


def _write_sequence(job: ExportJob, recording: Recording, name: str, sweeps: PosedSweeps, chosen: np.ndarray) -> None:
    def write_sweep(at: int) -> list[Path]:
        sweep = sweeps.read(int(chosen[at]))
        reflectance = np.zeros(len(sweep.xyz)) if sweep.rfl is None else sweep.rfl / 255
        return [job.save("sweeps", {"xyz": sweep.xyz, "reflectance": reflectance}, sequence=name, frame=at)]

    job.in_parts(recording.name, range(len(chosen)), write_sweep, "sweep")
    times = sweeps.ts[chosen]
    job.save("times", times - times[0], sequence=name)
    mount = recording.mount("camera")
    rotation = matmul(OPTICAL_FROM_FLU, mount.rotation.T)
    camera_from_lidar = Poses(rotation, matmul(-rotation, mount.translation)).matrices
    matrices = {**dict.fromkeys(_MATRICES, _projection(job, recording)), "Tr": camera_from_lidar[:3]}
    job.save("calibration", matrices, sequence=name)
    lidar = sweeps.poses.select(chosen).matrices
    poses = matmul(camera_from_lidar, inv(lidar[0]), lidar, inv(camera_from_lidar))
    job.save("poses", poses[:, :3].reshape(-1, 12), sequence=name)


def _projection(job: ExportJob, recording: Recording) -> np.ndarray:
    """The projection of all four cameras of KITTI, which are in a row; we have one. f8 (3, 4)."""
    projection = np.eye(3, 4)
    if recording.has("camera/video.avi") and recording.has("camera/camera.json"):
        lens = recording.lens()
        projection[0], projection[1] = (lens.fx, 0, lens.cx, 0), (0, lens.fy, lens.cy, 0)
    else:
        job.note(f"{recording.path}: has no camera with a camera.json: P0 to P3 of calib.txt have no focal length")
    if not recording.mount("camera").known:
        job.note(f"{recording.path}: nobody gave the pose of the camera: Tr turns the lidar's axes and moves nothing")
    return projection


def describe(folder: Path) -> dict[str, object]:
    """Sequences, sweeps and the sizes of the splits."""
    frames = _frames(LAYOUT.find(folder))
    found = LAYOUT.kept(folder, "times", "splits")
    splits = {str(each.keys["split"]): len(each.kept) for each in found["splits"]}
    return {
        "sequences": len(frames),
        "sweeps": {name: len(each) for name, each in frames.items()},
        "seconds": round(sum(float(each.kept[-1] - each.kept[0]) for each in found["times"] if len(each.kept)), 3),
        "splits": {name: splits.get(name, 0) for name in SPLITS} if any(splits.values()) else {},
    }


def _frames(found: Files) -> dict[str, list[str]]:
    """The numbers of the sweeps of each sequence, as text, in their order."""
    frames: dict[str, list[str]] = {}
    for each in found["sweeps"]:
        frames.setdefault(str(each.keys["sequence"]), []).append(str(each.keys["frame"]))
    return frames


def relations(folder: Path, found: Files) -> Iterator[str]:
    """Files whose lengths differ within a sequence, and splits that name other sweeps, or one twice."""
    frames = _frames(found)
    lengths = {each.path: each.kept for name in ("times", "poses") for each in found[name] if each.kept is not None}
    for sequence, numbers in frames.items():
        if numbers != [f"{at:06d}" for at in range(len(numbers))]:
            place = LAYOUT.path(folder, "sweeps", sequence=sequence, frame=0).parent
            yield f"{place}: files are not numbered 000000.bin, 000001.bin and so on; number them anew"
        for name, what in (("times", "a time, s,"), ("poses", "12 numbers")):
            path = LAYOUT.path(folder, name, sequence=sequence)
            if np.size(lengths.get(path, ())) != len(numbers):
                yield f"{path}: must hold {what} for each of the {len(numbers)} sweeps"
        if not LAYOUT.path(folder, "calibration", sequence=sequence).is_file():
            yield f"{LAYOUT.path(folder, 'calibration', sequence=sequence)}: is missing"
    known = {f"{sequence} {number}" for sequence, numbers in frames.items() for number in numbers}
    seen: dict[str, Path] = {}
    for path, line in ((each.path, line) for each in found["splits"] for line in each.kept or ()):
        if line in seen:
            yield f"{path}: {line} is in {seen[line].name} too"
        elif line not in known:
            yield f"{path}: {line} is no sweep of the dataset"
        seen[line] = path
