"""What a step declares: one function that makes one virtual sensor, or one folder of files, of one recording.

The declaration is the only place that names the inputs, outputs, options and version of a virtual sensor. Rules,
validation and documentation ask it. It names the function, so that reading it imports none of the function's libraries.
"""

from __future__ import annotations

import functools
import inspect as signatures
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.format.descriptions import axes_of, unit_of
from rover_pipeline.lookup import load
from rover_pipeline.options import Options

if TYPE_CHECKING:
    from rover_pipeline.format.meta import ChannelSpec, Format
    from rover_pipeline.numerics.nearest import Match

ATTRIBUTE = "__rover_step__"  # of a function with `@step`: its declaration
#: Ends a reference to something that the function does without where the recording lacks it.
OPTIONAL = "?"
#: Stands for every raw sensor in a reference, and for every channel in `outputs`.
EVERY = "*"
EVERY_FILE = "*/*"  # in `reads`: every file of the sensors and of the other results
#: Stands for the sensor with whose samples those of the others are matched.
REFERENCE = "reference"
#: The main sensor of the type, where a step is for another one: `_odom` and the poses of a named rig are of that one. A
#: constant of this value is what `config.yaml`, as the step is given it, calls the main one; "main" = it is the step's.
MAIN = "main"
#: In `When.has`: the recording has several sensors of the type, of all of which the step makes one result.
SEVERAL = "several"
#: Sizes of the axes that always have the same size. Layout.
_SIZES = {"xyz": 3, "xyzw": 4, "world": 3, "lidar": 3, "sensor": 3, "colour": 3}

Reference = str | tuple[str, ...]
#: Whether a recording has a channel `sensor/channel`.
Has = Callable[[str], bool]


@dataclass(frozen=True)
class Output:
    """One channel that a step makes.

    Attributes:
        desc: what `meta.json` says the channel is, with its unit and axes: `Power, dB. [doppler, range]`.
        format: how samples are stored, or a function of the step's options that says so.
        type: numpy type without byte order, such as `f4`; "" = whatever the function returns.
        unit: of the values, as programs read it; "" = the one that `desc` names, if it names one.
    """

    desc: str
    format: Format | Callable[[Any], Format] = "raw"
    type: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.unit or unit_of(self.desc))

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of a sample, from the first brackets of the description; empty for scalars."""
        return axes_of(self.desc)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Size of each axis; None where it depends on the recording or on options."""
        return tuple(_SIZES.get(axis) for axis in self.axes)

    @property
    def kind(self) -> str:
        """Type and shape of a sample, for messages."""
        return f"{self.type} of [{', '.join('any' if size is None else str(size) for size in self.shape)}]"

    def fits(self, spec: ChannelSpec) -> bool:
        """Whether samples of a channel have this type and shape."""
        same = self.type == spec.type and len(self.shape) == len(spec.shape)
        return same and all(size in (None, own) for own, size in zip(spec.shape, self.shape, strict=True))


class Inspection(NamedTuple):
    """What a look at a few frames showed.

    Attributes:
        measured: figures for provenance.
        warnings: what the user should know; notes: the same for provenance alone.
        files: texts to publish beside the channels, by file name.
    """

    measured: Mapping[str, Any]
    warnings: Sequence[str] = ()
    files: Mapping[str, str] = MappingProxyType({})
    notes: Sequence[str] = ()


class Rate(NamedTuple):
    """What an output costs for each byte of the raw files that it is made from.

    The rates were measured on recordings at the real rig's shapes (benchmarks/README.md): two minutes of `indoor` have
    0.46 GB of lidar, 1.9 GB of radar and 1.1 GB of camera. Times are of 25 s of it, on one processor of a busy machine.
    """

    sensors: tuple[str, ...]  #: raw sensors whose size it grows with.
    ns: float  #: nanoseconds of one processor for a byte.
    written: float  #: bytes for a byte.
    memory_mb: int = 300  #: peak of its process with small chunks, MB.
    frames: int = 6  #: memory of each thread in chunks: input, output and what is computed between.


#: Poses, times, velocities, the page, steps of users: their time is that of starting a process. Schedule.
SMALL = Rate(("imu",), 50, 1.0)


@dataclass(frozen=True)
class When:
    """What a step declares otherwise, where its options or the sensors of a recording are of another kind."""

    #: fields of the step -> what they are then. Mappings are added to those declared, that of `run` to its fields; an
    #: entry that is None is taken away from them.
    changes: Mapping[str, Any] = field(default_factory=dict)
    #: channel of `inputs` or `nearest` -> argument -> channel that stands for it; `?` = if it is there.
    instead: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    has: tuple[str, ...] = ()  #: channels that the recording must have.
    lacks: tuple[str, ...] = ()  #: channels that it must not have.
    options: Mapping[str, Any] = field(default_factory=dict)  #: names, such as `lidar.ts_reference` -> their values.


