"""The IMU without its biases, compared with the ground truth of the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from rover_pipeline.clocks.sampling_times import smooth_times
from rover_pipeline.engine.execute import Request, run_step
from rover_pipeline.errors import RoverError
from rover_pipeline.format.meta import ChannelSpec
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.imu.motion_bias import motion_bias
from rover_pipeline.imu.options import ImuOptions
from rover_pipeline.imu.orientation import Filtered, orient
from rover_pipeline.imu.saturation import at_limit, damaged
from rover_pipeline.simulate.rig import Clock
from rover_pipeline.table import find_step
from tests.imu.motion import Ride, heading_error, integrated_velocity, ride, tilt_error

STEP = find_step("_imu_filtered")
#: `acc` and `avel`, (N, 3) each.
Samples = tuple[np.ndarray, np.ndarray]


def filtered(data: Ride, **options: Any) -> Filtered:
    times = smooth_times(data.ts)
    return orient(times.smooth, data.acc, data.avel, times.period, ImuOptions(**options))


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


@pytest.mark.parametrize(("preset", "limit"), [("indoor", 0.3), ("outdoor", 0.5), ("bike", 1.0)])
def test_up_is_accurate_to_a_degree_while_the_rig_moves(preset: str, limit: float) -> None:
    data = ride(preset, 40.0)
    moving = np.linalg.norm(data.truth.vel, axis=1) > 0.3
    assert moving.mean() > 0.8
    result = filtered(data)
    assert rms(tilt_error(result.quat, data.truth)[moving]) < limit
    ahead = Rotation.from_quat(result.quat[0]).apply([1.0, 0.0, 0.0])
    assert abs(ahead[1]) < 1e-6 < ahead[0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_estimated_biases_are_those_of_the_device(seed: int) -> None:
    data = ride("indoor", 20.0, seed=seed)
    result = filtered(data)
    assert len(result.stationary) == 1 and result.stationary[0][1] - result.stationary[0][0] > 0.8
    assert np.abs(result.gyro_bias - data.errors.avel_bias).max() < 6e-4
    # A rest shows the component along gravity only.
    up = data.truth.rot[0, 2]
    assert (result.acc_bias - data.errors.acc_bias) @ up == pytest.approx(0, abs=0.008)
    assert np.abs(result.acc_bias - up * (result.acc_bias @ up)).max() < 1e-3
    assert rms(result.avel - data.truth.avel) < rms(data.avel - data.truth.avel) * 1.01


@pytest.mark.parametrize(("preset", "seed"), [("indoor", 0), ("indoor", 1), ("outdoor", 0)])
def test_velocity_drifts_less_without_the_biases(preset: str, seed: int) -> None:
    data = ride(preset, 20.0, seed=seed)
    result, times = filtered(data), smooth_times(data.ts).smooth
    raw = integrated_velocity(times, data.acc, data.avel, data.truth)
    corrected = integrated_velocity(times, data.acc - result.acc_bias, result.avel, data.truth)
    assert rms(corrected - data.truth.vel) < 0.5 * rms(raw - data.truth.vel)
    assert np.abs(heading_error(result.quat, data.truth)).max() < 0.7


@pytest.mark.parametrize("bias", [(0.0, 0.0), (0.02, -0.01), (0.03, 0.04)])
def test_without_a_rest_the_bias_is_estimated_from_the_motion(bias: tuple[float, float]) -> None:
    data = ride("outdoor", 40.0)
    data = data.only(data.ts - data.ts[0] > 6)
    result = filtered(data._replace(avel=data.avel + np.array([*bias, 0.0])))
    assert result.stationary == [] and not result.acc_bias.any()
    assert rms(tilt_error(result.quat, data.truth)) < 1.0
    level = np.abs((result.gyro_bias - data.errors.avel_bias)[:2] - bias)  # about the vertical it is not observable
    assert level.max() < 0.0015


def still(seconds: float, bias: tuple[float, ...], *, tilt: float = 0.0, rate: float = 0.0, seed: int = 0) -> Samples:
    """Samples at 100 Hz with noise: `tilt` (rad) about x at the start, which turns by `rate` rad/s."""
    rng, count = np.random.default_rng(seed), round(100 * seconds)
    angle = tilt + rate * np.arange(count) / 100
    acc = 9.80665 * np.stack([0 * angle, np.sin(angle), np.cos(angle)], axis=1)
    avel = np.array(bias) + rate * np.array([1.0, 0.0, 0.0])
    return acc + rng.normal(0, 0.02, (count, 3)), avel + rng.normal(0, 0.002, (count, 3))


def joined(*parts: Samples) -> Filtered:
    acc, avel = (np.concatenate(each) for each in zip(*parts, strict=True))
    return orient(np.arange(len(acc)) / 100, acc, avel, 0.01, ImuOptions())


@pytest.mark.parametrize("bias", [(0.08, 0.0, 0.0), (0.0, -0.08, 0.0), (0.0, 0.0, 0.08), (0.15, -0.1, 0.2)])
def test_a_large_bias_is_no_turn(bias: tuple[float, float, float]) -> None:
    data = ride("outdoor", 30.0)
    result = filtered(data._replace(avel=1.01 * data.avel + bias))
    assert rms(tilt_error(result.quat, data.truth)) < 0.5
    assert np.abs(result.gyro_bias - data.errors.avel_bias - bias).max() < 1e-3
    # One stationary interval does not distinguish a bias about the vertical from a turn, and says so.
    assert (result.doubt != 0) == (bias[2] != 0)


def test_a_steady_turn_about_a_horizontal_axis_is_no_rest() -> None:
    assert joined(still(10, (0, 0, 0), tilt=-0.2, rate=0.04)).stationary == []
    assert len(joined(still(10, (0.04, 0, 0), tilt=-0.2)).stationary) == 1


def test_a_steady_turn_about_the_vertical_is_told_by_the_other_rests_or_a_doubt() -> None:
    shaken = still(2, (0, 0, 0))[0], np.random.default_rng(1).normal(0, 0.3, (200, 3))
    alone = joined(still(10, (0, 0, 0.08)))
    assert alone.doubt == pytest.approx(0.08, abs=0.001)
    confirmed = joined(still(3, (0, 0, 0.08)), shaken, still(3, (0, 0, 0.08), seed=1))
    assert confirmed.doubt == 0 and len(confirmed.stationary) == 2
    turned = joined(still(3, (0, 0, 0)), shaken, still(6, (0, 0, 0.3), seed=1), shaken, still(3, (0, 0, 0), seed=2))
    assert len(turned.stationary) == 2 and len(turned.turns) == 1 and np.abs(turned.gyro_bias).max() < 1e-3
    # Tilted by a quarter turn, the same bias is about a horizontal axis: gravity does not turn, so it is a bias.
    assert joined(still(3, (0, 0, 0.08)), still(3, (0, 0, 0.08), tilt=np.pi / 2)).doubt == 0


def test_slow_moments_of_a_motion_of_which_a_few_agree_by_chance_are_no_rests() -> None:
    shaken = still(1, (0, 0, 0))[0], np.random.default_rng(1).normal(0, 0.3, (100, 3))
    rates = (0.025, -0.08, 0.09, -0.05, 0.03, 0.11, -0.12, 0.07, 0.035, -0.1)  # three of ten are nearly the same
    parts = [each for n, rate in enumerate(rates) for each in (still(1, (0, 0, rate), seed=n), shaken)]
    result = joined(*parts)
    assert result.stationary == [] and len(result.turns) == 10


def test_a_sensor_that_repeats_one_sample_is_not_at_rest() -> None:
    acc, avel = still(10, (0.01, 0, 0))
    acc[300:500], avel[300:500] = acc[300], [0.02, 0.01, 0.0]
    result = joined((acc, avel))
    assert len(result.stationary) == 2
    assert all(start > 4.7 or stop < 3.3 for start, stop in result.stationary)


def test_a_large_bias_is_known_without_a_rest_where_the_attitude_changes() -> None:
    times = np.arange(6000) / 100
    rng = np.random.default_rng(2)
    angles = np.stack([np.sin(0.9 * times), 0.8 * np.sin(0.63 * times + 1), np.sin(0.4 * times)], axis=1)
    rot = Rotation.from_euler("ZYX", angles)
    acc = rot.inv().apply([0, 0, 9.80665]) + rng.normal(0, 0.3, (6000, 3))
    turn = np.concatenate([(rot[:-1].inv() * rot[1:]).as_rotvec() * 100, [[0.0, 0.0, 0.0]]])
    bias = np.array([0.08, -0.12, 0.06])
    estimate = motion_bias(times, acc, turn + bias)
    assert estimate is not None
    error = estimate.gyro - bias
    assert np.abs(error).max() < 2e-3
    assert error @ np.linalg.solve(estimate.gyro_cov, error) < 12  # 99 % of the chi-square distribution of 3
    result = orient(times, acc, turn + bias, 0.01, ImuOptions())
    up = Rotation.from_quat(result.quat).inv().apply([0.0, 0.0, 1.0])
    assert np.degrees(np.arccos((up * rot.inv().apply([0.0, 0.0, 1.0])).sum(axis=1).clip(-1, 1))).max() < 2.0


def test_the_motion_of_a_level_carrier_does_not_tell_the_bias_about_the_vertical() -> None:
    data = ride("outdoor", 60.0)
    data = data.only(data.ts - data.ts[0] > 6)
    estimate = motion_bias(data.ts, data.acc, data.avel + np.array([0.06, 0, 0]))
    assert estimate is not None and estimate.gyro_cov[2, 2] > 0.03
    assert np.abs(estimate.gyro - data.errors.avel_bias - [0.06, 0, 0])[:2].max() < 0.004


def test_a_drifting_bias_is_interpolated_between_rests() -> None:
    data = ride("indoor", 24.0)
    still = data.only(data.ts - data.ts[0] < 0.9)
    count, rest = len(data.ts), len(still.ts)
    drift = np.linspace(0, 0.01, count + rest)[:, None]
    ts = np.concatenate([data.ts, data.ts[-1] + 0.01 * np.arange(1, rest + 1)])
    avel = np.concatenate([data.avel, still.avel]) + drift
    acc = np.concatenate([data.acc, still.acc])
    result = orient(ts, acc, avel, 0.01, ImuOptions())
    assert len(result.stationary) == 2
    remaining = avel - result.avel - data.errors.avel_bias - drift
    assert np.abs(remaining).max() < 1e-3


@pytest.mark.parametrize("rate", [50.0, 200.0, 400.0])
def test_the_tilt_is_accurate_at_any_sampling_rate(rate: float) -> None:
    data = ride("indoor", 20.0, clock=Clock(0.012, 1 / rate, 0.0006, 0.0002))
    assert rms(tilt_error(filtered(data).quat, data.truth)) < 0.3


def test_the_tilt_is_accurate_with_jitter_and_lost_samples() -> None:
    jittered = ride("indoor", 20.0, clock=Clock(0.012, 0.01, 0.0006, 0.004, lost_every=12))
    assert np.diff(jittered.ts).max() > 0.02 and np.diff(jittered.ts).min() < 0.004
    assert rms(tilt_error(filtered(jittered).quat, jittered.truth)) < 0.3


def test_after_a_gap_up_is_accurate_again_and_the_heading_is_continuous() -> None:
    data = ride("indoor", 30.0)
    since = data.ts - data.ts[0]
    data = data.only((since < 10) | (since > 15))
    result = filtered(data)
    assert result.gaps == [pytest.approx(5.0, abs=0.05)]
    assert rms(tilt_error(result.quat, data.truth)) < 1.0
    after = int(np.argmax(np.diff(data.ts))) + 1
    ahead = Rotation.from_quat(result.quat[[after - 1, after]]).apply([1.0, 0.0, 0.0])
    assert np.diff(np.arctan2(ahead[:, 1], ahead[:, 0])) == pytest.approx(0, abs=0.01)


def record(trace: Path, data: Ride, valid: np.ndarray | None = None) -> Path:
    specs = {TS: TS_SPEC, **{name: ChannelSpec(format="raw", type="f4", shape=(3,)) for name in ("acc", "avel")}}
    samples = {TS: data.ts, "acc": data.acc.astype("f4"), "avel": data.avel.astype("f4")}
    if valid is not None:
        specs[VALID], samples[VALID] = VALID_SPEC, valid
    with SensorWriter(trace / "imu", specs) as writer:
        writer.append(**samples)
    (trace / CONFIG).write_text("imu: {type: imu}\n")
    return trace


def run_filtered(trace: Path) -> tuple[Sensor, dict[str, Any]]:
    run_step(STEP, trace, "_imu_filtered", Request())
    sensor = Sensor(trace / "_imu_filtered")
    return sensor, json.loads((sensor.path / "provenance.json").read_text())


def test_nan_and_invalid_samples_do_not_change_the_others(tmp_path: Path) -> None:
    data = ride("indoor", 8.0)
    clean, _ = run_filtered(record(tmp_path / "clean", data))
    valid = np.ones(len(data.ts), "u1")
    valid[400:403] = 0
    data.acc[400:403] = 1e6
    data.avel[600] = np.nan
    sensor, provenance = run_filtered(record(tmp_path / "trace", data, valid))
    assert np.flatnonzero(sensor.valid(len(data.ts)) == 0).tolist() == [400, 401, 402, 600]
    assert provenance["invalid"] == 4
    quat, expected = sensor.channel("quat").read(), clean.channel("quat").read()
    assert np.abs(quat - expected).max() < 2e-3
    assert provenance["measured"]["gyro_bias_from"] == "rest" and provenance["notes"] == []
    assert provenance["measured"]["rate_hz"] == pytest.approx(100, abs=0.05)


def test_samples_at_the_limit_of_the_range_are_not_valid_and_a_warning_says_so(tmp_path: Path) -> None:
    data = ride("indoor", 20.0)
    limit = np.float32(0.5)
    beyond = (np.abs(data.avel) > limit).any(axis=1)
    assert 0.02 < beyond.mean() < 0.5
    limited = data._replace(avel=np.clip(data.avel, -limit, limit))
    sensor, provenance = run_filtered(record(tmp_path / "trace", limited))
    assert (sensor.valid(len(data.ts)) == 0).tolist() == beyond.tolist()
    (said,) = (each for each in provenance["notes"] if "limit" in each)
    assert f"{beyond.sum()} samples of avel, of {len(beyond)}," in said and "0.5 rad/s" in said
    free, _ = run_filtered(record(tmp_path / "free", data))
    assert free.valid(len(data.ts)).all()


def test_what_no_imu_measures_is_not_valid_and_does_not_change_the_others(tmp_path: Path) -> None:
    data = ride("indoor", 20.0)
    clean, _ = run_filtered(record(tmp_path / "clean", data))
    bad = np.zeros(len(data.ts), bool)
    data.acc[700:705], data.avel[900:903] = 1e4, 1e3
    bad[700:705] = bad[900:903] = True
    frozen = slice(1201, 1260)
    data.acc[frozen], data.avel[frozen] = data.acc[1200], data.avel[1200]
    bad[frozen] = True
    silent = slice(1500, 1560)
    data.acc[silent], data.avel[silent] = 0.0, 0.0
    bad[1501:1560] = True  # the first of them may have been measured
    sensor, provenance = run_filtered(record(tmp_path / "trace", data))
    assert (sensor.valid(len(data.ts)) == 0).tolist() == bad.tolist()
    (said,) = (each for each in provenance["notes"] if "frozen" in each)
    assert said.startswith(f"imu: {bad.sum()} samples") and said.endswith("the first is 700")
    tilt, expected = (tilt_error(each.channel("quat").read(), data.truth) for each in (sensor, clean))
    assert (tilt - expected)[~bad].max() < 4, "degrees, after gaps of 0.6 s in which it turns; 50 with these samples"


@pytest.mark.parametrize("preset", ["indoor", "bike"])
def test_no_sample_with_a_wrong_tilt_is_valid_where_gyroscope_and_accelerometer_contradict_each_other(
    preset: str, tmp_path: Path
) -> None:
    data = ride(preset, 40.0)
    later = np.arange(len(data.ts)) >= len(data.ts) // 2
    wrong = {"axes": data.avel[:, [1, 2, 0]], "jump": data.avel + later[:, None] * [1.0, 0.0, 0.0]}
    for name, avel in wrong.items():
        sensor, provenance = run_filtered(record(tmp_path / name, data._replace(avel=avel)))
        valid, tilt = sensor.valid(len(data.ts)) != 0, tilt_error(sensor.channel("quat").read(), data.truth)
        assert tilt.max() > 80 and (tilt[valid] < 10).all()
        assert any("contradict each other" in each for each in provenance["notes"])


def test_a_simulator_without_noise_that_is_at_rest_is_not_frozen() -> None:
    acc, avel = np.tile([0.1, 0.0, 9.8], (100, 1)), np.zeros((100, 3))
    assert not damaged(acc, avel, 0.01, ImuOptions()).any()
    for frozen in ((acc, avel + 0.2), (0 * acc, avel)):
        assert damaged(*frozen, 0.01, ImuOptions())[1:].all()


@pytest.mark.parametrize("sensors", ["gyroscope", "accelerometer", "axis", "zeros"])
def test_a_sensor_or_an_axis_that_stops_alone_is_not_valid_while_the_rig_moves(sensors: str, tmp_path: Path) -> None:
    data = ride("outdoor", 20.0)
    stopped = np.zeros(len(data.ts), bool)
    stopped[1201:1400] = True
    values, first = data.acc if sensors == "accelerometer" else data.avel, 2 if sensors == "axis" else 0
    if sensors == "zeros":
        values[1200] = 0.0
    values[stopped, first:] = values[1200, first:]
    sensor, provenance = run_filtered(record(tmp_path / "trace", data))
    assert (sensor.valid(len(data.ts)) == 0).tolist() == stopped.tolist()
    assert any(each.startswith("imu: 199 samples") for each in provenance["notes"])


def test_a_simulator_without_noise_that_speeds_up_without_a_turn_is_not_frozen() -> None:
    times = np.arange(2000) / 100
    acc = np.stack([np.sin(times) * (times > 2), 0 * times, 0 * times + 9.8], axis=1)
    avel = np.stack([0 * times, 0 * times, np.cos(3 * times) * (times % 9 > 7)], axis=1)
    assert not damaged(acc, avel, 0.01, ImuOptions()).any()


@pytest.mark.parametrize("preset", ["smooth", "indoor", "bike"])
def test_axes_that_repeat_values_because_their_steps_are_coarse_have_not_stopped(preset: str) -> None:
    data, rng = ride(preset, 40.0), np.random.default_rng(0)
    avel = np.round((data.truth.avel + rng.normal(0, 2e-4, data.avel.shape)) / 1e-3) * 1e-3 + 3e-3
    acc = np.round((data.acc + rng.normal(0, 0.02, data.acc.shape)) / 0.02) * 0.02
    assert (np.diff(avel, axis=0) == 0).mean() > 0.05
    assert not damaged(acc, avel, 0.01, ImuOptions()).any()


def test_a_walk_that_was_not_recorded_for_a_second_has_gravity_all_the_same(tmp_path: Path) -> None:
    data = ride("outdoor", 20.0)
    number = np.arange(len(data.ts))
    kept = data.only((number < 1000) | (number > 1080))
    sensor, _ = run_filtered(record(tmp_path / "trace", kept))
    assert sensor.valid(len(kept.ts)).all(), "no window of ten seconds is whole"


def test_accelerations_without_gravity_are_not_taken_for_g(tmp_path: Path) -> None:
    data = ride("indoor", 20.0)
    moved = data.truth.acc.astype("f4")
    assert np.median(np.linalg.norm(moved, axis=1)) > 1 / 1.6, "single samples look like it"
    sensor, provenance = run_filtered(record(tmp_path / "trace", data._replace(acc=moved)))
    assert not sensor.valid(len(data.ts)).any() and "gravity neither" in provenance["notes"][0]


@pytest.mark.parametrize("factor", [1 / 9.80665, 3.0])
def test_accelerations_in_g_become_those_in_si_and_in_another_unit_none_is_valid(factor: float, tmp_path: Path) -> None:
    data = ride("indoor", 8.0)
    clean, _ = run_filtered(record(tmp_path / "clean", data))
    sensor, provenance = run_filtered(record(tmp_path / "trace", data._replace(acc=(data.acc * factor).astype("f4"))))
    in_g = factor < 1
    assert sensor.valid(len(data.ts)).all() == in_g and sensor.valid(len(data.ts)).any() == in_g
    assert ("acc is in g" in provenance["notes"][0]) == in_g or "gravity neither" in provenance["notes"][0]
    if in_g:
        np.testing.assert_allclose(sensor.channel("acc").read(), clean.channel("acc").read(), atol=1e-4)


@pytest.mark.parametrize("step", [1e-9, 0.002, 0.02, 0.1])
@pytest.mark.parametrize("noise", [0.0, 0.004])
def test_the_turning_points_of_a_motion_in_coarse_steps_are_no_limit(step: float, noise: float) -> None:
    ts, rng = np.arange(0, 60, 0.01), np.random.default_rng(0)
    swing = np.stack([np.sin(ts), 0.7 * np.cos(2.3 * ts), 0.02 * np.sin(0.4 * ts)], axis=1)
    values = np.round((swing + rng.normal(0, noise, swing.shape)) / step) * step
    assert not at_limit(values).any()
    within = np.clip(values, -0.5, 0.5)
    assert at_limit(within)[:, :2].tolist() == (np.abs(within[:, :2]) == 0.5).tolist()
    assert not at_limit(np.round(rng.normal(0, 0.6, (6000, 3)))).any(), "rest in a few steps"


@pytest.mark.parametrize("noise", [0.0, 0.0003, 0.002])
def test_a_robot_that_turns_at_one_rate_is_at_no_limit(noise: float) -> None:
    ts, rng = np.arange(0, 60, 0.01), np.random.default_rng(0)
    rate = 0.5 * np.clip(np.abs(ts % 20 - 10) - 4, 0, 1)
    values = np.round((rate + rng.normal(0, noise, len(ts))) / 0.001) * 0.001
    assert not at_limit(np.stack([values, -values, 0 * values], axis=1)).any()


def test_a_recording_without_a_rest_has_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ride("indoor", 9.0)
    _, provenance = run_filtered(record(tmp_path / "trace", data.only(data.ts - data.ts[0] > 4)))
    assert provenance["measured"]["gyro_bias_from"] == "motion" and provenance["measured"]["still_s"] == []
    assert "was never at rest" in provenance["notes"][0] and "was never at rest" in capsys.readouterr().err


@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_a_recording_of_a_few_samples_has_an_orientation(count: int, tmp_path: Path) -> None:
    data = ride("indoor", 1.0)
    sensor, _ = run_filtered(record(tmp_path / "trace", data.only(np.arange(len(data.ts)) < count)))
    quat = sensor.channel("quat").read()
    np.testing.assert_allclose(np.linalg.norm(quat, axis=1), 1, atol=1e-6)
    assert tilt_error(quat, data.only(np.arange(len(data.ts)) < count).truth).max() < 1


def test_an_imu_without_a_valid_sample_is_an_error(tmp_path: Path) -> None:
    data = ride("indoor", 1.0)
    with pytest.raises(RoverError, match=r"imu/acc.*no sample of acc and avel is finite and valid"):
        run_filtered(record(tmp_path / "trace", data, np.zeros(len(data.ts), "u1")))


def test_times_that_are_none_of_an_imu_are_an_error() -> None:
    data = ride("indoor", 1.0)
    with pytest.raises(ValueError, match="samples come every 1e-300 s, as no IMU's do"):
        orient(data.ts, data.acc, data.avel, 1e-300, ImuOptions())
