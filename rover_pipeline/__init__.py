"""Batch workflow from roverd recordings to virtual sensors, and their reader: `import rover_pipeline as rp`.

`rp.open(path)` opens a recording, `rp.open_many(folder)` many of them; `rp.run(step, trace)` runs a step of one's own.
The names below are loaded when they are first used: the workflow imports this package for every job, and needs none.
"""

# ruff: noqa: F403, F405 (the names of `__all__` are those of `reading`)
from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rover_pipeline.reading import *

__version__ = "0.1.0"

#: NumPy's exponentials, logarithms and arcs differ in the last bit where a processor has AVX-512: results would too.
#: NumPy ignores the names that its version does not know: before 2.4 it had those of the second line for X86_V4.
_AVX512 = "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL"
_disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
if "numpy" not in sys.modules and _AVX512 not in _disabled:
    os.environ["NPY_DISABLE_CPU_FEATURES"] = f"{_disabled} {_AVX512}".strip()

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
    "run",
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
