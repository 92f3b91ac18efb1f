"""Captures of Ouster lidars, by ouster-sdk. Its readers take long to import, so they have this module of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ouster.sdk import core, open_packet_source, open_source


def open_capture(capture: Path, metadata: Path | None) -> core.FrameSetSource:
    """The sweeps of a `.pcap` or `.osf`, with the description of their sensors. It raises the errors of ouster-sdk.

    Args:
        metadata: the sensor's `.json`; None = the file that ouster-sdk finds beside the capture.
    """
    return open_source(str(capture), **_meta(metadata))


def sensor_index(described: Sequence[core.SensorInfo], wanted: str | None) -> int:
    """Number of the sensor that is wanted, by its number or serial number; the only one unless several are there.

    Raises:
        ValueError: there are several and none is wanted, or there is no such sensor.
    """
    names = {str(number): number for number in range(len(described))}
    names |= {str(info.sn): number for number, info in enumerate(described) if info.sn}
    listed = ", ".join(f"{number} = {info.prod_line} {info.sn}" for number, info in enumerate(described))
    if wanted is None and len(described) == 1:
        return 0
    if wanted is None:
        raise ValueError(f"holds {len(described)} sensors; choose one by --sensor: {listed}")
    if wanted not in names:
        raise ValueError(f"has no sensor {wanted}; it holds {listed}")
    return names[wanted]


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


def imu_packets(capture: Path, metadata: Path | None, index: int = 0) -> Iterator[core.ImuPacket]:
    """The packets of the IMU of a sensor in a `.pcap`, in order. It raises the errors of ouster-sdk."""
    for number, packet in open_packet_source(str(capture), **_meta(metadata)):
        if number == index and isinstance(packet, core.ImuPacket):
            yield packet


def _meta(metadata: Path | None) -> dict[str, Any]:
    return {"meta": [str(metadata)]} if metadata else {}
