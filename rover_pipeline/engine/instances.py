"""Steps for the sensors of a recording, which may have any names, and may be several of a type.

A step is declared once, for sensors that are called like their types: `_radar_points` reads `radar/iq`. For each other
sensor of the type it is the same step with other names: `radar_front` gives `_radar_front_points` from
`radar_front/iq`. Where it reads a sensor of another type, that is the main one of it; see `Rig.main`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from pydantic import ValidationError

from rover_pipeline.engine.step import EVERY, MAIN, OPTIONAL, REFERENCE, SEVERAL, Step, When
from rover_pipeline.errors import FormatError, require_damage
from rover_pipeline.format.rig import TYPES, Rig
from rover_pipeline.format.sensor import TS
from rover_pipeline.format.texts import parse_collection
from rover_pipeline.format.trace import CONFIG, Trace, channels_of
from rover_pipeline.lookup import load

if TYPE_CHECKING:
    from rover_pipeline.kinematics.mount import Mount

#: Type, or `REFERENCE` -> the sensor that stands for it. Those that are called like their type need not be in it.
Roles = Mapping[str, str]
#: Results that a recording with several sensors of the type has once, of all of them; see `Run.beside`.
OF_ALL = ("_radar_odom",)
_GROUPS = ("inputs", "nearest", "whole", "files", "constants")


def type_of(step: str, rig: Rig | None = None) -> str:
    """Type of the sensors of which each gives a result of a step, by the step's virtual sensor; "" = of none.

    `_radar_points` is made of each radar, `_odom` once for a recording, and `_radar_odom` once where a rig has several.
    """
    type = next((type for type in TYPES if step.startswith(f"_{type}_")), "")
    return "" if step in OF_ALL and rig is not None and len(rig.of(type)) > 1 else type


def instances(step: str, rig: Rig) -> list[str]:
    """The virtual sensors that a step gives in a recording: for each sensor of its type one, or the one declared."""
    type = type_of(step, rig)
    sensors = rig.of(type) if type else []  # those of no known type are of no step
    return [f"_{sensor}{step[len(type) + 1 :]}" for sensor in sensors] or [step]


def entry_of(table: Mapping[str, Step], sensor: str, trace: Path) -> Step | None:
    """The entry of a table by which a recording has a virtual sensor, for the sensors there; None = there is none."""
    rig = Rig(trace)
    name = rig.declared(sensor)
    return declared_for(table[name], sensor, rig) if name in table else None


def sensor_of(step: Step, product: str) -> str:
    """The raw sensor of which a step gives a virtual sensor; "" where it is made once for a recording."""
    type = type_of(step.sensor)
    return product[1 : len(product) - len(step.sensor) + len(type) + 1] if type else ""


def reads_type(step: Step, type: str) -> bool:
    """Whether a step reads a sensor of a type, or what is made of it."""
    return any(each.removeprefix("_").startswith((f"{type}/", f"{type}_")) for each in step.references())


def roles_of(step: Step, sensor: str, rig: Rig, wanted: Roles | None = None) -> dict[str, str]:
    """The sensors that stand for their types in a step that gives `sensor`, but for those called like their type.

    Args:
        wanted: the main sensors that the user wants.
    """
    wanted, roles = wanted or {}, {}
    if not rig.is_usual:
        roles = {type: rig.main(type, wanted.get(type)) for type in TYPES}
    if roles and (type := type_of(step.sensor, rig)) and sensor.endswith(step.sensor[len(type) + 1 :]):
        main, roles[type] = roles[type], sensor_of(step, sensor)
        if roles[type] != main:
            roles[MAIN] = main
    roles = {type: name for type, name in roles.items() if name != type}
    if any(each.startswith(f"{REFERENCE}/") for each in step.inputs.values()):
        roles[REFERENCE] = rig.reference(wanted.get(REFERENCE, ""))
    return roles


def for_sensors(step: Step, roles: Roles, rig: Rig) -> Step:
    """A step with the names of the sensors that stand for their types; see `roles_of`."""
    further = roles_of_others(step, roles, rig)
    if not roles and not further:
        return step
    has = channels_of(rig.path)
    others = {
        name: for_sensors(_read_of(step, rig.types[name]), own, rig).for_recording(has)
        for name, own in further.items()
        if not damage_of(name, rig.path)
    }
    names = Names(roles, rig)
    cost = step.run.cost and step.run.cost._replace(sensors=tuple(map(names.sensor, step.run.cost.sensors)))
    changed: dict[str, Any] = {name: names.mapping(getattr(step, name)) for name in _GROUPS}
    if MAIN in roles:  # it is called as it is, or, if that is the type, as the sensor that stands for this
        called = sensor_of(step, names.sensor(step.sensor)) if roles[MAIN] in TYPES else roles[MAIN]
        changed["constants"] = {key: called if each == MAIN else each for key, each in changed["constants"].items()}
    main, unfit, read = roles.get(MAIN), step.unfit, {each.removesuffix(OPTIONAL) for each in step.references()}
    if main and type_of(step.sensor) == "lidar" and "_odom/pos" in read and "_odom/lidars.json" not in read:
        unfit = f"has its trajectory, `_odom`, of another lidar, {main}"
    return replace(
        step,
        sensor=names.sensor(step.sensor),
        unfit=unfit,
        reads=tuple(map(names.reference, step.reads)),
        by_range=tuple(map(names.reference, step.by_range)),
        alternatives=tuple(names.alternative(each, bool(further)) for each in step.alternatives),
        run=replace(step.run, shares=names.sensor(step.run.shares), cost=cost),
        others=others,
        **changed,
    )


def _read_of(step: Step, type: str) -> Step:
    """The part of a step that reads a sensor of a type."""
    own, read = (f"{type}/", f"_{type}_", CONFIG), dict[str, Any](reads=())
    for group in ("inputs", "nearest", "whole", "files"):
        entries = getattr(step, group).items()
        read[group] = {name: each for name, each in entries if isinstance(each, str) and each.startswith(own)}
    if not step.run.recording:  # frames are those of the main sensor, or of another type
        read |= {"inputs": {}, "nearest": read["inputs"] | read["nearest"]}
    return replace(step, **read, run=replace(step.run, beside=()))


def damage_of(sensor: str, trace: Path) -> str:
    """Why a raw sensor cannot be read beside others; "" = it can. Then a result is made without it."""
    try:
        return "" if Trace(trace).sensor(sensor).length() else f"{sensor}/{TS} holds no samples"
    except FormatError as error:
        require_damage(error)
        return str(error).partition(". ")[0]


def roles_of_others(step: Step, roles: Roles, rig: Rig) -> dict[str, dict[str, str]]:
    """Of a step that reads all sensors of some types: the roles in which each but the main one stands for its type."""
    mains = {type: roles.get(type, type) for type in step.run.beside}
    return {
        name: {**roles, type: name, MAIN: main} for type, main in mains.items() for name in rig.of(type) if name != main
    }


def declared_for(step: Step, sensor: str, rig: Rig) -> Step:
    """The step as it gives `sensor` in a recording, with the main sensors of the recording itself."""
    return for_sensors(step, roles_of(step, sensor, rig), rig).for_recording(channels_of(rig.path))


def as_types(text: str, roles: Roles) -> str:
    """A `config.yaml` in which the sensors that stand for their types are called like these.

    Poses are in the frame of the main lidar then: a `rig` in which it has a pose itself is that of another lidar, which
    has none. The poses of a rig that is named there are of the main sensors, and left out for other ones.

    Raises:
        FormatError: it is no YAML.
    """
    sections, lidar = parse_collection(text), roles.get("lidar", "lidar")
    if _type_in(sections, roles.get(MAIN, "")) == "lidar":
        lidar = roles[MAIN]  # the step is for another one
    mounts = sections.get("rig")
    if isinstance(mounts, Mapping) and isinstance(mounts.get(lidar), Mapping):
        lidars = [name for name in sections if _type_in(sections, name) == "lidar" and name != lidar]
        sections = {**sections, "rig": _seen_from(lidar, {**{name: {} for name in lidars}, **mounts})}
    elif not roles.keys() & {*TYPES}:
        return text
    renamed = called_as_types(sections, roles)
    mounts = renamed.get("rig")
    if isinstance(mounts, Mapping):
        kept = {name: each for name, each in mounts.items() if MAIN not in roles or name != "name"}
        renamed["rig"] = called_as_types(kept, roles)
    elif MAIN in roles:
        renamed.pop("rig", None)
    return yaml.safe_dump(renamed, sort_keys=False)


def _type_in(sections: Mapping[str, Any], sensor: str) -> str:
    section = sections.get(sensor)
    return str(section.get("type", "")) if isinstance(section, Mapping) else ""


def _seen_from(lidar: str, mounts: Mapping[str, Any]) -> dict[str, Any]:
    """The poses of a section `rig` in the frame of a lidar that has one there, in which this has none.

    Entries that are no poses stay: whoever reads them says what is wrong.
    """
    written = load("rover_pipeline.kinematics.mount:mount_entry")
    poses = {name: pose for name, each in mounts.items() if (pose := _mount(each)) is not None}
    if (origin := poses.get(lidar)) is None:
        return dict(mounts)
    found = {name: each for name, each in mounts.items() if name != lidar}
    for name in found.keys() & poses.keys():
        seen = poses[name].seen_from(origin)
        covariance = {} if seen.covariance is None else {"covariance": seen.covariance.tolist()}
        found[name] = written(seen) | covariance
    return found


def _mount(entry: Any) -> Mount | None:
    """The pose that an entry of `rig` states, as it stands there; None where it is none."""
    try:
        stated = load("rover_pipeline.kinematics.options:MountOptions").model_validate(entry)
    except ValidationError:
        return None
    covariance = None if stated.covariance is None else np.array(stated.covariance)
    pose = np.array(stated.translation), np.array(stated.rotation), "config.yaml", stated.time_offset, covariance
    return load("rover_pipeline.kinematics.mount:Mount")(*pose)


def with_names(message: str, roles: Roles) -> str:
    """A message of a step, which knows sensors by their types, with the names of those that stand for them."""
    for type, sensor in roles.items():
        if type in TYPES:
            message = re.sub(rf"(?<![\w./`-]){type}(?=[/:]|\.args\b)", sensor, message)
            message = message.replace(f"where the {type} is", f"where {sensor} is")
            message = message.replace(f"`_{type}_times`", f"`_{sensor}_times`")
            message = re.sub(rf"\brig\.{type}\b", f"instances.{sensor}.rig", message)
    return message


def called_as_types(values: Mapping[str, Any], roles: Roles) -> dict[str, Any]:
    """Values by sensor, where those that stand for their types are called like these. One that is called like a type
    and does not stand for it takes the other's name."""
    others = {type: name for type, name in roles.items() if type in TYPES}
    names = {name: type for type, name in others.items()}
    return {names.get(name) or others.get(name, name): value for name, value in values.items()}


