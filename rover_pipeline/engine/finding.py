"""A step by its name, from the table of its room."""

from __future__ import annotations

from rover_pipeline.engine.step import Step
from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.lookup import load


def step_of_room(name: str) -> Step:
    """The step `room/_sensor`, from the table of its room alone: a job need not import the tables of all rooms.

    Raises:
        ConfigError: there is no such room, or no such step in it.
    """
    room, _, sensor = name.partition("/")
    try:
        steps: dict[str, Step] = {step.sensor: step for step in load(f"rover_pipeline.{room}.table:STEPS")}
    except ModuleNotFoundError as error:
        raise ConfigError(f"step {name}: no room {room!r} has a table of steps") from error
    if sensor not in steps:
        raise ConfigError(f"step {name}: the table of {room} has no {sensor!r}; {did_you_mean(sensor, steps)}")
    return steps[sensor]
