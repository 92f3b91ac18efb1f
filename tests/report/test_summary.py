"""The figures of the page are those of the recording, and damage of a recording is reported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from docs.make_summary import documentation
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.options import PageOptions
from rover_pipeline.report import page
from rover_pipeline.report.summary import Finding, Summary
from rover_pipeline.simulate.faults import FAULTS
from rover_pipeline.simulate.record import simulate
from rover_pipeline.table import find_step
from tests.conftest import CHECKOUT
from tests.kit import START_S, small_trace, times
from tests.report import scene as walked
from tests.report.scene import provenance, sensor


def summarise(trace: Path, **options: object) -> Summary:
    """The summary of a trace, without images."""
    return page.summarise(trace, PageOptions.model_validate({"instants": 0, "outputs": ["report"], **options}))


def findings(summary: Summary, severity: str) -> dict[str, Finding]:
    return {each.place: each for each in summary.findings if each.severity == severity}


def test_sensors_are_described_as_they_were_recorded(summary: Summary) -> None:
    sensors = {each.name: each for each in summary.sensors}
    assert list(sensors)[:4] == ["lidar", "radar", "camera", "imu"]
    lidar, radar = sensors["lidar"], sensors["radar"]
    assert (lidar.samples, lidar.lost, lidar.gaps) == (walked.FRAMES - 3, 3, 2)
    assert lidar.longest_gap_s == pytest.approx(0.3)
    assert lidar.rate_hz == pytest.approx(10) and lidar.nominal_hz == 10
    assert lidar.clock_ppm == pytest.approx(0, abs=0.1)
    assert radar.invalid == len(walked.INVALID)
    assert lidar.bytes == sum(each.bytes for each in lidar.channels)
    assert summary.raw_bytes == sum(each.bytes for each in summary.sensors if not each.name.startswith("_"))
    assert summary.start_s == pytest.approx(START_S - 0.002)


def test_length_and_speed_of_the_walk_are_measured(summary: Summary) -> None:
    motion = summary.motion
    assert motion is not None
    length = 1.5 * 3.9
    assert motion.distance_m == pytest.approx(length, rel=0.02)  # corners are cut
    np.testing.assert_allclose(motion.extent_m, [length / 2, length / 2, 0], rtol=1e-6)
    assert motion.end_to_start_m == pytest.approx(length / np.sqrt(2))
    assert motion.max_speed_mps == motion.median_speed_mps == pytest.approx(1.5)
    assert (motion.samples, motion.invalid) == (walked.FRAMES - 3, 1)
    np.testing.assert_allclose(motion.quality["inlier_ratio"], [0.8, 0.85, 0.9], rtol=1e-6)


def test_speed_is_compared_with_the_maximum_doppler(summary: Summary) -> None:
    speed = summary.radar_speed
    assert speed is not None
    assert speed.max_doppler_mps == pytest.approx(walked.MAX_DOPPLER)
    assert speed.above_share == pytest.approx(0.25)
    assert speed.difference_mps == pytest.approx(0.1 * np.sqrt((8 * 4 + 30 * 1) / 38), rel=1e-4)  # two are not valid
    assert "maximum Doppler" in findings(summary, "warning")["radar"].text


@pytest.mark.parametrize(
    ("pose", "radar", "sigma", "said"),
    [
        (0.0, 1.2, 0.05, "stands still while the radar sees 1.2 m/s, for 38 % of the time"),
        (1.2, 0.0, 0.05, "moves at 1.2 m/s while the radar sees 0.0 m/s, for 38 % of the time"),
        (1.2, 1.5, 0.05, ""),  # both err a little
        (20.0, 20.7, 0.6, ""),  # three per cent of the scale of a radar
        (20.0, 15.0, 0.6, "moves at 20.0 m/s while the radar sees 15.0 m/s, for 38 % of the time"),
    ],
)
def test_a_radar_that_sees_what_the_odometry_does_not_is_named(
    pose: float, radar: float, sigma: float, said: str, tmp_path: Path
) -> None:
    trace, count = small_trace(tmp_path / "trace", 40, sensors=("lidar", "radar"), invalid={}), 40
    (trace / "radar" / "radar.json").write_text('{"shape": [64, 2, 4, 16], "doppler_resolution": 1.0}')
    ts, ahead = times(count), np.array([[1.0, 0.0, 0.0]])
    # They agree but in the last 16 of 40 frames, one of which the radar knows nothing of.
    seen = np.where(np.arange(count) < 24, pose, radar)[:, None] * ahead
    seen[30] = np.nan
    cov = np.tile(np.diag([sigma**2, 0.1, 0.1]), (count, 1, 1))
    sensor(trace, "_radar_pose", ts, pos=np.zeros((count, 3)), vel=np.tile(pose * ahead, (count, 1)))
    sensor(trace, "_radar_velocity", ts, vel=seen.astype("f4"), cov=cov.astype("f4"))
    found = [each for each in summarise(trace).findings if "while the radar sees" in each.text]
    assert [(each.place, each.text, each.severity) for each in found] == ([("_odom", said, "warning")] if said else [])


@pytest.mark.parametrize(("valid", "severity"), [(0, ["error"]), (20, ["warning"]), (39, [])])
def test_a_recording_none_of_whose_velocities_is_valid_is_not_called_usable(
    valid: int, severity: list[str], tmp_path: Path
) -> None:
    trace = small_trace(tmp_path / "trace", 40, sensors=("radar",), invalid={})
    ok = np.arange(40) < valid
    sensor(trace, "_radar_odom", times(40), valid=ok.astype("u1"), pos=np.zeros((40, 3)))
    summary = summarise(trace)
    found = [each.severity for each in summary.findings if (each.place, each.figure) == ("_radar_odom", "invalid")]
    assert found == severity
    assert ("cannot be used" in summary.headline) == (severity == ["error"])


def test_sync_residuals_are_percentiles_of_the_matched_samples(summary: Summary) -> None:
    (radar,) = summary.sync
    ts = walked.lidar_times()
    others = START_S + 0.013 + np.arange(walked.FRAMES) / 10
    differences = others[None] - ts[:, None]
    residuals = 1e3 * differences[np.arange(len(ts)), np.abs(differences).argmin(axis=1)][2:]
    assert (radar.matched, radar.missing) == (len(ts) - 2, 2)
    percentiles = [radar.p50_ms, radar.p95_ms, radar.p99_ms, radar.max_ms]
    np.testing.assert_allclose(
        np.array(percentiles, "f8"), np.percentile(np.abs(residuals), [50, 95, 99, 100]), rtol=1e-4
    )
    assert radar.median_ms == pytest.approx(np.median(residuals), rel=1e-4)


def test_the_reference_is_not_matched_with_itself_and_clock_drift_comes_from_the_step(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 20, sensors=("imu", "lidar"), invalid={})
    ts, index, residuals = times(20), np.arange(20, dtype="i4"), np.full(20, 0.004, "f4")
    sensor(trace, "_sync", ts, imu=index, imu_dt=residuals, lidar=index, lidar_dt=0 * residuals)
    clock = {"drift_ppm": 1.25, "latency_ms": {"p95": 3.5}}
    measured = {"reference": "lidar", "sensors": {"imu": clock, "lidar": clock}}
    provenance(trace / "_sync", samples=20, invalid=0, source="lidar", measured=measured)
    (imu,) = summarise(trace).sync
    assert (imu.sensor, imu.drift_ppm, imu.latency_p95_ms) == ("imu", 1.25, 3.5)
    assert imu.p95_ms == pytest.approx(4)


def test_steps_are_described_by_provenance(summary: Summary, scene: Path) -> None:
    steps = {each.sensor: each for each in summary.steps}
    assert steps["_odom"].invalid == 1 and steps["_odom"].version == 2 and steps["_odom"].seconds == 1.5
    files = [path for path in (scene / "_map").iterdir() if path.is_file()]
    assert steps["_map"].bytes == sum(path.stat().st_size for path in files)


def test_findings_are_sorted_and_give_the_verdict(summary: Summary) -> None:
    order = [("error", "warning", "note").index(each.severity) for each in summary.findings]
    assert order == sorted(order)
    assert summary.verdict == "fair" and "warning" in summary.headline
    assert "3 samples (7.5 %) in 2 gaps" in findings(summary, "warning")["lidar"].text


def test_a_clean_recording_is_good(tmp_path: Path) -> None:
    summary = summarise(small_trace(tmp_path / "clean", 20, sensors=("lidar", "imu", "camera"), invalid={}))
    assert (summary.verdict, summary.findings) == ("good", ())
    assert summary.headline == "Complete: 3 sensors for 1.9 s, and nothing wrong was found."


def test_gaps_late_starts_and_early_ends_are_reported(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 60, sensors=("lidar", "imu", "camera"), invalid={})
    (times(60) + np.where(np.arange(60) < 30, 0, 2.5)).tofile(trace / "imu" / "ts")
    (times(60) + 1.5).tofile(trace / "camera" / "ts")
    summary = summarise(trace)
    assert summary.verdict == "bad"
    errors, warnings = findings(summary, "error"), findings(summary, "warning")
    assert "is silent for 2.6 s; lost 25 samples" in errors["imu"].text
    assert "ends 2.5 s before" in errors["lidar"].text
    assert "starts 1.5 s after" in warnings["camera"].text
    relaxed = summarise(trace, max_gap_s=5, max_late_s=5, max_lost_share=1)
    assert relaxed.verdict == "good" and "imu" in findings(relaxed, "note")


@pytest.mark.parametrize(
    ("fault", "severity", "place", "text"),
    [
        ("missing-sidecars", "error", "lidar/lidar.json", "is missing"),
        ("missing-index", "warning", "lidar/rng_i", "samples from the .xz streams"),
        ("times-out-of-order", "error", "radar/ts", "does not come after"),
        ("missing-channel", "error", "radar/valid", "is missing"),
        ("wrong-shape", "error", "lidar/lidar.json", "describes samples of"),
    ],
)
def test_every_kind_of_damage_is_reported(
    tiny: Path, tmp_path: Path, fault: str, severity: str, place: str, text: str
) -> None:
    trace = tmp_path / "damaged"
    shutil.copytree(tiny, trace)
    FAULTS[fault](trace)
    summary = summarise(trace)
    assert text in findings(summary, severity)[place].text
    assert str(tmp_path) not in summary.model_dump_json(), "the page does not tell where the recording lies"


def test_a_sensor_that_was_cut_off_is_reported_once(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "cut", 20, sensors=("lidar", "imu"), invalid={})
    for name in ("rng", "rfl"):
        path = trace / "lidar" / name
        os.truncate(path, path.stat().st_size * 2 // 3)
    summary = summarise(trace)
    (error,) = [each for each in summary.findings if each.severity == "error"]
    assert (
        error.place == "lidar"
        and error.text.startswith("was cut off: ")
        and "--config input='{truncate: true}'" in error.advice
    )
    sensors = {each.name: each for each in summary.sensors}
    assert sensors["lidar"].whole < sensors["lidar"].samples == 20 and sensors["imu"].whole == 20


def test_the_notes_of_steps_are_reported_once(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 20, sensors=("radar", "lidar"), invalid={})
    note = "radar/iq: I and Q seem swapped: try radar.sample_order: iiqq"
    for name in ("_one", "_two"):
        sensor(trace, name, times(20))
        provenance(trace / name, samples=20, invalid=0, source="radar", notes=[note], corrupt=2, dropped=1)
    summary = summarise(trace)
    assert [each.text for each in summary.findings].count("I and Q seem swapped: try radar.sample_order: iiqq") == 1
    assert "2 samples of its input cannot be decoded" in findings(summary, "error")["_one"].text
    assert any("1 sample of its input left out" in each.text for each in summary.findings)


def test_an_output_that_was_asked_for_and_is_not_there_is_an_error_with_its_cause(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 20, sensors=("lidar", "imu"), invalid={})
    run_step(find_step("_sync"), trace, "_sync", Request())
    ends = np.fromfile(trace / "lidar" / "rng_i", "<u8")
    with (trace / "lidar" / "rng").open("r+b") as file:
        file.seek(int(ends[3] + ends[4]) // 2)
        file.write(bytes(24))
    for outputs in (None, ["default"], ["lidar_image,odom", "map"]):
        summary = summarise(trace, outputs=outputs)
        errors = findings(summary, "error")
        assert summary.verdict == "bad" and summary.headline.endswith("look at lidar and _lidar_image.")
        assert errors["lidar/rng"].text.startswith("sample 3 at byte ")
        assert "rover-pipeline run rec --config input='{mark_corrupt: true}'" in errors["lidar/rng"].advice
        assert "was not made, nor _odom" in errors["_lidar_image"].text
        assert "lidar is damaged" in errors["_lidar_image"].text
        assert errors["_lidar_image"].advice.endswith("rover-pipeline run rec --outputs lidar_image")
    for outputs in (["sync", "report"], ["default", "-lidar_image", "-odom", "-bev", "-map", "-imu_pose"]):
        assert [*findings(summarise(trace, outputs=outputs), "error")] == ["lidar/rng"]


def test_all_outputs_are_without_those_whose_option_nobody_set(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 20, sensors=("camera", "lidar"), invalid={})
    run_step(find_step("_sync"), trace, "_sync", Request())
    errors = findings(summarise(trace, outputs=["all"]), "error")
    assert "_camera_frames" in errors and "_camera_model" not in errors, "it needs camera.model.path"


def test_a_damaged_picture_that_no_result_was_made_from_is_found(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 20, sensors=("camera", "lidar"), invalid={})
    assert summarise(trace).verdict == "good"
    FAULTS["corrupt-video"](trace)
    summary = summarise(trace)
    assert (
        summary.verdict == "bad" and "does not begin like a JPEG" in findings(summary, "error")["camera/video.avi"].text
    )


def test_poses_outside_of_the_odometry_and_samples_that_are_raw_invalid_are_no_warning(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "rec", 20, sensors=("radar", "lidar"), invalid={"radar": (10,)})
    sensor(trace, "_odom", times(20)[5:15])
    valid = np.zeros(20, "u1")
    valid[5:15], valid[10] = 1, 0
    sensor(trace, "_radar_pose", times(20), valid)
    texts = [each.text for each in summarise(trace).findings if each.place == "_radar_pose"]
    assert "10 samples before the first or after the last pose: none is known there" in texts
    assert not any("not to be trusted" in text for text in texts)
    valid[7] = 0
    sensor(trace, "_radar_pose", times(20), valid)
    texts = [each.text for each in summarise(trace).findings if each.place == "_radar_pose"]
    assert "has 1 of 9 samples not to be trusted (11 %)" in texts


def test_a_result_of_other_input_bytes_is_a_warning_not_an_error(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace", 20, sensors=("lidar",), invalid={})
    sensor(trace, "_one", times(20))
    assert summarise(trace).verdict == "good"
    (times(20) + 0.001).tofile(trace / "lidar" / "ts")
    summary = summarise(trace)
    assert summary.verdict == "fair" and "other bytes of lidar/ts" in findings(summary, "warning")["_one"].text


def test_a_folder_without_sensors_has_a_summary_too(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.yaml").touch()
    summary = summarise(tmp_path / "empty")
    assert summary.verdict == "bad" and summary.sensors == () and summary.start_s is None


def test_every_key_is_documented() -> None:
    assert (CHECKOUT / "docs" / "summary.md").read_text() == documentation()
    assert "| `whole` |" in documentation()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "tiny"
    simulate(path, preset="tiny", duration=1.0)
    return path
