"""`@step`, which declares a user's function as a step. A wrong declaration is an error when its module is imported."""

from __future__ import annotations

import inspect as signatures
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rover_pipeline.engine.step import ATTRIBUTE, OPTIONAL, Output, Reference, Run, Shown, Step
from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.options import Options

#: Arguments that a function is given without declaring them.
_GIVEN = {"options", "state", "prepared", "shapes", "shared"}
#: Arguments of a function that is called once.
_ONCE = {"recording", "trace"}


def step(
    *,
    version: int,
    sensor: str = "",
    section: str | Sequence[str] = (),
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str | Output] | None = None,
    whole: Mapping[str, Reference] | None = None,
    files: Mapping[str, str] | None = None,
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function from arrays to arrays as a step; the function itself is not changed.

    The function takes the inputs as arrays, (frame, ...), the files as text, and `options` by keyword, and returns
    one array for a single output or a dictionary of them, one sample a frame. It may add `valid`, bool or u1 of
    (frame,), to mark its own results. An ordered one takes `state` too, None at first, and returns (result, state).
    Arguments of `whole`, `nearest` and `files` that have a default are left out when the recording lacks them.

    With `recording` the function is called once for all frames. It takes a `Recording` instead of blocks of the
    inputs, and returns results for all of them, or those and an `Inspection`. With `products` it makes files instead
    of channels, as a dictionary of bytes by file name. Such a step needs no inputs, and takes the directory of the
    recording if it has an argument `trace`. What it reads there it names in `reads`, for its provenance.

    `views` says how inputs are read: `views={"video": smaller}` reads what `smaller(channel, options=options)` gives,
    a channel too, such as the same pictures decoded at a smaller size. A function with an argument `shapes` is given
    the shapes of samples as they are stored, by argument.

    `inspect` is called once with the arguments of the function, for a few valid frames of the recording (none if there
    are none). Its figures are written to provenance, its warnings to the terminal and the log too.

    `prepare` is called once, before, with the arguments of the function for some valid frames spread over all the
    recording. The function and `inspect` are given what it returns as `prepared`: one estimate for all ranges.

    `conclude` is called once with the results of all frames by channel, `valid` included, of a step whose channels are
    raw and small. It returns an `Inspection`.

    `shares="radar"` lets the step be made in one pass with the steps of `rover_pipeline.radar` that read `radar/iq`.
    Its function is then called for one frame at a time, which must not change its result, and may take `shared`, by
    which it shares what it computes from the frame of its first input; see `rover_pipeline.engine.shared`.

    Args:
        version: raised whenever the same input gives other bytes.
        sensor: name of the virtual sensor, `_name`, for a rule with `needs` and `makes`.
        section: of the configuration that holds the options, such as `extra.mine`.
        inputs: see `Step`, as for all that follow.
        outputs: a text instead of an `Output` is its description.
        whole: as in `Step`.
        files: as in `Step`.
        more: other attributes of `Step`, `Run` and `Shown`.

    Raises:
        ConfigError: when the module is imported: a word is unknown, or arguments and declaration do not fit.
    """

    def attach(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{function.__module__}:{function.__qualname__}"
        groups = {"run": Run, "shown": Shown}
        words = {word: {each.name for each in fields(group)} for word, group in groups.items()}
        known = {each.name for each in fields(Step)} - {*groups} | words["run"] | words["shown"]
        if word := next((each for each in more if each not in known), ""):
            raise ConfigError(f"step {name}: @step has no {word!r}; {did_you_mean(word, known)}")
        parameters = signatures.signature(function, eval_str=True).parameters
        sections = (section,) if isinstance(section, str) else tuple(section)
        declared: dict[str, Mapping[str, Any]] = {"inputs": inputs or {}, "nearest": more.pop("nearest", None) or {}}
        declared |= {"whole": whole or {}, "files": files or {}}
        constants, once = more.get("constants", ()), bool(more.get("recording") or more.get("products"))
        _check_arguments(name, parameters, declared, sections=sections, constants=constants, once=once)
        # Arguments with a default say that they are optional: the declaration says it in its own way.
        with_default = {name for name, each in parameters.items() if each.default is not signatures.Parameter.empty}
        marked: dict[str, Any] = {
            kind: {
                each: _optional(entry) if each in with_default and kind != "inputs" else entry
                for each, entry in references.items()
            }
            for kind, references in declared.items()
        }
        options = parameters["options"].annotation.model_fields if "options" in parameters else {}
        if (part := more.get("part")) and part not in options:
            raise ConfigError(f"step {name}: part={part!r} is none of its options; {did_you_mean(part, options)}")
        grouped = {
            word: group(**{each: more.pop(each) for each in words[word] & more.keys()})
            for word, group in groups.items()
        }
        described = Step(
            function=function,
            version=version,
            sensor=sensor,
            sections=sections,
            options=parameters["options"].annotation if "options" in parameters else None,
            outputs={name: Output(out) if isinstance(out, str) else out for name, out in (outputs or {}).items()},
            **marked,
            **more,
            **grouped,
        )
        setattr(function, ATTRIBUTE, described)
        return function

    return attach


def _optional(entry: Reference) -> Reference:
    if isinstance(entry, str):
        return entry if entry.endswith(OPTIONAL) else entry + OPTIONAL
    return tuple(name if name.endswith(OPTIONAL) else name + OPTIONAL for name in entry)


def _check_arguments(
    name: str,
    parameters: Mapping[str, signatures.Parameter],
    declared: Mapping[str, Any],
    *,
    sections: Collection[str],
    constants: Collection[str],
    once: bool,
) -> None:
    """Compare the arguments of a step's function with what it declares.

    Args:
        declared: arguments by what they are called: `inputs`, `nearest`, `whole`, `files` -> argument -> reference.
        once: whether the function is called once, with a `Recording` from which it reads inputs by itself.

    Raises:
        ConfigError: an argument is declared and not taken, or taken and not declared, or `options` has no model.
    """
    kinds = {each.kind for each in parameters.values()}
    of_blocks = ("inputs", "nearest")
    wanted = {argument for kind, each in declared.items() if not (once and kind in of_blocks) for argument in each}
    if "options" in parameters:
        model = parameters["options"].annotation
        if not (isinstance(model, type) and issubclass(model, Options)):
            raise ConfigError(
                f"step {name}: its argument `options` must be annotated with a class of your own that is derived from "
                "rover_pipeline.steps.Options"
            )
    elif sections and signatures.Parameter.VAR_KEYWORD not in kinds:
        raise ConfigError(f"step {name}: has a section {next(iter(sections))!r} but takes no argument `options`")
    if once and "recording" not in parameters and signatures.Parameter.VAR_KEYWORD not in kinds:
        raise ConfigError(
            f"step {name}: is called once for all frames, for it has `recording=True` or `products`, and needs an "
            "argument `recording`"
        )
    if signatures.Parameter.VAR_KEYWORD not in kinds and (lost := sorted(wanted - set(parameters))):
        raise ConfigError(f"step {name}: declares {lost[0]!r}, but takes no argument of this name")
    known = wanted | _GIVEN | set(constants) | (_ONCE if once else set())
    for argument, each in parameters.items():
        needed = each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        if needed and argument not in known:
            hint = " (an input of a step that is called once is read by `recording.read`)" if once else ""
            raise ConfigError(
                f"step {name}: takes an argument {argument!r} that is in none of inputs, nearest, whole and files{hint}"
            )
