"""The options of each recording of a run, and the steps and stamps that follow from them.

Most recordings of a run have the same options, and so a run has one set of rules. Where recordings remember different
ones, each is one job (`recordings.py`) with rules of its own, and the run that plans these jobs looks at
each recording by a copy of itself that has its options (`Worlds.of`).
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from rover_pipeline.config import Config
from rover_pipeline.engine.instances import Roles, reads_type, sensor_of, type_of
from rover_pipeline.engine.step import MAIN, REFERENCE, Step
from rover_pipeline.errors import ConfigError, RoverError, short_text
from rover_pipeline.format.failures import MEMORY, read_memory, write_memory
from rover_pipeline.format.files import STAMP
from rover_pipeline.format.rig import TYPES
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.table import find_step

# Which options a run takes from a recording, and which it leaves there for the next one.
#
# What the user gives comes before what the recording remembers, option by option. What a recording says is validated,
# and what names a file, an address or code is neither remembered nor taken: a folder that was downloaded makes nobody
# open files or run programs. Options are kept by their names with dots: `odometry.world`.

#: Sections and options that change no bytes of our results, or can name files, addresses or code. `extra` is for rules
#: that a user names in each run; a calibration is remembered by its content.
_OF_A_RUN = (
    *("dask", "export", "exports", "extra", "extra_rules", "output_root", "outputs", "plan", "reset_config", "traces"),
    *("camera.model.path", "camera.model.digest"),
)


def kept(remembered: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a recording remembers of options that the user says nothing of."""
    replaced = {each for each in remembered if _below(each, given) or any(_below(name, [each]) for name in given)}
    return {name: value for name, value in sorted(remembered.items()) if name not in replaced}


def recalled(results: Path) -> dict[str, Any]:
    """The options that a recording remembers. Raises ConfigError for ones it cannot give, FormatError for damage."""
    options = flat(read_memory(results))
    try:
        if refused := next((name for name in options if not is_remembered(name)), ""):
            raise ConfigError(f"config: {refused}: is not taken from a recording")
        Config.parse(nested(options))
    except ConfigError as error:
        hint = "give --reset-config (snakemake: --config reset_config=true) to forget what is remembered there"
        raise ConfigError(f"{results / MEMORY}: {error}; {hint}") from error
    return options


