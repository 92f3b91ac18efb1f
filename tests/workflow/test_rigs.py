"""The workflow on recordings whose sensors have any names, or are several of a type."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rover_pipeline.errors import ConfigError
from rover_pipeline.format.provenance import read_provenance
from rover_pipeline.format.trace import Trace
from rover_pipeline.workflow.flow import Flow
from tests.kit import small_trace
from tests.workflow.runs import snakemake


def two_radars(path: Path) -> Path:
    """A recording with a second radar, which `config.yaml` declares."""
    trace = small_trace(path, sensors=("radar", "lidar"))
    shutil.copytree(trace / "radar", trace / "front")
    with (trace / "config.yaml").open("a") as file:
        file.write("front: {type: radar, args: {radar: {device: AWR1642}}}\n")
    return trace


def asked(trace: Path, **config: object) -> tuple[Flow, list[str]]:
    """The names that a run asks for, sorted."""
    flow = Flow({"traces": str(trace), **config})
    rules = []
    for name in ("_radar_points", "_radar_velocity", "_lidar_image", "_sync"):
        patterns = flow.makes(name)
        rules.append(SimpleNamespace(output=patterns, input=[flow.needs(name)]))
    return flow, sorted(Path(each).parent.name for each in flow.targets(rules))


def test_a_name_of_a_type_asks_for_each_sensor_and_one_can_be_left_out(tmp_path: Path) -> None:
    trace = two_radars(tmp_path / "rec")
    assert asked(trace, outputs="radar_points")[1] == ["_front_points", "_radar_points"]
    assert asked(trace, outputs="front_points")[1] == ["_front_points"]
    assert asked(trace, outputs="radar_points,-front_points")[1] == ["_radar_points"]
    every = ["_front_points", "_front_velocity", "_lidar_image", "_radar_points", "_radar_velocity", "_sync"]
    assert asked(trace, outputs="all")[1] == every
    with pytest.raises(ConfigError, match="no rule makes 'rear_points'"):
        asked(trace, outputs="rear_points")


def test_a_sensor_of_no_known_type_changes_nothing_but_sync(tmp_path: Path) -> None:
    trace = two_radars(tmp_path / "rec")
    before = asked(trace, outputs="all")[1]
    for name in ("sonar", "a b", "r|x", "rear.x"):
        shutil.copytree(trace / "lidar", trace / name)
    (trace / "sonar" / "meta.json").write_text("{}")
    assert asked(trace, outputs="all")[1] == before
    assert "_sonarsync" not in asked(trace, outputs="sync")[1]


def test_a_sensor_can_have_options_and_a_pose_of_its_own_and_they_are_strict(tmp_path: Path) -> None:
    trace = two_radars(tmp_path / "rec")
    own = {"front": {"points": {"max_points": 7}, "rig": {"translation": [1, 0, 0]}}}
    flow, _ = asked(trace, outputs="radar_points", instances=own)

    def options(product: str) -> dict[str, object]:
        request = json.loads(flow.step_options(SimpleNamespace(trace=str(trace).lstrip("/"), product=product)))
        return {"max": request["options"]["max_points"], "rig": request["options"]["rig"]["radar"]}

    usual, front = options("radar_points"), options("front_points")
    assert front["max"] == 7 != usual["max"]
    assert usual["rig"] is None and front["rig"]["translation"] == [1.0, 0.0, 0.0]  # type: ignore[index]
    flow, _ = asked(trace, outputs="radar_points", rig={"name": "iq1m", "radar": {"translation": [0, 0, 2]}})
    assert options("radar_points")["rig"]["translation"] == [0.0, 0.0, 2.0]  # type: ignore[index]
    assert options("front_points")["rig"] is None, "the pose that the configuration states is that of the main radar"
    other, _ = asked(trace, outputs="radar_points")
    assert flow.made["_front_points"] != other.made["_front_points"], "other options are another stamp"
    with pytest.raises(ConfigError, match=r"instances\.front: radar\.points\.max_pints: unknown key; did you mean"):
        asked(trace, outputs="radar_points", instances={"front": {"points": {"max_pints": 7}}})
    with pytest.raises(ConfigError, match=r"instances\.fornt: no recording has such a sensor; did you mean 'front'\?"):
        asked(trace, outputs="radar_points", instances={"fornt": {}})


def test_two_radars_are_two_passes_over_their_own_samples(tmp_path: Path) -> None:
    trace = two_radars(tmp_path / "rec")
    flow, _ = asked(trace, outputs="radar_points")
    assert [flow.step_of(name, trace).run.shares for name in ("_radar_points", "_front_points")] == ["radar", "front"]


def test_a_name_that_stands_for_two_types_in_one_run_is_an_error_that_names_both_recordings(tmp_path: Path) -> None:
    two_radars(tmp_path / "all" / "first")
    other = small_trace(tmp_path / "all" / "second", sensors=("lidar",))
    (other / "lidar").rename(other / "front")
    with pytest.raises(ConfigError, match=r"second: 'front' is a lidar here and a radar in .*first; process the two"):
        asked(tmp_path / "all", outputs="default")


@pytest.mark.system
def test_every_sensor_gives_its_results_in_one_run_and_the_next_run_has_nothing_to_do(tmp_path: Path) -> None:
    first, second = two_radars(tmp_path / "all" / "first"), small_trace(tmp_path / "all" / "second")
    (second / "radar").rename(second / "front")
    (second / "config.yaml").write_text("front: {type: radar, args: {radar: {device: AWR1642}}}\n")
    done = snakemake(tmp_path, tmp_path / "all", config={"outputs": "radar_points,lidar_image,sync,report"})
    assert done.returncode == 0, done.stderr
    made = {name for name in Trace(first).sensors() if name.startswith("_")}
    assert made == {"_front_points", "_lidar_image", "_radar_points", "_sync"}
    assert {"_front_points", "_lidar_image", "_sync"} <= {*Trace(second).sensors()}
    assert (first / "_front_points/xyz").read_bytes() == (first / "_radar_points/xyz").read_bytes()
    assert (read_provenance(second / "_front_points") or {})["sensors"] == {"radar": "front"}
    again = snakemake(tmp_path, tmp_path / "all", config={"outputs": "radar_points,lidar_image,sync,report"})
    assert again.returncode == 0 and "Nothing to be done" in again.stdout + again.stderr
    os.utime(first / "front" / "iq", ns=(2 * 10**18, 2 * 10**18))
    with (first / "front" / "iq").open("r+b") as file:
        file.write(b"\1\1")
    changed = snakemake(tmp_path, tmp_path / "all", "-n", config={"outputs": "radar_points,lidar_image,sync"})
    assert "front_points: 1 of 2 recordings" in changed.stderr and "lidar_image:" not in changed.stderr


def test_the_odometry_of_several_radars_is_one_output_and_is_given_the_options_of_each(tmp_path: Path) -> None:
    trace = two_radars(tmp_path / "rec")
    own = {"front": {"velocity": {"vertical": 0.5}, "rig": {"translation": [1, 0, 0]}}}
    flow = Flow({"traces": str(trace), "rig": {"radar": {"translation": [0, 0, 2]}}, "instances": own})
    flow.makes("_radar_odom")
    wildcards = SimpleNamespace(trace=str(trace).lstrip("/"), product="radar_odom")
    options = json.loads(flow.step_options(wildcards))["options"]
    assert options["rig"]["radar"]["translation"] == [0.0, 0.0, 2.0] and options["vertical"] == 0.2
    assert list(options["others"]) == ["front"] and options["others"]["front"]["vertical"] == 0.5
    assert options["others"]["front"]["rig"]["radar"]["translation"] == [1.0, 0.0, 0.0]
    plain = Flow({"traces": str(trace), "rig": {"radar": {"translation": [0, 0, 2]}}})
    assert flow.makes("_radar_odom") != plain.makes("_radar_odom"), "other options are another stamp"
    shutil.rmtree(trace / "front")
    alone = Flow({"traces": str(trace)})
    alone.makes("_radar_odom")
    assert "others" not in json.loads(alone.step_options(wildcards))["options"]


def test_a_run_says_what_it_leaves_out_for_want_of_a_lidar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = small_trace(tmp_path / "rec", sensors=("radar",))
    asked(trace, outputs="all")
    assert f"rover-pipeline: {trace}: has no lidar, of which lidar_image would be made" in capsys.readouterr().err


def test_what_is_said_of_many_recordings_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        small_trace(tmp_path / name, sensors=("radar",))
    asked(tmp_path, outputs="all")
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "has no lidar" in line)
    assert line.startswith(f"rover-pipeline: 3 recordings, the first of them {tmp_path}/a: has no lidar")


def test_names_that_no_sensor_has_are_told_with_the_nearest_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = two_radars(tmp_path / "rec")
    with (trace / "config.yaml").open("a") as file:
        file.write("rig: {frnt: {}}\n")
    asked(trace, outputs="sync", sync={"reference": "frnt"}, odometry={"lidar": "lidr"})
    said = capsys.readouterr().err
    assert "has no sensor 'frnt', which sync.reference names: lidar is taken; did you mean 'front'?" in said
    assert "has no lidar 'lidr', which odometry.lidar names: lidar is taken; did you mean 'lidar'?" in said
    assert "config.yaml: rig.frnt: names no sensor; did you mean 'front'?" in said
    asked(trace, outputs="sync", sync={"reference": "camera"})
    assert "sync.reference" not in capsys.readouterr().err, "the manual says what is taken then"


def test_a_pose_that_is_none_is_refused_when_a_run_is_planned(tmp_path: Path) -> None:
    trace = two_radars(tmp_path / "rec")
    with (trace / "config.yaml").open("a") as file:
        file.write("rig: {radar: {trans: [0, 0, 0]}}\n")
    with pytest.raises(ConfigError) as caught:
        asked(trace, outputs="sync")
    assert str(caught.value).startswith(
        f"{trace}/config.yaml: rig.radar.trans: unknown key; did you mean 'translation'?"
    )
    asked(trace, outputs="lidar_image")  # needs no pose
    asked(trace, outputs="sync", rig={"radar": {"translation": [0, 0, 0]}})  # comes before that of the recording
