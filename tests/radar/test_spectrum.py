"""Range-Doppler: a target is in its bins with its amplitude, as with xwr and with a plain FFT."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
from scipy.constants import speed_of_light

from rover_pipeline.radar.options import RangeDopplerOptions
from rover_pipeline.radar.spectrum import RangeDoppler, decibel, unit_gain_window
from rover_pipeline.radar.steps import range_doppler

CHIRPS, TX, RX, SAMPLES = 32, 3, 4, 128
RANGE_RESOLUTION_M = 0.06
CHIRP_S = 60e-6
WAVELENGTH_M = speed_of_light / 77e9
DOPPLER_RESOLUTION_MPS = WAVELENGTH_M / (2 * CHIRPS * TX * CHIRP_S)


def stored(samples: np.ndarray) -> np.ndarray:
    """Complex samples, (..., sample), as the words of `radar/iq`: Q Q I I of each pair."""
    pairs = samples.reshape(*samples.shape[:-1], -1, 2)
    words = np.stack([pairs[..., 0].imag, pairs[..., 1].imag, pairs[..., 0].real, pairs[..., 1].real], axis=-1)
    return np.round(words).astype("i2").reshape(*samples.shape[:-1], -1)


def point_target(range_m: float, velocity_mps: float, amplitude: float = 1000.0) -> np.ndarray:
    """A frame of a target on boresight, complex (chirp, tx, rx, sample): the beat of a TDM-MIMO FMCW radar."""
    sample = np.arange(SAMPLES)
    chirp_time = (np.arange(CHIRPS)[:, None] * TX + np.arange(TX)) * CHIRP_S  # of each TX's own chirp
    beat = 2j * np.pi * range_m / RANGE_RESOLUTION_M / SAMPLES * sample
    doppler = 4j * np.pi * velocity_mps * chirp_time / WAVELENGTH_M
    frame = amplitude * np.exp(beat + doppler[:, :, None, None])
    return np.broadcast_to(frame, (CHIRPS, TX, RX, SAMPLES))


@pytest.mark.parametrize(("range_m", "velocity_mps"), [(5.0, 1.2), (1.0, -0.7), (3.3, 0.0)])
def test_a_target_is_in_its_range_and_doppler_bin(range_m: float, velocity_mps: float) -> None:
    power = range_doppler(stored(point_target(range_m, velocity_mps))[None], options=RangeDopplerOptions())[0]
    doppler, distance = np.unravel_index(power.argmax(), power.shape)
    assert distance * RANGE_RESOLUTION_M == pytest.approx(range_m, abs=RANGE_RESOLUTION_M / 2)
    measured = (doppler - CHIRPS // 2) * DOPPLER_RESOLUTION_MPS
    assert measured == pytest.approx(velocity_mps, abs=DOPPLER_RESOLUTION_MPS / 2)


@pytest.mark.parametrize("window", ["hann", "none"])
def test_a_tone_of_1000_adc_counts_has_60_db(window: str) -> None:
    on_bin = point_target(20 * RANGE_RESOLUTION_M, 3 * DOPPLER_RESOLUTION_MPS, amplitude=1000.0)
    options = RangeDopplerOptions.parse({"range_window": window, "doppler_window": window})
    assert range_doppler(stored(on_bin)[None], options=options).max() == pytest.approx(60.0, abs=0.01)


def test_real_samples_give_half_the_range_bins_and_the_same_range() -> None:
    samples = point_target(3.0, 0.0).real
    transform = RangeDoppler((CHIRPS, TX, RX, SAMPLES), "hann", "hann", real=True)
    power = transform.spectrum_and_power(np.round(samples).astype("i2"))[1]
    assert power.shape == (CHIRPS, SAMPLES // 2)
    doppler, distance = np.unravel_index(power.argmax(), power.shape)
    assert doppler == CHIRPS // 2
    assert distance * RANGE_RESOLUTION_M == pytest.approx(3.0, abs=0.03)


def test_the_spectrum_equals_that_of_xwr() -> None:
    xwr = pytest.importorskip("xwr.rsp.numpy", reason="xwr is in the extra `bench`")
    generic = pytest.importorskip("xwr.rsp")
    iq = np.random.default_rng(1).integers(-3000, 3000, (2, CHIRPS, TX, RX, 2 * SAMPLES)).astype("i2")
    theirs = xwr.AWR1843Boost(window=True).doppler_range(generic.iq_from_iiqq(iq))
    theirs = (np.abs(theirs / (CHIRPS * SAMPLES)) ** 2).mean(axis=(2, 3))
    transform = RangeDoppler(iq.shape[1:], "hann", "hann")
    ours = np.stack([transform.spectrum_and_power(frame)[1] for frame in iq])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert np.abs(ours - theirs).max() < 1e-5 * theirs.max()


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    ("chirps", "samples", "bins"),
    [(96, 64, (0, 0)), (33, 100, (0, 0)), (61, 62, (0, 0)), (1, 16, (0, 0)), (20, 30, (27, 50))],
)
def test_spectrum_and_power_of_any_size_equal_those_of_numpy(
    chirps: int, samples: int, bins: tuple[int, int], real: bool
) -> None:
    rng = np.random.default_rng(chirps)
    parts = rng.integers(-3000, 3000, (2, chirps, 2, 3, samples))
    plain = parts[0] if real else parts[0] + 1j * parts[1]
    frame = plain.astype("i2") if real else stored(plain)
    transform = RangeDoppler(frame.shape, "none", "hann", real, bins=bins)
    windowed = plain * unit_gain_window(chirps, "hann").astype("f8")[:, None, None, None] / samples
    wanted = np.fft.fft2(np.moveaxis(windowed, 0, 2), s=(transform.doppler_bins, transform.fft_length))[
        ..., : transform.range_bins
    ]
    power = np.fft.fftshift((np.abs(wanted) ** 2).mean(axis=(0, 1)), axes=0)
    for _ in range(2):  # the second time reuses the buffer
        spectrum, ours = transform.spectrum_and_power(frame)
        assert np.abs(spectrum - wanted).max() < 1e-6 * np.abs(wanted).max()
        assert np.abs(ours - power).max() < 2e-6 * power.max()


def test_bytes_do_not_depend_on_the_number_of_opencv_threads() -> None:
    iq = np.random.default_rng(3).integers(-3000, 3000, (CHIRPS, TX, RX, 2 * SAMPLES)).astype("i2")
    before, results = cv2.getNumThreads(), []
    try:
        for threads in (1, 2, 4):
            cv2.setNumThreads(threads)
            spectrum, power = RangeDoppler(iq.shape, "hann", "hann").spectrum_and_power(iq)
            results.append(spectrum.tobytes() + power.tobytes())
    finally:
        cv2.setNumThreads(before)
    assert results == [results[0]] * 3


def test_an_odd_number_of_chirps_keeps_zero_velocity_in_the_middle_bin() -> None:
    frame = stored(np.broadcast_to(point_target(2.0, 0.0)[:1], (31, TX, RX, SAMPLES)))
    power = RangeDoppler(frame.shape, "hann", "hann").spectrum_and_power(frame)[1]
    assert np.unravel_index(power.argmax(), power.shape)[0] == 15


def test_threads_share_a_transform_without_sharing_its_buffers() -> None:
    iq = np.random.default_rng(2).integers(-3000, 3000, (64, CHIRPS, TX, RX, 2 * SAMPLES)).astype("i2")
    transform = RangeDoppler(iq.shape[1:], "hann", "hann")
    alone = [transform.spectrum_and_power(frame)[1] for frame in iq]
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda frame: transform.spectrum_and_power(frame)[1], iq))
    np.testing.assert_array_equal(parallel, alone)


def test_a_frame_of_zeros_has_the_floor_and_no_infinity() -> None:
    np.testing.assert_allclose(decibel(np.zeros((2, 2), "f4")), -100, atol=1e-4)


def test_frames_that_are_not_radar_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="chirp, tx, rx, sample"):
        RangeDoppler((64, 256), "hann", "hann")
    with pytest.raises(ValueError, match="Q Q I I"):
        RangeDoppler((8, 1, 1, 30), "hann", "hann")
