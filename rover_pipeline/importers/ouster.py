"""Import of Ouster captures (`.pcap`, `.osf`) as a roverd trace with `lidar/` and, if the capture has one, `imu/`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError, RoverError, short_text
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.texts import read_json
from rover_pipeline.importers.origin import write_config
from rover_pipeline.lidar.captures import frame_imu, imu_packets, open_capture, sensor_index

#: Channel -> field of ouster-sdk, type on disk, description. A capture of any profile has the first one.
_CHANNELS = {
    "rng": ("RANGE", "u2", "Range, mm, clipped at 65535; 0 = no return. [beam, column], staggered."),
    "rfl": ("REFLECTIVITY", "u1", "Reflectivity, clipped at 255. [beam, column], staggered."),
    "nir": ("NEAR_IR", "u2", "Ambient near infrared, photons. [beam, column], staggered."),
    "rng2": ("RANGE2", "u2", "Range of the second return, as rng. [beam, column], staggered."),
    "rfl2": ("REFLECTIVITY2", "u1", "Reflectivity of the second return, as rfl. [beam, column], staggered."),
}
#: Times of a clock that was set are after 1990, s.
_SET_S = 631_152_000.0


def import_ouster(
    capture: Path, out: Path, metadata: Path | None = None, start: float | None = None, sensor: str | None = None
) -> int:
    """Write the trace `out` from a capture.

    The time of a sweep is when the host received its last packet, as in recordings of the rig. If an `.osf` has no host
    times, it is the time of the sensor's own clock; a clock that was never set counts from when the file was last
    changed. Sweeps with missing packets have `valid` = 0. Second returns become `rng2` and `rfl2`.

    Args:
        metadata: the sensor's `.json`; None = the one with the stem of a `.pcap`, or else what ouster-sdk finds beside
            the capture.
        start: epoch seconds of the end of the first sweep, for captures without host times.
        sensor: number from 0 on, or serial number, of one of several sensors.

    Returns:
        The number of sweeps.

    Raises:
        FormatError: the capture cannot be read, or holds no sweep.
        ConfigError: it holds several sensors and `sensor` names none of them.
    """
    if not capture.is_file():
        raise FormatError(f"{capture}: no such file")
    same_stem = capture.with_suffix(".json")
    if start is not None and not math.isfinite(start):
        raise ConfigError(f"--start {start}: must be seconds since 1970")
    metadata = metadata or (same_stem if capture.suffix == ".pcap" and same_stem.exists() else None)
    if metadata is not None:
        _require_sidecar(metadata)
    with imported_trace(out) as trace:
        reader = _Reader(capture, metadata, start, sensor)
        count = reader.write_lidar(trace)
        info, sensors, rig = reader.info, {"lidar": {"type": "lidar", "args": {}}}, {}
        if mode := str(info.config.lidar_mode or ""):
            sensors["lidar"]["args"] = {"mode": mode}
        if (trace / "imu").exists() or (capture.suffix == ".pcap" and reader.write_imu(trace)):
            sensors["imu"] = {"type": "imu", "args": {}}
            pose = np.asarray(info.imu_to_sensor_transform)  # in the lidar (sensor) frame, mm
            rig["imu"] = {"translation": (pose[:3, 3] / 1000).tolist(), "rotation": pose[:3, :3].tolist()}
        for note in reader.notes:
            print(f"{capture}: {note}", file=sys.stderr)
        write_config(
            trace,
            sensors,
            command="import ouster",
            sources=[capture, *([metadata] if metadata else [])],
            options={"sensor": str(info.sn), **({} if start is None else {"start": start})},
            notes=reader.notes,
            rig=rig,
        )
    return count


def _require_sidecar(metadata: Path) -> None:
    """Raise FormatError unless a file is a small JSON object: ouster-sdk reads whatever it is given to the end."""
    try:
        content = read_json(metadata)
    except FileNotFoundError as error:
        raise FormatError(f"{metadata}: {error.strerror}; --meta must name the sensor's metadata") from error
    if not isinstance(content, dict):
        raise FormatError(f"{metadata}: must hold a JSON object, holds a {type(content).__name__}")


def end_of_sweep(scan: Any) -> float:
    """When the host received the last packet of a sweep, s; without host times the sensor's time of its last column."""
    return float(scan.packet_timestamp.max(initial=0) or scan.timestamp.max(initial=0)) / 1e9