def flat(options: Mapping[str, Any], begin: str = "") -> dict[str, Any]:
    """Options by their names with dots, from sections within sections."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        found |= flat(value, f"{begin}{key}.") if isinstance(value, Mapping) else {f"{begin}{key}": value}
    return found


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Sections within sections, from options by their names with dots."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        *sections, last = name.split(".")
        level = found
        for each in sections:
            level = level.setdefault(each, {})
            if not isinstance(level, dict):
                raise ConfigError(f"config: {name}: is no option of a section")
        level[last] = value
    return found


@functools.cache
def _defaults() -> dict[str, Any]:
    return flat(Config().model_dump(mode="json"))


def _differs(name: str, value: object) -> bool:
    return name not in _defaults() or value != _defaults()[name]


def is_remembered(name: str) -> bool:
    if name.startswith("instances."):  # of a sensor: what the same option is for all of its type
        return all(is_remembered(f"{type}.{name.split('.', 2)[-1]}") for type in TYPES)
    # Instead of its content a calibration, or a rig, could have the name of a file.
    return not _below(name, _OF_A_RUN) and name not in ("radar.calibration", "rig")


def _below(name: str, others: Any) -> bool:
    """Whether an option is one of others, or in a section among them."""
    return any(f"{name}.".startswith(f"{other}.") for other in others)


class Worlds:
    """The options of the recordings of a run, `config`."""

    def __init__(self, values: Mapping[str, Any], typed: Mapping[str, Any]) -> None:
        self.config = Config.parse(values)
        named, options = flat(typed), flat(self.config.model_dump(mode="json"))
        #: what the user gave: what differs from the defaults, and what was typed on the command line though it is one.
        self.given = {name: each for name, each in options.items() if _differs(name, each) or _below(name, named)}
        self.made: dict[str, str] = {}  #: virtual sensor that a rule makes -> its stamp.
        self.steps: dict[str, Step] = {}  #: the same -> its step.
        self.mixed = False  #: whether recordings have different options.
        self._read: set[str] = set()  # sections that rules took options from
        self._of_sensors: dict[tuple[str, str], Config] = {}
        self.declared: list[str] = []  #: names of the steps that rules make.
        self._remembered: dict[Path, dict[str, Any]] = {}  # options that are taken from each recording
        self._others: dict[str, Self] = {}
        self._before: dict[Path, dict[str, Any]] = {}

    def recall(self, traces: dict[Path, Path], refused: list[str]) -> None:
        """Take what recordings remember. One whose memory cannot be used goes from `traces` to `refused`; it is a
        RoverError where it is the only one."""
        for results in list(traces):
            try:
                known = {} if self.config.reset_config else kept(recalled(results), self.given)
                if known not in self._remembered.values():
                    self._configured(known)
                self._remembered[results] = known
            except RoverError as error:
                if len(traces) + len(refused) == 1:
                    raise
                refused.append(str(error))
                del traces[results]
        first, *others = self._remembered.values() or ({},)
        self.mixed = any(each != first for each in others)
        self.config = self.config if self.mixed else self._configured(first)

    def report_recalled(self) -> None:
        """Say which options are taken from recordings."""
        groups: dict[tuple[str, ...], list[Path]] = {}
        for results, known in self._remembered.items():
            texts = tuple(f"{name}={json.dumps(value)}" for name, value in known.items())
            groups.setdefault(texts, []).append(results)
        for texts, (first, *others) in groups.items():
            if text := " ".join(short_text(each, 80) for each in texts):
                whose = f"{first} and {len(others)} more remember" if others else f"{first} remembers"
                text = f"{whose} options: {short_text(text, 300)} (--reset-config forgets them)"
                print(f"rover-pipeline: {text}", file=sys.stderr)

    def remember(self, results: Path) -> None:
        """Keep the options of a recording with its results."""
        try:
            self._before.setdefault(results, {} if self.config.reset_config else read_memory(results))
            made_with = flat(self.of(results).config.model_dump(mode="json")).items()
            write_memory(results, {key: each for key, each in made_with if _differs(key, each) and is_remembered(key)})
        except OSError as error:
            text = f"{results / MEMORY}: cannot be written ({error.strerror}); give the same options next time"
            print(f"rover-pipeline: {text}", file=sys.stderr)

    def put_back(self, results: Path) -> None:
        """Remember what was remembered before a run that failed, if no result has the options that it came with."""
        known = self._before.get(results, {})
        options = {**known, **{name: value for name, value in self.given.items() if not is_remembered(name)}}
        new = self.of(results).made
        old = self.having(Config.parse({**nested(options), "extra": self.config.extra})).made
        others = {name: stamp for name, stamp in new.items() if stamp != old[name]}
        if results in self._before and not any(os.path.exists(results / name / others[name]) for name in others):
            with suppress(OSError):
                write_memory(results, known)

    def of(self, results: Path) -> Self:
        """This run with the options of a recording."""
        if not self.mixed:
            return self
        key = json.dumps(known := self._remembered[results])
        if key not in self._others:
            self._others[key] = self.having(self._configured(known))
        return self._others[key]

    def having(self, config: Config) -> Self:
        """A copy of this run with other options."""
        other = copy.copy(self)
        other.config, other.made, other.steps, other._of_sensors = config, {}, {}, {}
        for name in self.declared:
            other.declare(name)
        return other

    def _configured(self, known: Mapping[str, Any]) -> Config:
        """The options of a recording that remembers some."""
        return Config.parse({**nested({**known, **self.given}), "extra": self.config.extra}) if known else self.config

    def enabled(self, name: str) -> bool:
        """Whether the option without which a step does not exist is set. No recording remembers such options."""
        option = find_step(name).shown.needs_option
        return option is None or bool(self.config.value(option[0]))

    def products(self, step: Step) -> list[str]:
        """The virtual sensors that a step gives in the recordings of the run: its own, and those of other names."""
        return [step.sensor]

    def step_for_options(self, name: str) -> Step:
        """A step, with what depends on its options filled in."""
        step = find_step(name)
        if not step.sensor.startswith("_"):
            raise ConfigError(f"step {name}: declares no `sensor` that begins with an underscore")
        if step.options and not step.sections:
            raise ConfigError(f"step {name}: takes `options`, but declares no `section` that gives them")
        for product in self.products(step):
            given = self.options_of_step(step, product)
            options = step.options.parse(given, step.sections[0]) if step.options else None
            self.steps[product] = step.for_options(options)
        return self.steps[step.sensor]

    def options_of_step(self, step: Step, product: str) -> dict[str, Any]:
        """Options of a step for one of its virtual sensors. Of sections around its own: those that its model has."""
        config = self.config_of(sensor_of(step, product), type_of(step.sensor))
        known = set(step.options.model_fields if step.options else ())
        known |= set(config.section(step.sections[0])) if step.sections else set()
        values = {key: value for key, value in self.options_of(step.sections, config).items() if key in known}
        return values | {option: {key: values[option][key] for key in keys} for option, keys in step.uses.items()}

    def config_of(self, sensor: str, type: str) -> Config:
        """The options for a sensor, which can have some of its own."""
        if not (own := self.config.instances.get(sensor)):
            return self.config
        if (sensor, type) not in self._of_sensors:
            given = flat({type: {name: value for name, value in own.items() if name != "rig"}})
            given |= flat({"rig": {type: own["rig"]}}) if "rig" in own else {}
            options = kept(flat(self.config.model_dump(mode="json")), given) | given
            as_named = {"extra": self.config.extra, "instances": self.config.instances}  # keys may have dots
            try:
                self._of_sensors[sensor, type] = Config.parse({**nested(options), **as_named})
            except ConfigError as error:
                raise ConfigError(f"config: instances.{sensor}: {str(error).removeprefix('config: ')}") from error
        return self._of_sensors[sensor, type]

    def rig_of(self, sensor: str, type: str, roles: Roles) -> RigOptions:
        """What the configuration states of poses, for a sensor. The pose of a type, and those of a named rig, are of
        the main sensor of the type: another one has its own, or none that is stated."""
        rig = self.config_of(sensor, type).rig
        if MAIN not in roles or "rig" in self.config.instances.get(sensor, {}):
            return rig
        return rig.model_copy(update={"name": None, **({type: None} if type in RigOptions.model_fields else {})})

    def options_of(self, sections: Sequence[str], config: Config | None = None) -> dict[str, Any]:
        """Options of a step: those of the first section, and each other one under the last part of its name."""
        if not sections:
            return {}
        config = config or self.config
        self._read.update(sections)
        others = {name.rpartition(".")[2]: config.value(name) for name in sections[1:]}
        return config.section(sections[0], around=True) | others

    @property
    def wanted_roles(self) -> dict[str, str]:
        """The sensors that the user wants to stand for their types."""
        odometry = self.config.odometry
        wanted = {"lidar": odometry.lidar, "imu": odometry.imu, REFERENCE: self.config.sync.reference}
        return {type: name for type, name in wanted.items() if name and isinstance(name, str)}

    def request(self, step: Step, product: str) -> dict[str, Any]:
        """What identifies a result: its options, and the policy for inputs that are not whole."""
        request = {"input": self.config.input.model_dump(), "options": self.options_of_step(step, product)}
        wanted = self.wanted_roles.items()
        return request | {type: name for type, name in wanted if type != REFERENCE and reads_type(step, type)}

    def declare(self, name: str) -> str:
        """Pattern of the stamps of a step's results, with the digest of their options.

        Where sensors of a type have options of their own, the digest is that of all of them.
        """
        step = self.step_for_options(name)
        products = self.products(step)
        requests = {product: self.request(step, product) for product in products}
        first, *others = requests.values()
        request = json.dumps(first if all(each == first for each in others) else requests, sort_keys=True)
        stamp = f"{STAMP}{hashlib.blake2b(request.encode(), digest_size=6).hexdigest()}"
        self.made.update(dict.fromkeys(products, stamp))
        return f"/{{trace}}/_{{product,{'|'.join(re.escape(each[1:]) for each in products)}}}/{stamp}"
