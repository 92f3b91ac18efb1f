"""Writes `lidar` and `imu` from the packets of an Ouster, decoded by ouster-sdk as those of a `.pcap` are.

The module is loaded when a recording has such packets: ouster-sdk takes long to import.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rover_pipeline.errors import FormatError, counted, naming
from rover_pipeline.format.texts import read_text
from rover_pipeline.importers.ouster import FrameWriter, ImuWriter, end_of_sweep, imu_mount, require_sidecar
from rover_pipeline.importers.ros.sinks import Sink
from rover_pipeline.lidar.captures import PacketDecoder


class OusterSink(Sink):
    """Packets with points. A sweep has the time at which its last packet was recorded. `source` is the topic, for
    messages. Raises ValueError where `metadata`, the content of the sensor's `.json`, is none of a sensor."""

    def __init__(self, folder: Path, metadata: str, source: str) -> None:
        super().__init__(folder)
        self._decoder = PacketDecoder(metadata)
        self._writer = FrameWriter(folder, self._decoder.info, source)

    def add(self, ns: int, prepared: dict[str, Any]) -> None:
        self._put(self._decoder.frame(prepared["buf"], ns))

    def close(self) -> None:
        self._put(self._decoder.last())
        self._writer.close()
        if self._decoder.strangers and not self.count:
            problem = f"its {self._decoder.strangers} packets are of another sensor than the metadata describes"
            raise FormatError(f"{self._writer.where}: {problem}; --meta FILE gives that of the sensor")
        self.notes += self._writer.notes
        if self._decoder.strangers:
            self.notes.append(f"left out: {counted(self._decoder.strangers, 'packet')} of another sensor")

    def _put(self, frame: Any) -> None:
        if frame is not None and self._writer.put(end_of_sweep(frame), frame):
            self.count += 1


class OusterImuSink(Sink):
    """Packets of the IMU of an Ouster. Arguments and errors as those of `OusterSink`."""

    def __init__(self, folder: Path, metadata: str) -> None:
        super().__init__(folder)
        self._decoder = PacketDecoder(metadata)
        self._writer = ImuWriter(folder)

    @property
    def mount(self) -> dict[str, Any]:
        """Its pose in the lidar frame, for the section `rig`, from the metadata."""
        return imu_mount(self._decoder.info)

    def add(self, ns: int, prepared: dict[str, Any]) -> None:
        if (values := self._decoder.measured(prepared["buf"], ns)) is not None:
            self._writer.append(*values)
        self.count = self._writer.count

    def close(self) -> None:
        self._writer.close()
        if self._decoder.strangers:
            self.notes.append(f"left out: {counted(self._decoder.strangers, 'packet')} of another sensor")


def sink_of(folder: Path, role: str, given: Path | None, text: str, source: str) -> Sink:
    """The sink of packets for the role `lidar` or `imu`, by the sensor's `.json`, or by its content `text` where that
    is not given. Raises FormatError where it is no metadata of a sensor."""
    if given is not None:
        require_sidecar(given)
        text = read_text(given)
    with naming(given or f"metadata beside the {source}", ValueError, limit=300):
        return OusterImuSink(folder, text) if role == "imu" else OusterSink(folder, text, source)
