"""Captures of Ouster lidars, by ouster-sdk. Its readers take long to import, so they have this module of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ouster.sdk import core, open_packet_source, open_source
from ouster.sdk.util import resolve_metadata_multi

from rover_pipeline.errors import naming
from rover_pipeline.format.files import regular_size
from rover_pipeline.lidar.geometry import sensor_info


def open_capture(capture: Path, metadata: Path | None) -> core.FrameSetSource:
    """The sweeps of a `.pcap` or `.osf`, with the description of their sensors. It raises the errors of ouster-sdk.

    Args:
        metadata: the sensor's `.json`; None = the file that ouster-sdk finds beside the capture.
    """
    regular_size(capture)
    return open_source(str(capture), **_meta(metadata))


def metadata_beside(capture: Path) -> list[Path]:
    """The metadata of sensors that ouster-sdk finds beside a `.pcap`."""
    return [Path(path) for path in resolve_metadata_multi(str(capture))]


def sensor_numbers(described: Sequence[core.SensorInfo], wanted: str | None) -> list[int]:
    """Numbers of the sensors that are wanted: one by its number or serial number, or all.

    Raises:
        ValueError: there is no such sensor.
    """
    names = {str(number): number for number in range(len(described))}
    names |= {str(info.sn): number for number, info in enumerate(described) if info.sn}
    if wanted is None:
        return list(range(len(described)))
    if wanted not in names:
        listed = ", ".join(f"{number} = {info.prod_line} {info.sn}" for number, info in enumerate(described))
        raise ValueError(f"has no sensor {wanted}; it holds {listed}")
    return [names[wanted]]


def frame_imu(scan: core.LidarFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the IMU measured during a sweep, where the sweep holds it (firmware 3.2 and later).

    Returns:
        Times of the sensor's clock, f8 (N,), ns; acceleration with gravity, m/s2, and angular velocity, rad/s, f4
        (N, 3), IMU frame. N is 0 where the sweep holds none.
    """
    names = ("IMU_TIMESTAMP", "IMU_ACC", "IMU_GYRO")
    if not all(scan.has_field(name) for name in names):
        return np.zeros(0), np.zeros((0, 3), "f4"), np.zeros((0, 3), "f4")
    stamps, acc, avel = (np.asarray(scan.field(name)) for name in names)
    # The lowest bit of a status says that the measurement arrived.
    arrived = np.asarray(scan.field("IMU_STATUS")) & 1 if scan.has_field("IMU_STATUS") else np.ones(len(stamps))
    kept = (arrived != 0) & (stamps > 0)
    return stamps[kept].astype("f8"), acc[kept], avel[kept]


def imu_packets(capture: Path, metadata: Path | None) -> Iterator[tuple[int, core.ImuPacket]]:
    """The packets of IMUs in a `.pcap`, in order, with the number of the sensor. It raises the errors of ouster-sdk."""
    for number, packet in open_packet_source(str(capture), **_meta(metadata)):
        if isinstance(packet, core.ImuPacket):
            yield number, packet


def measured(packet: core.ImuPacket) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a packet of the IMU holds: times of the host, f8 (N,) s, acceleration, m/s2, and angular velocity, rad/s.

    A packet of newer firmware holds several measurements; the host time is that of the last one.
    """
    stamps = packet.timestamp()
    age = (stamps[-1] - stamps).astype("f8")
    return (packet.host_timestamp - age) / 1e9, packet.accel(), packet.gyro()


class PacketDecoder:
    """Sweeps and measurements from the packets of one sensor, by ouster-sdk, as it makes them of a `.pcap`.

    Args:
        metadata: content of the sensor's `.json`.

    Attributes:
        info: description of the sensor.
        strangers: packets that were left out because they are of another sensor.

    Raises:
        ValueError: it is no metadata of a sensor.
    """

    def __init__(self, metadata: str) -> None:
        with naming("is no metadata of an Ouster", Exception, made=ValueError):
            self.info = sensor_info(metadata)
            self._format = core.PacketFormat(self.info)
            self._batcher = core.FrameBatcher(self.info)
        self.strangers = 0
        self._frame: core.LidarFrame | None = None

    def frame(self, data: np.ndarray, ns: int) -> core.LidarFrame | None:
        """The sweep that a packet completes, if it does.

        Args:
            data: u1 (N,), a packet with points; ns: when the host received it, since 1970.

        Raises:
            ValueError: it has another size than the metadata says, or cannot be decoded.
        """
        packet = core.LidarPacket(self._format)
        if not self._fill(packet, self._format.lidar_packet_size, data, ns):
            return None
        frame = self._frame = self._frame or core.LidarFrame(self.info)
        with naming("cannot be decoded", Exception, made=ValueError):  # ouster-sdk raises a dozen types
            if not self._batcher.batch(packet, frame):
                return None
        self._frame = None
        return frame

    def last(self) -> core.LidarFrame | None:
        """The sweep that is left when there are no more packets, which may not be whole."""
        frame, self._frame = self._frame, None
        return frame if frame is not None and self._batcher.batched_packets() else None

    def measured(self, data: np.ndarray, ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """What a packet of the IMU holds, see `measured`; arguments and errors as those of `frame`."""
        packet = core.ImuPacket(self._format)
        if not self._fill(packet, self._format.imu_packet_size, data, ns):
            return None
        with naming("cannot be decoded", Exception, made=ValueError):
            return measured(packet)

    def _fill(self, packet: core.Packet, size: int, data: np.ndarray, ns: int) -> bool:
        # Old versions of the driver send a byte too many.
        if len(data) not in (size, size + 1):
            raise ValueError(f"is a packet of {len(data):,} bytes; by the metadata of its sensor it has {size:,}")
        packet.buf[:] = data[:size]
        packet.host_timestamp = ns
        packet.format = self._format
        if packet.validate(self.info, self._format) != core.PacketValidationFailure.NONE:
            self.strangers += 1
            return False
        return True


def _meta(metadata: Path | None) -> dict[str, Any]:
    return {"meta": [str(metadata)]} if metadata else {}
