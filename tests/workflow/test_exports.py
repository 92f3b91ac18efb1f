"""Datasets by the workflow: made only when asked for, with all that they need, and again when options change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.format.provenance import PROVENANCE
from rover_pipeline.workflow.exports import Exports
from rover_pipeline.workflow.flow import Flow
from tests.kit import small_trace
from tests.workflow.runs import snakemake


def test_an_unknown_format_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2)
    with pytest.raises(ConfigError, match=r"exports: there is no format 'kiti'; did you mean 'kitti'\?"):
        Exports(Flow({"traces": str(trace), "exports": "kiti"}), tmp_path)


def test_other_options_are_another_output_and_the_order_of_recordings_is_not(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2)

    def stamp(**values: object) -> str:
        return Exports(Flow({"traces": str(trace), **values}), tmp_path).makes("kitti")

    assert stamp() == stamp(exports=["kitti"]) != stamp(export={"kitti": {"every": 2}})
    assert stamp() != stamp(export={"splits": {"seed": 1}})
    assert Path(stamp()).parent == tmp_path / "exports" / "kitti"
    assert Path(stamp(export={"root": "/data/sets"})).parent == Path("/data/sets/kitti")


@pytest.mark.system
def test_a_dataset_is_made_when_asked_for_from_what_it_needs(tiny: Path, tmp_path: Path) -> None:
    trace = tmp_path / "tiny"
    shutil.copytree(tiny, trace)
    out = tmp_path / "exports" / "kitti"
    done = snakemake(tmp_path, trace, config={"outputs": "sync"})
    assert done.returncode == 0 and not out.exists() and not (trace / "_odom").exists(), done.stderr
    done = snakemake(tmp_path, trace, config={"outputs": "sync", "exports": "kitti"})
    assert done.returncode == 0 and (trace / "_odom" / "meta.json").exists(), done.stderr
    first = json.loads((out / PROVENANCE).read_text())
    done = snakemake(tmp_path, trace, config={"outputs": "sync", "exports": "kitti"})
    assert "Nothing to be done" in done.stderr and json.loads((out / PROVENANCE).read_text()) == first
    options = {"outputs": "sync", "exports": ["kitti"], "export": {"kitti": {"every": 2}}}
    done = snakemake(tmp_path, trace, config=options)
    assert done.returncode == 0 and len(list(out.glob("sequences/00/velodyne/*"))) == 12, done.stderr


@pytest.mark.system
def test_a_recording_that_lacks_what_a_dataset_needs_is_named_before_anything_runs(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 2, sensors=("radar",))
    done = snakemake(tmp_path, trace, config={"outputs": "sync", "exports": "kitti"})
    assert done.returncode != 0
    assert f"{trace}: has no sensor 'lidar', which the export 'kitti' needs" in done.stderr
    assert not (trace / "_sync").exists()
