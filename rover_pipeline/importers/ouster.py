"""Import of Ouster captures (`.pcap`, `.osf`) as a roverd trace with `lidar/` and, if the capture has one, `imu/`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError, counted, naming
from rover_pipeline.format.channels import encode_sample
from rover_pipeline.format.files import replace_file
from rover_pipeline.format.meta import ChannelSpec, raw
from rover_pipeline.format.sensor import VALID, VALID_SPEC, Closing, SensorWriter
from rover_pipeline.format.texts import read_json
from rover_pipeline.format.trace import imported_trace
from rover_pipeline.importers.origin import MAX_SENSORS, from_rig, in_rig, sensor_name, write_config
from rover_pipeline.importers.tuning import TUNING
from rover_pipeline.lidar import captures
from rover_pipeline.lidar.sidecar import require_sizes
from rover_pipeline.numerics.jumps import EPOCH_S
from rover_pipeline.numerics.linear import inv, matmul

# Writers of the sensors `lidar` and `imu` of an Ouster, from sweeps and measurements as ouster-sdk decodes them.

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
    with naming(metadata, FileNotFoundError, remedy="; --meta must name the sensor's metadata"):
        content = read_json(metadata)
    if not isinstance(content, dict):
        raise FormatError(f"{metadata}: must hold a JSON object, holds a {type(content).__name__}")
    with naming(metadata, ValueError, remedy="; is it the metadata of this capture?"):
        require_sizes(content)


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
    """

    def __init__(self, folder: Path, info: Any, where: str) -> None:
        self.folder, self.info, self.where = folder, info, where
        self.count = self._late = 0  #: sweeps that were written, and those that were left out.
        self.notes: list[str] = []  #: what the user should know, one line each, once it is closed.
        self._latest = -np.inf
        self._specs: dict[str, ChannelSpec] = {}
        self._writer: SensorWriter | None = None
        self._pool = ThreadPoolExecutor()

    def put(self, ts: float, scan: Any) -> bool:
        """Add a sweep; False if it is left out because it is not later than the one before.

        `ts`: s, its time stamp. Raises FormatError where it has no ranges, or lacks a field that those before it have.
        """
        if self._writer is None:
            self._begin(scan)
        assert self._writer is not None
        if not ts > self._latest:
            self._late += 1
            return False
        self._latest = ts
        images = [self._image(scan, name) for name in self._specs]
        encoded = self._pool.map(lambda image: encode_sample("lzmaf", image), images)
        self._writer.append(ts=ts, valid=float(scan.complete()), **dict(zip(self._specs, encoded, strict=True)))
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
            self.notes.append(f"left out: {counted(self._late, 'sweep')} not after the one before in time")
        if missing := [_CHANNELS[name][0] for name in ("rfl", "nir") if name not in self._specs]:
            self.notes.append(f"has no {' and no '.join(missing)}")

    def _begin(self, scan: Any) -> None:
        shape = self.info.format.pixels_per_column, self.info.format.columns_per_frame
        self._specs = {
            name: ChannelSpec(format="lzmaf", type=code, shape=shape, desc=desc)
            for name, (field, code, desc) in _CHANNELS.items()
            if scan.has_field(field)
        }
        if "rng" not in self._specs:
            raise FormatError(f"{self.where}: has no field RANGE; it holds {', '.join(sorted(scan.fields)) or 'none'}")
        self._writer = SensorWriter(self.folder, {VALID: VALID_SPEC, **self._specs})

    def _image(self, scan: Any, name: str) -> np.ndarray:
        field, dtype = _CHANNELS[name][0], self._specs[name].dtype
        if not scan.has_field(field):
            held = ", ".join(sorted(scan.fields))
            raise FormatError(f"{self.where}: a sweep has no field {field}, which others have; it holds {held}")
        return np.minimum(scan.field(field), np.iinfo(dtype).max).astype(dtype)

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
            specs = {
                "acc": raw("f4", (3,), "Acceleration, gravity included, m/s^2. [xyz], IMU frame."),
                "avel": raw("f4", (3,), "Angular velocity, rad/s. [xyz], IMU frame."),
            }
            self._writer = SensorWriter(self.folder, specs)
        self._writer.append(ts=ts[later], acc=acc[later], avel=avel[later])
        self._latest = float(ts[later][-1])
        self.count += int(later.sum())

    def close(self) -> None:
        if self._writer:
            self._writer.close()


