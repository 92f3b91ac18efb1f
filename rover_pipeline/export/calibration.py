"""Where the sensors of a recording are and what its lenses are, in the files of other programs.

Poses are those of `rig` that the results were made with, in the lidar's frame. Cameras have the axes of pictures
(right, down, ahead) in all of these files, other sensors front-left-up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rover_pipeline.camera.lens import Lens
from rover_pipeline.errors import FormatError
from rover_pipeline.export import ExportOptions
from rover_pipeline.export.recording import Recording
from rover_pipeline.format.rig import Rig
from rover_pipeline.kinematics.mount import IDENTITY, Mount
from rover_pipeline.kinematics.rotation import from_matrix
from rover_pipeline.kinematics.state import Poses
from rover_pipeline.numerics.linear import inv, matmul
from rover_pipeline.validation.rig import FLU_FROM_OPTICAL, camera_lens, sensor_mount

#: What nuScenes calls the types of sensors. Layout.
_MODALITIES = {"camera": "camera", "lidar": "lidar", "radar": "radar"}


def write(trace: Path, out: Path, options: ExportOptions) -> None:
    """Write `kalibr_camchain.yaml`, `tf_static.yaml`, for each camera `NAME_camera_info.yaml` and `NAME_calib.txt` (of
    KITTI), and nuScenes' `sensor.json` and `calibrated_sensor.json`. Raises FormatError where nothing says where any
    sensor is, or a camera has no intrinsics."""
    rig = Rig(trace)
    main = Recording.of(trace).called("lidar")  # that of `_odom`, in whose frame the mounts are
    mounts = {name: sensor_mount(trace, name) for name in rig.types if name != main}
    mounts = {main: IDENTITY} | {name: mount for name, mount in sorted(mounts.items()) if mount.known}
    if len(mounts) == 1:
        raise FormatError(f"{trace}: nothing says where its sensors are; set `rig`, or calibrate it")
    cameras = {name: camera_lens(trace, name) for name in mounts if rig.types.get(name) == "camera"}
    poses = {name: _pose(mount, name in cameras) for name, mount in mounts.items()}
    imu = next((name for name in mounts if rig.types.get(name) == "imu"), None)
    out.mkdir()
    transforms = [_transform(main, name, pose) for name, pose in poses.items() if name != main]
    _yaml(out / "tf_static.yaml", {"transforms": transforms})
    chain: dict[str, Any] = {}
    before = ""
    for name, lens in cameras.items():
        _yaml(out / f"{name}_camera_info.yaml", _camera_info(name, lens))
        (out / f"{name}_calib.txt").write_text(_kitti(lens, inv(poses[name]), poses.get(imu or "")))
        if lens.is_distorted:
            kept = f"{name}_calib.txt and calibrated_sensor.json have no place for the distortion of its lens"
            print(f"rover-pipeline: {name}: {kept}: they are of pictures without it", file=sys.stderr)
        if any(lens.k[2:]) and not lens.is_fisheye:
            print(f"rover-pipeline: {name}: Kalibr's radtan has no place for its k3: it is left out", file=sys.stderr)
            continue
        chain[f"cam{len(chain)}"] = entry = _kalibr(name, lens)
        if imu:
            entry["T_cam_imu"] = matmul(inv(poses[name]), poses[imu]).tolist()
            entry["timeshift_cam_imu"] = mounts[name].time_offset - mounts[imu].time_offset
        if before:
            entry["T_cn_cnm1"] = matmul(inv(poses[name]), poses[before]).tolist()
        before = name
    if chain:
        _yaml(out / "kalibr_camchain.yaml", chain)
    known = {name: _MODALITIES[type] for name, type in rig.types.items() if name in poses and type in _MODALITIES}
    sensors = [{"token": name, "channel": name.upper(), "modality": known[name]} for name in known]
    _json(out / "sensor.json", sensors)
    _json(out / "calibrated_sensor.json", [_nuscenes(name, poses[name], cameras.get(name)) for name in known])


def _pose(mount: Mount, is_camera: bool) -> np.ndarray:
    """Lidar-from-sensor, f8 (4, 4), with the axes of pictures for a camera."""
    return Poses(matmul(mount.rotation, FLU_FROM_OPTICAL) if is_camera else mount.rotation, mount.translation).matrices


def _matrix(lens: Lens) -> np.ndarray:
    return np.array([[lens.fx, 0.0, lens.cx], [0.0, lens.fy, lens.cy], [0.0, 0.0, 1.0]])


def _camera_info(name: str, lens: Lens) -> dict[str, Any]:
    """As `camera_calibration_parsers` of ROS reads it (sensor_msgs/CameraInfo)."""
    if lens.k[3] and not lens.is_fisheye:
        raise FormatError(f"{name}/camera.json: k4 of Brown's model has no place in CameraInfo; fit a lens without it")
    numbers = [*lens.k] if lens.is_fisheye else [*lens.k[:2], *lens.p, lens.k[2]]
    return {
        "image_width": lens.width,
        "image_height": lens.height,
        "camera_name": name,
        "camera_matrix": _rows(_matrix(lens)),
        "distortion_model": "equidistant" if lens.is_fisheye else "plumb_bob",
        "distortion_coefficients": _rows(np.array([numbers])),
        "rectification_matrix": _rows(np.eye(3)),
        "projection_matrix": _rows(np.pad(_matrix(lens), ((0, 0), (0, 1)))),
    }


def _rows(matrix: np.ndarray) -> dict[str, Any]:
    return {"rows": len(matrix), "cols": matrix.shape[1], "data": matrix.ravel().tolist()}


def _kalibr(name: str, lens: Lens) -> dict[str, Any]:
    return {
        "camera_model": "pinhole",
        "intrinsics": [lens.fx, lens.fy, lens.cx, lens.cy],
        "distortion_model": "equidistant" if lens.is_fisheye else "radtan",
        "distortion_coeffs": [*lens.k] if lens.is_fisheye else [*lens.k[:2], *lens.p],
        "resolution": [lens.width, lens.height],
        "rostopic": f"/{name}/image_raw",
    }


def _transform(parent: str, name: str, pose: np.ndarray) -> dict[str, Any]:
    """A geometry_msgs/TransformStamped as YAML: the pose of `name` in the frame `parent`."""
    x, y, z, w = from_matrix(pose[:3, :3]).as_quat().tolist()
    return {
        "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": parent},
        "child_frame_id": name,
        "transform": {
            "translation": dict(zip("xyz", pose[:3, 3].tolist(), strict=True)),
            "rotation": {"x": x, "y": y, "z": z, "w": w},
        },
    }


def _kitti(lens: Lens, from_lidar: np.ndarray, imu: np.ndarray | None) -> str:
    """KITTI's `calib.txt`: pixels are P2 R0_rect Tr_velo_to_cam x, of pictures without the lens's distortion."""
    rows = dict.fromkeys(("P0", "P1", "P2", "P3"), np.pad(_matrix(lens), ((0, 0), (0, 1))))
    rows |= {"R0_rect": np.eye(3), "Tr_velo_to_cam": from_lidar[:3]}
    rows |= {"Tr_imu_to_velo": imu[:3]} if imu is not None else {}
    return "".join(f"{name}: {' '.join(f'{value:.12e}' for value in row.ravel())}\n" for name, row in rows.items())


def _nuscenes(name: str, pose: np.ndarray, lens: Lens | None) -> dict[str, Any]:
    x, y, z, w = from_matrix(pose[:3, :3]).as_quat().tolist()
    intrinsic = _matrix(lens).tolist() if lens else []
    place = {"translation": pose[:3, 3].tolist(), "rotation": [w, x, y, z], "camera_intrinsic": intrinsic}
    return {"token": f"{name}_calibrated", "sensor_token": name, **place}


def _yaml(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120))


def _json(path: Path, content: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
