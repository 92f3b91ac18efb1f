"""The command of a rule: one step on one recording."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.engine.options import DASK_VARIABLE, DaskOptions
from rover_pipeline.engine.step import Step
from rover_pipeline.errors import ERROR_MARK, ConfigError, RoverError, describe, may_pass
from rover_pipeline.format.attempt import open_regular
from rover_pipeline.format.failures import clear_failure, record_failure
from rover_pipeline.format.trace import link_trace
from rover_pipeline.options import InputOptions


def run_command(
    step: Step,
    trace: Path,
    outputs: Sequence[Path],
    *,
    request: str,
    version: int | None,
    threads: int,
    log: Path | None,
) -> None:
    """Run a step for a rule.

    Args:
        trace: directory of the results of the recording.
        outputs: the stamp, and any other files, of the one virtual sensor, or folder, that the rule makes in `trace`.
        request: JSON with `options` of the step, `input` policy, `recording`, the directory of the raw sensors where
            it is another one, and `makes`, the files that the result must have.
        version: of the step where the workflow was read; None = any.

    Raises:
        ConfigError: the request is no JSON, or the versions differ.
        RoverError: the step failed, or did not make one of the outputs.
    """
    folders = {path.parent for path in outputs}
    if len(folders) != 1 or (folder := folders.pop()).parent != trace:
        raise ConfigError(f"--output: must be files of one virtual sensor in {trace}")
    with logged(log) as file, _recorded(trace, folder.name):
        if version is not None and version != step.version:
            raise ConfigError(
                f"step {step.name} is version {step.version} here, version {version} where the workflow was read; "
                "install the same rover-pipeline on every node"
            )
        try:
            content = json.loads(request)
        except ValueError as error:
            raise ConfigError(f"--request: is not valid JSON: {error}") from error
        recording = Path(content.get("recording") or trace)
        if recording != trace:
            link_trace(recording, trace)
        result = run_step(
            step,
            trace,
            folder.name,
            Request(content.get("options", {}), InputOptions.parse(content.get("input", {}), "input")),
            threads=threads,
            dask=DaskOptions.model_validate_json(os.environ.get(DASK_VARIABLE, "{}")),
            stamps=tuple(path.name for path in outputs if path.name.startswith(".")),
            log=file,
        )
        # What a recording cannot give has a stamp, and says why.
        needed = [path for path in outputs if path.name.startswith(".") or not result.left_out]
        needed += [folder / name for name in content.get("makes", ()) if not result.left_out]
        for path in needed:
            if not path.exists():
                raise RoverError(f"{path}: is an output of the rule, but {step.name} did not make it")
        made = ", ".join(step.products) or f"{result.samples} samples, {result.invalid} invalid"
        line = f"{folder}: {f'is left out: {result.left_out}' if result.left_out else made}, {result.seconds:.2f} s"
        for stream in filter(None, (sys.stderr, file)):
            print(line, file=stream)


@contextmanager
def _recorded(trace: Path, output: str) -> Iterator[None]:
    """Keeps the reason of a failure beside the results of the recording, and forgets it when the output is made."""
    try:
        yield
    except Exception as error:
        record_failure(trace, output, describe(error), may_pass=may_pass(error))
        raise
    clear_failure(trace, output)


@contextmanager
def logged(log: Path | None) -> Iterator[TextIO | None]:
    """The opened log. An error goes there with its traceback, and on to the terminal, where its message is shown."""
    if log is None:
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_regular(log), "r+", encoding="utf-8") as file:
        file.truncate()
        try:
            yield file
        except Exception as error:
            traceback.print_exc(file=file)
            print(f"{ERROR_MARK}{describe(error)}", file=file)
            raise
