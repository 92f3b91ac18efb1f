"""The 4-D spectrum: equal to that of xwr with the same options, and its axes give the position of a target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rover_pipeline.format.sensor import Sensor
from rover_pipeline.importers.dca1000 import import_dca1000
from rover_pipeline.radar.angles import Magnitudes
from rover_pipeline.radar.boards import BOARDS
from rover_pipeline.radar.options import SpectrumOptions
from rover_pipeline.radar.prepare import inspect_spectra
from rover_pipeline.radar.spectrum import RangeDoppler
from rover_pipeline.radar.steps import spectrum
from tests.radar.scenes import Target, chirps, texts, words

XWR = {"AWR1843": "AWR1843Boost", "AWR1843AOP": "AWR1843AOP", "AWR1642": "AWR1642Boost", "AWR2944": "AWR2944EVM"}
SCENE = [Target(2.6, azimuth=0.4, elevation=0.1, velocity_mps=0.9), Target(1.2, azimuth=-0.5, counts=300)]
BINS = {"doppler": 48, "elevation": 8, "azimuth": 32, "range": 256}
#: xwr gives the AWR2944 elevation bins from -1 to 1, both included. Only of an odd number is the middle one level; the
#: others are no bins of a Fourier transform. So its spectrum is compared at the level.
ODD = {"AWR2944": 9}


def xwr_spectrum(device: str, iq: np.ndarray, *, window: bool, size: dict[str, int]) -> np.ndarray:
    """xwr's magnitudes over the coherent gain."""
    xwr = pytest.importorskip("xwr.rsp.numpy", reason="xwr is in the extra `bench`")
    chirp = chirps(device)
    gain = chirp.frame_length * chirp.adc_samples * chirp.shape[1] * chirp.shape[2]
    magnitudes: np.ndarray = np.abs(getattr(xwr, XWR[device])(window=window, size=size)(iq)) / gain
    return magnitudes


@pytest.mark.parametrize("device", XWR)
@pytest.mark.parametrize("window", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_the_spectrum_is_that_of_xwr(device: str, window: bool, padded: bool) -> None:
    chirp = chirps(device)
    iq = words(chirp, SCENE)[None]
    size = {**BINS, "range": 128 if chirp.is_real else 256} if padded else {}
    if device in ODD:
        size["elevation"] = ODD[device]
    expected = xwr_spectrum(device, iq, window=window, size=size)
    name: Any = "hann" if window else "none"
    options = SpectrumOptions(
        **dict.fromkeys(("range_window", "doppler_window", "elevation_window", "azimuth_window"), name),
        **{f"{axis}_bins": count for axis, count in size.items()},
    )
    ours = spectrum(iq, options=options, **texts(chirp)).astype("f4")
    expected = expected[..., : ours.shape[-1]]
    level = slice(4, 5) if device in ODD else slice(None)
    ours, expected = ours[:, :, level], expected[:, :, level]
    assert ours.shape == expected.shape
    assert np.abs(ours - expected).max() < 1e-3 * expected.max()
    loud = expected > 0.1
    np.testing.assert_allclose(ours[loud], expected[loud], rtol=1e-3)

    bins = (options.doppler_bins, options.range_bins)
    transform = RangeDoppler(iq.shape[1:], name, name, chirp.is_real, bins=bins)
    angles = (options.elevation_bins, options.azimuth_bins)
    kernel = Magnitudes(BOARDS[device], transform.doppler_bins, angles, (name, name), False)
    single = kernel(transform.spectrum_and_power(iq[0])[0])[:, level]
    assert np.abs(single - expected[0]).max() < 1e-5 * expected.max()


@pytest.mark.parametrize("device", XWR)
def test_the_axes_beside_the_spectrum_give_the_position_of_a_target(device: str) -> None:
    chirp = chirps(device)
    target = Target(2.6, azimuth=0.35, elevation=0.15, velocity_mps=0.9)
    iq = words(chirp, [target])[None]
    options = SpectrumOptions(azimuth_bins=64, elevation_bins=32, compensate_tdm=True)
    power = spectrum(iq, options=options, **texts(chirp))[0]
    axes = json.loads(inspect_spectra(iq, options=options, **texts(chirp)).files["axes.json"])
    assert power.shape == tuple(len(axis["values"]) for axis in axes.values())
    peak = np.unravel_index(power.argmax(), power.shape)
    position = {name: axes[name]["values"][at] for name, at in zip(axes, peak, strict=True)}
    assert position["doppler"] == pytest.approx(0.9, abs=chirp.doppler_resolution)
    assert position["range"] == pytest.approx(2.6, abs=chirp.range_resolution)
    # The phase along a row follows the sine of the azimuth times the cosine of the elevation.
    assert np.sin(position["azimuth"]) == pytest.approx(np.sin(0.35) * np.cos(0.15), abs=1 / 32)
    if BOARDS[device].has_elevation:
        assert np.sin(position["elevation"]) == pytest.approx(np.sin(0.15), abs=1 / 16)


def test_decibels_are_of_the_amplitude() -> None:
    chirp = chirps()
    iq = words(chirp, SCENE)[None]
    amplitude = spectrum(iq, options=SpectrumOptions(), **texts(chirp)).astype("f8")
    decibels = spectrum(iq, options=SpectrumOptions(scale="decibel"), **texts(chirp)).astype("f8")
    loud = amplitude > 1
    np.testing.assert_allclose(decibels[loud], 20 * np.log10(amplitude[loud]), atol=0.05)


def test_saturated_samples_do_not_overflow_half_precision() -> None:
    chirp = chirps()
    iq = np.full((1, *chirp.shape[:3], chirp.words), 32767, "i2")
    magnitudes = spectrum(iq, options=SpectrumOptions(), **texts(chirp))
    assert np.isfinite(magnitudes).all() and magnitudes.max() == pytest.approx(32767 * np.sqrt(2), rel=0.5)


def test_fewer_bins_than_chirps_samples_or_antennas_are_refused() -> None:
    chirp = chirps()
    iq = words(chirp, SCENE)[None]
    for name, match in (("doppler_bins", "Doppler"), ("range_bins", "range"), ("azimuth_bins", "azimuth")):
        with pytest.raises(ValueError, match=match):
            spectrum(iq, options=SpectrumOptions.parse({name: 4}), **texts(chirp))


def test_the_spectrum_of_a_real_frame_is_that_of_xwr(captures: Path, tmp_path: Path) -> None:
    xwr = pytest.importorskip("xwr.rsp.numpy", reason="xwr is in the extra `bench`")
    folder = captures / "radar_iwr6843_3tx4rx"
    import_dca1000(folder / "adc_data.bin", folder / "mmwaveDevice.mmwave.json", tmp_path / "trace")
    iq = Sensor(tmp_path / "trace" / "radar").channel("iq").read()
    expected = np.abs(xwr.AWR1843Boost()(iq)) / (85 * 512 * 12)
    names = ("range_window", "doppler_window", "azimuth_window")
    options = SpectrumOptions.parse(dict.fromkeys(names, "none"))
    config = (tmp_path / "trace" / "config.yaml").read_text()
    ours = spectrum(iq, options=options, config=config).astype("f4")
    assert np.abs(ours - expected).max() < 1e-3 * expected.max()
