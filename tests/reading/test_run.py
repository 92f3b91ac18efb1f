"""A step of one's own on a recording, as a notebook runs it: the same bytes as a job's, written or not."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import Field

import rover_pipeline as rp
from rover_pipeline.engine.command import StepCommand, run_command
from rover_pipeline.engine.step import ATTRIBUTE
from rover_pipeline.errors import ConfigError, InTheWayError
from rover_pipeline.steps import Options, step
from rover_pipeline.table import find_step
from tests.kit import STAMP, small_trace


class PowerOptions(Options):
    scale: float = Field(1.0, description="Multiplies it.")


@step(
    sensor="_power",
    section="extra.power",
    inputs={"iq": "radar/iq"},
    outputs={"power": "Mean power. [rx]"},
    version=1,
)
def power(iq: np.ndarray, *, options: PowerOptions) -> np.ndarray:
    return (options.scale * np.square(iq.astype("f4")).mean(axis=(1, 2, 4))).astype("f4")


@step(sensor="_list", inputs={"iq": "radar/iq"}, products={"count.txt": "Frames."}, version=1, recording=True)
def listing(recording: Any) -> dict[str, bytes]:
    return {"count.txt": str(recording.count).encode()}


@step(sensor="_power", inputs={"iq": "radar/iq"}, outputs={"power": "Another. [rx]"}, version=1)
def other(iq: np.ndarray) -> np.ndarray:
    return np.zeros((len(iq), 4), "f4")


def test_a_function_is_run_without_a_rule_and_gives_the_bytes_of_a_job(tmp_path: Path) -> None:
    job, notebook = (small_trace(tmp_path / name, 7, sensors=("radar",)) for name in ("job", "notebook"))
    request = json.dumps({"options": {"scale": 2.0}})
    command = StepCommand(getattr(power, ATTRIBUTE), (job / "_power" / STAMP,), request, None)
    run_command(command, job, find=find_step, threads=1, log=None)
    trace = rp.open(notebook)
    made = rp.run(power, trace, {"scale": 2.0}, threads=2)
    assert isinstance(made, rp.Sensor) and made.path == notebook / "_power" and trace["power"].power.shape == (7, 4)
    for name in ("ts", "valid", "power", "meta.json"):
        assert (notebook / "_power" / name).read_bytes() == (job / "_power" / name).read_bytes()
    again = rp.run(power, notebook, PowerOptions(scale=3.0))
    assert isinstance(again, rp.Sensor) and again.power[0, 0] == 1.5 * rp.open(job)["power"].power[0, 0]


def test_without_writing_the_recording_stays_as_it_is_and_the_result_goes_with_the_object(tmp_path: Path) -> None:
    recording = small_trace(tmp_path / "one", 7, sensors=("radar",))
    before = sorted(path.name for path in recording.rglob("*"))
    made = rp.run(power, recording, write=False)
    assert isinstance(made, rp.Sensor) and made.power[:].shape == (7, 4) and made.valid.sum() == 6
    assert sorted(path.name for path in recording.rglob("*")) == before
    place = made.path
    del made
    gc.collect()
    assert not place.exists()
    assert rp.run(listing, recording, write=False) == {"count.txt": b"7"}
    assert sorted(path.name for path in recording.rglob("*")) == before


def test_what_is_no_step_and_what_another_step_has_made_is_told(tmp_path: Path) -> None:
    recording = small_trace(tmp_path / "one", 3, sensors=("radar",))
    with pytest.raises(ConfigError, match="is no step; write @step"):
        rp.run(len, recording)
    rp.run(power, recording)
    with pytest.raises(InTheWayError, match=r"was made by the step .*:power; give your step another `sensor`"):
        rp.run(other, recording)
    assert isinstance(rp.run(other, recording, write=False), rp.Sensor)
    with pytest.raises(rp.RoverError, match="did you mean 'scale'"):
        rp.run(power, recording, {"scael": 2.0})
