"""What the channels of standard sensors look like: their types, and the shapes that sidecars and the format give them.

Steps and `check` use the same rules. A sample whose axes are swapped has as many bytes as a right one, so nothing but
the sidecar shows that it would be read wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rover_pipeline.errors import FormatError, require_damage, short
from rover_pipeline.format.meta import MAX_SAMPLE_BYTES, ChannelSpec
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.texts import read_json

_Shape = list[int]


class _Layout(NamedTuple):
    """Rules for a channel.

    Attributes:
        kind: of the numpy type: `i` or `u` for integers with or without a sign, `f` for floating point.
        shapes: from the content of the sidecar to the shapes that a sample can have; the format's own shape where no
            sidecar says it.
        sidecar: path of the sidecar in the trace.
        needed: whether the channel means nothing without the sidecar.
    """

    kind: str
    shapes: Callable[[Any], list[_Shape]] | _Shape
    sidecar: str = ""
    needed: bool = False


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
_LIDAR = "lidar/lidar.json"
_IMAGE = _Layout("u", _image_shapes, _LIDAR)
_VECTOR = _Layout("f", [3])
#: Of a lidar that is points: one value for each of them.
_PLACE = _Layout("f", _place_shapes, _LIDAR)
_RULES: dict[str, dict[str, _Layout]] = {
    "radar": {"iq": _Layout("i", _radar_shapes, "radar/radar.json", needed=True)},
    "lidar": {
        **{"rng": _IMAGE._replace(needed=True), "rfl": _IMAGE, "nir": _IMAGE},
        **{"rng2": _IMAGE, "rfl2": _IMAGE},
        "xyz": _Layout("f", _point_shapes, _LIDAR, needed=True),
        **{"intensity": _PLACE, "time": _PLACE, "ring": _PLACE._replace(kind="u"), "count": _Layout("u", [])},
    },
    "imu": {"rot": _VECTOR, "acc": _VECTOR, "avel": _VECTOR},
    "_lidar_image": {"rng": _IMAGE, "rfl": _IMAGE, "nir": _IMAGE},
    "_lidar_points": {"xyz": _Layout("f", _point_shapes, _LIDAR), "rfl": _IMAGE, "nir": _IMAGE},
}


def layout_problems(
    trace: Path, sensor: str, specs: Mapping[str, ChannelSpec], *, missing_sidecars: bool
) -> Iterator[str]:
    """Why channels of a sensor cannot be what they are called, one line for each problem.

    Args:
        trace: directory of the recording, which has the sidecars.
        specs: channel -> description, of the channels to look at.
        missing_sidecars: whether a sidecar that does not exist is a problem.
    """
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
        type = layout.sidecar.partition("/")[0]
        raw = sensor.removeprefix("_")[: len(type) + len(sensor) - len(declared)]
        sidecar = trace / raw / rig.sidecar(raw)
        try:
            if layout.sidecar not in contents:
                contents[layout.sidecar] = read_json(sidecar)
            allowed = layout.shapes(contents[layout.sidecar])
        except FileNotFoundError:
            if missing_sidecars and layout.needed:
                yield f"{sidecar}: is missing; it says what the samples of {name} mean"
            continue
        except FormatError as error:
            require_damage(error)
            yield str(error)
            return
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            yield f"{sidecar}: is not what a {type} sidecar must be: {short(error, 200)}"
            return
        if shape not in allowed:
            yield f"{sidecar}: describes samples of {allowed[0]}, {name} holds {shape}; correct the one that is wrong"
