"""Late loading: what a dotted name stands for, imported when it is first needed.

The workflow reads what steps declare for every job, and must not pay for the libraries that only their functions need.
This is the one place that imports by name.
"""

from __future__ import annotations

import importlib
from typing import Any

from rover_pipeline.errors import ConfigError, did_you_mean, short


def load(name: str) -> Any:
    """The object of a dotted name, `package.module:attribute`, of this package."""
    module_name, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module_name), attribute)


def load_marked(name: str, mark: str) -> Any:
    """What the attribute `mark` of a user's function holds.

    Args:
        name: dotted name of the function, `package.module:function`.

    Raises:
        ConfigError: there is no such module, or no function with that mark in it.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute or "none")):
        raise ConfigError(f"step {short(name)}: must be MODULE:FUNCTION, or the name of a virtual sensor")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not module_name.startswith(error.name):
            raise  # the module is there, something that it imports is not
        raise ConfigError(
            f"step {name}: no module {module_name!r}; is it installed, or its folder on PYTHONPATH?"
        ) from error
    marked = {key: getattr(value, mark) for key, value in vars(module).items() if hasattr(value, mark)}
    if attribute not in marked:
        hint = did_you_mean(attribute, marked) if marked else "it has no function with @step"
        raise ConfigError(f"step {name}: {module_name} has no step {attribute!r}; {hint}")
    return marked[attribute]