def import_ouster(
    capture: Path, out: Path, metadata: Path | None = None, start: float | None = None, sensor: str | None = None
) -> int | dict[str, int]:
    """Write the trace `out` from a capture; return the number of sweeps, or that of each lidar if there are several.

    The arguments are those of the command, as `table.py` describes them; `start` is the end of the first sweep. The
    time of a sweep is when the host received its last packet, as in recordings of the rig. If an `.osf` has no host
    times, it is the time of the sensor's own clock; a clock that was never set counts from when the file was last
    changed. Sweeps with missing packets have `valid` = 0. Second returns become `rng2` and `rfl2`. Of several sensors
    the first one is `lidar` and `imu`, others have their serial numbers: `lidar_992137000142`. Raises FormatError where
    the capture cannot be read, or holds no sweep, and ConfigError where it holds no sensor that `sensor` names.
    """
    same_stem = capture.with_suffix(".json")
    if start is not None and not math.isfinite(start):
        raise ConfigError(f"--start {start}: must be seconds since 1970")
    described = [metadata] if metadata else []
    if capture.suffix == ".pcap" and metadata is None:
        described = [same_stem] if same_stem.exists() else captures.metadata_beside(capture)
        if not described:
            raise FormatError(
                f"{capture}: the metadata of its sensor is missing: put it beside the capture as {same_stem.name}, "
                "or name it by `import ouster --meta`"
            )
        metadata = described[0] if len(described) == 1 else None  # of several sensors ouster-sdk reads them all
    for each in described:
        require_sidecar(each)
    with imported_trace(out) as trace:
        reader = _Reader(capture, metadata, start, sensor)
        reader.write_lidars(trace)
        if capture.suffix == ".pcap":
            reader.write_imus(trace)
        sensors, rig = reader.described(trace)
        chosen = {"sensor": str(reader.sensors[0].info.sn)} if len(reader.sensors) == 1 else {}
        write_config(
            trace,
            sensors,
            command="import ouster",
            sources=[capture, *described],
            options={**chosen, **({} if start is None else {"start": start})},
            notes=reader.notes,
            said_of=capture,
            rig=rig,
        )
    counts = {each.lidar: each.count for each in reader.sensors if each.count}
    return counts if len(counts) > 1 else counts["lidar"]


@dataclass
class _Sensor:
    """A sensor of a capture."""

    number: int  #: in the capture.
    info: Any  #: ouster-sdk's description of it.
    lidar: str = "lidar"  #: what it is called in the trace, and its IMU.
    imu: str = "imu"
    count: int = 0  #: sweeps that were written.
    first: float = 0.0  #: time of its first sweep in the capture, s.
    shift: float | None = None  #: what its times are moved by, s; None = not known yet.


