"""Checks of the channels of our virtual sensors: they exist, with the declared type, shape and description."""

from __future__ import annotations

from collections.abc import Iterator

from rover_pipeline.engine.declared import Kind, kinds
from rover_pipeline.format.provenance import PROVENANCE, read_provenance
from rover_pipeline.format.sensor import TS, VALID, Sensor
from rover_pipeline.format.trace import channels_of
from rover_pipeline.kinematics.state import State
from rover_pipeline.table import TABLE

#: Channels that a virtual sensor must have besides `ts` and `valid`. The truth of a simulation has the channels of the
#: odometry that is compared with it.
CHANNELS: dict[str, dict[str, Kind]] = {name: kinds(step.outputs) for name, step in TABLE.items() if step.outputs}
CHANNELS["_truth"] = {name: CHANNELS["_odom"][name] for name in State._fields}


def channels_made(sensor: Sensor) -> dict[str, Kind]:
    """Channels that one of our virtual sensors must have, of the kind of recording that it is in."""
    if sensor.name == "_sync":
        partners = [name for name in sensor.specs if name not in (TS, VALID) and not name.endswith("_dt")]
        return {each: kind for name in partners for each, kind in ((name, Kind("i4")), (f"{name}_dt", Kind("f4")))}
    if sensor.name not in TABLE or not TABLE[sensor.name].outputs:
        return CHANNELS.get(sensor.name, {})
    return kinds(TABLE[sensor.name].for_recording(channels_of(sensor.path.parent)).outputs)


def channel_problems(sensor: Sensor) -> Iterator[str]:
    """Channels of one of our virtual sensors that are missing, of another kind, or without a description."""
    provenance = read_provenance(sensor.path)
    if provenance is None:
        if sensor.name in CHANNELS:
            yield (
                f"{sensor.path}: has no {PROVENANCE} of ours, so its inputs are not known; if it is our result, move "
                "it away and run the workflow again"
            )
        return
    if VALID not in sensor.specs:
        yield f"{sensor.path}: has a {PROVENANCE} of ours but no channel valid"
    for name, kind in {TS: Kind("f8"), VALID: Kind("u1"), **channels_made(sensor)}.items():
        spec = sensor.specs.get(name)
        if spec is None and name not in (TS, VALID):
            yield f"{sensor.path}: lacks the channel {name}, {kind}; run the workflow again"
        elif spec is not None and not kind.fits(spec.type, spec.shape):
            yield f"{sensor.path / name}: is {spec.type} of {list(spec.shape)}, must be {kind}; run the workflow again"
    for name, spec in sensor.specs.items():
        text = spec.desc or spec.description or ""
        if not text:
            yield f"{sensor.path / name}: has no desc in meta.json; add one that says what the channel is"
        elif spec.shape and "[" not in text:
            yield f"{sensor.path / name}: its desc does not list the axes of {list(spec.shape)} in brackets"
