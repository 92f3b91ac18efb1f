"""What a step declares: one function over frames that makes one virtual sensor of one trace."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.format.meta import Format
from rover_pipeline.options import Options

if TYPE_CHECKING:
    from rover_pipeline.format.channels import Channel

_ATTRIBUTE = "__rover_step__"


@dataclass(frozen=True)
class Output:
    """One channel a step makes: its description, axes in brackets, and how it is stored.

    The format may depend on the step's options: a function of them that gives it.
    """

    desc: str
    format: Format | Callable[[Any], Format] = "raw"

    def stored_as(self, options: Options | None) -> Format:
        return self.format(options) if callable(self.format) else self.format


class Inspection(NamedTuple):
    """What a look at a few frames told.

    Attributes:
        measured: figures for provenance.
        warnings: what the user should know.
        files: texts to publish beside the channels, by file name.
    """

    measured: Mapping[str, Any]
    warnings: Sequence[str] = ()
    files: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Step:
    """The description that `@step` attaches to a function.

    Attributes:
        name: dotted name, `package.module:function`.
        inputs: argument -> `sensor/channel`; the first one's sensor gives `ts` and the number of frames.
        whole: argument -> `sensor/channel` of any sensor, given in full at every call; `*/channel` is that channel of
            every raw sensor, by sensor.
        nearest: argument -> `sensor/channel` of sensors with other times, given as the samples nearest to the frames.
        outputs: channel -> what it is; `*` stands for channels that the result names.
        products: file -> what it is, for a step that makes files and no sensor.
        views: argument of `inputs` -> function of its channel and the options that gives the channel to read instead.
        files: argument -> `sensor/file` whose text the function receives.
        reads: patterns of files below the trace, such as `*/ts`, that the function reads by itself.
        version: raised whenever the same input gives other bytes.
        halo: frames before and after its own that a block is given; the results for them are dropped.
        ordered: frames are handed over in order, with the state the function returned before.
        recording: the function is called once, with a `Recording` to read from.
        inspect: looks at a few frames before the work; see `step`.
    """

    name: str
    function: Callable[..., Any]
    inputs: Mapping[str, str]
    outputs: Mapping[str, Output]
    files: Mapping[str, str]
    version: int
    halo: int = 0
    ordered: bool = False
    recording: bool = False
    whole: Mapping[str, str] = field(default_factory=dict)
    nearest: Mapping[str, str] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)
    reads: Sequence[str] = ()
    views: Mapping[str, Callable[..., Channel]] = field(default_factory=dict)
    inspect: Callable[..., Inspection] | None = None

    def is_optional(self, argument: str) -> bool:
        """Whether the function does without this argument: it has a default."""
        return inspect.signature(self.function).parameters[argument].default is not inspect.Parameter.empty

    def takes(self, argument: str) -> bool:
        """Whether the function has an argument of this name."""
        return argument in inspect.signature(self.function).parameters

    @property
    def options_model(self) -> type[Options] | None:
        """The type of the function's `options` argument; None when it takes none."""
        parameter = inspect.signature(self.function, eval_str=True).parameters.get("options")
        return None if parameter is None else parameter.annotation


def step(
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str | Output] | None = None,
    version: int,
    whole: Mapping[str, str] | None = None,
    nearest: Mapping[str, str] | None = None,
    views: Mapping[str, Callable[..., Channel]] | None = None,
    files: Mapping[str, str] | None = None,
    products: Mapping[str, str] | None = None,
    reads: Sequence[str] = (),
    halo: int = 0,
    ordered: bool = False,
    recording: bool = False,
    inspect: Callable[..., Inspection] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Describe a function from arrays to arrays as a step; the function itself is not changed.

    The function takes the inputs as arrays, (frame, ...), the files as text, and `options` by keyword, and returns
    one array for a single output or a dictionary of them, one sample a frame. It may add `valid`, bool or u1 of
    (frame,), to mark its own results. An ordered one takes `state` too, None at first, and returns (result, state).
    Arguments of `whole` and `files` that have a default are left out when the trace has no such channel or file.

    With `recording` the function is called once for all frames. It takes a `rover_pipeline.engine.recording.Recording` instead
    of blocks of the inputs, and returns results for all of them, or those and an `Inspection`. With `products` it makes
    files instead of channels, as a dictionary of bytes by file name; such a step needs no inputs, and takes the trace's
    directory if it has an argument `trace`. What it reads there it names in `reads`, for its provenance.

    `views` says how inputs are read: `views={"video": smaller}` reads what `smaller(channel, options=options)` gives, a
    channel too, such as the same pictures decoded at a smaller size. A function with an argument `shapes` is told the
    shapes of samples as they are stored, by argument.

    `inspect` is called once with the arguments of the function, for a few valid frames of the recording (none if there
    are none). What it finds is written to provenance, its warnings to the terminal and the log too.
    """

    def attach(function: Callable[..., Any]) -> Callable[..., Any]:
        described = Step(
            name=f"{function.__module__}:{function.__qualname__}",
            function=function,
            inputs=dict(inputs or {}),
            outputs={name: Output(out) if isinstance(out, str) else out for name, out in (outputs or {}).items()},
            files=dict(files or {}),
            version=version,
            halo=halo,
            ordered=ordered,
            recording=recording,
            whole=dict(whole or {}),
            nearest=dict(nearest or {}),
            products=dict(products or {}),
            reads=tuple(reads),
            views=dict(views or {}),
            inspect=inspect,
        )
        setattr(function, _ATTRIBUTE, described)
        return function

    return attach


def find_step(name: str) -> Step:
    """The step of a dotted name, `package.module:function`."""
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not module_name.startswith(error.name):
            raise
        raise ConfigError(
            f"step {name}: no module {module_name!r}; is it installed, or its folder on PYTHONPATH?"
        ) from error
    found = getattr(getattr(module, attribute, None), _ATTRIBUTE, None)
    if not isinstance(found, Step):
        steps = [key for key, value in vars(module).items() if hasattr(value, _ATTRIBUTE)]
        hint = did_you_mean(attribute, steps) if steps else "it has no function with @step"
        raise ConfigError(f"step {name}: {module_name} has no step {attribute!r}; {hint}")
    return found
