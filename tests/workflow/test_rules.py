"""What rules are written with: inputs that may be missing, every raw sensor, all other results, folders of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rover_pipeline.format.sensor import Sensor
from rover_pipeline.table import TABLE
from rover_pipeline.workflow.flow import Flow
from tests.conftest import CHECKOUT
from tests.kit import small_trace
from tests.workflow.runs import snakemake

pytestmark = pytest.mark.system

STEPS = """
from rover_pipeline.steps import step
from tests import toy

@step(
    sensor="_beside",
    inputs={"ts": "radar/ts"},
    whole={"times": "*/ts", "energy": "_radar_segments/energy", "gnss": "gnss/fix"},
    outputs={"*": "Of the {name}.", "energies": "Number of them."},
    version=1,
)
def beside(ts, *, times, energy=None, gnss=None):
    others = toy.beside(ts, ts, ts, lidar_ts=ts, lidar_valid=ts, times=times)
    return others | {"energies": ts * 0 + len(energy)}

@step(
    sensor="_radar_segments",
    section="extra.mine",
    inputs=toy.IQ,
    outputs={"energy": "A."},
    version=1,
    recording=True,
)
def segments(recording, *, options: toy.SegmentOptions):
    return toy.segments(recording, options=options)

@step(sensor="_folder", inputs=toy.IQ, products={"sum.txt": "A.", "name.txt": "B."}, version=1, waits_for_all=True)
def folder(recording, *, trace):
    return toy.folder(recording, trace=trace)
"""
RULES = """
use rule derived as {0} with:
    input:
        needs("mine:{0}"),
    output:
        makes("mine:{0}"),
