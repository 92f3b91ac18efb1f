"""Results of our steps as inputs: their channels must be of the type and shape that the step declares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rover_pipeline.engine.instances import declared_for
from rover_pipeline.engine.step import Output, step_of_room
from rover_pipeline.errors import RoverError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.rig import Rig
from rover_pipeline.format.sensor import Sensor

_OURS = re.compile(r"rover_pipeline\.([a-z0-9_]+)\.[a-z0-9_.]+:[a-z0-9_]+")


class Kind(NamedTuple):
    """Type of a channel's samples without byte order, and their shape, where None stands for any size."""

    type: str
    shape: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        return f"{self.type} of [{', '.join('any' if size is None else str(size) for size in self.shape)}]"

    def fits(self, type: str, shape: tuple[int, ...]) -> bool:
        same = len(shape) == len(self.shape)
        return self.type == type and same and all(b in (None, a) for a, b in zip(shape, self.shape, strict=True))


def kinds(outputs: Mapping[str, Output]) -> dict[str, Kind]:
    """The kinds of the channels that a step declares, as far as it declares them."""
    return {name: Kind(out.type, out.shape) for name, out in outputs.items() if out.type}


def declared_problems(sensor: Sensor, channel: str) -> Iterator[str]:
    """Why a channel of one of our virtual sensors is not what the step declares that made it.

    Samples of another type or shape can have as many bytes: a step would read them as other values.
    """
    if not sensor.name.startswith("_") or channel not in sensor.specs:
        return
    rig = Rig(sensor.path.parent)
    ours = _OURS.fullmatch(str((read_provenance(sensor.path) or {}).get("step")))
    try:
        step = step_of_room(f"{ours[1]}/{rig.declared(sensor.name)}") if ours else None
        outputs = declared_for(step, sensor.name, rig).outputs if step else {}
    except (RoverError, AttributeError):  # it was made by a step of another version, which had another name
        return
    kind, spec = kinds(outputs).get(channel), sensor.specs[channel]
    if kind and not kind.fits(spec.type, spec.shape):
        yield (
            f"{sensor.path / channel}: is {spec.type} of {list(spec.shape)}, must be {kind}; remove {sensor.path} and "
            "make it again"
        )
