"""A recording as exports read it: by the names of types of sensors, whatever its own sensors are called."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rover_pipeline.engine.instances import Names, entry_of
from rover_pipeline.engine.step import OPTIONAL
from rover_pipeline.errors import FormatError
from rover_pipeline.format.files import exists
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance, run_command
from rover_pipeline.format.rig import TYPES, Rig
from rover_pipeline.format.sensor import Sensor
from rover_pipeline.format.trace import Trace
from rover_pipeline.lookup import load
from rover_pipeline.table import TABLE

if TYPE_CHECKING:
    from rover_pipeline.camera.lens import Lens
    from rover_pipeline.kinematics.mount import Mount


@dataclass(frozen=True)
class Recording:
    """A recording that is exported. Its methods take the names of types, such as `radar` and `_radar_points`.

    Attributes:
        name: unique among those of the export; letters, digits, `-` and `_` only.
        path: directory of its sensors, raw and virtual.
        wanted: the sensors that stand for their types; None = the main ones, and the lidar that `_odom` is of.
    """

    name: str
    path: Path
    wanted: Names | None = None

    @classmethod
    def of(cls, trace: Path) -> Recording:
        """The recording in a folder."""
        return cls(trace.resolve().name, trace)

    @cached_property
    def rig(self) -> Rig:
        """Its raw sensors."""
        return Rig(self.path)

    @cached_property
    def _names(self) -> Names:
        if self.wanted is not None:
            return self.wanted
        sensors = (read_provenance(self.path / "_odom") or {}).get("sensors")
        lidar = sensors.get("lidar") if isinstance(sensors, dict) else None
        return Names({type: self.rig.main(type, lidar if type == "lidar" else None) for type in TYPES}, self.rig)

    def each(self, *types: str) -> list[Recording]:
        """The recording itself, and as it is seen when each further sensor of the types stands for its type."""
        found = [Recording(self.name, self.path, names) for names in self._names.each(types)]
        return [self, *found[1:]]

    def each_of(self, sensor: str) -> list[Recording]:
        """The same for the type that a sensor, or what is made of it, is of."""
        return self.each(*(type for type in TYPES if f"{sensor.removeprefix('_')}_".startswith(f"{type}_")))

    def called(self, sensor: str) -> str:
        """The name that a sensor has here. One that the recording gives a sensor itself stays."""
        return self._names.sensor(sensor) if self.rig.declared(sensor) == sensor else sensor

    def folder(self, sensor: str) -> Path:
        """The folder of a sensor."""
        return self.path / self.called(sensor)

    def has(self, reference: str) -> bool:
        """Whether there is a channel, `sensor/channel`, or a file of a product, `_map/map.ply`."""
        return exists(self.file(reference))

    def file(self, reference: str) -> Path:
        """Path of a channel. Published traces keep a channel of some raw sensors in a copy of the sensor."""
        sensor, _, channel = self._names.reference(reference.removesuffix(OPTIONAL)).partition("/")
        folder = self.path / sensor
        return (Trace(self.path).source(sensor, channel).path if exists(folder / META) else folder) / channel

    def sensor(self, sensor: str, channel: str) -> Sensor:
        """The sensor that holds a channel."""
        return Trace(self.path).source(self.called(sensor), channel)

    def mount(self, sensor: str) -> Mount:
        """The pose of a sensor in the frame of the lidar."""
        return load("rover_pipeline.validation.rig:sensor_mount")(self.path, self.called(sensor))

    def lens(self) -> Lens:
        """The lens of the camera. Raises FormatError where its sidecar is missing, or is not the camera's."""
        return load("rover_pipeline.validation.rig:camera_lens")(self.path, self.called("camera"))

    def require(self, reference: str, format: str) -> None:
        """Raise FormatError, which says what to make and how, when a channel that the format needs is not there."""
        if self.has(reference):
            return
        sensor, _, channel = self._names.reference(reference).partition("/")
        if not sensor.startswith("_"):
            what = f"the raw sensor channel {sensor}/{channel}, which it lacks"
        elif unfit := self.unfit(reference):
            what = f"{sensor} ({channel}), which cannot be made: the recording {unfit}"
        else:
            mend = run_command(self.path, [sensor])
            what = f"the virtual sensor {sensor} ({channel}), which is not there; make it: {mend}"
        raise FormatError(f"{self.path}: export {format} needs {what}")

    def unfit(self, reference: str) -> str:
        """Why the virtual sensor of a reference can never be made of this recording; "" where it can."""
        entry = entry_of(TABLE, self.called(reference.partition("/")[0]), self.path)
        return entry.unfit if entry else ""
