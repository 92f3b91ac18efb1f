"""The raw sensors of a recording by their types: what each of them is, whatever it is called."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rover_pipeline.errors import FormatError, require_damage
from rover_pipeline.format.collection import parse_collection
from rover_pipeline.format.meta import META, read_meta
from rover_pipeline.format.sensor import TS
from rover_pipeline.format.texts import read_text

#: Types of sensors that the workflow knows. A sensor that is called like one of them is of this type.
TYPES = ("lidar", "radar", "camera", "imu", "gnss")
#: Names that results can be called after: other ones mean something in the paths of rules.
_NAME = re.compile(r"[\w-]+")
#: Channels by which a sensor is known whose type nobody says.
_CHANNELS = (
    ("radar", {"iq"}),
    ("lidar", {"rng"}),
    ("camera", {"video.avi"}),
    ("imu", {"acc", "avel"}),
    ("gnss", {"lat", "lon"}),
    ("lidar", {"xyz"}),
)


class Rig:
    """The raw sensors of a recording.

    Args:
        path: directory of the recording.
        types: those of a recording that is not there yet; None = as it is found.

    Attributes:
        types: sensor -> its type; "" where neither `config.yaml` nor its channels say it. Sorted by name.
    """

    def __init__(self, path: Path, types: Mapping[str, str] | None = None) -> None:
        self.path = path
        if types is not None:
            self.types = dict(types)

    @functools.cached_property
    def types(self) -> dict[str, str]:
        """See above. A damaged `config.yaml` or `meta.json` says nothing here: what reads it reports it."""
        with suppress(OSError):
            found = (each.name for each in os.scandir(self.path) if each.name[0] not in "_.")
            names = sorted(name for name in found if os.path.lexists(self.path / name / META))
            declared = {} if set(names) <= {*TYPES} else self._declared()
            return {name: name if name in TYPES else self._find_type(name, declared) for name in names}
        return {}

    @functools.cached_property
    def is_usual(self) -> bool:
        """Whether each sensor is called like its type, or is of none that is known."""
        return all(name == type or not type for name, type in self.types.items())

    def of(self, type: str) -> list[str]:
        """The sensors of a type: the one that is called like it, then the others by name."""
        return sorted((name for name in self.types if self.types[name] == type), key=lambda name: (name != type, name))

    def main(self, type: str, wanted: str | None = None) -> str:
        """The sensor that stands for its type where a result takes one: `wanted` if it is of this type, else the one
        that is called like the type, else the one whose files are the largest: a lidar with the most returns.

        Returns the type itself where the recording has none.
        """
        found = self.of(type)
        if wanted in found:
            return str(wanted)
        if type in found or len(found) < 2:
            return (found or [type])[0]
        return max(found, key=self._size)  # the first by name of equals

    def reference(self, wanted: str = "") -> str:
        """The sensor whose samples those of the others are matched with: `wanted`, else the main one of the first type
        that the recording has samples of, else any sensor with samples."""
        order = [wanted, self.main(wanted) if wanted in TYPES else "", *map(self.main, TYPES), *self.types]
        return next((name for name in order if name in self.types and self._size(name, of=TS)), wanted or TYPES[0])

    def declared(self, sensor: str) -> str:
        """The name by which the format and the table of steps know a sensor, or what is made of it.

        `radar` and `_radar_points` for `radar_front` and `_radar_front_points`; another name is given back.
        """
        virtual, plain = sensor.startswith("_"), sensor.removeprefix("_")
        raw = "" if plain in TYPES else self.raw(sensor)
        return f"{'_' * virtual}{self.types[raw]}{plain[len(raw) :]}" if raw else sensor

    def raw(self, sensor: str) -> str:
        """The raw sensor, of a known type, that a sensor is or is called after; "" = none."""
        virtual, plain = sensor.startswith("_"), sensor.removeprefix("_")
        known = (name for name, type in self.types.items() if type)
        found = [name for name in known if plain == name or (virtual and plain.startswith(f"{name}_"))]
        return max(found, key=len, default="")

    def sidecar(self, sensor: str) -> str:
        """Name of the sidecar of a sensor: that of the sensor, or of its type where only this one is there."""
        own, folder = f"{sensor}.json", self.path / sensor
        if os.path.exists(folder / own) or not os.path.exists(folder / f"{self.types.get(sensor)}.json"):
            return own
        return f"{self.types[sensor]}.json"

    def _declared(self) -> dict[str, str]:
        """Types that `config.yaml` says, of those that we know."""
        try:
            sections = parse_collection(read_text(self.path / "config.yaml"))
        except OSError:
            return {}
        except FormatError as error:
            require_damage(error)
            return {}
        types = {name: str(each.get("type", "")).lower() for name, each in sections.items() if isinstance(each, dict)}
        return {name: type for name, type in types.items() if type in TYPES}

    def _find_type(self, sensor: str, declared: Mapping[str, str]) -> str:
        if not _NAME.fullmatch(sensor):
            return ""
        if sensor in declared:
            return declared[sensor]
        try:
            channels = {*read_meta(self.path / sensor)}
        except FormatError as error:
            require_damage(error)
            return ""
        return next((type for type, needed in _CHANNELS if needed <= channels), "")

    def _size(self, sensor: str, of: str = "") -> int:
        """Bytes of a sensor's files but for its times, or of the file `of`."""
        with suppress(OSError):
            if of:
                return os.stat(self.path / sensor / of).st_size
            return sum(each.stat().st_size for each in os.scandir(self.path / sensor) if each.name != TS)
        return 0
