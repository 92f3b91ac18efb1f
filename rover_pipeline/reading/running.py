"""A step of one's own on one recording, without a rule: what a notebook needs while a step is written."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rover_pipeline.engine.step import ATTRIBUTE, Step
from rover_pipeline.errors import ConfigError, InTheWayError
from rover_pipeline.format.attempt import remove_tree
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.lookup import load
from rover_pipeline.options import InputOptions, Options
from rover_pipeline.reading.sensor import Sensor
from rover_pipeline.reading.trace import Trace, open


def run(
    function: Callable[..., Any],
    trace: Trace | str | os.PathLike[str],
    options: Options | Mapping[str, Any] | None = None,
    *,
    write: bool = True,
    threads: int = 1,
) -> Sensor | dict[str, bytes]:
    """Run a function with `@step` on a recording, by the code that the jobs of a run use: the bytes are the same.

    Args:
        function: declared by `@step(sensor="_name", ...)`.
        trace: the recording, opened or as a path. Virtual sensors that the step reads must be there.
        options: of the function; None = its defaults.
        write: put the result beside the raw sensors, where an older one of the same function gives way. Otherwise it is
            in a temporary folder, which is removed when nothing refers to the result any more.
        threads: ranges of frames that are worked on at once.

    Returns:
        The virtual sensor, as `trace["_name"]` gives it; of a step with `products` its files, as bytes by name.

    Raises:
        ConfigError: the function is no step, or the options are wrong.
        InTheWayError: another step has made a result of that name.
        RoverError: the inputs cannot be used, or the function failed.
    """
    step = getattr(function, ATTRIBUTE, None)
    if not isinstance(step, Step) or not step.sensor.startswith("_"):
        raise ConfigError(f'{function!r}: is no step; write @step(sensor="_name", version=1, ...) above the function')
    trace = trace if isinstance(trace, Trace) else open(trace)
    place = trace.path
    values = options.model_dump(mode="json") if isinstance(options, Options) else dict(options or {})
    # A program that only reads recordings, such as a training in an environment of its own, needs no engine.
    run_step, request = (load(f"rover_pipeline.engine.execute:{name}") for name in ("run_step", "Request"))
    with ExitStack() as temporary:
        if write:
            made_by = str((read_provenance(place / step.sensor) or {}).get("step", step.name))
            if made_by.partition(":")[2] != step.name.partition(":")[2]:
                name = f"{place / step.sensor}: was made by the step {made_by}"
                raise InTheWayError(f"{name}; give your step another `sensor`, or use write=False")
        else:
            folder = Path(tempfile.mkdtemp(prefix="rover-pipeline-"))
            temporary.callback(remove_tree, folder)
            place = _linked(trace.path, folder / trace.path.name, step.sensor)
        asked = request(values, InputOptions(truncate=trace.truncate))
        run_step(step, place, step.sensor, asked, threads=threads)
        if step.products:
            return {name: (place / step.sensor / name).read_bytes() for name in step.products}
        made = Sensor(place, step.sensor)
        weakref.finalize(made, temporary.pop_all().close)
        return made


def _linked(recording: Path, folder: Path, besides: str) -> Path:
    """A folder with links to all sensors and files of a recording but one."""
    folder.mkdir()
    for entry in os.scandir(recording):
        if entry.name != besides and not entry.name.startswith("."):
            os.symlink(entry.path, folder / entry.name)
    return folder
