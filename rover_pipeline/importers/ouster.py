"""Import of Ouster captures (`.pcap`, `.osf`) as a roverd trace with `lidar/` and, if the capture has one, `imu/`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rover_pipeline.engine.progress import progress
from rover_pipeline.errors import ConfigError, FormatError, RoverError, short_text
from rover_pipeline.format.merge import imported_trace
from rover_pipeline.importers.origin import write_config
from rover_pipeline.importers.ouster_frames import FrameWriter, ImuWriter, end_of_sweep, imu_mount, require_sidecar
from rover_pipeline.lidar.captures import frame_imu, imu_packets, measured, metadata_beside, open_capture, sensor_index
from rover_pipeline.numerics.jumps import EPOCH_S


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
    described = [metadata] if metadata else []
    if capture.suffix == ".pcap" and metadata is None:
        described = [same_stem] if same_stem.exists() else metadata_beside(capture)
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
        count = reader.write_lidar(trace)
        info, sensors, rig = reader.info, {"lidar": {"type": "lidar", "args": {}}}, {}
        if mode := str(info.config.lidar_mode or ""):
            sensors["lidar"]["args"] = {"mode": mode}
        if (trace / "imu").exists() or (capture.suffix == ".pcap" and reader.write_imu(trace)):
            sensors["imu"] = {"type": "imu", "args": {}}
            rig["imu"] = imu_mount(info)
        for note in reader.notes:
            print(f"{capture}: {note}", file=sys.stderr)
        write_config(
            trace,
            sensors,
            command="import ouster",
            sources=[capture, *described],
            options={"sensor": str(info.sn), **({} if start is None else {"start": start})},
            notes=reader.notes,
            rig=rig,
        )
    return count


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
        with ExitStack() as stack, progress(f"import {self.capture.name}", self._sweeps(), "sweep") as advance:
            writer = stack.enter_context(FrameWriter(trace / "lidar", self.info, str(self.capture)))
            imu = stack.enter_context(ImuWriter(trace / "imu"))
            for scan in self._scans():
                advance(1)
                if writer.put(self._time_of(scan), scan):
                    imu.append(*self._measured(scan))
            if writer.count == 0:
                raise FormatError(f"{self.capture}: holds no whole sweep of the sensor its metadata describes")
            writer.close()
        self.notes += writer.notes
        return writer.count

    def write_imu(self, trace: Path) -> int:
        """Write `imu` from the packets of a `.pcap`; returns the number of measurements."""
        with ImuWriter(trace / "imu") as writer, _sdk_errors(self.capture):
            for packet in imu_packets(self.capture, self.metadata, self._index):
                writer.append(*measured(packet))
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
        if host or own > EPOCH_S[0]:
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
