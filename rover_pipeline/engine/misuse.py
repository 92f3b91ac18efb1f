"""What can be wrong with a declaration of a step: an error when its module is imported, not when a job fails."""

from __future__ import annotations

import inspect as signatures
from collections.abc import Collection, Mapping
from typing import Any

from rover_pipeline.errors import ConfigError, did_you_mean
from rover_pipeline.options import Options

#: Arguments that a function is given without declaring them.
_GIVEN = {"options", "state", "prepared", "shapes", "shared"}
#: Arguments of a function that is called once.
_ONCE = {"recording", "trace"}


def check_words(name: str, words: Collection[str], known: Collection[str]) -> None:
    """Refuse words of `@step` that do not exist.

    Raises:
        ConfigError: there is one; the message has the nearest that does.
    """
    for word in words:
        if word not in known:
            raise ConfigError(f"step {name}: @step has no {word!r}; {did_you_mean(word, known)}")


def check_arguments(
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
