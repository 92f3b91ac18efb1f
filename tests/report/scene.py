"""A recording of a walk with known figures, with every result, written without any processing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from rover_pipeline.format.provenance import MADE_BY, PROVENANCE, fingerprint
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.mapping.ply import ply
from tests.kit import START_S, ouster_metadata, pictures, small_trace, spec_of

#: Samples of lidar and camera; the radar has as many at twice their rate, the IMU five times as many.
FRAMES = 40
LOST = (11, 12, 25)  # of the lidar
INVALID = (3, 4)  # of the radar
SPEED = 1.5  # m/s, straight along x for the first half of the time, then along y
#: Half the Doppler axis, m/s: 4 bins of 0.8.
MAX_DOPPLER = 1.6
BEAMS, COLUMNS = 8, 64
AZIMUTHS, RANGES = 16, 24


def lidar_times() -> np.ndarray:
    """Times of the lidar's sweeps, without those that it lost."""
    return np.delete(START_S + np.arange(FRAMES) / 10, LOST)


def walk(trace: Path) -> Path:
    """Write the recording to `trace`."""
    small_trace(trace, FRAMES, sensors=("lidar", "radar", "camera", "imu"), beams=BEAMS, columns=COLUMNS)
    _retime(trace / "radar", START_S + 0.013 + np.arange(FRAMES) / 10)
    _retime(trace / "imu", START_S - 0.002 + np.arange(FRAMES) / 10)
    valid = np.ones(FRAMES, "u1")
    valid[list(INVALID)] = 0
    valid.tofile(trace / "radar" / VALID)
    sidecar = {"shape": [4, 2, 4, 16], "range_resolution": 0.25, "doppler_resolution": 0.8}
    (trace / "radar" / "radar.json").write_text(json.dumps(sidecar))
    (trace / "lidar" / "lidar.json").write_text(json.dumps(ouster_metadata(BEAMS, COLUMNS)))
    (trace / "config.yaml").write_text("lidar: {args: {mode: 64x10}}\nradar: {args: {radar: {frame_period: 100.0}}}\n")

    ts = lidar_times()
    ranges = np.random.default_rng(1).integers(500, 9000, (len(ts), BEAMS, COLUMNS)).astype("u2")
    sensor(trace, "lidar", ts, rng=ranges, rfl=(ranges // 64).astype("u1"), nir=ranges)
    (trace / "lidar" / "lidar.json").write_text(json.dumps(ouster_metadata(BEAMS, COLUMNS)))
    sensor(trace, "_lidar_image", ts, rng=ranges)
    seconds = ts - START_S
    half = 0.5 * seconds[-1]
    pos = SPEED * np.stack([np.minimum(seconds, half), np.maximum(seconds - half, 0), 0 * seconds], axis=1)
    vel = SPEED * np.stack([seconds <= half, seconds > half, 0 * seconds], axis=1).astype("f8")
    odom_valid = np.ones(len(ts), "u1")
    odom_valid[20] = 0
    sensor(
        trace, "_odom", ts, odom_valid, pos=pos, vel=vel, rot=np.tile(np.eye(3), (len(ts), 1, 1)),
        inlier_ratio=np.linspace(0.8, 0.9, len(ts)).astype("f4"),
    )  # fmt: skip
    radar_ts = START_S + 0.013 + np.arange(FRAMES) / 10
    fast = np.where(np.arange(FRAMES)[:, None] < FRAMES // 4, 2.0, 1.0) * [1.0, 0, 0]
    sensor(trace, "_radar_pose", radar_ts, pos=np.zeros((FRAMES, 3)), vel=fast)
    sensor(trace, "_radar_velocity", radar_ts, valid, vel=(1.1 * fast).astype("f4"))
    nearest = np.abs(radar_ts[None] - ts[:, None]).argmin(axis=1)
    residuals = radar_ts[nearest] - ts
    index = np.where(np.arange(len(ts)) < 2, -1, nearest).astype("i4")
    sensor(trace, "_sync", ts, radar=index, radar_dt=residuals.astype("f4"))
    _radar_images(trace, radar_ts, valid)
    _map(trace / "_map")
    return trace


def sensor(trace: Path, name: str, ts: np.ndarray, valid: np.ndarray | None = None, **channels: np.ndarray) -> None:
    """Write a sensor, replacing an existing one, and its provenance if it is virtual."""
    folder = trace / name
    for file in folder.glob("*"):
        file.unlink()
    if folder.exists():
        folder.rmdir()
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, **{key: spec_of(values) for key, values in channels.items()}}
    with SensorWriter(folder, specs) as writer:
        writer.append(ts=ts, valid=np.ones(len(ts), "u1") if valid is None else valid, **channels)
    if name.startswith("_"):
        source = "radar" if name.startswith("_radar") else "lidar"
        provenance(folder, samples=len(ts), invalid=0 if valid is None else int((valid == 0).sum()), source=source)


def provenance(folder: Path, *, samples: int, invalid: int, source: str, **more: object) -> None:
    """Write a `provenance.json` as the runner does, as far as the page shows it."""
    reference = f"{source}/{TS}"
    content = {
        "made_by": MADE_BY, "sensor": folder.name, "step": f"rover_pipeline.test:make{folder.name}", "version": 2,
        "options": {"gain": 3}, "inputs": {reference: fingerprint(folder.parent / reference)},
        "samples": samples, "invalid": invalid, "corrupt": 0, "dropped": 0,
        "measured": {"share": 0.25}, "notes": [], "packages": {"numpy": "2.4.6"},
        "time": {"started": "2026-11-21T08:00:00+00:00", "seconds": 1.5}, "files": [], **more,
    }  # fmt: skip
    (folder / PROVENANCE).write_text(json.dumps(content))


def _retime(folder: Path, ts: np.ndarray) -> None:
    ts.astype("<f8").tofile(folder / TS)


def _radar_images(trace: Path, ts: np.ndarray, valid: np.ndarray) -> None:
    power = np.random.default_rng(2).normal(20, 3, (len(ts), AZIMUTHS, RANGES)).astype("f4")
    axes: Mapping[str, object] = {
        "azimuth": {"unit": "rad", "values": np.arcsin((np.arange(AZIMUTHS) - 8) / 8).tolist()},
        "doppler": {"unit": "m/s", "values": (0.2 * (np.arange(AZIMUTHS) - 8)).tolist()},
        "range": {"unit": "m", "values": (0.25 * np.arange(RANGES)).tolist()},
    }
    for name in ("_radar_range_doppler", "_radar_range_azimuth"):
        sensor(trace, name, ts, valid, power=power)
        (trace / name / "axes.json").write_text(json.dumps(axes))
    cells = (np.random.default_rng(3).random((FRAMES - len(LOST), AZIMUTHS, RANGES)) > 0.9).astype("u1")
    sensor(trace, "_bev", lidar_times(), occupancy=cells)
    (trace / "_bev" / "axes.json").write_text(json.dumps(axes))


def _map(folder: Path) -> None:
    """A room from (-1, -2) to (5, 4) m, 0.1 m a cell: unknown around it, walls, free inside."""
    folder.mkdir()
    grid = np.full((80, 80), 205, "u1")  # from (-2, -3) to (6, 5)
    grid[10:70, 10:70] = 0
    grid[11:69, 11:69] = 254
    (folder / "occupancy.pgm").write_bytes(cv2.imencode(".pgm", grid[::-1])[1].tobytes())
    (folder / "occupancy.yaml").write_text(
        "# a remark\nimage: occupancy.pgm\nresolution: 0.1\norigin: [-2.0, -3.0, 0.0]\nnegate: 0\n"
        "occupied_thresh: 0.65\nfree_thresh: 0.196\n"
    )
    along = np.random.default_rng(4).random((3000, 3))
    walls = np.array([-1.0, -2.0, -0.5]) + along * [6, 6, 2]
    walls[::2, 0] = np.where(along[::2, 1] > 0.5, -1, 5)
    walls[1::2, 1] = np.where(along[1::2, 0] > 0.5, -2, 4)
    (folder / "map.ply").write_bytes(ply(walls))
    (folder / "bev.png").write_bytes(cv2.imencode(".png", pictures(1, 40, 60)[0])[1].tobytes())
    provenance(folder, samples=0, invalid=0, source="_odom")