"""


@pytest.fixture
def run(tmp_path: Path):  # type: ignore[no-untyped-def]
    (tmp_path / "mine.py").write_text(STEPS)
    (tmp_path / "toy.smk").write_text("".join(RULES.format(name) for name in ("beside", "segments", "folder")))
    path = os.pathsep.join([str(tmp_path), str(CHECKOUT), os.environ.get("PYTHONPATH", "")])

    def call(outputs: object, *arguments: str, frames: int = 4) -> str:
        config = {"extra_rules": ["toy.smk"], "outputs": outputs, "extra": {"mine": {"frames": frames}}}
        done = snakemake(tmp_path, tmp_path / "rec", *arguments, config=config, env={"PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return call


def test_an_optional_input_is_made_where_the_trace_has_what_it_takes(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    trace = small_trace(tmp_path / "rec")
    run(["beside"])
    assert {"lidar", "radar", "energies"} <= set(Sensor(trace / "_beside").specs)
    assert Sensor(trace / "_radar_segments").length() == 6


def test_a_folder_of_files_waits_for_all_other_results_and_follows_them(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    trace = small_trace(tmp_path / "rec")
    run(["folder", "radar_segments"])
    places = {
        name: json.loads((trace / name / "provenance.json").read_text()) for name in ("_folder", "_radar_segments")
    }
    assert (trace / "_folder" / "sum.txt").exists() and not (trace / "_folder" / "meta.json").exists()
    assert places["_radar_segments"]["measured"] == {"segments": 2}
    assert "Nothing to be done" in run(["folder", "radar_segments"])
    (trace / "_folder" / "sum.txt").unlink()
    made = (trace / "_radar_segments" / "energy").stat().st_mtime_ns
    run(["folder", "radar_segments"])
    assert (trace / "_radar_segments" / "energy").stat().st_mtime_ns == made
    assert (trace / "_folder" / "sum.txt").exists()
    before = (trace / "_folder" / "sum.txt").stat().st_mtime_ns
    run(["folder", "radar_segments"], frames=3)
    assert (trace / "_folder" / "sum.txt").stat().st_mtime_ns > before
    assert json.loads((trace / "_radar_segments" / "provenance.json").read_text())["options"] == {"frames": 3}


def test_every_file_that_a_step_reads_is_an_input_of_its_rule_and_config_yaml_of_no_other(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("lidar", "radar", "camera", "imu"))
    (trace / "camera" / "camera.json").write_text("{}")
    flow = Flow({"traces": str(trace), "occupancy": {"level": True}, "lidar": {"points": {"compensate": True}}})
    for name in TABLE:
        flow.makes(name)
    for name, step in TABLE.items():
        inputs = {path.removeprefix(f"{trace}/") for path in flow.needs(name).files(trace)}
        files = {reference.removesuffix("?") for reference in step.files.values()}
        lacking = {file for file in files if (trace / file).exists()} - inputs
        assert not lacking, f"{name} reads {lacking}, its rule does not say so"
        assert ("config.yaml" in inputs) == ("config.yaml" in {*files, *step.reads}), name
        channels = {reference for reference in step.inputs.values() if (trace / reference).exists()}
        assert channels <= inputs, name
    assert any(path.startswith(f"{trace}/_odom/.options-") for path in flow.needs("_bev").files(trace))


def test_the_only_output_of_a_rule_is_its_stamp_which_snakemake_may_remove(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("camera",))
    for stored in ("raw", "jpg"):
        flow = Flow({"traces": str(trace), "camera": {"frames": {"format": stored}}})
        (output,) = flow.makes("_camera_frames")
        assert ".options-" in output


def test_another_config_yaml_remakes_what_was_made_from_it_and_nothing_else(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec")
    outputs = {"outputs": "lidar_image,radar_range_azimuth,report", "output_root": str(tmp_path / "out")}
    assert snakemake(tmp_path, trace, config=outputs).returncode == 0
    results = tmp_path / "out" / "rec"
    page = json.loads((results / "_report" / "provenance.json").read_text())
    assert {"config.yaml", "radar/ts", "radar/valid", "_lidar_image/valid"} <= set(page["inputs"])
    os.utime(trace / "config.yaml")
    assert "Nothing to be done" in snakemake(tmp_path, trace, config=outputs).stderr, "its content is the same"
    before = {place.name: (place / "provenance.json").read_bytes() for place in results.glob("_*")}
    text = (trace / "config.yaml").read_text()
    (trace / "config.yaml").write_text(text.replace("AWR1642", "AWR1843L"))
    again = snakemake(tmp_path, trace, config=outputs)
    assert again.returncode == 0, again.stderr
    after = {place.name: (place / "provenance.json").read_bytes() for place in results.glob("_*")}
    assert {name for name in before if before[name] != after[name]} == {"_radar_range_azimuth", "_report"}


@pytest.mark.parametrize(
    "parameter", ['json.dumps({"value": config["value"]}), 1', 'pd.DataFrame({"a": [config["value"]]})']
)
def test_a_changed_parameter_remakes_and_an_equal_one_does_not_also_where_the_run_before_had_loaded_pandas(
    parameter: str, tmp_path: Path
) -> None:
    pytest.importorskip("pandas")
    rule = (
        f"import json\nimport pandas as pd\nrule:\n    output: 'made'\n    params: {parameter}\n    shell: 'touch made'"
    )
    (tmp_path / "Snakefile").write_text(rule)
    options = ["--cores", "1", "--rerun-triggers", "params", "--config"]

    def run(module: str, value: int) -> str:
        command = [sys.executable, "-P", "-X", "importtime", "-m", module, *options, f"value={value}"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr

    ours = "rover_pipeline.workflow.interruptible"
    assert "1 of 1 steps" in (before := run("snakemake", 1)) and "pandas.core" in before
    assert "Nothing to be done" in run(ours, 1)
    assert "1 of 1 steps" in (changed := run(ours, 2)) and ("pandas.core" in changed) == parameter.startswith("pd.")
    assert "Nothing to be done" in run(ours, 2) and "Nothing to be done" in run("snakemake", 2)
