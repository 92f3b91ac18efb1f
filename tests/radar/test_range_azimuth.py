"""Range-azimuth: a target is in its azimuth bin, moving or not, and the power is that of xwr's spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rover_pipeline.radar.options import RangeAzimuthOptions
from rover_pipeline.radar.prepare import check_order
from rover_pipeline.radar.steps import range_azimuth
from tests.radar.scenes import Target, chirps, texts, words

XWR = {"AWR1843": "AWR1843Boost", "AWR1843AOP": "AWR1843AOP", "AWR1642": "AWR1642Boost", "AWR2944": "AWR2944EVM"}


def azimuth_of_peak(power: np.ndarray) -> float:
    """Sine of the azimuth of the strongest cell of (azimuth, range)."""
    row, _ = np.unravel_index(power.argmax(), power.shape)
    return float(row / (len(power) / 2) - 1)


@pytest.mark.parametrize("device", XWR)
@pytest.mark.parametrize("degrees", [-50.0, -10.0, 0.0, 35.0])
def test_a_target_is_in_its_azimuth_and_range_bin(device: str, degrees: float) -> None:
    chirp = chirps(device)
    iq = words(chirp, [Target(2.6, azimuth=np.radians(degrees))])[None]
    power = range_azimuth(iq, options=RangeAzimuthOptions(), **texts(chirp))[0]
    assert azimuth_of_peak(power) == pytest.approx(np.sin(np.radians(degrees)), abs=1 / 32)
    assert abs(power.max(axis=0).argmax() - 2.6 / chirp.range_resolution) <= 1


def test_a_moving_target_is_in_its_direction_only_with_tdm_compensation() -> None:
    chirp = chirps()
    fast = 0.8 * chirp.doppler_resolution * chirp.frame_length / 2
    iq = words(chirp, [Target(2.0, azimuth=0.4, velocity_mps=fast)])[None]
    directions = [
        azimuth_of_peak(range_azimuth(iq, options=RangeAzimuthOptions(compensate_tdm=on), **texts(chirp))[0])
        for on in (True, False)
    ]
    assert directions[0] == pytest.approx(np.sin(0.4), abs=1 / 32)
    assert abs(directions[1] - np.sin(0.4)) > 3 / 32


def test_removing_static_targets_leaves_the_moving_one() -> None:
    chirp = chirps()
    static, moving = Target(1.5, azimuth=-0.3, counts=3000), Target(3.5, azimuth=0.5, velocity_mps=1.0, counts=300)
    iq = words(chirp, [static, moving])[None]
    power = range_azimuth(iq, options=RangeAzimuthOptions(remove_static=True), **texts(chirp))[0]
    assert azimuth_of_peak(power) == pytest.approx(np.sin(0.5), abs=1 / 32)
    assert abs(power.max(axis=0).argmax() - 3.5 / chirp.range_resolution) <= 1


@pytest.mark.parametrize(("device", "xwr_class"), XWR.items())
@pytest.mark.parametrize("window", ["hann", "none"])
def test_power_is_that_of_the_whole_spectrum_of_xwr(device: str, xwr_class: str, window: Any) -> None:
    xwr = pytest.importorskip("xwr.rsp.numpy", reason="xwr is in the extra `bench`")
    chirp = chirps(device)
    iq = np.random.default_rng(3).integers(-3000, 3000, (2, *chirp.shape[:3], chirp.words)).astype("i2")
    on = dict.fromkeys(("range", "doppler", "azimuth"), window == "hann")
    process = getattr(xwr, xwr_class)(window=on, size={"azimuth": 64})
    # Rows are not transformed here: by Parseval their mean power is that over the bins of an elevation transform.
    spectrum = np.abs(process.fft(_azimuth_windowed(process, iq, window), axes=(3,), shift=(3,), size=(64,)))
    gain = chirp.frame_length * chirp.adc_samples * chirp.shape[1] * chirp.shape[2]
    expected = ((spectrum / gain) ** 2).sum(axis=(1, 2)) * spectrum.shape[2]
    options = RangeAzimuthOptions(
        range_window=window, doppler_window=window, azimuth_window=window, compensate_tdm=False
    )
    # Without the frequencies of the chirps antennas are half a wavelength apart, as they always are in xwr's transform.
    given = {**texts(chirp), "config": f"radar: {{args: {{radar: {{device: {device}}}}}}}"}
    ours = 10 ** (range_azimuth(iq, options=options, **given).astype("f8") / 10)
    np.testing.assert_allclose(ours, expected[..., : ours.shape[-1]], rtol=1e-3)


def _azimuth_windowed(process: Any, iq: np.ndarray, window: str) -> np.ndarray:
    """xwr's virtual arrays of frames, (frame, doppler, row, column, range), windowed along columns."""
    generic = pytest.importorskip("xwr.rsp")
    samples = generic.iq_from_iiqq(iq) if process.SAMPLE_TYPE == "IQ" else iq.astype("f4")
    array = process.mimo_virtual_array(process.doppler_range(samples))
    return process.hann(array, 3) if window == "hann" else array


def test_a_frame_of_zeros_has_the_floor() -> None:
    chirp = chirps()
    zeros = np.zeros((1, *chirp.shape[:3], chirp.words), "i2")
    np.testing.assert_allclose(range_azimuth(zeros, options=RangeAzimuthOptions(), **texts(chirp)), -100, atol=1e-4)


def test_real_samples_are_refused_for_a_board_with_complex_samples() -> None:
    chirp = chirps("AWR2944")
    iq = words(chirp, [Target(2.0)])[None]
    with pytest.raises(ValueError, match="samples are real"):
        range_azimuth(iq[:, :, :3], options=RangeAzimuthOptions(board="AWR1843"), **texts(chirp))


def test_swapped_i_and_q_are_measured_and_reported() -> None:
    chirp = chirps()
    iq = words(chirp, [Target(2.6), Target(1.2, azimuth=0.5)])[None]
    sidecar, config = texts(chirp)["sidecar"], texts(chirp)["config"]
    right, wrong = (
        check_order(iq, options=RangeAzimuthOptions.parse({"sample_order": order}), sidecar=sidecar, config=config)
        for order in ("qqii", "iiqq")
    )
    assert right.measured["mirrored_range_energy"] < 0.1 and not right.warnings
    assert wrong.measured["mirrored_range_energy"] > 10
    assert "try radar.sample_order: qqii" in wrong.warnings[0]


def test_walls_beyond_half_of_the_range_are_not_taken_for_swapped_words() -> None:
    chirp = chirps()
    shares = (0.55, 0.6, 0.7, 0.9)
    walls = [Target(share * chirp.max_range, azimuth=0.3 - share, counts=300 / share**2) for share in shares]
    iq = words(chirp, walls)[None]
    sidecar, config = texts(chirp)["sidecar"], texts(chirp)["config"]
    checked = check_order(iq, options=RangeAzimuthOptions(), sidecar=sidecar, config=config)
    assert checked.measured["mirrored_range_energy"] > 10 and not checked.warnings


def test_both_orders_of_words_give_the_same_power() -> None:
    chirp = chirps()
    iq = words(chirp, [Target(2.6, azimuth=0.3)])[None]
    swapped = iq.reshape(-1, 4)[:, [2, 3, 0, 1]].reshape(iq.shape)
    first, second = (
        range_azimuth(samples, options=RangeAzimuthOptions.parse({"sample_order": order}), **texts(chirp))
        for samples, order in ((iq, "qqii"), (swapped, "iiqq"))
    )
    np.testing.assert_array_equal(first, second)