class Names:
    """The names of sensors in the place of those of their types. What it is given are names by which the table knows
    sensors: of the name of a sensor it would make another one."""

    def __init__(self, roles: Roles, rig: Rig) -> None:
        self._roles = {type: sensor for type, sensor in roles.items() if type != MAIN}
        self._rig = rig

    def each(self, types: Iterable[str]) -> Iterator[Names]:
        """These names, and for each further sensor of the types those in which it stands for its type."""
        yield self
        for type in types:
            for sensor in self._rig.of(type):
                if sensor != self.sensor(type):
                    yield Names({**self._roles, type: sensor}, self._rig)

    def sensor(self, name: str) -> str:
        """A raw sensor, a virtual one that is made of it, or its published copy."""
        virtual, plain = name.startswith("_"), name.removeprefix("_")
        if type_of(name) != type_of(name, self._rig):
            return name
        for type, sensor in self._roles.items():
            if plain == type or (virtual and plain.startswith(f"{type}_")):
                return f"{'_' * virtual}{sensor}{plain[len(type) :]}"
        return name

    def reference(self, reference: str) -> str:
        """A channel or sidecar, `sensor/channel`."""
        name, _, channel = reference.partition("/")
        if not channel or name == EVERY:
            return reference
        sensor, file = self.sensor(name), channel.removesuffix(OPTIONAL)
        if sensor != name and file == f"{name}.json":
            channel = self._rig.sidecar(sensor) + channel[len(file) :]
        if name == "_sync":  # its channels are called like the sensors
            channel = self.sensor(channel)
        return f"{sensor}/{channel}"

    def mapping(self, references: Mapping[str, Any]) -> dict[str, Any]:
        return {argument: self._value(entry) for argument, entry in references.items()}

    def _value(self, entry: Any) -> Any:
        if isinstance(entry, tuple):
            return tuple(map(self._value, entry))
        if not isinstance(entry, str):
            return entry
        # A constant that is a type stays: it says which options concern the sensor.
        return self.reference(entry) if "/" in entry else self._roles.get(entry, entry) if entry == REFERENCE else entry

    def alternative(self, when: When, several: bool) -> When:
        changes = {name: self.mapping(value) if name in _GROUPS else value for name, value in when.changes.items()}
        instead = {self.reference(channel): self.mapping(each) for channel, each in when.instead.items()}
        has, lacks = (tuple(map(self.reference, each)) for each in (when.has, when.lacks))
        has = tuple(each for each in has if each != SEVERAL or not several)
        return replace(when, changes=changes, instead=instead, has=has, lacks=lacks)
