"""Mounts of several sensors and recordings, the file that holds them, and what reads it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rover_pipeline.calibrate.imu_mount import imu_mount
from rover_pipeline.cli import main
from rover_pipeline.config import Config
from rover_pipeline.errors import ConfigError
from rover_pipeline.export import rig as command
from rover_pipeline.kinematics.mount import Mount, find_mount
from rover_pipeline.kinematics.mounts import (
    TOLERANCE,
    MountEstimate,
    changed,
    combine,
    compare,
    difference,
    prior_covariance,
    unknown,
)
from rover_pipeline.kinematics.options import RigOptions
from rover_pipeline.kinematics.rotation import exp
from rover_pipeline.odometry.accelerometer import ARM_PRIOR, Level
from rover_pipeline.options import PageOptions
from rover_pipeline.report.page import summarise
from rover_pipeline.report.read import contents
from rover_pipeline.simulate.presets import PRESETS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.validation.mounts import Shown
from tests.calibrate.test_radar_mount import TRUE, motion

DECLARED = Mount(np.array([0.1, 0.0, -0.1]), np.eye(3))


def shown(off: np.ndarray, sigma: float = 0.01, sensor: str = "radar_front", declared: Mount = DECLARED) -> Shown:
    covariance = np.minimum(sigma**2, np.diag(prior_covariance(declared))) * np.eye(7)
    estimate = MountEstimate(changed(declared, off), covariance, prior_covariance(declared))
    return Shown(sensor, "radar", declared, estimate, {})


def calibrated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: dict[str, list[Shown]]) -> dict[str, Any]:
    """The file of recordings that show mounts."""
    for name in found:
        (tmp_path / name / "lidar").mkdir(parents=True)
        (tmp_path / name / "lidar" / "meta.json").write_text("{}")

    def of(trace: Path, cores: int) -> Iterator[Shown]:
        yield from found[trace.name]

    def make(traces: list[str], *needs: object, **options: object) -> None:
        assert [Path(each).name for each in traces] == [*found], "one run makes what all of them need"

    monkeypatch.setattr(command, "make_needed", make)
    monkeypatch.setattr(command, "shown_mounts", of)
    out = tmp_path / "rig.yaml"
    assert main(["calibrate", "rig", *(str(tmp_path / name) for name in found), "-o", str(out)]) == 0
    content: dict[str, Any] = yaml.safe_load(out.read_text())
    return content


def test_recordings_add_what_each_of_them_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    off = np.array([0.0, 0.0, 0.04, 0.02, 0.0, 0.0, 0.01])
    content = calibrated(monkeypatch, tmp_path, {"a": [shown(off)], "b": [shown(off)]})
    stated = content["estimates"]["radar_front"]
    assert stated["adopted"] and 0.9 < stated["translation_sigma"][0] / (0.01 / np.sqrt(2)) < 1.1
    options = Config.parse({"rig": str(tmp_path / "rig.yaml")})
    mount = find_mount("radar", RigOptions.parse({"radar": options.instances["radar_front"]["rig"]}), None)
    # 0.01 rad is an eighth of the prior's deviation, towards which the estimate is drawn.
    assert np.abs(difference(mount, changed(DECLARED, off))[[2, 3]]).max() < 1e-3 and mount.time_offset > 0.009


def test_an_error_that_all_recordings_share_does_not_become_smaller_by_more_of_them() -> None:
    common = np.diag([0.0, 0.0, 0.005**2, 0, 0, 0, 0])
    one = shown(np.zeros(7)).estimate
    many = [replace(one, covariance=one.covariance + common, shared=common)] * 100
    whole = combine(DECLARED, many)
    assert whole.sigma[3] == pytest.approx(0.001, rel=0.01) and whole.sigma[2] > 0.005


def test_recordings_that_show_different_mounts_leave_the_declared_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = shown(np.full(7, 0.0), 1e-3), shown(np.array([0, 0, 0.05, 0, 0, 0, 0]), 1e-3)
    content = calibrated(monkeypatch, tmp_path, {"monday": [here], "friday": [there]})
    assert content["rig"]["radar_front"]["translation"] == [0.1, 0.0, -0.1]
    assert not content["estimates"]["radar_front"]["adopted"]
    assert "was it moved between them" in capsys.readouterr().err


def test_a_declared_mount_that_recordings_do_not_contradict_stays_with_the_deviations_that_they_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = np.array([0, 0, 0, 0, 0, 0.035, 0])
    content = calibrated(monkeypatch, tmp_path, {"a": [shown(off, 0.02)]})
    written, stated = content["rig"]["radar_front"], content["estimates"]["radar_front"]
    assert written["translation"] == [0.1, 0.0, -0.1] and not stated["adopted"]
    # It may be as far off as the estimate is from it, and as that is uncertain.
    assert written["covariance"][5][5] == pytest.approx(0.02**2 + 0.035**2, rel=0.01)
    assert "agrees with what was declared, which stays" in capsys.readouterr().out


def test_a_mount_that_nothing_shows_stays_with_the_deviations_of_one_that_somebody_gave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = Shown("radar", "radar", DECLARED, unknown(DECLARED, "17 frames are too few"), {})
    content = calibrated(monkeypatch, tmp_path, {"a": [nothing]})
    stated = content["estimates"]["radar"]
    assert stated["rotation_sigma_deg"] == [5.0] * 3 and stated["observed"] == []
    assert "17 frames are too few" in stated["remarks"]
    assert Config.parse({"rig": str(tmp_path / "rig.yaml")}).rig.radar is not None


def test_a_sensor_of_which_nobody_says_where_it_is_is_in_the_file_only_where_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = Mount(np.zeros(3), np.eye(3), "identity")
    turned = shown(np.array([0, 0, 1.5, 0, 0, 0, 0]), declared=nowhere)
    nothing = Shown("camera", "camera", nowhere, unknown(nowhere, "measure it"), {})
    content = calibrated(monkeypatch, tmp_path, {"a": [turned, nothing]})
    assert [*content["rig"]] == ["radar_front"] and "covariance" in content["rig"]["radar_front"]
    assert content["estimates"]["camera"]["declared"] is None
    said = capsys.readouterr().out
    assert "radar_front: roll +0 ± 0.57 degrees" in said and "camera: nobody says where it is" in said


def test_a_page_says_where_a_sensor_is_of_which_rig_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere = Mount(np.zeros(3), np.eye(3), "identity")
    turned, there = (shown(np.array([0, 0, yaw, 0, 0, 0, 0]), declared=nowhere) for yaw in (1.5, 0.0))
    nothing = Shown("camera", "camera", nowhere, unknown(nowhere, "measure it"), {})
    monkeypatch.setattr(contents, "shown_mounts", lambda trace: iter([turned, there._replace(sensor="imu"), nothing]))
    _, wrong, tested = contents.read_mounts(tmp_path)
    ((sensor, text),) = wrong
    assert sensor == "radar_front" and text.startswith("yaw +85.9 ± 0.58 degrees off the lidar's pose")
    assert tested["camera"] == "not tested; measure it" and tested["imu"].startswith("errors from")


def test_without_a_lidar_and_a_radar_no_mount_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("camera", "imu"):
        (tmp_path / "hand" / name).mkdir(parents=True)
        (tmp_path / "hand" / name / "meta.json").write_text("{}")
    assert main(["calibrate", "rig", str(tmp_path / "hand"), "-o", str(tmp_path / "rig.yaml")]) == 1
    assert "has no lidar" in capsys.readouterr().err and not (tmp_path / "rig.yaml").exists()


def test_a_file_of_mounts_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("radar: {}\n")
    for name, said in (("bad.yaml", "no section `rig`"), ("none.yaml", "none.yaml")):
        with pytest.raises(ConfigError, match=said):
            Config.parse({"rig": str(tmp_path / name)})
    (tmp_path / "wrong.yaml").write_text("rig: {radar: {time_offset: .nan}}\n")
    with pytest.raises(ConfigError, match=r"rig\.radar\.time_offset"):
        Config.parse({"rig": str(tmp_path / "wrong.yaml")})


def test_a_late_clock_is_where_the_rig_was_before() -> None:
    trajectory, times = motion(5.0), 101 + np.arange(0, 3, 0.1)
    late, known = trajectory.at(times, TRUE)
    on_time, _ = trajectory.at(times + TRUE.time_offset, TRUE._replace(time_offset=0.0))
    assert known.all() and all(np.array_equal(*each) for each in zip(late, on_time, strict=True))
    assert TRUE.time_offset < 0, "what is added to the time of a late stamp is negative"
    section = "rig: {radar: {translation: [0, 0, 0], time_offset: -0.02}}"
    assert find_mount("radar", RigOptions(), section).time_offset == -0.02
    assert find_mount("radar", RigOptions.parse({"radar": {"time_offset": 0.01}}), section).time_offset == 0.01


def test_an_imu_is_where_its_gyroscope_and_its_accelerometer_show() -> None:
    true = changed(DECLARED, np.array([0.02, -0.01, 0.03, 0.05, -0.02, 0.04, 0.008]))
    found = {"usable": True, "reason": "", "rotation_lidar_from_imu": true.rotation.tolist()}
    found |= {"rotation_sigma_deg": [0.02] * 3, "offset_ms": 8.0, "offset_sigma_ms": 0.1}
    arm_cov = np.diag([0.002**2, 0.002**2, ARM_PRIOR[2, 2]])
    level = Level(np.array([0, 0, 1.0]), 0.01, np.zeros(3), np.ones(3), true.translation * [1, 1, 0], False, arm_cov)
    estimate = imu_mount(found, level, DECLARED)
    error = difference(true, estimate.mount)
    assert np.abs(error[[0, 1, 2, 3, 4, 6]]).max() < 1e-4
    assert not estimate.observed[5] and estimate.mount.translation[2] == pytest.approx(-0.1), "no arm up was shown"
    yaw_only = {**found, "rotation_sigma_deg": [0.02, 0.02, 2.0]}
    assert not imu_mount(yaw_only, None, DECLARED).observed[2:6].any(), "what was given before shows nothing"
    assert not imu_mount({**found, "usable": False, "reason": "it stands"}, None, DECLARED).adopted
    turned = Mount(np.zeros(3), exp(np.array([[0, 0, 1.0]]))[0], "identity")
    assert np.abs(difference(true, imu_mount(found, level, turned).mount)[:3]).max() < 1e-3


@pytest.mark.system
def test_a_wrong_rig_has_a_finding_on_the_page_and_is_put_right_by_one_command(tmp_path: Path) -> None:
    sensors = tuple(each for each in PRESETS["tiny"].sensors if each.type != "camera")
    trace, out = tmp_path / "walk", tmp_path / "rig.yaml"
    simulate(trace, preset=PRESETS["tiny"].model_copy(update={"sensors": sensors}), duration=20.0, seed=3)
    config = yaml.safe_load((trace / "config.yaml").read_text())
    true = {
        name: Mount(np.array(each["translation"]), np.array(each["rotation"])) for name, each in config["rig"].items()
    }
    assert main(["run", str(trace), "--outputs", "odom,radar_velocity"]) == 0
    assert not any("off what `rig` says" in each.text for each in summarise(trace, PageOptions()).findings)
    wrong = {name: changed(mount, np.array([0, 0, 0.06, 0.1, 0, 0, 0])) for name, mount in true.items()}
    config["rig"] = {
        name: {"translation": mount.translation.tolist(), "rotation": mount.rotation.tolist()}
        for name, mount in wrong.items()
    }
    (trace / "config.yaml").write_text(yaml.safe_dump(config))
    shutil.rmtree(trace / "_odom")
    assert main(["calibrate", "rig", str(trace), "-o", str(out)]) == 0
    said = [each for each in summarise(trace, PageOptions()).findings if "off what `rig` says" in each.text]
    assert {each.place for each in said} == {"radar", "imu"} and all("yaw -3" in each.text for each in said)
    options = Config.parse({"rig": str(out)}).rig
    for name in ("radar", "imu"):
        error = difference(find_mount(name, options, None), true[name])
        assert np.degrees(abs(error[2])) < 0.4 and np.abs(error[3:5]).max() < 0.03


@pytest.mark.parametrize("what", ["a file of the user", "a link", "a folder", "no folder"])
def test_what_the_command_did_not_write_is_not_overwritten(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = tmp_path / "rig.yaml", tmp_path / "mine.yaml"
    other.write_text("rig: {}\n")
    if what == "a file of the user":
        out.write_text("rig: {}\n")
    elif what == "a link":
        out.symlink_to(other)
    elif what == "a folder":
        out.mkdir()
    else:
        out = tmp_path / "none" / "rig.yaml"
    assert main(["calibrate", "rig", str(tmp_path / "trace"), "-o", str(out)]) == 1
    said = "no such folder" if what == "no folder" else "this command did not write it"
    assert said in capsys.readouterr().err and other.read_text() == "rig: {}\n"
    assert what != "a file of the user" or out.read_text() == "rig: {}\n"


def test_a_component_that_is_not_observed_contradicts_nothing_and_one_that_is_does() -> None:
    # Pitch and height of a camera near a wall change a picture alike: their sum is known well, the height is not.
    sigma = np.array([0.005, 0.008, 0.005, 0.03, 0.03, 0.15, 0.003])
    correlation = np.eye(7)
    correlation[1, 5] = correlation[5, 1] = -0.999
    covariance = np.outer(sigma, sigma) * correlation
    for error, wrong in (({1: 0.005, 5: 0.1}, False), ({2: 0.03}, True), ({}, False)):
        off = np.array([error.get(number, 0.0) for number in range(7)])
        found = compare(DECLARED, MountEstimate(changed(DECLARED, off), covariance, prior_covariance(DECLARED)))
        assert found.is_wrong == wrong, error


def test_errors_of_two_observed_components_are_those_of_two_numbers() -> None:
    # Of yaw and time alone, off by 3.8 deviations each: 29 of chi square, which true mounts reach once in a million.
    prior = prior_covariance(DECLARED)
    covariance = prior.copy()
    covariance[2, 2], covariance[6, 6] = np.radians(0.2) ** 2, 0.003**2
    sigma = np.sqrt(np.diag(covariance + np.diag(TOLERANCE**2)))
    off = np.zeros(7)
    off[[2, 6]] = 3.8 * sigma[[2, 6]]
    found = compare(DECLARED, MountEstimate(changed(DECLARED, off), covariance, prior))
    assert found.is_wrong and found.probability == pytest.approx(2 * np.exp(-(3.8**2)), rel=1e-3)
    nothing = compare(DECLARED, MountEstimate(changed(DECLARED, off), prior, prior))
    assert nothing.probability == 1 and not nothing.is_wrong


def test_a_page_says_from_which_size_on_an_error_of_a_mount_is_found_and_what_is_not_tested() -> None:
    prior = prior_covariance(DECLARED)
    covariance = prior.copy()
    covariance[2, 2], covariance[3, 3] = np.radians(0.2) ** 2, 0.01**2
    said = MountEstimate(DECLARED, covariance, prior).tested()
    found = re.fullmatch(r"errors from yaw (\S+) degrees, x (\S+) m would be found; not tested: (.+)", said)
    assert found and found[3] == "roll, pitch, y, z, time"
    for place, size in ((2, np.radians(float(found[1]))), (3, float(found[2]))):
        for share, wrong in ((1.1, True), (0.8, False)):
            off = np.zeros(7)
            off[place] = share * size
            assert compare(DECLARED, MountEstimate(changed(DECLARED, off), covariance, prior)).is_wrong == wrong
    assert MountEstimate(DECLARED, prior, prior).tested().startswith("not tested: roll, pitch, yaw, x")
