"""The raw sensors of a recording by their types: what each of them is, whatever it is called."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rover_pipeline.errors import FormatError, require_damage, short, unless_damaged
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, META, ChannelSpec, read_meta
from rover_pipeline.format.sensor import TS
from rover_pipeline.format.texts import read_collection, read_json

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
    """The raw sensors of the recording in the directory `path`. `types` gives the type of each sensor, sorted by name;
    it is "" where neither `config.yaml` nor its channels say it. They are given for one that is not there yet."""

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
        sections: dict[str, Any] = {}
        with unless_damaged():
            sections = read_collection(self.path)
        types = {name: str(each.get("type", "")).lower() for name, each in sections.items() if isinstance(each, dict)}
        return {name: type for name, type in types.items() if type in TYPES}

    def _find_type(self, sensor: str, declared: Mapping[str, str]) -> str:
        if not _NAME.fullmatch(sensor):
            return ""
        if sensor in declared:
            return declared[sensor]
        channels: set[str] = set()
        with unless_damaged():
            channels = {*read_meta(self.path / sensor)}
        return next((type for type, needed in _CHANNELS if needed <= channels), "")

    def _size(self, sensor: str, of: str = "") -> int:
        """Bytes of a sensor's files but for its times, or of the file `of`."""
        with suppress(OSError):
            if of:
                return os.stat(self.path / sensor / of).st_size
            return sum(each.stat().st_size for each in os.scandir(self.path / sensor) if each.name != TS)
        return 0


# What the channels of standard sensors look like: their types, and the shapes that sidecars and the format give them.
#
# Steps and `check` use the same rules. A sample whose axes are swapped has as many bytes as a right one, so nothing but
# the sidecar shows that it would be read wrongly.

_Shape = list[int]


class _Layout(NamedTuple):
    """Rules for a channel."""

    kind: str  #: of the numpy type: `i` or `u` for integers with or without a sign, `f` for floating point.
    #: from the content of the sidecar to the shapes that a sample can have; the format's own where no sidecar says it.
    shapes: Callable[[Any], list[_Shape]] | _Shape
    type: str = ""  #: of the sensor that has the sidecar.
    needed: bool = False  #: whether the channel means nothing without the sidecar.


def _radar_shapes(sidecar: Any) -> list[_Shape]:
    *axes, samples = _sizes(sidecar["shape"])
    return [[*axes, 2 * samples], [*axes, samples]]  # complex, or real


def _image_shapes(sidecar: Any) -> list[_Shape]:
    layout = sidecar.get("lidar_data_format") or sidecar["data_format"]  # new firmware, old firmware
    return [_sizes([layout["pixels_per_column"], layout["columns_per_frame"]])]


def _place_shapes(sidecar: Any) -> list[_Shape]:
    return [_sizes([sidecar["points"]["max_points"]])]


def _point_shapes(sidecar: Any) -> list[_Shape]:
    shapes = _place_shapes if "points" in sidecar else _image_shapes
    return [[*shape, 3] for shape in shapes(sidecar)]


def _sizes(values: Any) -> _Shape:
    """Sizes of axes, whole numbers above zero. Raises ValueError for others."""
    sizes = [int(value) for value in values]
    if any(size < 1 or size != value for size, value in zip(sizes, values, strict=True)):
        raise ValueError(f"sizes must be whole numbers above zero, are {short(values)}")
    if math.prod(sizes) > MAX_SAMPLE_BYTES:
        raise ValueError(f"sizes of {short(values)} are more than any sensor has")
    return sizes


#: Layout.
_IMAGE = _Layout("u", _image_shapes, "lidar")
_VECTOR = _Layout("f", [3])
#: Of a lidar that is points: one value for each of them.
_PLACE = _Layout("f", _place_shapes, "lidar")
_RULES: dict[str, dict[str, _Layout]] = {
    "radar": {"iq": _Layout("i", _radar_shapes, "radar", needed=True)},
    "lidar": {
        **{"rng": _IMAGE._replace(needed=True), "rfl": _IMAGE, "nir": _IMAGE},
        **{"rng2": _IMAGE, "rfl2": _IMAGE},
        "xyz": _Layout("f", _point_shapes, "lidar", needed=True),
        **{"intensity": _PLACE, "time": _PLACE, "ring": _PLACE._replace(kind="u"), "count": _Layout("u", [])},
    },
    "imu": {"rot": _VECTOR, "acc": _VECTOR, "avel": _VECTOR},
    "_lidar_image": {"rng": _IMAGE, "rfl": _IMAGE, "nir": _IMAGE},
    "_lidar_points": {"xyz": _Layout("f", _point_shapes, "lidar"), "rfl": _IMAGE, "nir": _IMAGE},
}


def layout_problems(
    trace: Path, sensor: str, specs: Mapping[str, ChannelSpec], *, missing_sidecars: bool
) -> Iterator[str]:
    """Why channels of a sensor cannot be what they are called, one line for each problem. `specs`: channel ->
    description, of those to look at; `missing_sidecars`: whether a sidecar that does not exist is a problem."""
    contents: dict[str, Any] = {}
    rig = Rig(trace)
    declared = sensor if sensor in _RULES else rig.declared(sensor)
    for name, layout in _RULES.get(declared, {}).items():
        if name not in specs:
            continue
        shape, path = list(specs[name].shape), trace / sensor / name
        if specs[name].dtype.kind != layout.kind:
            yield f"{path}: is {specs[name].type}, must be {layout.kind}{specs[name].dtype.itemsize}; correct meta.json"
        if not callable(layout.shapes):
            if shape != layout.shapes:
                yield f"{path}: has samples of {shape}, must be of {layout.shapes}; correct meta.json"
            continue
        raw = sensor.removeprefix("_")[: len(layout.type) + len(sensor) - len(declared)]
        sidecar = trace / raw / rig.sidecar(raw)
        try:
            if layout.type not in contents:
                contents[layout.type] = read_json(sidecar)
            allowed = layout.shapes(contents[layout.type])
        except FileNotFoundError:
            if missing_sidecars and layout.needed:
                yield f"{sidecar}: is missing; it says what the samples of {name} mean"
            continue
        except FormatError as error:
            require_damage(error)
            yield str(error)
            return
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            yield f"{sidecar}: is not what a {layout.type} sidecar must be: {short(error, 200)}"
            return
        if shape not in allowed:
            yield f"{sidecar}: describes samples of {allowed[0]}, {name} holds {shape}; correct the one that is wrong"
