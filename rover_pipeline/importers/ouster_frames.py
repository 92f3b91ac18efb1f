"""Writers of the sensors `lidar` and `imu` of an Ouster, from sweeps and measurements as ouster-sdk decodes them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.errors import FormatError
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Closing, SensorWriter
from rover_pipeline.format.texts import read_json
from rover_pipeline.importers.origin import in_rig
from rover_pipeline.lidar.sidecar import require_sizes

#: Channel -> field of ouster-sdk, type on disk, description. A capture of any profile has the first one.
_CHANNELS = {
    "rng": ("RANGE", "u2", "Range, mm, clipped at 65535; 0 = no return. [beam, column], staggered."),
    "rfl": ("REFLECTIVITY", "u1", "Reflectivity, clipped at 255. [beam, column], staggered."),
    "nir": ("NEAR_IR", "u2", "Ambient near infrared, photons. [beam, column], staggered."),
    "rng2": ("RANGE2", "u2", "Range of the second return, as rng. [beam, column], staggered."),
    "rfl2": ("REFLECTIVITY2", "u1", "Reflectivity of the second return, as rfl. [beam, column], staggered."),
}


def require_sidecar(metadata: Path) -> None:
    """Raise FormatError unless a file is a small JSON object: ouster-sdk reads whatever it is given to the end."""
    try:
        content = read_json(metadata)
    except FileNotFoundError as error:
        raise FormatError(f"{metadata}: {error.strerror}; --meta must name the sensor's metadata") from error
    if not isinstance(content, dict):
        raise FormatError(f"{metadata}: must hold a JSON object, holds a {type(content).__name__}")
    try:
        require_sizes(content)
    except ValueError as error:
        raise FormatError(f"{metadata}: {error}; is it the metadata of this capture?") from error


def end_of_sweep(scan: Any) -> float:
    """When the host received the last packet of a sweep, s; without host times the sensor's time of its last column."""
    return float(scan.packet_timestamp.max(initial=0) or scan.timestamp.max(initial=0)) / 1e9


def imu_mount(info: Any) -> dict[str, Any]:
    """The pose of the IMU of a sensor in the lidar frame, for the section `rig`."""
    pose = np.array(info.imu_to_sensor_transform)  # in the lidar (sensor) frame, mm
    pose[:3, 3] /= 1000
    return in_rig(pose)


class FrameWriter(Closing):
    """Writes the range images of a sensor. The first sweep decides which channels there are.

    Args:
        folder: of the sensor `lidar`, which must not exist.
        info: ouster-sdk's description of the sensor.
        where: the capture or the topic, for messages.

    Attributes:
        count: sweeps that were written; notes: what the user should know, one line each, once it is closed.
    """

    def __init__(self, folder: Path, info: Any, where: str) -> None:
        self.folder, self.info, self.where = folder, info, where
        self.count = self._late = 0
        self.notes: list[str] = []
        self._latest = -np.inf
        self._fields: dict[str, str] = {}
        self._specs: dict[str, ChannelSpec] = {}
        self._writer: SensorWriter | None = None
        self._pool = ThreadPoolExecutor()

    def put(self, ts: float, scan: Any) -> bool:
        """Add a sweep; False if it is left out because it is not later than the one before.

        Args:
            ts: s, its time stamp.

        Raises:
            FormatError: it has no ranges, or lacks a field that those before it have.
        """
        if self._writer is None:
            self._begin(scan)
        assert self._writer is not None
        if not ts > self._latest:
            self._late += 1
            return False
        self._latest = ts
        images = [self._image(scan, field, self._specs[name]) for name, field in self._fields.items()]
        encoded = list(self._pool.map(lambda image: encode_sample("lzmaf", image), images))
        self._writer.append(ts=ts, valid=float(scan.complete()))
        for name, data in zip(self._fields, encoded, strict=True):
            self._writer.encoded(name).append_encoded(data)
        self.count += 1
        return True

    def close(self) -> None:
        """Make the sensor complete, if it has any sweep."""
        self._pool.shutdown()
        if self._writer is None:
            return
        # Metadata of old firmware lacks keys that readers need; ouster-sdk writes all of them.
        replace_file(self.folder / "lidar.json", self.info.to_json_string() + "\n")
        self._writer.close()
        self._writer = None
        if self._late:
            self.notes.append(f"{self._late} sweeps are left out: their times are not after those of the sweeps before")
        missing = [name for name in ("rfl", "nir") if name not in self._fields]
        if missing:
            self.notes.append(f"has no {' and no '.join(_CHANNELS[name][0] for name in missing)}")

    def _begin(self, scan: Any) -> None:
        shape = self.info.format.pixels_per_column, self.info.format.columns_per_frame
        known = {name: entry for name, entry in _CHANNELS.items() if scan.has_field(entry[0])}
        if "rng" not in known:
            raise FormatError(f"{self.where}: has no field RANGE; it holds {', '.join(sorted(scan.fields)) or 'none'}")
        self._fields = {name: field for name, (field, _, _) in known.items()}
        self._specs = {
            name: ChannelSpec(format="lzmaf", type=code, shape=shape, desc=desc)
            for name, (_, code, desc) in known.items()
        }
        self._writer = SensorWriter(self.folder, {TS: TS_SPEC, VALID: VALID_SPEC, **self._specs})

    def _image(self, scan: Any, field: str, spec: ChannelSpec) -> np.ndarray:
        if not scan.has_field(field):
            held = ", ".join(sorted(scan.fields))
            raise FormatError(f"{self.where}: a sweep has no field {field}, which others have; it holds {held}")
        return np.minimum(scan.field(field), np.iinfo(spec.dtype).max).astype(spec.dtype)

    def release(self) -> None:
        self._pool.shutdown()


class ImuWriter(Closing):
    """Writes `imu` where there are measurements: captures without an IMU must not get an empty sensor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer: SensorWriter | None = None
        self.count, self._latest = 0, -np.inf

    def append(self, ts: np.ndarray, acc: np.ndarray, avel: np.ndarray) -> None:
        """Add measurements, f8 (N,) s, f4 (N, 3) each. Those that are not later than the ones before are left out."""
        running = np.maximum.accumulate(np.concatenate([[self._latest], ts]))
        later = ts > running[:-1]
        if not later.any():
            return
        if self._writer is None:
            vector = {"format": "raw", "type": "f4", "shape": (3,)}
            specs = {
                TS: TS_SPEC,
                "acc": ChannelSpec(**vector, desc="Acceleration, gravity included, m/s^2. [xyz], IMU frame."),
                "avel": ChannelSpec(**vector, desc="Angular velocity, rad/s. [xyz], IMU frame."),
            }
            self._writer = SensorWriter(self.folder, specs)
        self._writer.append(ts=ts[later], acc=acc[later], avel=avel[later])
        self._latest = float(ts[later][-1])
        self.count += int(later.sum())

    def close(self) -> None:
        if self._writer:
            self._writer.close()