class _Reader:
    """One sensor of a capture.

    Attributes:
        info: ouster-sdk's description of the sensor.
        notes: what the user should know, one line each.
    """

    def __init__(self, capture: Path, metadata: Path | None, start: float | None, sensor: str | None) -> None:
        self.capture, self.metadata, self.start = capture, metadata, start
        self.notes: list[str] = []
        with _sdk_errors(capture):
            self._source = open_capture(capture, metadata)
            described = list(self._source.sensor_info)
        try:
            self._index = sensor_index(described, sensor)
        except ValueError as error:
            raise ConfigError(f"{capture}: {error}") from error
        self.info = described[self._index]
        self._shift: float | None = None

    def write_lidar(self, trace: Path) -> int:
        """Write `lidar`, and `imu` where the sweeps hold its measurements; returns the number of sweeps."""
        shape = self.info.format.pixels_per_column, self.info.format.columns_per_frame
        count = late = 0
        latest = -np.inf
        with ExitStack() as stack, progress(f"import {self.capture.name}", self._sweeps(), "sweep") as advance:
            pool = stack.enter_context(ThreadPoolExecutor())
            imu = _ImuWriter(trace / "imu", stack)
            for scan in self._scans():
                if count == 0:
                    fields = {name: entry for name, entry in _CHANNELS.items() if scan.has_field(entry[0])}
                    if "rng" not in fields:
                        held = ", ".join(sorted(scan.fields)) or "none"
                        raise FormatError(f"{self.capture}: has no field RANGE; it holds {held}")
                    specs = {
                        name: ChannelSpec(format="lzmaf", type=code, shape=shape, desc=desc)
                        for name, (_, code, desc) in fields.items()
                    }
                    writer = stack.enter_context(
                        SensorWriter(trace / "lidar", {TS: TS_SPEC, VALID: VALID_SPEC, **specs})
                    )
                ts = self._time_of(scan)
                advance(1)
                if not ts > latest:
                    late += 1
                    continue
                latest = ts
                images = [self._image(scan, field, specs[name]) for name, (field, _, _) in fields.items()]
                encoded = list(pool.map(lambda image: encode_sample("lzmaf", image), images))
                writer.append(ts=ts, valid=float(scan.complete()))
                for name, data in zip(fields, encoded, strict=True):
                    writer.encoded(name).append_encoded(data)
                imu.append(*self._measured(scan))
                count += 1
            if count == 0:
                raise FormatError(f"{self.capture}: holds no whole sweep of the sensor its metadata describes")
            # Metadata of old firmware lacks keys that readers need; ouster-sdk writes all of them.
            replace_file(trace / "lidar" / "lidar.json", self.info.to_json_string() + "\n")
        if late:
            self.notes.append(f"{late} sweeps are left out: their times are not after those of the sweeps before")
        missing = [name for name in ("rfl", "nir") if name not in fields]
        if missing:
            self.notes.append(f"has no {' and no '.join(_CHANNELS[name][0] for name in missing)}")
        return count

    def write_imu(self, trace: Path) -> int:
        """Write `imu` from the packets of a `.pcap`; returns the number of measurements."""
        with ExitStack() as stack, _sdk_errors(self.capture):
            writer = _ImuWriter(trace / "imu", stack)
            for packet in imu_packets(self.capture, self.metadata, self._index):
                acc, avel, stamps = packet.accel(), packet.gyro(), packet.timestamp()
                # A packet of newer firmware holds several measurements; the host time is that of the last one.
                age = (stamps[-1] - stamps).astype("f8")
                writer.append((packet.host_timestamp - age) / 1e9, acc, avel)
        return writer.count

    def _time_of(self, scan: Any) -> float:
        """The end of a sweep, seconds since 1970."""
        if self._shift is None:
            host, own = float(scan.packet_timestamp.max(initial=0)) / 1e9, float(scan.timestamp.max(initial=0)) / 1e9
            self._shift = self._first_shift(host, own)
        return end_of_sweep(scan) + self._shift

    def _first_shift(self, host: float, own: float) -> float:
        """What the times of a capture are moved by, by those of its first sweep, s."""
        if self.start is not None:
            return self.start - (host or own)
        if host or own > _SET_S:
            if not host:
                self.notes.append("holds no host times; ts is the sensor's own clock")
            return 0.0
        self.notes.append(
            "holds no host times, and the sensor's clock was not set: ts counts from when the file was last changed "
            "(--start sets the time of the first sweep)"
        )
        return self.capture.stat().st_mtime - own

    def _measured(self, scan: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the IMU measured during a sweep, as far as the sweep holds it: times, f8 s, and both vectors."""
        stamps, acc, avel = frame_imu(scan)
        # The sensor's clock stamps both; the sweep's own time says how far that is from the time of the host.
        offset = self._time_of(scan) - float(scan.timestamp.max(initial=0)) / 1e9
        return stamps / 1e9 + offset, acc, avel

    def _image(self, scan: Any, field: str, spec: ChannelSpec) -> np.ndarray:
        if not scan.has_field(field):
            held = ", ".join(sorted(scan.fields))
            raise FormatError(f"{self.capture}: a sweep has no field {field}, which others have; it holds {held}")
        return np.minimum(scan.field(field), np.iinfo(spec.dtype).max).astype(spec.dtype)

    def _scans(self) -> Iterator[Any]:
        """Sweeps of the one sensor, in order."""
        with _sdk_errors(self.capture):
            for scans in self._source:
                if (scan := scans[self._index]) is not None:
                    yield scan

    def _sweeps(self) -> int:
        """How many sweeps there are, for the progress; 0 where the capture does not say it before it is read."""
        try:
            return int(self._source.frames_num[self._index]) if self._source.is_indexed else 0
        except (TypeError, LookupError, RuntimeError, ValueError):
            return 0


class _ImuWriter:
    """Writes `imu` where there are measurements: captures without an IMU must not get an empty sensor."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
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
            self._writer = self._stack.enter_context(SensorWriter(self.folder, specs))
        self._writer.append(ts=ts[later], acc=acc[later], avel=avel[later])
        self._latest = float(ts[later][-1])
        self.count += int(later.sum())


@contextmanager
def _sdk_errors(capture: Path) -> Iterator[None]:
    """Replace any exception of ouster-sdk by a FormatError that names the capture."""
    try:
        yield
    except RoverError:
        raise
    except Exception as error:  # ouster-sdk raises a dozen types, some of its own.
        problem = short_text(error, 300)  # it quotes the whole of some files
        raise FormatError(f"{capture}: ouster-sdk cannot read it: {problem}") from error