@dataclass(frozen=True)
class Run:
    """How a step is run."""

    halo: int = 0  #: frames before and after its own that a block is given; the results for them are dropped.
    #: name of a pass over a raw channel, the first of `inputs`. Steps of one pass that have to be made are made by one
    #: job, which reads each frame once and hands it to all of them; see `step`. "" = made alone.
    shares: str = ""
    #: its work takes seconds even where the recording has hours, or a tenth of that of the step it follows. One job
    #: makes all such steps, one after another, which otherwise would spend their time on starting a process.
    brief: bool = False
    ordered: bool = False  #: frames are handed over in order, with the state that the function returned before.
    #: the function is called once, with a `Recording` to read from. It may yield the channels of one range of frames
    #: after another, which are written as they come, and an `Inspection`.
    recording: bool = False
    #: looks at a few frames before the work (or its dotted name); see `step`.
    inspect: str | Callable[..., Inspection] | None = None
    sidecars: tuple[str, ...] = ()  #: names of files that `inspect` may add to the channels.
    #: estimates what the function is given as `prepared` (or its dotted name); see `step`.
    prepare: str | Callable[..., Any] | None = None
    #: looks at the results of all frames (or its dotted name); see `step`.
    conclude: str | Callable[..., Inspection] | None = None
    threads: int = 4  #: that its job uses at most.
    #: option, a positive number, that says how many seconds of a recording one thread works on; "" = ranges of frames.
    #: A recording of one part is given one thread; its length is that of the sensors of `cost`.
    part: str = ""
    #: its time and memory, from which those of a cluster's jobs and the forecast of a dry run are computed.
    cost: Rate | None = None
    #: whether most others wait for it, so that it is made before them, and with all of its threads.
    first: bool = False
    waits_for_all: bool = False  #: made after all other outputs that are asked for.
    #: types of the sensors of which the function reads all. What is read of each besides the main one is in
    #: `Recording.others`, for a step with `recording`, and else in the argument `others`: see `FrameTask.read`.
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """What users see of a step."""

    default: bool = False  #: belongs to `outputs: default`.
    #: dotted name of the option without which the step does not exist, and what to set it to.
    needs_option: tuple[str, str] | None = None
    summary: str = ""  #: a sentence for the table of virtual sensors.


