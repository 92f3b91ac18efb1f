"""Batch workflow from roverd recordings to virtual sensors, and their reader: `import rover_pipeline as rp`.

`rp.open(path)` opens a recording, `rp.open_many(folder)` many of them. The names below are loaded when they are first
used: the workflow imports this package for every job, and needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rover_pipeline.reading import (
        Axis,
        Channel,
        FormatError,
        Record,
        RoverError,
        SampleError,
        Samples,
        Sensor,
        SplitOptions,
        Synced,
        Trace,
        Traces,
        open,
        open_many,
    )

__version__ = "0.1.0"

__all__ = [
    "Axis",
    "Channel",
    "FormatError",
    "Record",
    "RoverError",
    "SampleError",
    "Samples",
    "Sensor",
    "SplitOptions",
    "Synced",
    "Trace",
    "Traces",
    "__version__",
    "open",
    "open_many",
]


if not TYPE_CHECKING:  # a type checker would take any misspelled name for one of ours

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module("rover_pipeline.reading"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
