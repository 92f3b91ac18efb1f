"""Captures of Ouster lidars, by ouster-sdk. Its readers take long to import, so they have this module of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ouster.sdk import core, open_packet_source, open_source


def open_capture(capture: Path, metadata: Path | None) -> core.FrameSetSource:
    """The sweeps of a `.pcap` or `.osf`, with the description of their sensors. It raises the errors of ouster-sdk.

    Args:
        metadata: the sensor's `.json`; None = the file that ouster-sdk finds beside the capture.
    """
    return open_source(str(capture), **_meta(metadata))


def imu_packets(capture: Path, metadata: Path | None) -> Iterator[core.ImuPacket]:
    """The packets of the IMU in a `.pcap`, in order. It raises the errors of ouster-sdk."""
    for _, packet in open_packet_source(str(capture), **_meta(metadata)):
        if isinstance(packet, core.ImuPacket):
            yield packet


def _meta(metadata: Path | None) -> dict[str, Any]:
    return {"meta": [str(metadata)]} if metadata else {}
