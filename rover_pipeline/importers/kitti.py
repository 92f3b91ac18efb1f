"""Import of a drive of KITTI's raw recordings (A. Geiger et al., Vision meets robotics: the KITTI dataset, IJRR 2013).

    DATE/DATE_drive_NNNN_sync/velodyne_points/data/0000000000.bin   f4 x y z reflectance, front-left-up, m; a `_extract`
                                                                    drive has the same as text (.txt)
                              velodyne_points/timestamps.txt        when the lidar looked ahead, of each sweep;
                              timestamps_start.txt, _end.txt        when its turn began and ended, behind
                              image_0X/data/0000000000.png, image_0X/timestamps.txt
                              oxts/data/0000000000.txt, oxts/timestamps.txt      GNSS/INS: see `dataformat.txt` there
    DATE/calib_imu_to_velo.txt, calib_velo_to_cam.txt, calib_cam_to_cam.txt

The motion within sweeps is not undone, neither in `_sync` nor in `_extract` drives: points are dated by their azimuth.
The beams turn clockwise, seen from above. (The development kit says counterclockwise. Points of the drives fit one
another only as clockwise: `tests/odometry/test_distortion.py`.) The published elevations of the beams of KITTI's lidar
are too low (J.-E. Deschaud, IMLS-SLAM, ICRA 2018). Every point is raised by 0.205 degrees, as in CT-ICP (P. Dellenbach
et al., ICRA 2022). Numbers of files count samples: where one is missing, its time is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from rover_pipeline.errors import ConfigError, FormatError, naming
from rover_pipeline.format.files import read_bounded, replace_json
from rover_pipeline.format.meta import raw
from rover_pipeline.format.sensor import SensorWriter
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers.clouds import cloud_files, dated, raised, read_cloud, steady_turns, write_sweeps
from rover_pipeline.importers.origin import OPTICAL_FROM_CAMERA, in_rig, sensor_name, write_config
from rover_pipeline.importers.pictures import picture_files, write_pictures
from rover_pipeline.importers.points import Cloud
from rover_pipeline.importers.reference import ins_covariance, write_reference
from rover_pipeline.importers.times import files_of, natural_order, read_times, require_steady
from rover_pipeline.importers.tuning import KITTI_ELEVATION_DEG
from rover_pipeline.kinematics.rotation import nearest
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import inv, matmul, solve

CAMERAS = ("image_02", "image_00", "image_03", "image_01")
#: Columns of a record of the INS, as `dataformat.txt` lists them. Those before the accuracy are in every
#: record. Layout.
_LAT, _LON, _ALT, _ROLL, _YAW, _NORTH, _EAST, _UP, _ACC, _RATES, _ACCURACY = 0, 1, 2, 3, 5, 6, 7, 10, 11, 17, 23
#: Radius of the Mercator projection of the development kit, m. Physics: WGS 84.
_EARTH_M = 6378137.0
_MAX_RECORD, _MAX_SWEEP = 1 << 16, 1 << 28  # as text. Schedule.


class Samples(NamedTuple):
    """Files of one kind with their times `ts`, f8 (file,), seconds since 1970, increasing."""

    files: list[Path]
    ts: np.ndarray


def import_kitti(
    drive: Path,
    out: Path,
    *,
    calib: Path | None = None,
    camera: str | None = None,
    elevation: float = KITTI_ELEVATION_DEG,
    compress: bool = False,
) -> dict[str, int]:
    """Write the trace `out` from the folder of a drive, and return the number of samples of each sensor.

    The arguments are those of the command, as `table.py` describes them. Without `camera`, the first one of `CAMERAS`
    that there is becomes `camera`, with others beside it, such as `camera_03`. Raises FormatError where the drive has
    neither sweeps nor pictures, or a file is not what it must be, and ConfigError where there is no such camera.
    """
    if camera is not None and not (drive / camera / "data").is_dir():
        raise ConfigError(f"--camera {camera}: {drive} has no folder {camera}/data")
    lidar = _samples(drive / "velodyne_points", _sweep_files)
    seen = [name for name in CAMERAS if (drive / name / "data").is_dir()]
    seen = seen[:1] + [name for name in seen[1:] if any((drive / name / "data").iterdir())]
    chosen = [camera] if camera else seen
    cameras: dict[str, str] = {}
    for folder in chosen:
        cameras[sensor_name("camera", folder, chosen[0], cameras) if cameras else "camera"] = folder
    pictures = {name: _samples(drive / folder, picture_files) for name, folder in cameras.items()}
    if lidar is None and not pictures:
        raise FormatError(f"{drive}: is no drive of KITTI: it has neither velodyne_points/data nor image_0X/data")
    calibration = _Calibration(calib or drive.parent)
    notes = [f"{name} is left out (--camera chooses)" for name in seen if name not in chosen]
    turns = dict(zip(lidar.files, _turns(drive / "velodyne_points", lidar), strict=True)) if lidar else {}
    sensors: dict[str, Any] = {}
    counts: dict[str, int] = {}
    command, source = "import kitti", f"import kitti {drive.name}"
    with imported_trace(out) as trace:
        if lidar:
            if elevation:
                source += f", points raised by {elevation:g} degrees"
                notes.append(f"every point is raised by {elevation:g} degrees (--elevation 0 leaves it as published)")
            notes += write_sweeps(
                trace / "lidar",
                lidar.files,
                lidar.ts,
                read=lambda path: dated(raised(_read_sweep(path), elevation), turns[path], "clockwise"),
                compensated=False,
                compress=compress,
                source=source,
            )
            sensors["lidar"], counts["lidar"] = {"type": "lidar"}, len(lidar.files)
        for name, folder in cameras.items():
            if taken := pictures[name]:
                height, width = write_pictures(trace / name, taken.files, taken.ts)
                lens = calibration.lens(folder, drive.name, width, height)
                if lens is None:
                    notes.append(f"no calib_cam_to_cam.txt gives the intrinsics of {folder}")
                else:
                    replace_json(trace / name / "camera.json", lens)
                several = {"folder": folder} if len(cameras) > 1 else {}
                sensors[name] = {"type": "camera", "args": {"width": width, "height": height, **several}}
                counts[name] = len(taken.files)
        oxts = _samples(drive / "oxts", lambda folder: files_of(folder, (".txt",), "records"))
        if oxts:
            records = np.stack([_record(path) for path in oxts.files])
            _write_imu(trace / "imu", oxts.ts, records)
            states = reference_states(records, calibration.imu)
            body, source = "imu" if calibration.imu is None else "lidar", f"{drive.name}/oxts"
            counts["_reference"] = write_reference(trace, oxts.ts, states, command=command, source=source, body=body)
            sensors["imu"], counts["imu"] = {"type": "imu", "args": {}}, len(oxts.files)
            if calibration.imu is None:
                notes.append("no calib_imu_to_velo.txt: _reference is of the IMU and not of the lidar")
        rig = calibration.rig(cameras, drive.name)
        write_config(
            trace,
            sensors,
            command=command,
            sources=[each for each in (*_folders(drive), *calibration.files) if each.exists()],
            options=({"camera": chosen[0]} if len(chosen) == 1 else {}) | ({"elevation": elevation} if lidar else {}),
            notes=notes,
            said_of=drive,
            rig={name: pose for name, pose in rig.items() if name in sensors},
        )
    return counts


def reference_states(records: np.ndarray, lidar_from_imu: np.ndarray | None) -> dict[str, np.ndarray]:
    """The lidar's states by the INS in the world of its first pose: `pos`, `rot`, `vel`, `avel`, `cov`.

    Args:
        records: f8 (N, 25 or more), as `dataformat.txt` lists them: degrees, m, rad, m/s, rad/s.
        lidar_from_imu: f8 (4, 4); None = the IMU's own states.
    """
    scale = np.cos(np.radians(records[0, _LAT]))
    east = scale * _EARTH_M * np.radians(records[:, _LON])
    north = scale * _EARTH_M * np.log(np.tan(np.radians(90 + records[:, _LAT]) / 2))
    rot = Rotation.from_euler("ZYX", records[:, _YAW : _ROLL - 1 : -1]).as_matrix()
    imu = Poses(rot, np.stack([east, north, records[:, _ALT]], -1)).matrices
    imu_from_lidar = np.eye(4) if lidar_from_imu is None else inv(lidar_from_imu)
    rates, arm = records[:, _RATES : _RATES + 3], imu_from_lidar[:3, 3]
    vel = records[:, [_EAST, _NORTH, _UP]] + np.einsum("nij,nj->ni", rot, np.cross(rates, arm))
    lidar = matmul(imu, imu_from_lidar)
    first = lidar[0, :3, :3].T
    return {
        "pos": matmul(lidar[:, :3, 3] - lidar[0, :3, 3], first.T),
        "rot": matmul(first, lidar[:, :3, :3]),
        "vel": matmul(vel, first.T),
        "avel": matmul(rates, imu_from_lidar[:3, :3]),
        "cov": ins_covariance(records[:, _ACCURACY]),  # of positions; zero where a record ends before it
    }


def _folders(drive: Path) -> list[Path]:
    names = ("velodyne_points", *CAMERAS, "oxts")
    return [path for name in names for path in (drive / name / "data", drive / name / "timestamps.txt")]


def _samples(folder: Path, find: Callable[[Path], list[Path]]) -> Samples | None:
    """The files of one kind and the times of those that are there; None without any."""
    if not (folder / "data").is_dir():
        return None
    files = find(folder / "data")
    ts = _times_of(files, folder / "timestamps.txt")
    require_steady(ts, folder / "timestamps.txt")
    return Samples(files, ts)


def _times_of(files: Sequence[Path], listed: Path) -> np.ndarray:
    """The times of files from a list, f8 (file,), s: the names of files are the numbers of the lines, from 0."""
    times = read_times(listed)
    with naming(f"{files[0].parent}: names of files must be numbers", ValueError):
        numbers = np.array([int(path.stem) for path in files])
    if numbers.max() >= len(times):
        raise FormatError(f"{listed}: has {len(times)} times, data has a file {numbers.max()}")
    return np.asarray(times[numbers])


def _turns(folder: Path, sweeps: Samples) -> np.ndarray:
    """The turn of each sweep, as `steady_turns` gives it; by the time between sweeps where no list says when it was."""
    paths = [folder / f"timestamps_{name}.txt" for name in ("start", "end")]
    turns = steady_turns(sweeps.ts)
    if not all(path.is_file() for path in paths):
        return turns
    begin, end = (_times_of(sweeps.files, path) - sweeps.ts for path in paths)
    # A lidar that looks ahead in the middle of its turn; other times are those of another clock.
    plausible = (begin < 0) & (end > 0) & (end - begin < 2 * np.diff(turns[0]))
    return np.where(plausible[:, None], np.stack([begin, end], 1), turns)


def _sweep_files(folder: Path) -> list[Path]:
    """The sweeps of a drive: those of `_extract` drives are text."""
    texts = sorted(folder.glob("*.txt"), key=natural_order)
    return texts or cloud_files(folder)


def _read_sweep(path: Path) -> Cloud:
    if path.suffix != ".txt":
        return read_cloud(path)
    words = read_bounded(path, _MAX_SWEEP, "any sweep").split()
    with naming(f"{path}: holds no four numbers for each point", ValueError):
        table = np.asarray(words, "S").astype("f4").reshape(-1, 4)
    return Cloud(table[:, :3], table[:, 3])


def _record(path: Path) -> np.ndarray:
    """One record of the INS, f8 (25,) or more."""
    with naming(f"{path}: holds what is no number", ValueError):
        values = np.array(read_text(path, _MAX_RECORD).split(), "f8")
    if len(values) < _ACCURACY or not np.isfinite(values).all():
        raise FormatError(f"{path}: must hold at least {_ACCURACY} finite numbers, holds {len(values)}")
    return values[:25] if len(values) >= 25 else np.pad(values, (0, 25 - len(values)))


def _write_imu(folder: Path, ts: np.ndarray, records: np.ndarray) -> None:
    specs = {
        "rot": raw("f4", (3,), "Orientation: roll, pitch, yaw from east, rad, intrinsic XYZ. [xyz]"),
        "acc": raw("f4", (3,), "Acceleration, gravity included, m/s2. [xyz], front-left-up."),
        "avel": raw("f4", (3,), "Angular velocity, rad/s. [xyz], front-left-up."),
    }
    euler = Rotation.from_euler("ZYX", records[:, _YAW : _ROLL - 1 : -1]).as_euler("XYZ")
    with SensorWriter(folder, specs) as writer:
        writer.append(ts=ts, rot=euler, acc=records[:, _ACC : _ACC + 3], avel=records[:, _RATES : _RATES + 3])


class _Calibration:
    """The calibration of a day: the `files` that were found, and `imu`, lidar-from-IMU, f8 (4, 4); None where nobody
    gives it."""

    def __init__(self, folder: Path) -> None:
        names = ("calib_imu_to_velo.txt", "calib_velo_to_cam.txt", "calib_cam_to_cam.txt")
        self.files = [folder / name for name in names if (folder / name).is_file()]
        read = {path.name: _read_calibration(path) for path in self.files}
        self.imu = _rigid(read.get(names[0]))
        self._reference_camera = _rigid(read.get(names[1]))
        self._cameras = read.get(names[2], {})

    def rig(self, cameras: Mapping[str, str], drive: str) -> dict[str, Any]:
        """The poses of the IMU and of cameras in the lidar frame, as `config.yaml` gives them. `cameras` has the folder
        of the pictures of each sensor."""
        poses = {}
        if self.imu is not None:
            poses["imu"] = self.imu
        for name, folder in cameras.items():
            if self._reference_camera is not None:
                number = folder.removeprefix("image_")
                lidar_from_camera = inv(matmul(self._from_reference(number, drive), self._reference_camera))
                poses[name] = matmul(lidar_from_camera, OPTICAL_FROM_CAMERA)
        return {name: in_rig(pose) for name, pose in poses.items()}

    def lens(self, camera: str, drive: str, width: int, height: int) -> dict[str, Any] | None:
        """The content of `camera.json`: of rectified pictures without a distortion, of those of `_extract` with it."""
        number = camera.removeprefix("image_")
        key = f"K_{number}" if drive.endswith("_extract") else f"P_rect_{number}"
        if len(values := self._cameras.get(key, ())) not in (9, 12):
            return None
        matrix = np.asarray(values).reshape(3, -1)
        lens = {"fx": matrix[0, 0], "fy": matrix[1, 1], "cx": matrix[0, 2], "cy": matrix[1, 2]}
        k, p = [0.0, 0.0, 0.0], [0.0, 0.0]
        if key.startswith("K") and len(bent := self._cameras.get(f"D_{number}", ())) == 5:
            k, p = [bent[0], bent[1], bent[4]], [bent[2], bent[3]]
        numbers = {name: float(value) for name, value in lens.items()}
        return {"model": "brown", **numbers, "k": list(k), "p": list(p), "w": width, "h": height}

    def _from_reference(self, number: str, drive: str) -> np.ndarray:
        """The transform from camera 0 to a camera, unrectified or as rectified, f8 (4, 4)."""
        transform = np.eye(4)
        if drive.endswith("_extract"):
            found = _rigid({"R": self._cameras.get(f"R_{number}", ()), "T": self._cameras.get(f"T_{number}", ())})
            return transform if found is None else found
        if len(rotation := self._cameras.get("R_rect_00", ())) == 9:
            transform[:3, :3] = np.asarray(rotation).reshape(3, 3)
        if len(values := self._cameras.get(f"P_rect_{number}", ())) == 12:
            projection = np.asarray(values).reshape(3, 4)
            transform[:3, 3] += solve(projection[:, :3], projection[:, 3])
        return transform


def _read_calibration(path: Path) -> dict[str, Sequence[float]]:
    """Lists of numbers by name; other lines, such as the date, are left out."""
    text = read_bounded(path, _MAX_RECORD, "any calibration").decode("utf-8", "replace")
    found: dict[str, Sequence[float]] = {}
    for name, _, rest in (line.partition(":") for line in text.splitlines()):
        try:
            values = [float(word) for word in rest.split()]
        except ValueError:
            continue
        if values and np.isfinite(values).all():
            found[name.strip()] = values
    return found


def _rigid(found: dict[str, Sequence[float]] | None) -> np.ndarray | None:
    """The transform of a rotation `R` and a translation `T`, f8 (4, 4); None where there is none."""
    if found is None or len(found.get("R", ())) != 9 or len(found.get("T", ())) != 3:
        return None
    rotation = nearest(np.reshape(found["R"], (3, 3)))
    if np.abs(rotation.ravel() - found["R"]).max() > 1e-3:
        return None
    return Poses(rotation, np.asarray(found["T"])).matrices
