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
import yaml

from rover_pipeline.errors import ConfigError, FormatError, RoverError, short_text
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.format.meta import ChannelSpec, replace_file
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, SensorWriter
from rover_pipeline.format.texts import read_json
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.lidar.captures import imu_packets, open_capture

#: Channel -> field of ouster-sdk, type on disk, description.
_CHANNELS = {
    "rng": ("RANGE", "u2", "Range, mm, clipped at 65535; 0 = no return. [beam, column], staggered."),
    "rfl": ("REFLECTIVITY", "u1", "Reflectivity, clipped at 255. [beam, column], staggered."),
    "nir": ("NEAR_IR", "u2", "Ambient near infrared, photons. [beam, column], staggered."),
}


def import_ouster(capture: Path, out: Path, metadata: Path | None = None, start: float | None = None) -> int:
    """Write the trace `out` from a capture.

    The time of a sweep is when the host received its last packet, as in recordings of the rig. If an `.osf` has no host
    times, it is the time of the sensor's own clock. Sweeps with missing packets have `valid` = 0. Of two returns, only
    the first one is imported.

    Args:
        metadata: the sensor's `.json`; None = the one with the stem of a `.pcap`, or else what ouster-sdk finds beside
            the capture.
        start: epoch seconds of the end of the first sweep, for captures without host times.

    Returns:
        The number of sweeps.

    Raises:
        FormatError: the capture cannot be read, or holds no sweep or more than one sensor.
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
        info, count = _write_lidar(capture, metadata, trace, start)
        config: dict[str, Any] = {"lidar": {"type": "lidar", "args": {"mode": str(info.config.lidar_mode or "")}}}
        if capture.suffix == ".pcap" and _write_imu(capture, metadata, trace):
            config["imu"] = {"type": "imu", "args": {}}
            pose = np.asarray(info.imu_to_sensor_transform)  # in the lidar (sensor) frame, mm
            translation, rotation = (pose[:3, 3] / 1000).tolist(), pose[:3, :3].tolist()
            config["rig"] = {"imu": {"translation": translation, "rotation": rotation}}
        config["comment"] = f"imported from {capture.name}"
        replace_file(trace / CONFIG, yaml.safe_dump(config, sort_keys=False))
    return count


def _require_sidecar(metadata: Path) -> None:
    """Raise FormatError unless a file is a small JSON object: ouster-sdk reads whatever it is given to the end."""
    try:
        content = read_json(metadata)
    except FileNotFoundError as error:
        raise FormatError(f"{metadata}: {error.strerror}; --meta must name the sensor's metadata") from error
    if not isinstance(content, dict):
        raise FormatError(f"{metadata}: must hold a JSON object, holds a {type(content).__name__}")


def _write_lidar(capture: Path, metadata: Path | None, trace: Path, start: float | None) -> tuple[Any, int]:
    with _sdk_errors(capture):
        source = open_capture(capture, metadata)
    if len(source.sensor_info) != 1:
        raise FormatError(f"{capture}: holds {len(source.sensor_info)} sensors; one trace holds one lidar")
    info = source.sensor_info[0]
    beams, columns = info.format.pixels_per_column, info.format.columns_per_frame
    specs = {TS: TS_SPEC, VALID: VALID_SPEC}
    for name, (_field, code, desc) in _CHANNELS.items():
        specs[name] = ChannelSpec(format="lzmaf", type=code, shape=(beams, columns), desc=desc)
    count = 0
    with ThreadPoolExecutor() as pool, SensorWriter(trace / "lidar", specs) as writer:
        for scan in _scans(capture, source):
            ts = end_of_sweep(scan)
            if count == 0:
                shift = 0.0 if start is None else start - ts
                _warn_of_losses(capture, scan, start)
            writer.append(ts=ts + shift, valid=float(scan.complete()))
            images = [_image(capture, scan, field, specs[name].dtype) for name, (field, _, _) in _CHANNELS.items()]
            encoded = pool.map(lambda image: encode_sample("lzmaf", image), images)
            for name, data in zip(_CHANNELS, encoded, strict=True):
                writer.encoded(name).append_encoded(data)
            count += 1
        if count == 0:
            raise FormatError(f"{capture}: holds no whole sweep of the sensor its metadata describes")
        # Metadata of old firmware lacks keys that readers need; ouster-sdk writes all of them.
        replace_file(trace / "lidar" / "lidar.json", info.to_json_string() + "\n")
    return info, count


def end_of_sweep(scan: Any) -> float:
    """When the host received the last packet of a sweep, s; without host times the sensor's time of its last column."""
    return float(scan.packet_timestamp.max() or scan.timestamp.max()) / 1e9


def _image(capture: Path, scan: Any, field: str, dtype: np.dtype[Any]) -> np.ndarray:
    if not scan.has_field(field):
        raise FormatError(f"{capture}: has no field {field}; it holds {', '.join(sorted(scan.fields))}")
    return np.minimum(scan.field(field), np.iinfo(dtype).max).astype(dtype)


def _warn_of_losses(capture: Path, scan: Any, start: float | None) -> None:
    if scan.has_field("RANGE2"):
        print(f"{capture}: second returns are left out; a trace holds one range a pixel", file=sys.stderr)
    if not scan.packet_timestamp.max() and start is None:
        problem = "holds no host times; ts is the sensor's own clock, seconds since its start"
        print(f"{capture}: {problem} (--start sets the time of the first sweep)", file=sys.stderr)


def _scans(capture: Path, source: Any) -> Iterator[Any]:
    """Sweeps of the one sensor, in order."""
    with _sdk_errors(capture):
        for scans in source:
            yield from (scan for scan in scans if scan is not None)


def _write_imu(capture: Path, metadata: Path | None, trace: Path) -> int:
    vector = {"format": "raw", "type": "f4", "shape": (3,)}
    specs = {
        TS: TS_SPEC,
        "acc": ChannelSpec(**vector, desc="Acceleration, gravity included, m/s^2. [xyz], IMU frame."),
        "avel": ChannelSpec(**vector, desc="Angular velocity, rad/s. [xyz], IMU frame."),
    }
    count = 0
    with ExitStack() as stack, _sdk_errors(capture):
        for packet in imu_packets(capture, metadata):
            if count == 0:  # Captures without an IMU must not get an empty sensor.
                writer = stack.enter_context(SensorWriter(trace / "imu", specs))
            acc, avel, stamps = packet.accel(), packet.gyro(), packet.timestamp()
            # A packet of newer firmware holds several measurements; the host time is that of the last one.
            age = (stamps[-1] - stamps).astype("f8")
            writer.append(ts=(packet.host_timestamp - age) / 1e9, acc=acc, avel=avel)
            count += len(acc)
    return count


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
