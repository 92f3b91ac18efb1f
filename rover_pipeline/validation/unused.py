"""Raw sensors of which nothing is made, and why: they must not be overlooked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rover_pipeline.engine.instances import declared_for, instances, sensor_of, type_of
from rover_pipeline.engine.step import OPTIONAL
from rover_pipeline.errors import one_line
from rover_pipeline.format.rig import TYPES, Rig
from rover_pipeline.format.sensor import TS, VALID
from rover_pipeline.format.trace import channels_of
from rover_pipeline.table import TABLE


def unused_sensors(trace: Path) -> Iterator[str]:
    """One line for each raw sensor whose samples no step of the table can read, with the reason.

    The times of each sensor are matched with those of the others all the same.
    """
    rig, has = Rig(trace), channels_of(trace)
    for sensor, type in rig.types.items():
        place = one_line(str(trace / sensor))
        if not type:
            known = ", ".join(TYPES)
            yield (
                f"{place}: gives no result but its place in _sync: neither config.yaml nor its channels say that it is "
                f"one of {known}, or its name has more than letters, digits, `_` and `-`; say its `type`, rename it or "
                "make a step of your own for it"
            )
            continue
        needed = _channels(sensor, type, rig)
        if any(all(has(f"{sensor}/{channel}") for channel in each) for each in needed):
            continue
        if needed:
            ways = " or ".join(dict.fromkeys(" and ".join(each) for each in needed))
            yield f"{place}: gives no result but times, poses and its place in _sync: the {type} lacks {ways}"
        else:
            yield f"{place}: gives no result but its place in _sync: no step reads the samples of a {type}"


def _channels(sensor: str, type: str, rig: Rig) -> list[list[str]]:
    """For each step that reads samples of a sensor, the channels without which it is not made."""
    found = []
    for step in TABLE.values():
        if type_of(step.sensor) not in ("", type) or step.unfit:
            continue
        for product in instances(step.sensor, rig):
            if type_of(step.sensor) and sensor_of(step, product) != sensor:
                continue
            read = declared_for(step, product, rig)
            entries = {entry for entry in read.references() if not entry.endswith(OPTIONAL)} - {*read.files.values()}
            channels = sorted(entry.partition("/")[2] for entry in entries if entry.startswith(f"{sensor}/"))
            if not read.unfit and (needed := [each for each in channels if each not in (TS, VALID)]):
                found.append(needed)
    return found
