"""Calibration: injected errors of an array are recovered, and what is written is applied by every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rover_pipeline.calibrate.array import Passed, fit_gains, fit_moving, strongest_directions
from rover_pipeline.calibrate.radar import Reflector, calibrate_radar
from rover_pipeline.errors import ConfigError, RoverError
from rover_pipeline.format.sensor import TS, TS_SPEC, VALID, VALID_SPEC, Sensor, SensorWriter
from rover_pipeline.format.trace import CONFIG
from rover_pipeline.radar.angles import coherence, plane_waves
from rover_pipeline.radar.boards import BOARDS, Board
from rover_pipeline.radar.frames import make_transform
from rover_pipeline.radar.options import CalibrationFile, PointsOptions, RangeAzimuthOptions
from rover_pipeline.radar.points import PointFinder
from rover_pipeline.radar.steps import points, range_azimuth
from rover_pipeline.simulate.faults import Unkind
from rover_pipeline.simulate.presets import Chirps
from rover_pipeline.simulate.sensors import radar
from rover_pipeline.simulate.sensors.radar import NODES, Paths, RadarErrors
from tests.kit import spec_of, times
from tests.radar.scenes import Target, chirps, texts
from tests.radar.test_coupling import still_life

UNKIND = Unkind(array_phase=25.0, array_gain=1.0, radar_coupling=2000.0)
DEVICES = ("AWR1843", "AWR1843AOP", "AWR2944")


def errors(chirp: Chirps, seed: int = 1) -> RadarErrors:
    return RadarErrors.of_board(chirp, UNKIND, np.random.default_rng(seed))


def words(chirp: Chirps, targets: list[Target], seed: int, wrong: RadarErrors | None) -> np.ndarray:
    """As `scenes.words`, by a board with errors."""
    sideways = np.array([t.direction[1:] for t in targets])
    distance = np.array([t.range_m + t.velocity_mps * (NODES - 0.5) * chirp.duration for t in targets]).T
    amplitude = np.array([t.counts for t in targets]) / radar.GAIN
    paths = Paths(distance, np.stack([sideways, sideways]), amplitude, np.linspace(0, 5, len(targets)))
    rng = np.random.default_rng(seed)
    signal = radar.synthesize(chirp, paths)
    return radar.digitize(signal if wrong is None else wrong.applied(signal, rng), chirp.is_real, rng)


def record(trace: Path, chirp: Chirps, iq: np.ndarray) -> Path:
    specs = {TS: TS_SPEC, VALID: VALID_SPEC, "iq": spec_of(iq)}
    with SensorWriter(trace / "radar", specs) as writer:
        writer.append(ts=times(len(iq)), valid=np.ones(len(iq), "u1"), iq=iq)
    about = texts(chirp)
    (trace / "radar" / "radar.json").write_text(about["sidecar"])
    (trace / CONFIG).write_text(about["config"])
    return trace


def relative(found: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """RMS of phases, degrees, and of gains, dB, but for a common factor."""
    ratio = found / true.ravel()
    phase = np.angle(ratio / np.exp(1j * np.angle(ratio.sum())))
    gain = 20 * np.log10(np.abs(ratio))
    return float(np.degrees(np.sqrt((phase**2).mean()))), float(np.sqrt(((gain - gain.mean()) ** 2).mean()))


@pytest.mark.parametrize("device", DEVICES)
def test_a_reflector_gives_the_errors_of_an_array_to_3_degrees_and_its_points_the_right_directions(
    device: str, tmp_path: Path
) -> None:
    chirp = chirps(device, frame_length=16, frequency=76.0)
    wrong = errors(chirp)
    clutter = [Target(1.4, azimuth=-0.6, counts=200), Target(3.4, azimuth=0.5, counts=200)]
    reflector = Target(2.6, azimuth=0.05, counts=2000)
    iq = np.stack([words(chirp, [reflector, *clutter], seed, wrong) for seed in range(6)])
    trace = record(tmp_path / "trace", chirp, iq)
    given = Reflector(2.5, np.degrees(0.05), 0.0, 2.57)
    file = calibrate_radar([trace], tmp_path / "radar.yaml", reflector=given)
    phase, gain = relative(np.array(file.gains(chirp.shape[1], 4)), wrong.gains)
    assert phase < 3 and gain < 0.3
    assert file.range_bias.value == pytest.approx(0.03, abs=0.01)
    assert file.coherence[0] < 0.9 < 0.99 < file.coherence[1]
    assert yaml.safe_load((tmp_path / "radar.yaml").read_text())["coupling"]["tones"]

    deviations: dict[str, list[float]] = {"perfect": [], "calibrated": [], "raw": []}
    scene = [Target(0.8 + 0.38 * n, azimuth=np.radians(17 * n - 50), counts=400) for n in range(7)]
    for seed in range(3):
        for name in deviations:
            calibration = str(tmp_path / "radar.yaml") if name == "calibrated" else None
            frame = words(chirp, scene, seed, None if name == "perfect" else wrong)
            options = PointsOptions.parse({"calibration": calibration})
            found = points(frame[None], np.ones(1, "u1"), options=options, **texts(chirp))
            xyz = found["xyz"][0, : found["count"][0]]
            distance, bias = np.linalg.norm(xyz, axis=1), 0.03 if calibration else 0.0
            for target in scene:
                at = np.abs(distance + bias - target.range_m).argmin()
                deviations[name].append(np.degrees(np.arctan2(-xyz[at, 1], xyz[at, 0])) - np.degrees(target.azimuth))
    rms = {name: float(np.sqrt(np.mean(np.square(values)))) for name, values in deviations.items()}
    # What the calibration's own error adds is below the resolution of the beams, a degree.
    assert rms["calibrated"] < max(1.2 * rms["perfect"], 0.3) and rms["raw"] > 2 * rms["calibrated"]


def moving_echoes(board: Board, gains: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, Passed]:
    """Echoes of a walk, 25 dB above the noise: a third of two targets in one cell, a tenth of targets that move."""
    rng = np.random.default_rng(seed)
    count = 250
    right, up = rng.uniform(-0.8, 0.8, count), rng.uniform(-0.25, 0.25, count)
    velocity = np.stack([rng.normal(1.0, 0.1, count), rng.normal(0, 0.15, count), rng.normal(0, 0.12, count)], -1)
    unit = np.stack([np.sqrt(1 - right**2 - up**2), -right, up], -1)
    doppler = -(unit * velocity).sum(axis=1) + rng.normal(0, 0.015, count)
    doppler += np.where(rng.uniform(size=count) < 0.1, rng.uniform(-1, 1, count), 0)
    snapshots = plane_waves(board, right, up) * np.exp(2j * np.pi * rng.uniform(size=(count, 1)))
    second = plane_waves(board, rng.uniform(-0.8, 0.8, count), np.zeros(count))
    snapshots += np.where(rng.uniform(size=(count, 1)) < 0.33, 0.7, 0) * second
    noise = rng.standard_normal((2, *snapshots.shape)) @ np.eye(snapshots.shape[1]) * 10 ** (-25 / 20) / np.sqrt(2)
    passed = Passed(doppler, velocity, np.full(count, 0.02))
    return snapshots * gains + noise[0] + 1j * noise[1], np.full(count, 10**2.5), passed


@pytest.mark.parametrize("device", DEVICES)
def test_motion_past_targets_gives_the_errors_of_an_array_to_6_degrees_and_its_spacing(device: str) -> None:
    chirp = chirps(device)
    true = replace(BOARDS[device], spacing=0.99)
    gains = errors(chirp, 2).gains.ravel()
    fit = fit_moving(replace(true, spacing=1.0), *moving_echoes(true, gains, 3))
    phase, gain = relative(fit.gains, gains)
    assert phase < 6 and gain < 0.3
    deviation = np.angle(fit.gains / gains)
    deviation = np.angle(np.exp(1j * (deviation - np.angle(np.exp(1j * deviation).sum()))))
    assert np.sqrt((deviation**2).mean()) < 4 * np.sqrt((fit.phase_sigma**2).mean()), "overconfident"
    assert fit.spacing == pytest.approx(0.99, abs=max(0.004, 4 * fit.spacing_sigma))


def test_calibrating_a_real_board_on_one_target_raises_the_coherence_of_others(captures: Path) -> None:
    """The IWR6843 in a room: on the target at 8.5 m; those at 1.4, 1.6, 2.9 and 16.8 m were not used."""
    iq, sidecar, _ = still_life(captures)
    from_options = PointsOptions(board="IWR6843")
    finder = points_of(iq, sidecar, from_options)
    board = replace(BOARDS["IWR6843"], spacing=1.0014)
    at = {metres: finder[1][np.abs(finder[0] - metres).argmin()][None] for metres in (8.47, 1.37, 1.55, 2.93, 16.81)}
    fit = fit_gains(board, at[8.47], np.array([1e4]), *strongest_directions(board, at[8.47]))
    calibrated = replace(board, gains=tuple(fit.gains.tolist()))
    for metres, (least_rise, least) in {
        1.37: (0.08, 0.9),
        1.55: (0.05, 0.93),
        2.93: (0.12, 0.93),
        16.81: (0.12, 0.93),
    }.items():
        before, after = (
            float(coherence(each, at[metres], *strongest_directions(each, at[metres]))[0])
            for each in (board, calibrated)
        )
        assert after > before + least_rise and after > least, metres


def points_of(iq: np.ndarray, sidecar: str, options: PointsOptions) -> tuple[np.ndarray, np.ndarray]:
    """Range, m, and snapshot of each peak of a frame."""
    from_transform = make_transform(iq.shape[1:], options, False)
    finder = PointFinder(BOARDS["IWR6843"], options)
    spectrum, power = from_transform.spectrum_and_power(iq[0])
    peaks = finder.detect(power)
    return peaks.range * 0.03925, finder.snapshots(spectrum, peaks)


def test_the_file_is_read_once_with_the_options_which_then_hold_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "radar.yaml"
    path.write_text(yaml.safe_dump(content()))
    options = RangeAzimuthOptions.parse({"calibration": str(path)})
    path.unlink()
    again = RangeAzimuthOptions.parse(options.model_dump(mode="json"))
    assert again == options and options.calibration is not None
    chirp = chirps("AWR1642")
    frame = words(chirp, [Target(2.6, azimuth=0.3)], 0, None)[None]
    turned = range_azimuth(frame, options=options, **texts(chirp))[0]
    plain = range_azimuth(frame, options=RangeAzimuthOptions(), **texts(chirp))[0]
    # A phase that grows by 18 degrees from column to column turns the array by a sine of 0.1.
    assert (turned.max(axis=1).argmax() - plain.max(axis=1).argmax()) / 32 == pytest.approx(-0.1, abs=0.04)


def content(**changes: Any) -> dict[str, Any]:
    """The content of a file of an AWR1642 whose phases grow by 18 degrees from column to column."""
    antennas = [
        {"tx": n // 4, "rx": n % 4, "phase_deg": 18.0 * n, "phase_sigma_deg": 1, "gain_db": 0, "gain_sigma_db": 0.1}
        for n in range(8)
    ]
    plain = {"value": 1.0, "sigma": 0.02}
    return {
        "board": "AWR1642",
        "method": "reflector",
        "targets": 4,
        "centre_ghz": 78.5,
        "spacing": plain,
        "range_bias": {"value": 0.0, "sigma": None},
        "coherence": [0.8, 0.99],
        "antennas": antennas,
        **changes,
    }


def test_a_calibration_that_cannot_be_used_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "radar.yaml"
    for text, message in (
        (None, "No such file"),
        ("[1, 2]", "is no calibration of a radar"),
        (yaml.safe_dump(content(antenas=1)), "antenas"),
        (yaml.safe_dump({"board": "AWR1642"}), "method"),
    ):
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigError, match=message) as caught:
            PointsOptions.parse({"calibration": str(path)}, "radar")
        assert "\n" not in str(caught.value)
    chirp = chirps("AWR1843")
    other = PointsOptions.parse({"calibration": content()})
    with pytest.raises(ConfigError, match="8 virtual antennas of a AWR1642, the recording has 3 TX and 4 RX"):
        points(words(chirp, [Target(2.0)], 0, None)[None], np.ones(1, "u1"), options=other, **texts(chirp))


def test_a_reflector_of_unknown_direction_is_refused_because_it_leaves_a_turn_of_the_array_open(tmp_path: Path) -> None:
    one_height, heights = (chirps(each, frame_length=16, adc_samples=64) for each in ("AWR1642", "AWR1843"))
    for chirp, given, missing in (
        (one_height, Reflector(1.0), "give --azimuth, degrees"),
        (heights, Reflector(1.0), "give --azimuth and --elevation, degrees"),
        (heights, Reflector(1.0, 0.0), "give --elevation, degrees"),
    ):
        trace = record(tmp_path / f"{missing}{given.azimuth}", chirp, words(chirp, [Target(1.0)], 0, None)[None])
        with pytest.raises(RoverError, match=missing) as caught:
            calibrate_radar([trace], tmp_path / "radar.yaml", reflector=given)
        assert "\n" not in str(caught.value)
    # Of antennas at one height none says anything about heights.
    assert calibrate_radar(
        [tmp_path / "give --azimuth, degreesNone"], tmp_path / "a.yaml", reflector=Reflector(1.0, 0.0)
    )


def test_echoes_of_a_walk_are_no_reflector_because_the_correction_fits_them_worse(tmp_path: Path) -> None:
    chirp = chirps("AWR1642", frame_length=16, adc_samples=64)
    iq = [words(chirp, [Target(1.0, azimuth=0.2 * number - 0.5)], number, None) for number in range(6)]
    trace, out = record(tmp_path / "walk", chirp, np.stack(iq)), tmp_path / "radar.yaml"
    with pytest.raises(RoverError, match=r"is one reflector at 1\.0 m") as caught:
        calibrate_radar([trace], out, reflector=Reflector(1.0, 0.0))
    assert "\n" not in str(caught.value) and not out.exists()


def test_recordings_that_cannot_be_calibrated_from_are_refused(tmp_path: Path) -> None:
    chirp = chirps("AWR1642", frame_length=16, adc_samples=64)
    trace = record(tmp_path / "trace", chirp, words(chirp, [Target(1.0)], 0, None)[None])
    out = tmp_path / "radar.yaml"
    with pytest.raises(RoverError, match=r"no static echo within 0\.3 m of 2\.5 m"):
        calibrate_radar([trace], out, reflector=Reflector(2.5))
    with pytest.raises(RoverError, match="_radar_pose: is needed"):
        calibrate_radar([trace], out)
    assert not out.exists()
    assert Sensor(trace / "radar").length() == 1
    assert CalibrationFile.parse(content()).coupling is None