@dataclass(frozen=True)
class Step:
    """The declaration of a step.

    References are `sensor/channel`. One that ends with `?` is optional: the function does without it. Sensors are named
    by their types, `lidar`, `radar`, `camera`, `imu` and `gnss`, whatever a recording calls them. A step whose virtual
    sensor begins with a type, such as `_radar_points`, is made of each sensor of this type; see `instances`.

    Attributes:
        function: dotted name `package.module:function`, or the function.
        version: raised whenever the same input gives other bytes.
        sensor: name of the virtual sensor or folder, `_name`; "" where the rule names it.
        sections: of the configuration. The first one gives its own options, each other one (or single option,
            such as `camera.lens`) an option that is named like the last part of its name.
        uses: option that another section gives -> its keys that the function reads. The others are left at their
            defaults, so that changing them makes nothing again.
        options: model of the function's `options`; None when it takes none.
        inputs: argument -> channel that blocks of frames are read from. The frames are those of the first one's sensor.
        nearest: argument -> channel of a sensor with other times, given as the samples nearest to the frames.
        match: which of those a frame is given; `next` = the first not before it, `previous` = the last not after it.
        whole: argument -> channel that is given in full at every call; a tuple of channels of one sensor is given as
            a dictionary by channel, `*/channel` as a dictionary by raw sensor.
        by_range: those of `whole` that are too large to be given in full: as a `Channel`, of which ranges are read.
        files: argument -> `sensor/file`, or a file of the recording such as `config.yaml`, given as text.
        outputs: channel -> what it is; `*` stands for channels that the result names.
        products: file -> what it is, for a step that makes files and no sensor.
        reads: patterns of files below the recording, such as `*/ts`, that the function reads by itself.
        views: argument of `inputs` -> function (or its dotted name) of channel and options; gives the channel to read.
        constants: arguments with fixed values, for a function that serves several steps.
        alternatives: what is declared otherwise for some options and kinds of sensors, such as a lidar that is points
            and not an image. Later ones come upon earlier ones.
        others: not declared: sensor -> what is read of it, for each that `run.beside` adds; see `for_sensors`.
        unfit: why the step cannot be made of a recording; "" = it can.
        run: how it is run.
        shown: what users see of it.
    """

    function: str | Callable[..., Any]
    version: int
    sensor: str = ""
    sections: tuple[str, ...] = ()
    uses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: type[Options] | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    nearest: Mapping[str, str] = field(default_factory=dict)
    match: Match = "nearest"
    whole: Mapping[str, Reference] = field(default_factory=dict)
    by_range: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)
    reads: Sequence[str] = ()
    views: Mapping[str, str | Callable[..., Any]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    alternatives: tuple[When, ...] = ()
    others: Mapping[str, Step] = field(default_factory=dict)
    unfit: str = ""
    run: Run = Run()
    shown: Shown = Shown()

    @property
    def name(self) -> str:
        """Dotted name of the function."""
        if isinstance(self.function, str):
            return self.function
        return f"{self.function.__module__}:{self.function.__qualname__}"

    @property
    def identity(self) -> dict[str, Any]:
        """What provenance says of the step: its name, its version and, of a user's step, the digest of its code."""
        ours = isinstance(self.function, str)  # its version says when its bytes change
        source = "" if ours else load("rover_pipeline.engine.identity:source_of")(self.function)
        return {"step": self.name, "version": self.version, **({"source": source} if source else {})}

    @property
    def typed(self) -> dict[str, Output]:
        """Those of the outputs whose types are declared."""
        return {name: output for name, output in self.outputs.items() if output.type}

    @property
    def in_pass(self) -> bool:
        """Whether the step can be made together with others, frame by frame, from nothing but raw channels."""
        run = self.run
        whole = run.ordered or run.recording or self.products or run.halo or run.waits_for_all
        return bool(run.shares and not whole and not any(name.startswith("_") for name in self.references()))

    def view(self, argument: str, channel: Any, options: Options | None) -> Any:
        """The channel that is read for an input."""
        return loaded(self.views[argument])(channel, options=options) if argument in self.views else channel

    def takes(self, argument: str, of: str | Callable[..., Any] | None = None) -> bool:
        """Whether the function, or another one (`of`), has an argument of this name."""
        return argument in _parameters(loaded(of or self.function))

    def for_options(self, options: Options | None) -> Step:
        """The declaration for these options. What depends on the recording too is left to `for_recording`."""
        step, left = self, []
        for each in self.alternatives:
            if all(attrgetter(name)(options) == value for name, value in each.options.items()):
                if each.has or each.lacks:
                    left.append(replace(each, options={}))
                else:
                    step = step._changed(each)
        return replace(step, alternatives=tuple(left)) if self.alternatives else self

    def for_recording(self, has: Has) -> Step:
        """The declaration for a recording that has these channels, after `for_options`."""
        step = self
        for each in self.alternatives:
            if not each.options and all(map(has, each.has)) and not any(map(has, each.lacks)):
                step = step._changed(each, has)
        return step

    def _changed(self, when: When, has: Has = lambda channel: True) -> Step:
        changed: dict[str, Any] = {
            name: _merged(getattr(self, name), value) if isinstance(value, Mapping) else value
            for name, value in when.changes.items()
        }
        step = replace(self, **changed)
        if not when.instead:
            return step

        def replaced(references: Mapping[str, str]) -> dict[str, str]:
            pairs = (pair for each in references.items() for pair in when.instead.get(each[1], dict([each])).items())
            return {
                argument: channel.removesuffix(OPTIONAL)
                for argument, channel in pairs
                if not channel.endswith(OPTIONAL) or has(channel.removesuffix(OPTIONAL))
            }

        return replace(step, inputs=replaced(step.inputs), nearest=replaced(step.nearest))

    def references(self) -> list[str]:
        """Everything that is read, as `sensor/channel` or a file, `?` at the end where it is optional."""
        grouped = (self.inputs, self.nearest, self.whole, self.files)
        entries = [entry for mapping in grouped for entry in mapping.values()]
        names = [name for entry in entries for name in ([entry] if isinstance(entry, str) else entry)] + [*self.reads]
        of_others = [name.removesuffix(OPTIONAL) for other in self.others.values() for name in other.references()]
        return [*names, *(f"{name}{OPTIONAL}" for name in of_others)]


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


def _merged(declared: Mapping[str, Any] | Run, changes: Mapping[str, Any]) -> Mapping[str, Any] | Run:
    if isinstance(declared, Run):
        return replace(declared, **changes)
    return {name: value for name, value in {**declared, **changes}.items() if value is not None}


@functools.lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> Mapping[str, signatures.Parameter]:
    return signatures.signature(function).parameters


def loaded(function: str | Callable[..., Any]) -> Callable[..., Any]:
    """What a declaration names by a dotted name, or has itself."""
    return load(function) if isinstance(function, str) else function
