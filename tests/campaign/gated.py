"""Steps that wait inside a task, or die there, so that a scenario can do something at that moment.

A process waits or dies only where its environment says so: no option of the step and no byte of its result tells.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from pydantic import Field

from rover_pipeline.engine.decorator import step
from rover_pipeline.engine.recording import Recording
from rover_pipeline.options import Options
from tests.kit import START_S

#: Folder with the file `open`, which a task waits for; a task that waits leaves the file `began-PID`, then `ended-PID`,
#: and every other one `did-FRAME-PID`.
GATE = "ROVER_PIPELINE_TEST_GATE"
#: Any value: the task kills its process.
DIE = "ROVER_PIPELINE_TEST_DIE"
#: The frame whose task waits or dies; 3 unless given. Not the first, which the client computes to learn shapes.
FRAME = "ROVER_PIPELINE_TEST_FRAME"


class GatedOptions(Options):
    """Of `gated`."""

    factor: float = Field(1.0, description="What samples are multiplied by.")


@step(inputs={"iq": "radar/iq", "ts": "radar/ts"}, outputs={"sum": "Sums. [tx, rx, word]"}, version=1)
def gated(iq: np.ndarray, ts: np.ndarray, *, options: GatedOptions) -> np.ndarray:
    """Sums over chirps, times a factor."""
    wait_or_die(ts)
    return iq.sum(axis=1, dtype="f8") * options.factor


class _Sum:
    """Sum of each frame of a range; goes to other processes."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __call__(self, start: int, stop: int) -> np.ndarray:
        wait_or_die(self.recording.ts[start:stop])
        return self.recording.read("iq", start, stop).sum(axis=(1, 2, 3, 4), dtype="f8")


@step(inputs={"iq": "radar/iq"}, outputs={"sum": "Sums."}, version=1, recording=True)
def pooled(recording: Recording, *, options: GatedOptions) -> np.ndarray:
    """Sums of frames in processes."""
    edges = [(at, at + 1) for at in range(recording.count)]
    return np.concatenate(list(recording.map(_Sum(recording), edges, processes=True))) * options.factor


def wait_or_die(ts: np.ndarray) -> None:
    """Do what the environment says, at the frame that it says."""
    frames = np.round((ts - START_S) * 10).astype(int)
    if int(os.environ.get(FRAME, 3)) not in frames:
        if folder := os.environ.get(GATE):
            for frame in frames:
                (Path(folder) / f"did-{frame}-{os.getpid()}").touch()
        return
    if os.environ.get(DIE):
        os.kill(os.getpid(), signal.SIGKILL)
    if folder := os.environ.get(GATE):
        (Path(folder) / f"began-{os.getpid()}").touch()
        until = time.monotonic() + 60
        while not (Path(folder) / "open").exists() and time.monotonic() < until:
            time.sleep(0.02)
        (Path(folder) / f"ended-{os.getpid()}").touch()