class _Reader:
    """The sensors of a capture that are wanted, and `notes`: what the user should know, one line each."""

    def __init__(self, capture: Path, metadata: Path | None, start: float | None, sensor: str | None) -> None:
        self.capture, self.metadata, self.start = capture, metadata, start
        self.notes: list[str] = []
        with self._reading():
            self._source = captures.open_capture(capture, metadata)
            described = list(self._source.sensor_info)
        with naming(capture, ValueError, made=ConfigError):
            numbers = captures.sensor_numbers(described, sensor)
        if more := numbers[MAX_SENSORS:]:
            self.notes.append(f"{len(more)} sensors are left out: a trace has {MAX_SENSORS} of a kind (--sensor)")
        self.sensors: list[_Sensor] = []
        for number in numbers[:MAX_SENSORS]:
            new = _Sensor(number, described[number])
            if self.sensors:
                label, main = str(new.info.sn or number), str(self.sensors[0].info.sn)
                new.lidar = sensor_name("lidar", label, main, [each.lidar for each in self.sensors])
                new.imu = sensor_name("imu", label, main, [each.imu for each in self.sensors])
            self.sensors.append(new)

    def _reading(self) -> AbstractContextManager[None]:
        """Lets errors of ouster-sdk, which raises a dozen types and quotes whole files, name the capture."""
        return naming(f"{self.capture}: ouster-sdk cannot read it", Exception, limit=300)

    def write_lidars(self, trace: Path) -> None:
        """Write the lidars, and IMUs where the sweeps hold their measurements."""
        with ExitStack() as stack, progress(f"import {self.capture.name}", self._sweeps(), "sweep") as advance:
            writers = [
                (
                    stack.enter_context(FrameWriter(trace / each.lidar, each.info, str(self.capture))),
                    stack.enter_context(ImuWriter(trace / each.imu)),
                )
                for each in self.sensors
            ]
            for index, scan in self._scans():
                sensor, (writer, imu) = self.sensors[index], writers[index]
                advance(1)
                if writer.put(self._time_of(sensor, scan), scan):
                    imu.append(*self._measured(sensor, scan))
            for sensor, (writer, _) in zip(self.sensors, writers, strict=True):
                sensor.count = writer.count
                problem = "holds no whole sweep of the sensor its metadata describes"
                if writer.count == 0 and sensor is self.sensors[0]:
                    raise FormatError(f"{self.capture}: {problem}")
                writer.close()
                self.notes += writer.notes if writer.count else [f"{sensor.lidar} is left out: the capture {problem}"]

    def write_imus(self, trace: Path) -> None:
        """Write the IMUs that are not there yet from the packets of a `.pcap`."""
        wanted = {each.number: each for each in self.sensors if each.count and not (trace / each.imu).exists()}
        if not wanted:
            return
        with ExitStack() as stack, self._reading():
            writers = {n: stack.enter_context(ImuWriter(trace / each.imu)) for n, each in wanted.items()}
            for number, packet in captures.imu_packets(self.capture, self.metadata):
                if number in writers:
                    writers[number].append(*captures.measured(packet))

    def described(self, trace: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """The entries of the sensors in `config.yaml`, and the section `rig`."""
        sensors: dict[str, Any] = {}
        rig: dict[str, Any] = {}
        made = [each for each in self.sensors if each.count]
        # Of sensors that are not calibrated the metadata has the same pose: the identity.
        known = len({np.asarray(each.info.sensor_to_body).tobytes() for each in made}) == len(made)
        for each in made:
            several = {"sensor": str(each.info.sn)} if len(made) > 1 else {}
            mode = {"mode": mode} if (mode := str(each.info.config.lidar_mode or "")) else {}
            sensors[each.lidar] = {"type": "lidar", "args": mode | several}
            pose = np.eye(4) if each is made[0] else None
            if pose is None and known:
                pose = matmul(inv(np.array(made[0].info.sensor_to_body)), np.array(each.info.sensor_to_body))
                rig[each.lidar] = in_rig(np.round(pose, 9) + 0.0)
            if (trace / each.imu).exists():
                sensors[each.imu] = {"type": "imu", "args": several}
                if each is made[0]:
                    rig[each.imu] = imu_mount(each.info)
                elif pose is not None:
                    rig[each.imu] = in_rig(matmul(pose, from_rig(imu_mount(each.info))))
        if not known:
            self.notes.append(f"nothing says where {', '.join(each.lidar for each in made[1:])} is on the rig")
        return sensors, rig

    def _time_of(self, sensor: _Sensor, scan: Any) -> float:
        """The end of a sweep, seconds since 1970."""
        if sensor.shift is None:
            host, own = float(scan.packet_timestamp.max(initial=0)) / 1e9, float(scan.timestamp.max(initial=0)) / 1e9
            sensor.first = host or own
            others = [each for each in self.sensors if each.shift is not None]
            same = (each.shift for each in others if abs(each.first - sensor.first) < TUNING.same_clock_s)
            shift = next(same, None)
            sensor.shift = self._first_shift(host, own) if shift is None else shift
        return end_of_sweep(scan) + sensor.shift

    def _first_shift(self, host: float, own: float) -> float:
        """What the times of a sensor are moved by, by those of its first sweep, s."""
        if self.start is not None:
            return self.start - (host or own)
        if host or own > EPOCH_S[0]:
            if not host:
                self._note("holds no host times; ts is the sensor's own clock")
            return 0.0
        self._note(
            "holds no host times, and the sensor's clock was not set: ts counts from when the file was last changed "
            "(--start sets the time of the first sweep)"
        )
        return self.capture.stat().st_mtime - own

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _measured(self, sensor: _Sensor, scan: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the IMU measured during a sweep, as far as the sweep holds it: times, f8 s, and both vectors."""
        stamps, acc, avel = captures.frame_imu(scan)
        # The sensor's clock stamps both; the sweep's own time says how far that is from the time of the host.
        offset = self._time_of(sensor, scan) - float(scan.timestamp.max(initial=0)) / 1e9
        return stamps / 1e9 + offset, acc, avel

    def _scans(self) -> Iterator[tuple[int, Any]]:
        """Sweeps in order, with the place of their sensor among those that are wanted."""
        with self._reading():
            for scans in self._source:
                for index, sensor in enumerate(self.sensors):
                    if (scan := scans[sensor.number]) is not None:
                        yield index, scan

    def _sweeps(self) -> int:
        """How many sweeps there are, for the progress; 0 where the capture does not say it before it is read."""
        try:
            numbers = [int(self._source.frames_num[each.number]) for each in self.sensors]
            return sum(numbers) if self._source.is_indexed else 0
        except (TypeError, LookupError, RuntimeError, ValueError):
            return 0
