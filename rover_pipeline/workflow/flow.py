"""What the Snakemake rules look up: recordings, inputs, outputs, options and commands. No maths, no processing.

`rules/common.smk` gives these methods the short names that rules are written in.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from rover_pipeline.caches import can_be_written
from rover_pipeline.config import Config
from rover_pipeline.engine.instances import Roles, for_sensors, instances, roles_of, roles_of_others, sensor_of, type_of
from rover_pipeline.engine.step import Has, Step
from rover_pipeline.errors import ConfigError, FormatError, InTheWayError, RoverError, did_you_mean
from rover_pipeline.format.attempt import PARTIAL, remove_left
from rover_pipeline.format.meta import META
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.rig import TYPES, Rig
from rover_pipeline.format.texts import read_text
from rover_pipeline.format.trace import CONFIG, channels_of, has_files, is_empty, locate_traces
from rover_pipeline.format.virtual import discard, in_the_way
from rover_pipeline.options import DASK_VARIABLE
from rover_pipeline.table import TABLE, asked_outputs
from rover_pipeline.workflow.launch import python
from rover_pipeline.workflow.needs import Needs, StepInput, kept, made_by, refusal, untrue, withdraw
from rover_pipeline.workflow.worlds import Worlds


class Flow(Worlds):
    """The configuration and the recordings of one run of the workflow."""

    #: Output of the rule that all rules of the table are derived from: no file of this name is ever made.
    pattern = "/{trace}/_{product}/.pattern"
    #: Sensors of the simulated recording, which may not exist yet.
    demo_sensors: tuple[str, ...] = ("camera", "imu", "lidar", "radar")

    def __init__(
        self,
        values: Mapping[str, Any],  # of the configuration.
        folder: Path | None = None,  # that relative paths start from; None = the working directory.
        *,
        locate: bool = True,  # False = look for no recordings, in a job that is given its own one.
        # What of the values the user gave on the command line, even if it is the default.
        typed: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(values, typed)
        #: directory of results -> names of the outputs that are asked for, once `targets` has been called.
        self.wanted: dict[Path, list[str]] = {}
        self._pending: dict[Path, list[str]] = {}
        self.datasets: list[str] = []  #: directories of those that are asked for, once `Exports.targets` was called.
        #: virtual sensor, or folder -> the input of its rule; none of a rule that lists its files by itself.
        self.inputs: dict[str, StepInput] = {}
        self.needs_of = Needs(self, set(), {})
        self._channels: dict[Path, Has] = {}
        self._rigs: dict[Path, Rig] = {}
        self.started = time.time()  #: seconds since the epoch.
        here = folder or Path.cwd()
        self.demo = here / "demo"
        #: directory that results go to -> that of the recording; messages about recordings that cannot be processed.
        self.traces, self.refused = find_recordings(self.config, here, self.demo) if locate else ({}, [])
        self.recall(self.traces, self.refused)
        os.environ[DASK_VARIABLE] = self.config.dask.model_dump_json()

    def having(self, config: Config) -> Self:
        other = super().having(config)
        other.inputs = {sensor: StepInput(other, sensor) for sensor in self.inputs}
        other.needs_of = Needs(other, self.needs_of.others, self.needs_of.notes)
        return other

    def is_demo(self, results: Path) -> bool:
        """Whether a recording is the simulated one, whose sensors may not exist yet."""
        return self.config.traces is None and results == self.demo

    @property
    def simulates(self) -> bool:
        """Whether the recording has to be simulated, and odometry is among what is made of it."""
        is_there = os.path.exists(self.demo / CONFIG)
        return self.is_demo(self.demo) and not is_there and "odom" in self.wanted.get(self.demo, ())

    @staticmethod
    @functools.cache
    def results(wildcard: str) -> Path:
        """The directory of results that the wildcard `trace` of a rule stands for."""
        return Path("/") / wildcard

    def source(self, results: Path) -> Path:
        """The directory of the recording whose results go to `results`."""
        return self.traces.get(results, results)

    # --- A rule that the table declares --------------------------------------------------------------------------

    def needs(self, name: str) -> StepInput:
        """Input of a rule: everything that a step declares to read. `name`: see `find_step`."""
        step = self.step_for_options(name)
        for product in self.products(step):
            self.inputs.setdefault(product, StepInput(self, product))
        return self.inputs[step.sensor]

    def products(self, step: Step) -> list[str]:
        type = type_of(step.sensor)
        return [step.sensor, *(f"_{name}{step.sensor[len(type) + 1 :]}" for name in self._renamed.get(type, ()))]

    @functools.cached_property
    def _renamed(self) -> dict[str, list[str]]:
        """Type -> the sensors of all recordings that are of the type and called otherwise. Raises ConfigError where a
        name stands for several types, and the names of results would too."""
        found: dict[str, tuple[str, Path]] = {}
        for results in self.traces:
            rig = self.rig(results)
            for name, type in () if rig.is_usual else rig.types.items():
                other, first = found.setdefault(name, (type, rig.path)) if type else ("", rig.path)
                if type != other:
                    what = f"{name!r} is a {type} here and a {other} in {first}"
                    raise ConfigError(f"{rig.path}: {what}; process the two recordings in runs of their own")
        return {type: sorted(name for name in found if found[name][0] == type != name) for type in TYPES}

    def rig(self, results: Path) -> Rig:
        """The raw sensors of a recording."""
        if results not in self._rigs:
            known = dict(zip(self.demo_sensors, self.demo_sensors, strict=True)) if self.is_demo(results) else None
            self._rigs[results] = Rig(self.source(results), known)
        return self._rigs[results]

    def roles(self, product: str, results: Path) -> dict[str, str]:
        """The sensors of a recording that stand for their types where a virtual sensor is made."""
        return roles_of(self.steps[product], product, self.rig(results), self.wanted_roles)

    @kept
    def step_of(self, product: str, results: Path) -> Step:
        """The step of a virtual sensor for the sensors of a recording."""
        step = for_sensors(self.steps[product], self.roles(product, results), self.rig(results))
        return step.for_recording(self.channels(results))

    def makes(self, name: str) -> list[str]:
        """Output of a rule: the stamp of the virtual sensor, or folder of files, that a step declares to make."""
        self.declared.append(name)
        return [self.declare(name)]

    def step_name(self, wildcards: Any) -> str:
        """Parameter of a rule: the name of the step that makes the output, as `rover-pipeline step` takes it."""
        step = self.steps[f"_{wildcards.product}"]
        room = step.name.split(".")[1] if step.sensor in TABLE else ""
        if room == "report":  # declared with the table of all
            return step.sensor
        return f"{room}/{step.sensor}" if room else step.name

    def step_version(self, wildcards: Any) -> int:
        """Parameter of a rule: the version of the step that makes the output."""
        return self.steps[f"_{wildcards.product}"].version

    def step_options(self, wildcards: Any) -> str:
        """Parameter of a rule: all that may change its result, as JSON, and where the recording is."""
        product, results = f"_{wildcards.product}", self.results(wildcards.trace)
        roles = self.roles(product, results)
        where = {"recording": str(self.source(results)), **({"sensors": roles} if roles else {})}
        step = self.steps[product]
        others = roles_of_others(step, roles, self.rig(results)) if (type := type_of(step.sensor)) else {}
        if others:  # of all sensors of the type, each with its own
            product, *names = (f"_{name}{step.sensor[len(type) + 1 :]}" for name in (roles.get(type, type), *others))
        request = self._stated(step, product, roles)
        if others:
            theirs = zip(others.items(), names, strict=True)
            request["options"]["others"] = {s: self._stated(step, each, own)["options"] for (s, own), each in theirs}
        return json.dumps({**request, **where}, sort_keys=True)

    def _stated(self, step: Step, product: str, roles: Roles) -> dict[str, Any]:
        """What identifies a result, with the poses that the configuration states."""
        request = self.request(step, product)
        if rig := request["options"].get("rig"):
            stated = self.rig_of(sensor_of(step, product), type_of(step.sensor), roles).model_dump(mode="json")
            request["options"]["rig"] = {key: stated[key] for key in rig}
        return request

    def command(self) -> str:
        """Shell command of a rule whose step, version and options are parameters."""
        return (
            f"{shlex.join(python('rover_pipeline'))} step {{params.step:q}} --trace /{{wildcards.trace:q}} "
            "--output {output:q} --request {params.options:q} --step-version {params.version} "
            "--threads {threads} --log {log:q}"
        )

    # --- What is asked for -----------------------------------------------------------------------------------------

    def targets(self, rules: Iterable[Any], begins: bool = True) -> list[str]:
        """Stamps of what was asked for: every wanted virtual sensor of every trace. `begins`: whether the user started
        this process, in which stamps are compared with what they vouch for. Raises ConfigError where an output has no
        rule, or was asked for by name and the trace lacks a sensor it needs, and InTheWayError where a result cannot be
        written, or something that this program did not make stands there."""
        known: list[str] = []
        for each in (Flow.step_of, Flow.has, Needs.lacking, Needs.made_from, Needs.sensors, Needs._unfit):
            each.cache_clear()  # not all inputs of rules were there
        for rule in rules:
            for name in made_by(rule):
                known.append(name)
                if any(not isinstance(item, StepInput) for item in rule.input):
                    self.needs_of.others.add(name)
        self._require_read()
        own = [name[1:] for name, step in self.steps.items() if step.shown.default and name[1:] in known]
        asked = asked_outputs(self.config.outputs, known, own)
        several = len(self.traces) + len(self.refused) > 1
        files: list[str] = []
        try:
            for results in list(self.traces):
                try:
                    files += self.of(results)._targets_of(results, asked, begins)
                except RoverError as error:
                    if not several:  # one bad recording among others is reported at the end
                        raise
                    self.refused.append(str(error))
                    self.wanted.pop(results, None)
                    del self.traces[results]
        finally:
            self.needs_of.say_notes()
        if self.refused and not self.traces and several:
            raise FormatError(self.refused[0])
        return files

    def _targets_of(self, results: Path, asked: Mapping[str, bool], begins: bool) -> list[str]:
        """Stamps of what is asked for of one recording. `asked`: names of outputs -> whether asked for by name."""
        source, asked = self.traces[results], self._names_of(asked, results)
        possible = [name for name in asked if self.needs_of.tried(name, results, by_name=asked[name])]
        for name in asked:
            if asked[name] and name not in possible:
                raise ConfigError(f"{source}: {self.needs_of.lacking(name, results)}, which the output {name!r} needs")
        if begins:
            self.needs_of.report(possible, [name for name in asked if name not in possible], results)
        self.wanted[results] = possible
        if not self.needs_of.anything(possible, results) and not any(asked[name] for name in possible):
            raise FormatError(f"{source}: has none of the sensors that outputs {', '.join(asked)} need")
        self.prepare(possible, results, begins)
        self._pending[results] = self.needs_of.pending(possible, results)  # while all is known of it
        stamps = [f"{results}/_{name}/{self.made[f'_{name}']}" for name in possible]
        if not can_be_written(results) and not all(map(os.path.exists, stamps)):
            raise InTheWayError(f"{results}: cannot be written to; set output_root to a folder where results can go")
        return stamps

    def _names_of(self, asked: Mapping[str, bool], results: Path) -> dict[str, bool]:
        """Names of outputs as a recording has them: one that a type gives its name is that of each sensor of the type.
        Raises ConfigError where one that is asked for is of a sensor of other recordings."""
        found: dict[str, bool] = {}
        for name, by_name in asked.items():
            step = self.steps[f"_{name}"]
            here = instances(step.sensor, self.rig(results))
            names = here if f"_{name}" == step.sensor else [each for each in here if each == f"_{name}"]
            found |= {sys.intern(each[1:]): by_name for each in names if f"-{each[1:]}" not in self.config.outputs}
        return found

    def pending(self, results: Path) -> list[str]:
        """Names of what has to be made of a recording, and of what is made from that, once `targets` was called."""
        return self._pending[results]

    def reach(self, results: Path) -> set[str]:
        """Names of what is asked for of a recording, and of all that is made from."""
        return self.of(results).needs_of.closure(self.wanted.get(results, ()), results)

    def remember_all(self) -> None:
        """Keep the options with the recordings that are there."""
        for results in self.wanted:
            if os.path.isdir(self.source(results)):
                self.remember(results)

    def _require_read(self) -> None:
        """Raise ConfigError for a section of `extra` that no rule reads, or `instances` of a sensor that is nowhere."""
        sensors = {name for results in self.traces for name in self.rig(results).types} if self.config.instances else ()
        for name in self.config.instances:
            if name not in sensors:
                hint = did_you_mean(name, sensors)
                raise ConfigError(f"config: instances.{name}: no recording has such a sensor; {hint}")
        read = {name.split(".")[1] for name in self._read if name.startswith("extra.")}
        for name in set(self.config.extra) - read:
            # A rule may read Snakemake's `config` by itself.
            if not any(name in read_text(Path(path)) for path in self.config.extra_rules):
                hint = did_you_mean(name, read) if read else "name the file of your rules in extra_rules"
                raise ConfigError(f"config: extra.{name}: no rule reads it; {hint}")

    def prepare(self, names: Iterable[str], results: Path, begins: bool) -> None:
        """Refuse what is in the way of outputs and of what they are made from; remove stamps that are not true.

        What a killed run has left beside a result that is whole goes too, for nobody makes that again.
        """
        sensors = {f"_{name}" for name in self.needs_of.closure(names, results)}
        left = begins and os.path.isdir(results / PARTIAL)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            sensors &= {*(sensors if left else ()), *os.listdir(results)}
        for sensor in sorted(sensors):
            if problem := in_the_way(results / sensor):
                raise InTheWayError(problem)
            if not begins:
                continue
            remove_left(results / sensor, partial(discard, results / sensor))
            stamp = results / sensor / self.made[sensor]
            if reason := untrue(stamp, self.step_of(sensor, results), self.source(results)):
                withdraw(stamp)
                print(f"rover-pipeline: {stamp.parent}: is made again, for {reason}", file=sys.stderr)

    @kept
    def has(self, sensor: str, results: Path) -> bool:
        """Whether a trace has a sensor, or all that it takes to make it."""
        if sensor in self.made:
            return not self.needs_of.lacking(sensor.removeprefix("_"), results)
        if self.is_demo(results):
            return sensor in self.demo_sensors
        return os.path.exists(f"{(folder := self.source(results))}/{sensor}/{META}") and not is_empty(folder / sensor)

    def channels(self, results: Path) -> Has:
        """Which channels the sensors of a recording have."""
        if results not in self._channels:
            of_demo = frozenset(f"lidar/{channel}" for channel in ("ts", "rng", "rfl", "nir"))
            known = of_demo.__contains__ if self.is_demo(results) else channels_of(self.source(results))
            self._channels[results] = known
        return self._channels[results]


def find_recordings(config: Config, here: Path, demo: Path) -> tuple[dict[Path, Path], list[str]]:
    """Directory of results -> directory of the recording, and messages about recordings that cannot be processed.

    Relative paths start from `here`. The simulated recording `demo` is made where the configuration names none. Raises
    InTheWayError where its directory holds something else, and FormatError or ConfigError where there is no recording
    that can be processed.
    """
    if config.traces is None:
        if has_files(demo) and read_provenance(demo / "_truth") is None:
            raise InTheWayError(f"{demo}: is not a simulated trace of ours; give traces=PATH, or move it away")
        return {demo: demo}, []
    located = locate_traces(config.traces, here, here / config.output_root if config.output_root else None)
    traces = {results: source for results, source in located.items() if not refusal(str(results))}
    refused = [refusal(str(results)) for results in located if results not in traces]
    if refused and not traces:
        raise ConfigError(refused[0])
    return traces, refused
